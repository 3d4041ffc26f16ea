//! The program compares the engine with the ledger while no node serves. An order that Redis has lost is found, and
//! restored from the ledger.

use serde_json::{Value, json};

use super::node::{LedgerKind, Node, TestLedger, token};

const USERS: u64 = 20;

async fn order(node: &Node, sale: &str, user: &str) -> crate::common::Reply {
    let (token, path) = (token(user, "claim"), format!("/v1/sales/{sale}/orders"));
    crate::common::call(node.addr, "POST", &path, Some(&token), &[], None).await
}

fn found(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap_or_else(|_| panic!("{printed}"))
}

async fn what_redis_lost_is_found_and_given_back(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let sale = node
        .operate("/v1/sales", crate::common::sale(100))
        .await
        .text("id");
    let mut lost = 0;
    for n in 0..USERS {
        let reply = order(&node, &sale, &format!("u{n}")).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        lost = reply.json()["number"].as_u64().unwrap();
    }
    node.settled().await;
    node.stop();
    let user = format!("u{}", USERS - 1);
    let place = u64::from(node.partition(&sale));

    let (code, printed) = ledger.maintain(&["partition", "list"]);
    assert_eq!(
        (code, printed.matches("open").count()),
        (Some(0), 4),
        "{printed}"
    );
    let (code, printed) = ledger.maintain(&["reconcile"]);
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(printed, "0 differences, 0 in flight\n");

    node.remove_order(&sale, &user, lost);
    for _ in 0..2 {
        // A comparison changes nothing.
        let (code, printed) = ledger.maintain(&["reconcile", "--json"]);
        assert_eq!(code, Some(1), "{printed}");
        let found = found(&printed);
        let [difference] = &found["differences"].as_array().unwrap()[..] else {
            panic!("{printed}");
        };
        let expected = [
            ("kind", json!("missing_in_engine")),
            ("partition", json!(place)),
            ("campaign", json!(sale)),
            ("number", json!(lost)),
            ("user", json!(user)),
        ];
        for (field, value) in expected {
            assert_eq!(difference[field], value, "{field}: {printed}");
        }
    }
    assert!(ledger.actions().await.is_empty());
    let repair = ["reconcile", "--repair", "--json", "--as", "ann"];
    let (code, printed) = ledger.maintain(&repair);
    assert_eq!(
        (code, &found(&printed)["repaired"]),
        (Some(0), &json!([place])),
        "{printed}"
    );
    let (code, printed) = ledger.maintain(&["reconcile", "--json"]);
    assert_eq!(
        (code, &found(&printed)["differences"]),
        (Some(0), &json!([])),
        "{printed}"
    );
    let detail = json!({ "partition": place, "reconcile": true });
    let by_ann = ("ann".to_owned(), "repair", detail);
    assert_eq!(ledger.actions().await, [by_ann]);
    let number = place.to_string();
    let (code, printed) = ledger.maintain(&["partition", "inspect", &number]);
    assert!(
        code == Some(0) && printed.contains("rows restored"),
        "{printed}"
    );

    let mut node = Node::start_again(node, &ledger).await;
    let again = order(&node, &sale, &user).await;
    assert_eq!(
        (again.status, &again.json()["number"]),
        (200, &json!(lost)),
        "{again:?}"
    );
    let next = order(&node, &sale, "next").await;
    assert_eq!(
        (next.status, &next.json()["number"]),
        (201, &json!(USERS + 1)),
        "{next:?}"
    );
    node.settled().await;
    if ledger.is_file() {
        // Only one process can open a file.
        node.stop();
    }
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    what_redis_lost_is_found_and_given_back(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    what_redis_lost_is_found_and_given_back(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    what_redis_lost_is_found_and_given_back(LedgerKind::MariaDb).await;
}
