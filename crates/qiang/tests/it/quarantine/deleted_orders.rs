//! Rows of settled orders are deleted from the ledger by hand, one by one or as whole tables, and restored by the
//! program. Orders are as before, money has moved once, and the audit passes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    PRICE_MINOR,
    node::{LedgerKind, Node, TestLedger, token},
};
use crate::common::{Reply, call, paid};

/// Stock large enough for shards on all partitions.
const SPREAD: u32 = 2_000_000;
const EXPIRED_MAX: Duration = Duration::from_secs(30);

/// Life of an order up to its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Held,
    Paid,
    /// Paid, with a second payment that is a refund due.
    PaidTwice,
    Cancelled,
    /// Cancelled, with a payment that is a refund due.
    PaidLate,
    Expired,
    /// Expired, and reinstated by a payment because units were left.
    Reinstated,
    Returned,
}

/// Rows of an order that are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    Order,
    Payments,
    OrderAndPayments,
    /// Order, payments and postings.
    Whole,
}

use Life::{Cancelled, Expired, Held, PaidLate, PaidTwice, Reinstated, Returned};

/// Orders, each of a sale of its own.
const CASES: [(Life, Rows); 20] = [
    (Held, Rows::Order),
    (Life::Paid, Rows::Order),
    (Life::Paid, Rows::Payments),
    (Life::Paid, Rows::OrderAndPayments),
    (Life::Paid, Rows::Whole),
    (PaidTwice, Rows::Order),
    (PaidTwice, Rows::Payments),
    (PaidTwice, Rows::OrderAndPayments),
    (PaidTwice, Rows::Whole),
    (Cancelled, Rows::Order),
    (PaidLate, Rows::Order),
    (PaidLate, Rows::OrderAndPayments),
    (PaidLate, Rows::Whole),
    (Expired, Rows::Order),
    (Reinstated, Rows::Order),
    (Reinstated, Rows::Whole),
    (Returned, Rows::Order),
    (Returned, Rows::Payments),
    (Returned, Rows::OrderAndPayments),
    (Returned, Rows::Whole),
];

/// Kind of sale that has the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Sale,
    SpreadSale,
    ClosedSale,
}

pub(super) async fn post(
    node: &Node,
    path: &str,
    as_user: (&str, &str),
    body: Option<Value>,
) -> Reply {
    let token = token(as_user.0, as_user.1);
    call(node.addr, "POST", path, Some(&token), &[], body).await
}

async fn claim(node: &Node, sale: &str, user: &str) -> u64 {
    let path = format!("/v1/sales/{sale}/orders");
    let reply = post(node, &path, (user, "claim"), None).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["number"].as_u64().unwrap()
}

pub(super) async fn pay(node: &Node, order: &str, reference: &str) -> String {
    let path = format!("/v1/orders/{order}/payment");
    let payment = Some(paid(reference, PRICE_MINOR));
    let reply = post(node, &path, ("shop", "pay"), payment).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["outcome"].as_str().unwrap().to_owned()
}

/// Returns an order, and gives the reply.
async fn give_back(node: &Node, order: &str) -> Reply {
    node.operate(&format!("/v1/orders/{order}/return"), Value::Null)
        .await
}

async fn state(node: &Node, order: &str) -> String {
    let path = format!("/v1/orders/{order}");
    let token = token("olga", "admin read:any");
    let reply = call(node.addr, "GET", &path, Some(&token), &[], None).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["state"].as_str().unwrap().to_owned()
}

/// Refund due for an order.
pub(super) async fn owed(node: &Node, order: &str) -> i64 {
    let path = format!("/v1/orders/{order}/refunds");
    let token = token("olga", "pay admin read:any");
    let reply = call(node.addr, "GET", &path, Some(&token), &[], None).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["due"]["amount"].as_i64().unwrap()
}

/// An order after its life.
struct Order {
    life: Life,
    sale: String,
    number: u64,
    id: String,
    state: String,
    owed: i64,
}

impl Order {
    /// Opens a sale and leads its first order through `life`. A second order is held.
    async fn make(node: &Node, (life, place): (Life, Place)) -> Self {
        let mut sale = crate::common::sale(if place == Place::SpreadSale {
            SPREAD
        } else {
            100
        });
        sale["title"] = json!(format!("{life:?} {place:?}"));
        if matches!(life, Expired | Reinstated) {
            sale["hold_seconds"] = json!(1);
        }
        let sale = node.operate("/v1/sales", sale).await.text("id");
        let number = claim(node, &sale, "ann").await;
        let other = format!("{sale}-{}", claim(node, &sale, "bob").await);
        let id = format!("{sale}-{number}");
        match life {
            Held => {}
            Life::Paid | PaidTwice | Returned => {
                assert_eq!(pay(node, &id, &format!("{id}/1")).await, "paid");
            }
            Cancelled | PaidLate => {
                let path = format!("/v1/orders/{id}/cancellation");
                let reply = post(node, &path, ("ann", "claim"), None).await;
                assert_eq!(reply.status, 200, "{reply:?}");
            }
            Expired | Reinstated => {
                let began = Instant::now();
                for order in [&id, &other] {
                    while state(node, order).await != "expired" {
                        assert!(began.elapsed() < EXPIRED_MAX);
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        }
        if life == Reinstated {
            assert_eq!(pay(node, &id, &format!("{id}/1")).await, "reinstated");
        }
        if matches!(life, PaidTwice | PaidLate) {
            assert_eq!(pay(node, &id, &format!("{id}/2")).await, "refund_due");
        }
        if life == Returned {
            assert_eq!(give_back(node, &id).await.status, 200);
        }
        if place == Place::ClosedSale {
            let close = format!("/v1/campaigns/{sale}/close");
            assert_eq!(node.operate(&close, json!({})).await.status, 200);
        }
        Self {
            life,
            sale,
            number,
            state: state(node, &id).await,
            owed: 0,
            id,
        }
    }

    fn payments(&self) -> u64 {
        match self.life {
            Held | Cancelled | Expired => 0,
            Life::Paid | PaidLate | Reinstated | Returned => 1,
            PaidTwice => 2,
        }
    }

    async fn delete(&self, ledger: &TestLedger, rows: Rows) {
        let of = format!(
            "WHERE number = {} AND campaign = (SELECT ref FROM campaigns WHERE id = '{}')",
            self.number, self.sale
        );
        let delete = async |table: &str, count| {
            ledger
                .run(&format!("DELETE FROM {table} {of}"), count)
                .await;
        };
        if rows != Rows::Payments {
            delete("orders", 1).await;
        }
        if rows != Rows::Order {
            delete("payments", self.payments()).await;
        }
        if rows == Rows::Whole {
            let returns = u64::from(self.life == Returned);
            delete("postings", self.payments() + returns).await;
        }
    }

    /// Checks that the order is as before, that a repeated payment is a replay, and that a return owes the price once.
    async fn check(&self, node: &Node) {
        assert_eq!(state(node, &self.id).await, self.state, "{:?}", self.life);
        assert_eq!(owed(node, &self.id).await, self.owed, "{:?}", self.life);
        let reference = |n: u32| format!("{}/{n}", self.id);
        let balance = node.balance("olga").await;
        if matches!(self.life, Life::Paid | PaidTwice | Returned) {
            assert_eq!(pay(node, &self.id, &reference(1)).await, "paid");
        }
        if self.life == Reinstated {
            assert_eq!(pay(node, &self.id, &reference(1)).await, "reinstated");
        }
        if matches!(self.life, PaidTwice | PaidLate) {
            assert_eq!(pay(node, &self.id, &reference(2)).await, "refund_due");
        }
        node.settled().await;
        assert_eq!(owed(node, &self.id).await, self.owed, "{:?}", self.life);
        assert_eq!(node.balance("olga").await, balance, "{:?}", self.life);
        if matches!(self.life, Life::Paid | PaidTwice | Reinstated) {
            for _ in 0..2 {
                assert_eq!(give_back(node, &self.id).await.status, 200);
                node.settled().await;
                let due = self.owed + PRICE_MINOR;
                assert_eq!(owed(node, &self.id).await, due, "{:?}", self.life);
                assert_eq!(node.balance("olga").await, balance - PRICE_MINOR);
            }
        }
    }
}

/// Checks that the program finds this number of differences, repairs them, and then finds none.
pub(super) fn repair(ledger: &TestLedger, differences: usize) {
    let (code, printed) = ledger.maintain(&["reconcile", "--json"]);
    let found: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    let found = found["differences"].as_array().unwrap().len();
    assert_eq!((code, found), (Some(1), differences), "{printed}");
    let (code, printed) = ledger.maintain(&["reconcile", "--repair", "--as", "ann"]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = ledger.maintain(&["reconcile"]);
    assert_eq!(code, Some(0), "{printed}");
}

pub(super) fn audit(ledger: &TestLedger, node: &Node) {
    let (code, report) = ledger.audit(node);
    assert_eq!(code, Some(0), "{report:#}");
}

async fn deleted_rows_are_put_back(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let mut cases: Vec<_> = CASES.map(|(life, rows)| (life, Place::Sale, rows)).into();
    for place in [Place::SpreadSale, Place::ClosedSale] {
        for rows in [Rows::Order, Rows::OrderAndPayments, Rows::Whole] {
            cases.push((Life::Paid, place, rows));
        }
    }
    let mut orders = Vec::new();
    for (life, place, rows) in cases {
        orders.push((Order::make(&node, (life, place)).await, rows));
    }
    node.settled().await;
    for (order, _) in &mut orders {
        order.owed = owed(&node, &order.id).await;
    }
    let balance = node.balance("olga").await;
    node.stop();
    for (order, rows) in &orders {
        order.delete(&ledger, *rows).await;
    }
    repair(&ledger, orders.len());

    let mut node = Node::start_again(node, &ledger).await;
    node.settled().await;
    assert_eq!(node.balance("olga").await, balance);
    for (order, _) in &orders {
        order.check(&node).await;
    }
    node.settled().await;
    node.stop();
    audit(&ledger, &node);
}

/// Empties whole tables: only orders, or also payments and postings.
async fn emptied_tables_are_filled_again(kind: LedgerKind) {
    const LIVES: [Life; 7] = [
        Held,
        Life::Paid,
        PaidTwice,
        Cancelled,
        PaidLate,
        Expired,
        Returned,
    ];
    for tables in [
        &["orders"][..],
        &["orders", "payments"],
        &["orders", "payments", "postings"],
        &["orders", "payments", "postings", "accounts"],
    ] {
        println!("{tables:?}");
        let ledger = TestLedger::new(kind);
        let mut node = Node::start(&ledger).await;
        let mut orders = Vec::new();
        for life in LIVES {
            orders.push(Order::make(&node, (life, Place::Sale)).await);
        }
        node.settled().await;
        for order in &mut orders {
            order.owed = owed(&node, &order.id).await;
        }
        let balance = node.balance("olga").await;
        node.stop();
        for table in tables {
            ledger.run_any(&format!("DELETE FROM {table}")).await;
        }
        repair(&ledger, 2 * LIVES.len());

        let mut node = Node::start_again(node, &ledger).await;
        node.settled().await;
        assert_eq!(node.balance("olga").await, balance);
        for order in &orders {
            order.check(&node).await;
        }
        node.settled().await;
        node.stop();
        audit(&ledger, &node);
    }
}

/// The seller has withdrawn some of what was paid, or exactly what one or all orders were paid with. If all postings
/// are deleted and those of orders restored, the balance stays: the restored postings move none of their accounts, not
/// even if the deleted ones add up to nothing.
async fn withdrawn_money_does_not_return(kind: LedgerKind) {
    for minor in [200, PRICE_MINOR, 2 * PRICE_MINOR] {
        withdrawn_sum_does_not_return(kind, minor).await;
    }
}

async fn withdrawn_sum_does_not_return(kind: LedgerKind, minor: i64) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    for life in [Life::Paid, Life::Paid, Returned] {
        Order::make(&node, (life, Place::Sale)).await;
    }
    node.settled().await;
    let balance = node.balance("olga").await;
    let body = json!({ "reference": "w-1", "amount": minor, "currency": "CNY" });
    let withdrawn = node.operate("/v1/accounts/olga/withdrawals", body).await;
    assert_eq!(
        (balance > 0, withdrawn.status),
        (true, 201),
        "{withdrawn:?}"
    );
    node.stop();
    for table in ["orders", "payments", "payouts", "postings"] {
        ledger.run_any(&format!("DELETE FROM {table}")).await;
    }
    repair(&ledger, 6);
    let mut node = Node::start_again(node, &ledger).await;
    node.settled().await;
    assert_eq!(node.balance("olga").await, balance - minor, "{minor}");
    node.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_money_in_a_file() {
    withdrawn_money_does_not_return(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_money_in_postgres() {
    withdrawn_money_does_not_return(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn withdrawn_money_in_mariadb() {
    withdrawn_money_does_not_return(LedgerKind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    deleted_rows_are_put_back(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    deleted_rows_are_put_back(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    deleted_rows_are_put_back(LedgerKind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_file() {
    emptied_tables_are_filled_again(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_in_postgres() {
    emptied_tables_are_filled_again(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_in_mariadb() {
    emptied_tables_are_filled_again(LedgerKind::MariaDb).await;
}
