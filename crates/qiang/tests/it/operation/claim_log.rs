//! The log of claims: one id in the answer, in the line of the claim and in the log of failures.

use std::path::Path;

use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::{Value, json};

use super::program::{Program, token, until};
use crate::common::{Reply, call, sale};

const CLAIMS: &str = "claims.jsonl";

/// The line of a request, once it is written.
async fn line(folder: &Path, id: &str) -> Value {
    let look = async || {
        lines(folder)
            .into_iter()
            .find(|line| line["request_id"] == id)
    };
    until(&format!("no line of {id}"), look).await
}

fn lines(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(CLAIMS)).unwrap();
    // The last line may be half written.
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn buy(node: &Program, sale: &str, user: &str, id: &str) -> Reply {
    let path = format!("/v1/sales/{sale}/orders");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [("X-Request-Id", id), ("traceparent", parent)];
    let token = token(user);
    call(
        node.addr().await,
        "POST",
        &path,
        Some(&token),
        &headers,
        None,
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_followed_by_its_request_id() {
    let folder = tempfile::tempdir().unwrap();
    let server = tokio::task::block_in_place(|| Standalone::start(&Options::new()));
    let url = server.url();
    let keys = [
        ("redis.urls", url.as_str()),
        ("redis.partitions", "1"),
        ("redis.call_timeout_ms", "600"),
        ("redis.claim_timeout_ms", "700"),
        ("claim_log.file", CLAIMS),
        ("claim_log.refusals_ratio", "1"),
    ];
    let node = Program::on_redis(folder.path(), "serve", "followed", &keys);
    node.ready(200).await;
    let id = node.post("/v1/sales", Some(sale(1))).await.text("id");

    let granted = buy(&node, &id, "ann", "click-1").await;
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!(granted.header("x-request-id"), "click-1");
    let seen = line(folder.path(), "click-1").await;
    let known = [
        "campaign",
        "outcome",
        "partition",
        "number",
        "status",
        "trace_id",
    ];
    assert_eq!(
        known.map(|field| seen[field].clone()),
        [
            json!(id),
            json!("granted"),
            json!(0),
            json!(1),
            json!(201),
            json!("0af7651916cd43dd8448eb211c80319c")
        ]
    );
    assert!(seen["duration_us"].as_u64().unwrap() > 0, "{seen}");
    assert_eq!(seen["user"], Value::Null, "{seen}");

    let refused = buy(&node, &id, "ben", "click-2").await;
    refused.assert_problem(409, "sold-out");
    assert_eq!(line(folder.path(), "click-2").await["outcome"], "sold_out");

    server.kill();
    let failed = buy(&node, &id, "cid", "click-3").await;
    assert_eq!(failed.status, 503, "{failed:?}");
    let problem = failed.json();
    assert_eq!(problem["request_id"], "click-3");
    let seen = line(folder.path(), "click-3").await;
    assert_eq!(seen["outcome"], "failed", "{seen}");
    let kind = seen["problem"].as_str().unwrap();
    assert_eq!(problem["type"], format!("/problems/{kind}"));
    let logged = node.line("a request failed").await;
    assert_eq!(logged["request_id"], "click-3");
    assert_eq!(
        (&logged["campaign"], &logged["partition"]),
        (&json!(id), &json!(0))
    );

    let text = std::fs::read_to_string(folder.path().join(CLAIMS)).unwrap();
    for secret in ["ann", "ben", "cid", &token("ann")[..20], "Bearer"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_sampled_and_users_named_if_that_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [
        ("claim_log.file", CLAIMS),
        ("claim_log.refusals_ratio", "0"),
        ("claim_log.users", "true"),
    ];
    let node = Program::serve(folder.path(), &keys);
    node.ready(200).await;
    let id = node.post("/v1/sales", Some(sale(1))).await.text("id");
    assert_eq!(buy(&node, &id, "ann", "click-1").await.status, 201);
    for n in 0..20 {
        assert_eq!(
            buy(&node, &id, &format!("user-{n}"), "other").await.status,
            409
        );
    }
    // A replay is a grant.
    assert_eq!(buy(&node, &id, "ann", "click-2").await.status, 200);
    let seen = line(folder.path(), "click-2").await;
    assert_eq!(
        (&seen["user"], &seen["outcome"]),
        (&json!("ann"), &json!("already_granted"))
    );
    assert_eq!(lines(folder.path()).len(), 2);
    until("lines are not counted", async || {
        let text = String::from_utf8(node.get("/metrics").await.body.to_vec()).unwrap();
        text.contains("qiang_claim_log_lines_total{result=\"written\"} 2")
            .then_some(())
    })
    .await;
}
