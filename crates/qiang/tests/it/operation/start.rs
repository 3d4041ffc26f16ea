//! Starts while a configured part is missing.

use std::{path::Path, process::Command, time::Instant};

use qiang_testkit::servers::{
    Port,
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::common::{SECRET, output, sale};
use crate::operation::program::{PATIENCE, Program, redis, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_and_a_worker_wait_for_a_ledger_that_is_down_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let database = Postgres::start(&postgres::Options::new().without_fsync());
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    database.kill();
    let keys = [
        ("ledger.url", url.as_str()),
        ("ledger.acquire_timeout_ms", "500"),
    ];
    let mut processes = ["serve", "worker"]
        .map(|command| Program::on_redis(folder.path(), command, "waits", &keys));
    for process in &mut processes {
        let line = process.line("the ledger is down: waiting for it").await;
        assert_eq!(line["level"], "ERROR");
        let why = process.ready(503).await;
        let reason = why["reason"].as_str().unwrap();
        assert!(reason.contains("ledger"), "{reason}");
        assert_eq!(process.get("/healthz").await.status, 200);
        assert_eq!(process.get("/metrics").await.status, 200);
    }
    let early = processes[0].post("/v1/sales", Some(sale(10))).await;
    early.assert_problem(503, "unavailable");
    assert_eq!(early.header("retry-after"), "1");
    database.start_again();
    for process in &mut processes {
        process.ready(200).await;
        assert!(process.is_running());
    }
    let opened = processes[0].post("/v1/sales", Some(sale(10))).await;
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    assert_eq!(processes[0].post(&path, None).await.status, 201);
    for process in &mut processes {
        process.signal("-TERM");
        assert_eq!(process.ended().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_waits_for_its_ledger_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Port::free();
    let url = format!("postgres://qiang@{}/qiang", nobody.addr());
    let keys = [
        ("ledger.url", url.as_str()),
        ("ledger.acquire_timeout_ms", "500"),
    ];
    let mut node = Program::on_redis(folder.path(), "serve", "stopped", &keys);
    node.ready(503).await;
    node.signal("-HUP");
    let said = "SIGHUP: nothing is read again, because the process has not started yet";
    assert_eq!(node.line(said).await["level"], "WARN");
    assert!(node.is_running());
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_can_be_stopped_while_it_tries_to_open_its_ledger() {
    let folder = tempfile::tempdir().unwrap();
    // The server accepts the connection and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://qiang@{}/qiang", silent.local_addr().unwrap());
    let keys = [
        ("ledger.url", url.as_str()),
        ("ledger.acquire_timeout_ms", "3600000"),
    ];
    for command in ["serve", "worker"] {
        let mut process = Program::on_redis(folder.path(), command, "trying", &keys);
        let (_connection, _) = silent.accept().await.unwrap();
        process.signal("-TERM");
        assert_eq!(process.ended().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_and_a_worker_with_a_broker_start_while_redis_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let (no_redis, no_broker) = (Port::free(), Port::free());
    let redis = format!("redis://{}", no_redis.addr());
    let broker = format!("amqp://guest:guest@{}/%2f", no_broker.addr());
    for command in ["serve", "worker"] {
        let keys = [
            ("redis.urls", redis.as_str()),
            ("redis.claim_timeout_ms", "1000"),
            ("settlement.transport", "rabbitmq"),
            ("settlement.rabbitmq_url", broker.as_str()),
            ("engine.data", command),
        ];
        let mut process = Program::on_redis(folder.path(), command, "neither", &keys);
        let why = process.ready(503).await;
        assert!(why["reason"].as_str().unwrap().contains("Redis"), "{why}");
        // Remains of other transports are removed later.
        let stuck = async || {
            let mut lines = process.lines().into_iter();
            let of = |line: &serde_json::Value| {
                line["fields"]["message"] == "a reconciler is stuck"
                    && line["fields"]["name"] == "unused transports"
            };
            lines.any(|line| of(&line)).then_some(())
        };
        until("the log does not name the transports that are left", stuck).await;
        process.signal("-TERM");
        assert_eq!(process.ended().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let database = Postgres::start(&postgres::Options::new().without_fsync());
    let url = database.create_database();
    let keys = [("ledger.url", url.as_str())];
    let mut node = Program::on_redis(folder.path(), "serve", "schema", &keys);
    assert_eq!(node.ended().await, Some(1));
    let lines = node.lines();
    let last = lines.last().unwrap()["text"].as_str().unwrap();
    assert!(last.contains("qiang migrate"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_absent_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Port::free();
    let url = format!("amqp://guest:guest@{}/%2f", nobody.addr());
    for command in ["serve", "worker"] {
        let keys = [
            ("settlement.transport", "rabbitmq"),
            ("settlement.rabbitmq_url", url.as_str()),
            ("engine.data", command),
        ];
        let prefix = format!("absent-{command}");
        let mut process = Program::on_redis(folder.path(), command, &prefix, &keys);
        process.ready(200).await;
        // The line is in the log before the process serves.
        let lines = process.lines();
        let place = |message: &str| {
            let mut lines = lines.iter();
            lines.position(|line| line["fields"]["message"] == message)
        };
        let said = "the transport does not work: entries are read from the log until it does";
        assert!(place(said) < place("serving"), "{lines:?}");
        let line = process.line(said).await;
        assert_eq!(
            (&line["level"], &line["transport"]),
            (&"ERROR".into(), &"rabbitmq".into())
        );
        let brings = process.line("the transport brings nothing").await;
        let reason = brings["reason"].as_str().unwrap();
        assert!(reason.starts_with("not available: RabbitMQ"), "{reason}");
        let failing = async || {
            let text = process.get("/metrics").await.body;
            let text = String::from_utf8(text.to_vec()).unwrap();
            let failing = text
                .lines()
                .filter(|line| line.starts_with("qiang_settlement_transport_failing{"))
                .filter(|line| line.ends_with(" 1"));
            (failing.count() == 2).then_some(())
        };
        until("the transport is never shown as failing", failing).await;
        process.signal("-TERM");
        assert_eq!(process.ended().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demonstration_fails_where_the_broker_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Port::free();
    let url = format!("amqp://guest:hidden@{}/%2f", nobody.addr());
    let (redis, began) = (redis().url(), Instant::now());
    let demo = [
        "demo", "--engine", "redis", "--redis", &redis, "--users", "10", "--exit",
    ];
    let asked = ["--transport", "rabbitmq"];
    let ended = output(
        folder.path(),
        &[&demo[..], &asked[..]].concat(),
        &[("QIANG_DEMO_RABBITMQ", &url)],
    );
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(
        said.contains("RabbitMQ") && said.contains("--transport"),
        "{said}"
    );
    assert!(!said.contains("hidden"), "{said}");
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demonstration_fails_where_redis_is_absent_and_a_node_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Port::free();
    let url = format!("redis://{}", nobody.addr());
    let demo = [
        "demo", "--engine", "redis", "--redis", &url, "--users", "10", "--exit",
    ];
    let ended = output(folder.path(), &demo, &[]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(
        said.contains("nothing can be granted") && said.contains("Redis"),
        "{said}"
    );

    let node = Program::on_redis(folder.path(), "serve", "alone", &[("redis.urls", &url)]);
    let line = "Redis partly unreachable; its partitions do not grant";
    assert_eq!(node.line(line).await["level"], "ERROR");
    let why = node.ready(503).await;
    assert!(why["reason"].as_str().unwrap().contains("Redis"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_keeps_nothing_is_a_warning_that_names_the_setting() {
    const SAID: &str = "a restart of this Redis loses grants, and stops its partitions: \
                        set `appendonly yes` or add replicas";
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, url: &str| {
        let keys = [("redis.urls", url), ("engine.data", name)];
        Program::on_redis(folder.path(), "serve", name, &keys)
    };
    let node = start("bare", &redis().url());
    assert_eq!(node.line(SAID).await["level"], "WARN");
    let (kept, copied) = tokio::task::block_in_place(|| {
        let kept = Standalone::start(&Options::new().fsync_everysec());
        (kept, Standalone::start(&Options::new().replicas(1)))
    });
    for (name, server) in [("kept", &kept), ("copied", &copied)] {
        let node = start(name, &server.url());
        node.ready(200).await;
        let warned = |line: &serde_json::Value| line["fields"]["message"] == SAID;
        assert!(!node.lines().iter().any(warned), "{name}");
    }
}

/// More clients connect than the process may open files. It limits connections so that files are left for other work.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_may_open_few_files_serves_fewer_connections_and_stays_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ulimit -n 256 && exec \"$0\" \"$@\"";
    let args = ["-c", script, env!("CARGO_BIN_EXE_qiang"), "serve"];
    let keys = [("auth.hs256_secret", SECRET)];
    let node = Program::start_of(Path::new("/bin/sh"), folder.path(), &args, &keys);
    let addr = node.addr().await;
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(TcpStream::connect(addr).await.unwrap());
    }
    let healthy = async || {
        let mut client = TcpStream::connect(addr).await.ok()?;
        let head = b"GET /healthz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
        client.write_all(head).await.ok()?;
        let mut reply = String::new();
        client.read_to_string(&mut reply).await.ok()?;
        reply.starts_with("HTTP/1.1 200").then_some(())
    };
    until("/healthz is not answered", healthy).await;
    let line = "fewer connections are served than server.connections_max: raise the limit of open files \
                (LimitNOFILE, ulimit -n)";
    assert_eq!(node.line(line).await["connections_max"], 128);
    drop(clients);
    node.ready(200).await;
}

/// A missing volume looks like a new service, so the log warns about a new data file.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_data_file_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let node = Program::serve(folder.path(), &[]);
    let line = node
        .line("created a new data file without any campaign")
        .await;
    assert_eq!(line["level"], "WARN");
    drop(node);
    let node = Program::serve(folder.path(), &[]);
    node.line("opened the data file").await;
}

/// A folder on a read-only file system, empty and with a data file.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && cd \"$0\" && exec \"$@\"";
    for round in 0..2 {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-current-user", "--keep-caps", "--mount"])
            .args(["sh", "-c", script])
            .arg(folder.path())
            .args([
                env!("CARGO_BIN_EXE_qiang"),
                "serve",
                "--listen",
                "127.0.0.1:0",
            ])
            .env("QIANG__AUTH__HS256_SECRET", SECRET)
            .env("QIANG__LOG__LEVEL", "off");
        let ended = command.output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("qiang.db") && said.contains("Read-only"),
            "{said}"
        );
        if round == 0 {
            let node = Program::serve(folder.path(), &[]);
            node.ready(200).await;
        }
    }
}
