//! Differences of shares, of payments and of users with two grants, made by hand and repaired by the program. The audit
//! of ledger and Redis passes afterwards, and no account has changed.

use serde_json::{Value, json};

use super::{
    PRICE_MINOR, SHARE_MINOR,
    node::{LedgerKind, Node, TestLedger, token},
};
use crate::common::{call, paid};

const SHARES: u32 = 4;

async fn claim(node: &Node, path: &str, user: &str) -> u64 {
    let token = token(user, "claim");
    let reply = call(node.addr, "POST", path, Some(&token), &[], None).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["number"].as_u64().unwrap()
}

async fn sale(node: &Node, title: &str) -> (String, u64) {
    let mut sale = crate::common::sale(100);
    sale["title"] = json!(title);
    let sale = node.operate("/v1/sales", sale).await.text("id");
    let path = format!("/v1/sales/{sale}/orders");
    claim(node, &path, "first").await;
    let number = claim(node, &path, "ann").await;
    (sale, number)
}

async fn the_audit_holds_and_money_stays(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let total = json!({ "amount": i64::from(SHARES) * SHARE_MINOR, "currency": "CNY" });
    let mut packets = Vec::new();
    for rule in ["equal", "lazy"] {
        let deposit = node.operate(
            "/v1/accounts/olga/deposits",
            crate::common::deposit(i64::from(SHARES) * SHARE_MINOR),
        );
        assert_eq!(deposit.await.status, 201);
        let packet = json!({
            "title": rule, "total": total, "shares": SHARES, "split": { "rule": rule },
        });
        let packet = node.operate("/v1/red-packets", packet).await.text("id");
        let path = format!("/v1/red-packets/{packet}/claims");
        claim(&node, &path, "first").await;
        claim(&node, &path, "ann").await;
        packets.push(packet);
    }
    let (unpaid, number) = sale(&node, "its payment is lost").await;
    let path = format!("/v1/orders/{unpaid}-{number}/payment");
    let body = Some(paid("p-1", PRICE_MINOR));
    let shop = token("shop", "pay");
    let reply = call(node.addr, "POST", &path, Some(&shop), &[], body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let (double, doubled) = sale(&node, "its user has two numbers").await;
    node.settled().await;
    let balances = (node.balance("ann").await, node.balance("olga").await);
    node.stop();

    for packet in &packets {
        node.remove_user(packet, "ann");
    }
    let of = |sale: &str, number: u64| {
        format!(
            "WHERE number = {number} AND campaign = (SELECT ref FROM campaigns WHERE id = '{sale}')"
        )
    };
    let payment = format!("DELETE FROM payments {}", of(&unpaid, number));
    ledger.run(&payment, 1).await;
    let moved = format!("UPDATE orders SET number = 9 {}", of(&double, doubled));
    ledger.run(&moved, 1).await;

    let (code, printed) = ledger.maintain(&["reconcile", "--json"]);
    let found: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    let found = found["differences"].as_array().unwrap();
    let kinds = |campaign: &str| -> Vec<&str> {
        let of_campaign = found.iter().filter(|it| it["campaign"] == campaign);
        of_campaign.map(|it| it["kind"].as_str().unwrap()).collect()
    };
    for packet in &packets {
        assert_eq!(kinds(packet), ["missing_in_engine"], "{printed}");
    }
    assert_eq!(kinds(&unpaid), ["state_differs"], "{printed}");
    assert_eq!(kinds(&double), ["double", "double"], "{printed}");
    assert_eq!((code, found.len()), (Some(1), 5), "{printed}");
    let (code, printed) = ledger.maintain(&["reconcile", "--repair", "--as", "ann"]);
    assert_eq!(code, Some(0), "{printed}");

    let mut node = Node::start_again(node, &ledger).await;
    for packet in &packets {
        claim(&node, &format!("/v1/red-packets/{packet}/claims"), "next").await;
    }
    for sale in [&unpaid, &double] {
        claim(&node, &format!("/v1/sales/{sale}/orders"), "next").await;
    }
    node.settled().await;
    let found = (node.balance("ann").await, node.balance("olga").await);
    assert_eq!(found, balances);
    node.stop();
    let (code, printed) = ledger.maintain(&["reconcile"]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    the_audit_holds_and_money_stays(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    the_audit_holds_and_money_stays(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    the_audit_holds_and_money_stays(LedgerKind::MariaDb).await;
}
