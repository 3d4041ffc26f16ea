//! Health and metrics of a worker.

use crate::common::sale;
use crate::operation::program::{Program, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_shows_its_health_and_its_settlement_and_takes_no_claims() {
    let folder = tempfile::tempdir().unwrap();
    let database = qiang_testkit::servers::postgres::Postgres::start(
        &qiang_testkit::servers::postgres::Options::new().without_fsync(),
    );
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    let keys = [
        ("ledger.url", url.as_str()),
        ("settlement.in_process", "false"),
    ];
    let node = Program::on_redis(folder.path(), "serve", "shown", &keys);
    node.ready(200).await;
    let mut worker = Program::on_redis(folder.path(), "worker", "shown", &keys);
    worker.ready(200).await;
    let opened = node.post("/v1/sales", Some(sale(10))).await;
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    assert_eq!(node.post(&path, None).await.status, 201);

    let metrics = async || {
        let text = worker.get("/metrics").await.body;
        String::from_utf8(text.to_vec()).unwrap()
    };
    let settled = async || {
        let text = metrics().await;
        let owned = text.matches("qiang_settlement_owned{").count();
        let done = text
            .lines()
            .filter(|line| line.starts_with("qiang_settlement_partition_lag_entries{"))
            .all(|line| line.ends_with(" 0"));
        (owned == 2 && done && text.contains("transport=\"stream\"")).then_some(text)
    };
    let text = until("the worker never settles", settled).await;
    for series in [
        "qiang_settlement_stuck 0",
        "qiang_settlement_lag_entries 0",
        "qiang_settlement_transport_failing{",
    ] {
        assert!(text.contains(series), "no {series} in {text}");
    }
    assert!(!text.contains("qiang_claims_total"), "{text}");
    let ready = worker.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.text("status")),
        (200, "ready".to_owned())
    );
    assert_eq!(worker.get("/healthz").await.body, "ok\n");
    worker
        .post(&path, None)
        .await
        .assert_problem(404, "not-found");

    // The worker reports an unreachable ledger, and keeps trying.
    database.kill();
    assert_eq!(node.post("/v1/sales", Some(sale(10))).await.status, 503);
    let why = worker.ready(503).await;
    let stuck = why["settlement_stuck"].as_str().unwrap_or_default();
    assert!(stuck.contains("ledger"), "{why}");
    assert_eq!(why["partitions"].as_array().unwrap().len(), 2, "{why}");
    assert!(metrics().await.contains("qiang_settlement_stuck 1"));
    database.start_again();
    worker.ready(200).await;
    worker.signal("-TERM");
    assert_eq!(worker.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_may_listen_nowhere_and_names_the_key_where_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let mut worker = Program::on_redis(
        folder.path(),
        "worker",
        "nowhere",
        &[("worker.listen", &addr)],
    );
    assert_eq!(worker.ended().await, Some(1));
    let said = worker.lines();
    let last = said.last().unwrap()["text"].as_str().unwrap();
    assert!(
        last.contains("worker.listen") && last.contains(&addr),
        "{last}"
    );

    let mut worker =
        Program::on_redis(folder.path(), "worker", "nowhere", &[("worker.listen", "")]);
    worker.line("settling").await;
    worker.signal("-TERM");
    assert_eq!(worker.ended().await, Some(0));
    let served = |line: &serde_json::Value| line["fields"]["message"] == "serving";
    assert!(!worker.lines().iter().any(served));
}
