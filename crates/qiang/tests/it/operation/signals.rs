//! SIGTERM, SIGINT, SIGHUP and SIGUSR1.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use qiang_testkit::servers::redis::{Options, Standalone};
use tokio::task::block_in_place;

use crate::common::{SECRET, call, in_an_hour, sale, sign_with};
use crate::operation::program::{Program, redis, token, until};

/// Drain delay that is longer than any test.
const HOUR: (&str, &str) = ("server.drain_delay_ms", "3600000");

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_stop_says_so_and_serves_on_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Program::serve(folder.path(), &[HOUR]);
    node.ready(200).await;
    let opened = node.post("/v1/sales", Some(sale(10))).await;
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    node.signal("-TERM");
    let why = node.ready(503).await;
    assert_eq!(why["reason"], json!("the process is going down"));
    // Each request opens a new connection.
    assert_eq!(node.get("/healthz").await.status, 200);
    assert_eq!(node.post(&path, None).await.status, 201);
    // A signal that arrives now is not obeyed, but it is logged.
    node.signal("-HUP");
    let said = "SIGHUP: nothing is read again, because the process stops";
    assert_eq!(node.line(said).await["level"], "WARN");
    assert_eq!(node.post(&path, None).await.status, 200);
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_delay_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let delay = [("server.drain_delay_ms", "500")];
    let mut node = Program::serve(folder.path(), &delay);
    node.ready(200).await;
    let told = Instant::now();
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    assert!(told.elapsed() >= Duration::from_millis(500));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_delay_and_ctrl_c_needs_none() {
    let folder = tempfile::tempdir().unwrap();
    for second in ["-TERM", "-INT"] {
        let mut node = Program::serve(folder.path(), &[HOUR]);
        node.ready(200).await;
        node.signal("-TERM");
        node.ready(503).await;
        assert!(node.is_running());
        node.signal(second);
        assert_eq!(node.ended().await, Some(0));
    }
    let mut node = Program::serve(folder.path(), &[HOUR]);
    node.ready(200).await;
    node.signal("-INT");
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_keys_and_level_again_and_refuses_bad_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (file, secret) = (
        folder.path().join("qiang.toml"),
        folder.path().join("secret"),
    );
    let configure = |level: &str| {
        let text = format!("[auth]\nhs256_secret_file = 'secret'\n[log]\nlevel = '{level}'\n");
        fs::write(&file, text).unwrap();
    };
    configure("info");
    fs::write(&secret, SECRET).unwrap();
    let mut node = Program::start(folder.path(), &["serve", "--config", "qiang.toml"], &[]);
    node.ready(200).await;
    let addr = node.addr().await;
    let other = "another-secret-of-32-bytes-at-least";
    let status_by = async |secret: &str| {
        let claims = json!({ "sub": "olga", "scope": "admin", "exp": in_an_hour() });
        let token = sign_with(secret, &claims);
        let path = "/v1/accounts/olga";
        call(addr, "GET", path, Some(&token), &[], None)
            .await
            .status
    };
    assert_eq!(
        (status_by(SECRET).await, status_by(other).await),
        (200, 401)
    );

    // An invalid configuration changes nothing.
    let refused = "SIGHUP: the configuration cannot be used, and everything stays as it was";
    for (bad_secret, bad_level, expected) in [
        ("short", "info", "at least 32 bytes"),
        (other, "no=such=level", "log.level"),
    ] {
        fs::write(&secret, bad_secret).unwrap();
        configure(bad_level);
        node.signal("-HUP");
        let look = async || {
            let mut lines = node.lines().into_iter();
            lines.find(|line| {
                let reason = line["fields"]["reason"].as_str().unwrap_or("");
                line["fields"]["message"] == refused && reason.contains(expected)
            })
        };
        let line = until(expected, look).await;
        assert_eq!(line["level"], "ERROR");
        assert_eq!(
            (status_by(SECRET).await, status_by(other).await),
            (200, 401)
        );
    }

    fs::write(&secret, other).unwrap();
    configure("off");
    node.signal("-HUP");
    let look = async || (status_by(other).await == 200).then_some(());
    until("the other secret is never used", look).await;
    assert_eq!(status_by(SECRET).await, 401);
    let lines = node.lines().len();
    assert!(node.is_running());
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    assert_eq!(
        node.lines().len(),
        lines,
        "a line is logged below the level"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_survives_sighup() {
    let folder = tempfile::tempdir().unwrap();
    redis();
    let mut worker = Program::on_redis(folder.path(), "worker", "hangup", &[]);
    worker.ready(200).await;
    worker.signal("-HUP");
    let line = worker.line("SIGHUP: read the configuration again").await;
    let said = (&line["level"], &line["what"]);
    // A worker accepts no tokens.
    assert_eq!(said, (&json!("WARN"), &json!("log.level")));
    assert_eq!(worker.get("/healthz").await.status, 200);
    worker.signal("-TERM");
    assert_eq!(worker.ended().await, Some(0));
}

/// The timer does not fire again during the test. After the start, only the signal has rows compared with the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn sigusr1_has_reconcilers_run() {
    let folder = tempfile::tempdir().unwrap();
    let never = [("redis.reconcile_ms", "3600000")];
    let mut node = Program::on_redis(folder.path(), "serve", "reconcile", &never);
    node.ready(200).await;
    let runs = async || {
        let metrics = node.get("/metrics").await;
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let ran = |line: &&str| line.starts_with("qiang_reconcile_last_pass_timestamp_seconds{");
        let runs: BTreeSet<_> = text.lines().filter(ran).map(str::to_owned).collect();
        runs
    };
    let at_the_start = async || Some(runs().await).filter(|runs| runs.len() == 2);
    let at_the_start = until("not both partitions have run", at_the_start).await;
    assert_eq!(node.post("/v1/sales", Some(sale(10))).await.status, 201);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(runs().await, at_the_start, "it runs without a signal");
    let told = async || {
        node.signal("-USR1");
        (runs().await != at_the_start).then_some(())
    };
    until("nothing is reconciled", told).await;
    node.line("SIGUSR1: all reconcilers run").await;
    assert!(node.is_running());

    let folder = tempfile::tempdir().unwrap();
    let mut worker = Program::on_redis(folder.path(), "worker", "reconcile-worker", &[]);
    worker.ready(200).await;
    worker.signal("-USR1");
    worker.line("SIGUSR1: all reconcilers run").await;
    assert_eq!(worker.get("/healthz").await.status, 200);
    worker.signal("-TERM");
    assert_eq!(worker.ended().await, Some(0));
}

/// A process that is frozen for a while, as by `docker pause`, ends no hold for that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_process_ends_no_hold() {
    const FROZEN: Duration = Duration::from_secs(8);
    const HOLD_S: u64 = 6;
    let folder = tempfile::tempdir().unwrap();
    let mut node = Program::serve(folder.path(), &[("payments.grace_ms", "0")]);
    node.ready(200).await;
    let mut terms = sale(10);
    terms["hold_seconds"] = json!(HOLD_S);
    let id = node.post("/v1/sales", Some(terms)).await.text("id");
    let before = Instant::now();
    let path = format!("/v1/sales/{id}/orders");
    let order = node.post(&path, None).await.text("id");
    node.signal("-STOP");
    // The hold would end in this time.
    tokio::time::sleep(FROZEN).await;
    node.signal("-CONT");
    let (addr, path) = (node.addr().await, format!("/v1/orders/{order}"));
    let state = async || {
        let read = call(addr, "GET", &path, Some(&token("olga")), &[], None).await;
        read.text("state")
    };
    assert_eq!(state().await, "held");
    let said = "the process was paused; holds continue from here";
    assert_eq!(node.line(said).await["level"], "WARN");
    let is_expired = async || (state().await == "expired").then_some(());
    until("the hold ends", is_expired).await;
    let hold = before.elapsed().saturating_sub(FROZEN);
    assert!(hold >= Duration::from_secs(HOLD_S - 1), "{hold:?}");
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}

/// Waits until a log has lines with all of these messages.
async fn wait_for_lines(program: &Program, messages: &[&str]) {
    for message in messages {
        program.line(message).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_names_changed_keys_that_need_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("qiang.toml");
    let configure = |level: &str, rest: &str| {
        let auth = format!("[auth]\nhs256_secret = '{SECRET}'\n");
        fs::write(&file, format!("{auth}[log]\nlevel = '{level}'\n{rest}")).unwrap();
    };
    configure("info", "");
    let mut node = Program::start(folder.path(), &["serve", "--config", "qiang.toml"], &[]);
    node.ready(200).await;
    let reloads = async |count: usize| {
        let look = async || {
            let lines = node.lines().into_iter();
            let is_read = |line: &serde_json::Value| {
                line["fields"]["message"] == "SIGHUP: read the configuration again"
            };
            (lines.filter(is_read).count() == count).then_some(())
        };
        until("the configuration is not read", look).await;
    };
    // The level is read again, so nothing needs a restart.
    configure("warn", "");
    node.signal("-HUP");
    reloads(1).await;
    let hidden = "hunter2-hunter2-hunter2";
    let rest = format!(
        "[payments]\ngrace_ms = 77\n[redis]\npassword = '{hidden}'\n[engine]\nidle_campaign_ttl_ms = 3600001\n"
    );
    configure("info", &rest);
    node.signal("-HUP");
    let said = "SIGHUP: changed keys need a restart";
    let line = node.line(said).await;
    assert_eq!(line["level"], "WARN");
    let keys = "engine.idle_campaign_ttl_ms, payments.grace_ms, redis.password";
    assert_eq!(line["keys"], keys);
    // Later ones are compared with the start: the node still has the values of then.
    node.signal("-HUP");
    reloads(3).await;
    let lines = async || {
        let all = node.lines();
        let found = all.iter().filter(|line| line["fields"]["message"] == said);
        (found.count() == 2).then_some(())
    };
    until("the second line", lines).await;
    configure("info", "");
    node.signal("-HUP");
    reloads(4).await;
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    let all = node.lines();
    let found = all.iter().filter(|line| line["fields"]["message"] == said);
    assert_eq!(found.count(), 2, "a line without a changed key");
    assert!(all.iter().all(|line| !line.to_string().contains(hidden)));
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_has_a_line_per_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("qiang.toml");
    let configure = |level: &str| fs::write(&file, format!("[log]\nlevel = '{level}'\n")).unwrap();
    configure("info");
    let secret = [("auth.hs256_secret", SECRET)];
    let node = Program::start(folder.path(), &["serve", "--config", "qiang.toml"], &secret);
    node.ready(200).await;
    let opened = node.post("/v1/sales", Some(sale(10))).await;
    let answered = || {
        let lines = node.lines().into_iter();
        let answers = lines.filter(|line| line["fields"]["message"] == "request answered");
        answers.collect::<Vec<_>>()
    };
    assert_eq!(answered(), Vec::<serde_json::Value>::new());
    configure("debug");
    node.signal("-HUP");
    node.line("SIGHUP: read the configuration again").await;
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    let bought = node.post(&path, None).await;
    assert_eq!(bought.status, 201);
    let missing = node.get("/v1/orders/none?reference=private").await;
    let of = async |request: &str| {
        let look = async || {
            let mut lines = answered().into_iter();
            lines.find(|line| line["fields"]["request_id"] == request)
        };
        until(request, look).await
    };
    let line = of(bought.header("x-request-id")).await;
    let fields = &line["fields"];
    assert_eq!(line["level"], "DEBUG");
    assert_eq!(fields["operation"], "POST /v1/sales/{id}/orders");
    assert_eq!(fields["status"], 201);
    let duration_us = fields["duration_us"].as_u64().unwrap();
    assert!((1..60_000_000).contains(&duration_us), "{line}");
    let connection = fields["connection"].as_u64().unwrap();
    let look = async || {
        let lines = node.lines().into_iter();
        let own = lines.filter(|line| line["fields"]["connection"].as_u64() == Some(connection));
        let told: Vec<_> = own
            .map(|line| line["fields"]["message"].as_str().unwrap().to_owned())
            .collect();
        (told
            == [
                "connection accepted",
                "request answered",
                "connection closed",
            ])
        .then_some(())
    };
    until("the steps of the connection", look).await;
    let line = of(missing.header("x-request-id")).await;
    assert_eq!(line["fields"]["status"], missing.status);
    // Neither queries nor users are in the log, and libraries add no lines.
    for line in node.lines() {
        let target = line["target"].as_str().unwrap_or("qiang");
        assert!(target.starts_with("qiang"), "{line}");
        assert!(!line.to_string().contains("private"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_has_the_steps_of_connections_and_repairs() {
    let folder = tempfile::tempdir().unwrap();
    let redis = block_in_place(|| Standalone::start(&Options::new()));
    let url = redis.url();
    let keys = [("redis.urls", url.as_str()), ("log.level", "debug")];
    let node = Program::on_redis(folder.path(), "serve", "debug", &keys);
    node.ready(200).await;
    let connected = node.line("connected to Redis").await;
    assert_eq!(connected["address"], redis.addr().to_string());
    node.line("partition changed").await;
    assert_eq!(node.post("/v1/sales", Some(sale(10))).await.status, 201);
    block_in_place(|| redis.kill());
    node.line("cannot connect to Redis").await;
    block_in_place(|| redis.start_again_empty());
    let steps = [
        "repair: began",
        "repair: read what is left",
        "repair: united a campaign",
        "repair: new epoch began",
        "partitions repaired",
    ];
    wait_for_lines(&node, &steps).await;
    let changes = node.lines().into_iter();
    let changes = changes.filter(|line| line["fields"]["message"] == "partition changed");
    let states: BTreeSet<String> = changes
        .filter_map(|line| {
            Some(
                line["fields"]["now"]
                    .as_str()?
                    .split(':')
                    .next()?
                    .to_owned(),
            )
        })
        .collect();
    for state in ["open", "halted"] {
        assert!(states.contains(state), "{states:?}");
    }
}
