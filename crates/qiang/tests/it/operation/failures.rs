//! Each failed request has one log line by which an operator finds the cause.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use qiang_testkit::servers::postgres::{self, Postgres};

use crate::common::{call, sale};
use crate::operation::program::{Program, redis, token};

/// Time limit for a line to appear in the log, which has a thread of its own.
const LINE_MAX: Duration = Duration::from_secs(10);

/// Log lines of a request, once there are `count`.
async fn about(program: &Program, id: &str, count: usize) -> Vec<Value> {
    let until = Instant::now() + LINE_MAX;
    loop {
        let mut lines = program.lines();
        lines.retain(|line| line["fields"]["request_id"] == id);
        if lines.len() >= count || Instant::now() > until {
            return lines;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_the_ledger_lacks_is_named_in_the_answer_and_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    redis();
    let start = |data: &str| {
        let keys = [("engine.data", data)];
        Program::on_redis(folder.path(), "serve", "lacks", &keys)
    };
    let mut node = start("ledger.db");
    node.ready(200).await;
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
    let copy = ["ledger.db", "restored.db"].map(|name| folder.path().join(name));
    std::fs::copy(&copy[0], &copy[1]).unwrap();
    let mut node = start("ledger.db");
    node.ready(200).await;
    let id = node.post("/v1/sales", Some(sale(10))).await.text("id");
    let orders = format!("/v1/sales/{id}/orders");
    let order = node.post(&orders, None).await;
    assert_eq!(order.status, 201);
    let order = format!("/v1/orders/{}", order.text("id"));
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));

    // The ledger is restored to a time before the campaign.
    let node = start("restored.db");
    let addr = node.addr().await;
    let cases = [
        ("POST", orders.clone()),
        ("GET", order.clone()),
        ("POST", format!("{order}/cancellation")),
        ("GET", format!("/v1/sales/{id}")),
        ("GET", format!("/v1/campaigns/{id}/state")),
        ("POST", format!("/v1/campaigns/{id}/pause")),
    ];
    for (place, (method, path)) in cases.iter().enumerate() {
        let request = format!("case-{place}");
        let headers = [("X-Request-Id", request.as_str())];
        let token = token("olga");
        let reply = call(addr, method, path, Some(&token), &headers, None).await;
        reply.assert_problem(503, "ledger-incomplete");
        assert_eq!(reply.json()["request_id"], json!(request));
        assert!(reply.text("detail").contains("stays granted"), "{reply:?}");
        let is_pause = path.ends_with("/pause");
        let mut lines = about(&node, &request, 1 + usize::from(is_pause)).await;
        if is_pause {
            // The engine has made the change.
            let said = &lines.remove(0)["fields"];
            assert_eq!(said["message"], "a change was made");
            let [actor, action, subject] =
                ["actor", "action", "subject"].map(|field| said[field].as_str().unwrap());
            assert_eq!([actor, action, subject], ["olga", "pause", &*id]);
        }
        assert_eq!(lines.len(), 1, "{path}: {lines:?}");
        let (level, line) = (&lines[0]["level"], &lines[0]["fields"]);
        assert_eq!((level, &line["status"]), (&json!("ERROR"), &json!(503)));
        let cause = line["cause"].as_str().unwrap();
        assert!(
            cause.contains(&id) && cause.contains("the ledger does not"),
            "{cause}"
        );
        let route = line["route"].as_str().unwrap();
        assert!(route.contains("{id}") && !route.contains(&id), "{route}");
    }
    // An unknown campaign is not a failure.
    let unknown = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    let reply = node.get(&format!("/v1/campaigns/{unknown}/state")).await;
    reply.assert_problem(404, "unknown-campaign");
    assert!(
        about(&node, reply.header("x-request-id"), 0)
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_does_not_answer_is_one_line_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = qiang_testkit::servers::redis::Standalone::start(
        &qiang_testkit::servers::redis::Options::new(),
    );
    let url = server.url();
    let keys = [
        ("redis.urls", url.as_str()),
        ("redis.call_timeout_ms", "600"),
        ("redis.claim_timeout_ms", "700"),
        ("redis.partitions", "1"),
    ];
    let node = Program::on_redis(folder.path(), "serve", "silent", &keys);
    node.ready(200).await;
    let id = node.post("/v1/sales", Some(sale(10))).await.text("id");
    server.kill();
    let path = format!("/v1/sales/{id}/orders");
    let headers = [("X-Request-Id", "lost")];
    let token = token("olga");
    let reply = call(
        node.addr().await,
        "POST",
        &path,
        Some(&token),
        &headers,
        None,
    )
    .await;
    assert_eq!(reply.status, 503, "{reply:?}");
    let lines = about(&node, "lost", 1).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["fields"]["campaign"], id);
    assert_eq!(lines[0]["fields"]["partition"], 0);
    let cause = lines[0]["fields"]["cause"].as_str().unwrap();
    assert!(cause.contains("Redis"), "{cause}");
    assert!(
        !String::from_utf8_lossy(&reply.body).contains("Redis"),
        "{reply:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_can_be_paused_while_the_ledger_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let database = Postgres::start(&postgres::Options::new().without_fsync());
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    let keys = [
        ("ledger.url", url.as_str()),
        ("ledger.acquire_timeout_ms", "500"),
    ];
    let node = Program::on_redis(folder.path(), "serve", "pauses", &keys);
    node.ready(200).await;
    let id = node.post("/v1/sales", Some(sale(10))).await.text("id");
    let act = async |verb: &str| node.post(&format!("/v1/campaigns/{id}/{verb}"), None).await;
    database.kill();
    let paused = act("pause").await;
    assert_eq!(
        (paused.status, paused.text("phase")),
        (200, "paused".to_owned())
    );
    let line = node.line("the ledger did not record who pauses").await;
    assert_eq!(
        (&line["level"], &line["campaign"]),
        (&json!("ERROR"), &json!(id))
    );
    act("resume").await.assert_problem(503, "unavailable");
    // Actions are recorded again after the ledger returns.
    database.start_again();
    node.ready(200).await;
    assert_eq!(act("resume").await.text("phase"), "live");
}
