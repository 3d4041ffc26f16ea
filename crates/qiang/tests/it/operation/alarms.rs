//! Faults of real servers. Each raises its alarm, and no second one.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use qiang_core::ports::Clock as _;
use qiang_embedded::SystemClock;
use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpStream, task::block_in_place, time::sleep};

use super::{
    alarm_watch::AlarmWatch,
    crowd::{Crowd, buy},
    program::{PATIENCE, Program, redis, until},
};
use crate::common::{call, sale};

/// Pause between two readings.
const READ_EVERY: Duration = Duration::from_millis(500);
/// Readings in which consequences of a fault would show.
const MORE: usize = 6;

/// Text of `/metrics` of a process; `None` if it does not answer.
async fn metrics_at(addr: SocketAddr) -> Option<String> {
    TcpStream::connect(addr).await.ok()?;
    let reply = call(addr, "GET", "/metrics", None, &[], None).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    Some(String::from_utf8(reply.body.to_vec()).unwrap())
}

/// Sum of the values of all series with this name, or of the one with these labels.
fn sum(text: &str, series: &str) -> f64 {
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let of_it = lines.filter(|(head, _)| {
        let rest = head.strip_prefix(series);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
    });
    of_it
        .filter_map(|(_, value)| value.parse::<f64>().ok())
        .sum()
}

/// Processes by name, and their readings.
struct Watched<'p> {
    processes: Vec<(&'static str, &'p Program)>,
    watch: AlarmWatch,
}

impl<'p> Watched<'p> {
    /// Begins with a reading of a healthy set-up.
    async fn start(processes: Vec<(&'static str, &'p Program)>) -> Self {
        let watch = AlarmWatch::new();
        let mut watched = Self { processes, watch };
        watched.read().await;
        watched
    }

    /// Adds a reading of each process. Returns their texts together.
    async fn read(&mut self) -> String {
        let mut texts = Vec::new();
        for (name, process) in &self.processes {
            texts.push((*name, metrics_at(process.addr().await).await));
        }
        self.watch.read(&texts);
        texts.into_iter().filter_map(|(_, text)| text).collect()
    }

    /// Reads until the sum of a series is `enough`.
    async fn until(&mut self, series: &str, enough: impl Fn(f64) -> bool) {
        let over = std::time::Instant::now() + PATIENCE;
        while !enough(sum(&self.read().await, series)) {
            let lines = || self.processes.iter().map(|(_, it)| it.lines());
            assert!(
                std::time::Instant::now() < over,
                "{series} never fits: {:?}",
                lines().collect::<Vec<_>>()
            );
            sleep(READ_EVERY).await;
        }
    }

    /// Reads until the ledger has everything. The last reading is repeated for the alarms, so it must be a healthy one.
    async fn settled(&mut self) {
        self.until("qiang_settlement_stuck", is_zero).await;
        self.until("qiang_settlement_lag_entries", is_zero).await;
    }

    async fn some_more(&mut self) {
        for _ in 0..MORE {
            self.read().await;
            sleep(READ_EVERY).await;
        }
    }
}

fn is_one(value: f64) -> bool {
    value >= 1.0
}

fn is_zero(value: f64) -> bool {
    value == 0.0
}

/// A set-up with servers of its own.
struct SetUp {
    folder: TempDir,
    redis: Standalone,
    postgres: Postgres,
}

impl SetUp {
    async fn start(options: &Options) -> Self {
        let (redis, postgres) = block_in_place(|| {
            let without_fsync = postgres::Options::new().without_fsync();
            (Standalone::start(options), Postgres::start(&without_fsync))
        });
        qiang::migrate(&postgres.url()).await.unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            redis,
            postgres,
        }
    }

    fn run(&self, command: &str, keys: &[(&str, &str)]) -> Program {
        let (redis, ledger) = (self.redis.url(), self.postgres.url());
        let usual = [
            ("redis.urls", redis.as_str()),
            ("ledger.url", ledger.as_str()),
            ("redis.claim_timeout_ms", "1000"),
        ];
        let keys = [&usual[..], keys].concat();
        Program::on_redis(self.folder.path(), command, "alarms", &keys)
    }
}

async fn open_sale(node: &Program, adjust: impl FnOnce(&mut Value)) -> String {
    node.ready(200).await;
    let mut body = sale(1_000_000);
    adjust(&mut body);
    let made = node.post("/v1/sales", Some(body)).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.text("id")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stops_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new()).await;
    let outside = [
        ("settlement.in_process", "false"),
        ("settlement.lease_ms", "1000"),
    ];
    let node = set_up.run("serve", &outside);
    let worker = set_up.run("worker", &outside);
    let sale = open_sale(&node, |_| ()).await;
    worker.ready(200).await;
    let crowd = Crowd::start(vec![node.addr().await], &sale);
    crowd.some_more().await;
    let mut watched = Watched::start(vec![("node", &node), ("worker", &worker)]).await;
    block_in_place(|| set_up.postgres.pause_all());
    watched.until("qiang_settlement_stuck", is_one).await;
    watched.some_more().await;
    block_in_place(|| set_up.postgres.resume_all());
    drop(crowd.stop().await);
    watched.settled().await;
    watched.watch.expect(&["QiangSettlementStuck"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_stops_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new().fsync_always()).await;
    let node = set_up.run("serve", &[]);
    let sale = open_sale(&node, |_| ()).await;
    assert_eq!(buy(node.addr().await, &sale, "ann").await.status, 201);
    let mut watched = Watched::start(vec![("node", &node)]).await;
    block_in_place(|| set_up.redis.kill());
    watched.until("qiang_engine_stopped", is_one).await;
    for n in 0..MORE {
        let refused = buy(node.addr().await, &sale, &format!("user-{n}")).await;
        assert_eq!(refused.status, 503, "{refused:?}");
        watched.read().await;
    }
    block_in_place(|| set_up.redis.start_again());
    watched.until("qiang_engine_stopped", is_zero).await;
    assert_eq!(buy(node.addr().await, &sale, "ben").await.status, 201);
    watched.settled().await;
    watched.watch.expect(&["QiangPartitionStopped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_stops_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new().replicas(1)).await;
    let node = set_up.run("serve", &[("redis.replicas", "1")]);
    let sale = open_sale(&node, |body| body["ack"] = json!("replica")).await;
    assert_eq!(buy(node.addr().await, &sale, "ann").await.status, 201);
    let mut watched = Watched::start(vec![("node", &node)]).await;
    block_in_place(|| set_up.redis.replica(0).kill());
    watched.until("qiang_redis_replicas_missing", is_one).await;
    for n in 0..MORE {
        let refused = buy(node.addr().await, &sale, &format!("user-{n}")).await;
        assert_eq!(refused.status, 503, "{refused:?}");
        watched.read().await;
    }
    watched.watch.expect(&["QiangReplicasMissing"]);
}

/// The replica is connected and confirms nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_confirm_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new().replicas(1)).await;
    let node = set_up.run("serve", &[("redis.replicas", "1")]);
    let sale = open_sale(&node, |body| body["ack"] = json!("replica")).await;
    assert_eq!(buy(node.addr().await, &sale, "ann").await.status, 201);
    let mut watched = Watched::start(vec![("node", &node)]).await;
    block_in_place(|| set_up.redis.replica(0).pause_all());
    for n in 0..MORE {
        let uncertain = buy(node.addr().await, &sale, &format!("user-{n}")).await;
        uncertain.assert_problem(503, "uncertain");
        watched.read().await;
    }
    block_in_place(|| set_up.redis.replica(0).resume_all());
    assert!(sum(&watched.read().await, "qiang_claims_unconfirmed_total") >= 1.0);
    watched.watch.expect(&["QiangGrantsUnconfirmed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_near_its_memory_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new()).await;
    let node = set_up.run("serve", &[]);
    node.ready(200).await;
    let primary = set_up.redis.primary();
    let set = |max: u64| {
        let max = max.to_string();
        block_in_place(|| primary.call(&["CONFIG", "SET", "maxmemory", &max]).unwrap());
    };
    let used = || -> u64 {
        let used = block_in_place(|| primary.info("memory", "used_memory").unwrap());
        used.parse().unwrap()
    };
    set(2 * used());
    until("the limit is not seen", async || {
        let text = metrics_at(node.addr().await).await?;
        (sum(&text, "qiang_redis_memory_max_bytes") > 0.0).then_some(())
    })
    .await;
    let mut watched = Watched::start(vec![("node", &node)]).await;
    // A tenth is left of what is used now: Redis has freed buffers since the start.
    let used = used();
    let near = used + used / 9;
    set(near);
    let all = |max: f64| max < 2.0 * 2.0 * used as f64 - 1.0 && max <= 2.0 * near as f64;
    watched.until("qiang_redis_memory_max_bytes", all).await;
    watched.some_more().await;
    watched.watch.expect(&["QiangRedisMemory"]);
}

/// An order that is deleted by SQL is a difference. A changed balance is a broken check of the audit.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_changed_raise_one_alarm_each() {
    let set_up = SetUp::start(&Options::new()).await;
    let keys = [
        ("audit.interval_ms", "3600000"),
        ("redis.reconcile_ms", "100"),
        ("webhooks.allow_private", "true"),
    ];
    let node = set_up.run("serve", &keys);
    let sale = open_sale(&node, |_| ()).await;
    let order = buy(node.addr().await, &sale, "ann").await.text("id");
    let reply = node
        .post(
            &format!("/v1/orders/{order}/payment"),
            Some(crate::common::paid("p-1", 500)),
        )
        .await;
    assert!(reply.status < 300, "{reply:?}");
    let sql = |statement: &str| block_in_place(|| set_up.postgres.sql(statement));
    until("the payment is not settled", async || {
        let paid = "SELECT count(*) FROM accounts WHERE purpose = 'outside'";
        (sql(paid) == "1").then_some(())
    })
    .await;
    node.line("the audit holds").await;

    let mut watched = Watched::start(vec![("node", &node)]).await;
    sql("UPDATE accounts SET balance = balance + 1 WHERE purpose = 'outside'");
    node.signal("-USR1");
    watched.until("qiang_audit_broken_checks", is_one).await;
    let line = node.line("a check of the audit is broken").await;
    assert!(
        line["remedy"].as_str().unwrap().contains("do not balance"),
        "{line}"
    );
    watched.watch.expect(&["QiangAuditBroken"]);

    sql("UPDATE accounts SET balance = balance - 1 WHERE purpose = 'outside'");
    node.signal("-USR1");
    watched.until("qiang_audit_broken_checks", is_zero).await;
    let mut watched = Watched::start(vec![("node", &node)]).await;
    sql("UPDATE orders SET state = 'held'");
    watched.until("qiang_reconcile_differences", is_one).await;
    watched.some_more().await;
    watched.watch.expect(&["QiangDifference"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_entry_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new()).await;
    let node = set_up.run("serve", &[("redis.reconcile_ms", "100")]);
    let sale = open_sale(&node, |_| ()).await;
    let mut watched = Watched::start(vec![("node", &node)]).await;
    // The ledger's next order of this sale contradicts a row.
    let row = "INSERT INTO orders (campaign, number, \"user\", quantity, amount, state, one_per_user, granted_at, \
        hold_until, updated_at) SELECT ref, 1, 'eve', 1, 500, 'held', 1, 0, 0, 0 FROM campaigns";
    block_in_place(|| set_up.postgres.sql(row));
    assert_eq!(buy(node.addr().await, &sale, "ann").await.status, 201);
    // Readings are 15 seconds apart for the alarms, and entries are counted each five seconds.
    until("nothing is quarantined", async || {
        let text = metrics_at(node.addr().await).await?;
        (sum(&text, "qiang_quarantined_entries") >= 1.0).then_some(())
    })
    .await;
    watched.some_more().await;
    watched.watch.expect(&["QiangQuarantine"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_paused_raises_one_alarm() {
    let set_up = SetUp::start(&Options::new()).await;
    let keys = [
        ("settlement.in_process", "false"),
        ("settlement.lease_ms", "1000"),
    ];
    let node = set_up.run("serve", &keys);
    let (one, two) = (set_up.run("worker", &keys), set_up.run("worker", &keys));
    let sale = open_sale(&node, |_| ()).await;
    one.ready(200).await;
    two.ready(200).await;
    let crowd = Crowd::start(vec![node.addr().await], &sale);
    crowd.some_more().await;
    let mut watched = Watched::start(vec![("node", &node), ("one", &one), ("two", &two)]).await;
    let owned = async |worker: &Program| {
        let text = metrics_at(worker.addr().await).await.unwrap();
        sum(&text, "qiang_settlement_owned")
    };
    let (owner, other) = match owned(&one).await >= 1.0 {
        true => (&one, &two),
        false => (&two, &one),
    };
    owner.signal("-STOP");
    until("the other worker does not take over", async || {
        (owned(other).await >= 2.0).then_some(())
    })
    .await;
    owner.signal("-CONT");
    watched
        .until("qiang_settlement_leases_lost_total", is_one)
        .await;
    drop(crowd.stop().await);
    watched.some_more().await;
    watched.settled().await;
    watched.watch.expect(&["QiangLeaseLost"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_waits_for_its_ledger_or_dies_raises_one_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let lost = [
        ("engine.kind", "redis"),
        ("ledger.url", "postgres://nobody@127.0.0.1:1/none"),
    ];
    let waiting = Program::serve(folder.path(), &lost);
    let other = tempfile::tempdir().unwrap();
    let node = Program::serve(other.path(), &[]);
    node.ready(200).await;
    let addr = node.addr().await;
    let mut watch = AlarmWatch::new();
    watch.read(&[("a", metrics_at(addr).await)]);
    waiting.ready(503).await;
    let at = waiting.addr().await;
    for _ in 0..2 {
        let readings = (metrics_at(addr).await, metrics_at(at).await);
        watch.read(&[("a", readings.0), ("b", readings.1)]);
    }
    watch.expect(&["QiangStopped"]);

    let mut watch = AlarmWatch::new();
    watch.read(&[("a", metrics_at(addr).await)]);
    drop(node);
    watch.read(&[("a", metrics_at(addr).await)]);
    watch.expect(&["QiangDown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_many_connections_raises_one_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [("server.connections_max", "20")];
    let node = Program::serve(folder.path(), &keys);
    node.ready(200).await;
    let mut watched = Watched::start(vec![("node", &node)]).await;
    let mut open = Vec::new();
    for _ in 0..18 {
        open.push(TcpStream::connect(node.addr().await).await.unwrap());
    }
    watched
        .until("qiang_http_connections", |open| open > 17.0)
        .await;
    watched.watch.expect(&["QiangConnections"]);
}

/// Reports of payments for orders that do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_payment_report_raises_one_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let node = Program::serve(folder.path(), &[]);
    let sale = open_sale(&node, |_| ()).await;
    let order = buy(node.addr().await, &sale, "ann").await.text("id");
    let mut watched = Watched::start(vec![("node", &node)]).await;
    let body = json!({
        "reference": "p-1", "order": order, "user": "eve", "amount": { "amount": 500, "currency": "CNY" },
    });
    let refused = node.post("/v1/payments", Some(body)).await;
    assert_eq!(refused.status / 100, 4, "{refused:?}");
    watched
        .until("qiang_payment_reports_refused_total", is_one)
        .await;
    watched.watch.expect(&["QiangPaymentsRefused"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_does_not_answer_raises_one_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [
        ("order_check.url", "http://127.0.0.1:1/check"),
        (
            "order_check.secret",
            "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ),
        ("order_check.breaker_failures", "2"),
    ];
    let node = Program::serve(folder.path(), &keys);
    let sale = open_sale(&node, |body| body["requirements"] = json!(["order_check"])).await;
    let mut watched = Watched::start(vec![("node", &node)]).await;
    for n in 0..2 * MORE {
        let refused = buy(node.addr().await, &sale, &format!("user-{n}")).await;
        refused.assert_problem(503, "order-check-unavailable");
        watched.read().await;
    }
    watched.watch.expect(&["QiangOrderCheckDown"]);
}

/// Writes a key, and a certificate that ends in this number of days.
fn certify(folder: &Path, days: i64) {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let now = jiff::Timestamp::from_millisecond(SystemClock.now().as_millis()).unwrap();
    let now = now.to_zoned(jiff::tz::TimeZone::UTC);
    let end = now.checked_add(jiff::Span::new().days(days)).unwrap();
    let part = |value: i8| u8::try_from(value).unwrap();
    parameters.not_after =
        rcgen::date_time_ymd(end.year().into(), part(end.month()), part(end.day()));
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(folder.join("certificate.pem"), certificate.pem()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_and_certificates_that_end_raise_one_alarm_each() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path(), 90);
    fs::write(folder.path().join("revoked"), "").unwrap();
    let keys = [
        ("server.tls_certificate_file", "certificate.pem"),
        ("server.tls_key_file", "key.pem"),
        ("admin.listen", "127.0.0.1:0"),
        ("auth.revoked_file", "revoked"),
        ("payments.accounts_file", "accounts.toml"),
    ];
    fs::write(folder.path().join("accounts.toml"), "").unwrap();
    let node = Program::serve(folder.path(), &keys);
    let at = node.line("serving operators").await;
    let addr: SocketAddr = at["addr"].as_str().unwrap().parse().unwrap();
    let seen = async |series: &str, enough: fn(f64) -> bool| {
        let look = async || {
            let text = metrics_at(addr).await?;
            (text.contains(series) && enough(sum(&text, series))).then_some(text)
        };
        until(&format!("{series} never fits"), look).await
    };
    let healthy = seen("qiang_certificate_expires_timestamp_seconds", |at| at > 0.0).await;
    let check = |text: String, alarm: &str| {
        let mut watch = AlarmWatch::new();
        watch.read(&[("a", Some(healthy.clone()))]);
        watch.read(&[("a", Some(text))]);
        watch.expect(&[alarm]);
    };
    fs::write(folder.path().join("revoked"), "who knows\n").unwrap();
    check(
        seen("qiang_token_file_failing", is_one).await,
        "QiangTokenFile",
    );
    fs::write(folder.path().join("revoked"), "").unwrap();
    seen("qiang_token_file_failing", is_zero).await;

    fs::write(folder.path().join("accounts.toml"), "[[stripe]]").unwrap();
    check(
        seen("qiang_payment_accounts_failing", is_one).await,
        "QiangPaymentAccounts",
    );
    fs::write(folder.path().join("accounts.toml"), "").unwrap();
    seen("qiang_payment_accounts_failing", is_zero).await;

    fs::write(folder.path().join("certificate.pem"), "no certificate").unwrap();
    check(
        seen("qiang_certificate_failing", is_one).await,
        "QiangCertificate",
    );
    let before = sum(&healthy, "qiang_certificate_expires_timestamp_seconds");
    certify(folder.path(), 3);
    let look = async || {
        let text = metrics_at(addr).await?;
        let has_changed = sum(&text, "qiang_certificate_expires_timestamp_seconds") < before;
        (has_changed && sum(&text, "qiang_certificate_failing") == 0.0).then_some(text)
    };
    let ending = until("the certificate does not change", look).await;
    check(ending, "QiangCertificateExpires");
}

/// An endpoint that wants no events.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_gone_raises_one_alarm() {
    use axum::{Router, http::StatusCode, routing::post};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/gone", listener.local_addr().unwrap());
    let gone = Router::new().route("/gone", post(async || StatusCode::GONE));
    let serving = tokio::spawn(async move { axum::serve(listener, gone).await });
    let folder = tempfile::tempdir().unwrap();
    let node = Program::serve(folder.path(), &[("webhooks.allow_private", "true")]);
    let sale = open_sale(&node, |_| ()).await;
    let made = node.post("/v1/webhooks", Some(json!({ "url": url }))).await;
    assert_eq!(made.status, 201, "{made:?}");
    let mut watched = Watched::start(vec![("node", &node)]).await;
    assert_eq!(buy(node.addr().await, &sale, "ann").await.status, 201);
    let disabled = "qiang_webhook_endpoints{state=\"disabled\"}";
    watched.until(disabled, is_one).await;
    watched.watch.expect(&["QiangWebhookDisabled"]);
    serving.abort();
}

/// Processes on the shared Redis without any fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_node_raises_none() {
    let _shared = block_in_place(redis);
    let folder = tempfile::tempdir().unwrap();
    let node = Program::on_redis(folder.path(), "serve", "alarms-none", &[]);
    let sale = open_sale(&node, |_| ()).await;
    let mut watched = Watched::start(vec![("node", &node)]).await;
    for n in 0..MORE {
        assert_eq!(
            buy(node.addr().await, &sale, &format!("user-{n}"))
                .await
                .status,
            201
        );
        watched.read().await;
    }
    watched.watch.expect(&[]);
}
