//! Rows of orders with partial returns are deleted from the ledger by hand, and restored by the program.

use serde_json::json;

use super::{
    PRICE_MINOR,
    deleted_orders::{audit, owed, post, repair},
    node::{LedgerKind, Node, TestLedger, token},
};
use crate::common::{call, paid};

/// An order of three units in a sale of nine.
struct Order {
    sale: String,
    id: String,
}

impl Order {
    async fn buy(node: &Node) -> Self {
        let mut sale = crate::common::sale(9);
        sale["per_user_limit"] = json!(3);
        let sale = node.operate("/v1/sales", sale).await.text("id");
        let claim = Some(json!({ "quantity": 3 }));
        let orders = format!("/v1/sales/{sale}/orders");
        let order = post(node, &orders, ("ann", "claim"), claim).await;
        let id = order.text("id");
        Self { sale, id }
    }

    /// Reports a payment of the price.
    async fn pay(&self, node: &Node, reference: &str, outcome: &str) {
        let payment = Some(paid(reference, 3 * PRICE_MINOR));
        let path = format!("/v1/orders/{}/payment", self.id);
        let reply = post(node, &path, ("shop", "pay"), payment).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["outcome"], json!(outcome));
    }

    /// Returns one unit. Gives the number of returned units.
    async fn give_back(&self, node: &Node, key: &str) -> u64 {
        let path = format!("/v1/orders/{}/return", self.id);
        let (token, key) = (token("olga", "admin"), ("Idempotency-Key", key));
        let body = Some(json!({ "quantity": 1 }));
        let reply = call(node.addr, "POST", &path, Some(&token), &[key], body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["returned_quantity"].as_u64().unwrap()
    }
}

/// Two of three units of an order were returned. If the rows of these returns are deleted, they are put back, and
/// nothing is returned again.
async fn deleted_returns_are_put_back(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let order = Order::buy(&node).await;
    order.pay(&node, "p", "paid").await;
    for (key, units) in [("r-1", 1), ("r-2", 2)] {
        assert_eq!(order.give_back(&node, key).await, units);
    }
    let check = async |node: &Node, units: i64| {
        node.settled().await;
        assert_eq!(owed(node, &order.id).await, units * PRICE_MINOR);
        assert_eq!(node.balance("olga").await, (3 - units) * PRICE_MINOR);
        let path = format!("/v1/campaigns/{}/state", order.sale);
        let state = call(node.addr, "GET", &path, None, &[], None).await.json();
        assert_eq!(state["remaining"], json!(6 + units));
    };
    check(&node, 2).await;
    for deleted in [
        "DELETE FROM order_returns WHERE quantity = 1",
        "DELETE FROM idempotency_keys",
    ] {
        ledger.run_any(deleted).await;
    }
    node.stop();
    repair(&ledger, 1);
    audit(&ledger, &node);
    let mut node = Node::start_again(node, &ledger).await;
    check(&node, 2).await;
    for (key, units) in [("r-1", 2), ("r-2", 2), ("r-3", 3)] {
        assert_eq!(order.give_back(&node, key).await, units, "{key}");
    }
    check(&node, 3).await;
    node.stop();
    audit(&ledger, &node);
}

/// An order was paid twice, and one unit or all three were returned. If the rows of its payments are deleted, they are
/// restored, and no refund is due twice.
async fn deleted_payments_are_put_back(kind: LedgerKind) {
    for (returns, deleted) in [
        (1, "DELETE FROM payments WHERE outcome = 'refund_due'"),
        (1, "DELETE FROM payments"),
        (3, "DELETE FROM payments"),
    ] {
        println!("{returns}: {deleted}");
        let ledger = TestLedger::new(kind);
        let mut node = Node::start(&ledger).await;
        let order = Order::buy(&node).await;
        order.pay(&node, "p", "paid").await;
        order.pay(&node, "q", "refund_due").await;
        for n in 1..=returns {
            assert_eq!(order.give_back(&node, &format!("r-{n}")).await, n);
        }
        node.settled().await;
        let before = (owed(&node, &order.id).await, node.balance("olga").await);
        let due = i64::try_from(3 + returns).unwrap() * PRICE_MINOR;
        assert_eq!(before.0, due);
        node.stop();
        ledger.run_any(deleted).await;
        repair(&ledger, 1);
        audit(&ledger, &node);
        let mut node = Node::start_again(node, &ledger).await;
        order.pay(&node, "q", "refund_due").await;
        node.settled().await;
        let after = (owed(&node, &order.id).await, node.balance("olga").await);
        assert_eq!(after, before);
        node.stop();
        audit(&ledger, &node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_in_a_file() {
    deleted_payments_are_put_back(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_in_postgres() {
    deleted_payments_are_put_back(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_in_mariadb() {
    deleted_payments_are_put_back(LedgerKind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_in_a_file() {
    deleted_returns_are_put_back(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_in_postgres() {
    deleted_returns_are_put_back(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_in_mariadb() {
    deleted_returns_are_put_back(LedgerKind::MariaDb).await;
}
