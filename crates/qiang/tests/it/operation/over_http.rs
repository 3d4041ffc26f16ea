//! Operations on partitions of a running node over HTTP, and the node's audit beside Redis.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Reply, call as request, sale};
use crate::operation::{
    maintenance::call,
    program::{Program, token},
};

const WAIT_MAX: Duration = Duration::from_secs(30);

async fn get(node: &Program, path: &str) -> Value {
    let (addr, token) = (node.addr().await, token("olga"));
    let reply = request(addr, "GET", path, Some(&token), &[], None).await;
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

async fn until(node: &Program, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let body = get(node, path).await;
        if is(&body) {
            return body;
        }
        assert!(began.elapsed() < WAIT_MAX, "{path}: {body:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn audit(node: &Program) -> Value {
    let begun = node.post("/v1/audits", None).await;
    let path = format!("/v1/audits/{}", begun.text("id"));
    until(node, &path, |it| it["status"] != "running").await
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_repaired_and_resumed_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = "operated";
    let keys = [("engine.data", "ledger.db"), ("redis.repair", "manual")];
    let mut node = Program::on_redis(folder.path(), "serve", prefix, &keys);
    node.ready(200).await;
    let mut terms = sale(100);
    terms["hold_seconds"] = json!(3_600);
    let id = node.post("/v1/sales", Some(terms)).await.text("id");
    let key = |partition: u16, rest: &str| format!("{prefix}:{{p{partition:02}}}:{rest}");
    let has = |partition: &u16| {
        let campaign = key(*partition, &format!("c:{id}"));
        call(&["EXISTS", &campaign]).integer() == Some(1)
    };
    let home = (0..2).find(has).unwrap();
    let path = format!("/v1/partitions/{home}");
    let act = async |what: &str| -> Reply { node.post(&format!("{path}/{what}"), None).await };
    let settled =
        |it: &Value| it["settlement_lag"] == 0 && it["partitions"][1]["status"] == "ready";
    let all = until(&node, "/v1/partitions", settled).await;
    assert_eq!(
        (
            &all["repairable"],
            all["partitions"].as_array().unwrap().len()
        ),
        (&json!(true), 2)
    );
    assert_eq!(act("repair").await.json()["result"], "whole");
    assert_eq!(act("resume").await.json(), json!({ "resumed": false }));
    assert_eq!(act("release-withheld").await.json(), json!({ "units": 0 }));
    // The node reports periodically what it has observed.
    let has_said = |it: &Value| {
        let seq = it["engine"]["seq"].as_str().unwrap_or_default();
        it["nodes"][0]["observed"].as_u64() == seq.parse().ok()
    };
    let one = until(&node, &path, has_said).await;
    assert_eq!(one["nodes"].as_array().unwrap().len(), 1, "{one:#}");
    let missing = node.post("/v1/partitions/2/repair", None).await;
    missing.assert_problem(404, "not-found");

    let state = key(home, "partition");
    let halt = |more: &[&str]| {
        call(&["HDEL", &state, "open"]);
        call(&[&["HSET", &state, "halted", "the test says so"][..], more].concat());
    };
    let halted = |it: &Value| it["status"] == "not_ready";
    halt(&[]);
    let seen = until(&node, &path, halted).await;
    assert!(
        seen["reason"]
            .as_str()
            .unwrap()
            .contains("the test says so"),
        "{seen:#}"
    );
    let keyed = async |what: &str, key: &str| -> Reply {
        let (addr, token, path) = (node.addr().await, token("olga"), format!("{path}/{what}"));
        let headers = [("Idempotency-Key", key)];
        request(addr, "POST", &path, Some(&token), &headers, None).await
    };
    let resumed = keyed("resume", "first").await;
    assert_eq!(resumed.json(), json!({ "resumed": true }));
    until(&node, &path, |it| it["status"] == "ready").await;
    // A late retry is answered, and does not end a later halt.
    halt(&[]);
    until(&node, &path, halted).await;
    let again = keyed("resume", "first").await;
    assert_eq!(again.json(), resumed.json());
    assert!(
        call(&["HGET", &state, "halted"]).text().is_some(),
        "a retry ended a later halt"
    );
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(keyed("repair", "whole").await.json()["result"], "whole");
    assert_eq!(
        keyed("resume", "second").await.json(),
        json!({ "resumed": true })
    );
    until(&node, &path, |it| it["status"] == "ready").await;
    // A key whose request broke off does not act.
    let forget = |key: &str| {
        let ledger = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
        ledger.busy_timeout(WAIT_MAX).unwrap();
        let sql = "UPDATE idempotency_keys SET answer = NULL WHERE \"key\" = ?1";
        assert_eq!(ledger.execute(sql, [key]).unwrap(), 1, "{key}");
    };
    forget("second");
    let pending = keyed("resume", "second").await;
    pending.assert_problem(409, "key-pending");
    assert_eq!(audit(&node).await["status"], "ok");

    // The ledger has another price than the engine. A requested comparison finds it, and changes nothing.
    let order = json!({ "quantity": 1 });
    let order = node
        .post(&format!("/v1/sales/{id}/orders"), Some(order))
        .await;
    assert_eq!(order.status, 201, "{order:?}");
    let ledger = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    ledger.busy_timeout(WAIT_MAX).unwrap();
    let orders = || -> u32 {
        let count = ledger.query_row("SELECT count(*) FROM orders", [], |row| row.get(0));
        count.unwrap()
    };
    let began = Instant::now();
    while orders() == 0 {
        assert!(began.elapsed() < WAIT_MAX, "the order is not settled");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let whole = act("reconcile").await.json();
    let (complete, rows) = (&whole["complete"], whole["rows"].as_u64());
    assert_eq!((complete, rows), (&json!(true), Some(1)), "{whole}");
    assert_eq!(whole["examples"], json!([]), "{whole}");
    assert!(whole["ran_at"].is_string(), "{whole}");
    let set = |sign: &str| {
        let sql = format!("UPDATE orders SET quantity = quantity {sign} 1");
        assert_eq!(ledger.execute(&sql, []).unwrap(), 1);
    };
    set("+");
    let found = act("reconcile").await.json();
    assert_eq!(found["differences"]["amount_differs"], 1, "{found}");
    let named = found["examples"][0].as_str().unwrap();
    assert!(named.contains(&format!("{id}-1")), "{named}");
    set("-");
    let none = act("reconcile").await.json();
    assert_eq!(none["differences"]["amount_differs"], 0, "{none}");

    // A lost node had answered three claims that the log does not have.
    let seq: u64 = call(&["HGET", &state, "seq"])
        .text()
        .unwrap()
        .parse()
        .unwrap();
    call(&["HSET", &key(home, "nodes"), "gone", "0 0 0"]);
    let (from, to) = ((seq + 1).to_string(), (seq + 3).to_string());
    halt(&["lost_from", &from, "lost_to", &to]);
    until(&node, &path, halted).await;
    let repaired = act("repair").await.json();
    assert_eq!(
        (
            &repaired["result"],
            &repaired["unnamed"],
            &repaired["withheld"]
        ),
        (&json!("repaired"), &json!(3), &json!(3)),
        "{repaired}"
    );
    until(&node, &path, |it| it["status"] == "ready").await;
    let one = get(&node, &path).await;
    assert_eq!(
        (&one["repairs"][0]["lost"], &one["withheld"][0]["units"]),
        (&json!(3), &json!(3)),
        "{one:#}"
    );
    let kept = keyed("repair", "whole").await;
    assert_eq!(kept.json()["result"], "whole", "{kept:?}");
    let released = keyed("release-withheld", "units").await;
    assert_eq!(released.json(), json!({ "units": 3 }));
    let again = keyed("release-withheld", "units").await;
    assert_eq!(again.json(), released.json());
    assert_eq!(act("release-withheld").await.json(), json!({ "units": 0 }));
    let one = get(&node, &path).await;
    assert!(one["withheld"][0]["released_at"].is_string(), "{one:#}");
    let audited = audit(&node).await;
    assert_eq!(audited["status"], "ok", "{audited:#}");
    assert!(audited["report"]["in_flight"].is_u64(), "{audited:#}");

    let actions = get(&node, "/v1/operation-log?subject=the%20service").await;
    let actions = actions["data"].as_array().unwrap().iter();
    let words: Vec<_> = actions.map(|it| it["action"].as_str().unwrap()).collect();
    // Commands that found nothing to do are not listed.
    let expected = [
        "resume",
        "resume",
        "audit",
        "reconcile",
        "reconcile",
        "reconcile",
        "repair",
        "release",
        "audit",
    ];
    assert_eq!(words, expected);
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}
