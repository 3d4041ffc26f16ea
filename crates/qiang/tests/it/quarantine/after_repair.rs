//! Every kind of difference of orders and their users at once, made by hand in the ledger's rows and in Redis, and
//! repaired by the program. The audit of the ledger beside Redis passes afterwards.

use qiang_core::reconcile::DifferenceKind;
use serde_json::{Value, json};

use super::node::{LedgerKind, Node, TestLedger, token};

/// Orders of each sale. User n has order n.
const ORDERS: u64 = 6;
/// The order that is changed.
const CHANGED: u64 = 3;
/// Stock large enough for shards on all partitions.
const SPREAD: u32 = 2_000_000;

/// Change of an order. Each change has a sale of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Its row in the ledger is deleted.
    Deleted,
    /// The row is deleted, of a sale with several shards.
    DeletedOfSpread,
    /// The row is deleted, of a closed sale.
    DeletedOfClosed,
    /// The ledger has it in this final state.
    Ended(&'static str),
    /// The ledger has one unit more.
    Grown,
    /// The ledger has it for another user.
    Moved,
    /// Redis does not have it.
    Lost,
    /// Redis has it as cancelled.
    CancelledInRedis,
    /// Redis has one unit more.
    GrownInRedis,
    /// Redis counts no unit for its user, who may buy these units again.
    Uncounted,
}

pub(super) const CHANGES: [Change; 11] = [
    Change::Deleted,
    Change::DeletedOfSpread,
    Change::DeletedOfClosed,
    Change::Ended("cancelled"),
    Change::Ended("expired"),
    Change::Grown,
    Change::Moved,
    Change::Lost,
    Change::CancelledInRedis,
    Change::GrownInRedis,
    Change::Uncounted,
];

async fn order(node: &Node, sale: &str, user: &str) -> u64 {
    let (token, path) = (token(user, "claim"), format!("/v1/sales/{sale}/orders"));
    let reply = crate::common::call(node.addr, "POST", &path, Some(&token), &[], None).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["number"].as_u64().unwrap()
}

impl Change {
    /// Kind of its difference.
    pub(super) fn kind(self) -> DifferenceKind {
        match self {
            Self::Deleted | Self::DeletedOfSpread | Self::DeletedOfClosed => {
                DifferenceKind::MissingInLedger
            }
            Self::Ended(_) | Self::CancelledInRedis => DifferenceKind::StateDiffers,
            Self::Grown | Self::GrownInRedis => DifferenceKind::AmountDiffers,
            Self::Moved => DifferenceKind::Double,
            Self::Lost => DifferenceKind::MissingInEngine,
            Self::Uncounted => DifferenceKind::UserDiffers,
        }
    }

    async fn make(self, node: &Node, ledger: &TestLedger, kind: LedgerKind, sale: (&str, u64)) {
        let (id, number) = sale;
        let user = match kind {
            LedgerKind::MariaDb => "`user`",
            LedgerKind::File | LedgerKind::Postgres => "\"user\"",
        };
        let of = format!(
            "WHERE number = {number} AND campaign = (SELECT ref FROM campaigns WHERE id = '{id}')"
        );
        let sql = match self {
            Self::Deleted | Self::DeletedOfSpread | Self::DeletedOfClosed => {
                format!("DELETE FROM orders {of}")
            }
            // Time of the end of its hold.
            Self::Ended("expired") => {
                format!("UPDATE orders SET state = 'expired', updated_at = hold_until {of}")
            }
            Self::Ended(state) => format!("UPDATE orders SET state = '{state}' {of}"),
            Self::Grown => {
                format!("UPDATE orders SET quantity = 2, amount = 2 * amount {of}")
            }
            Self::Moved => format!("UPDATE orders SET {user} = 'other' {of}"),
            Self::Lost => return node.remove_order(id, &format!("u{CHANGED}"), number),
            Self::CancelledInRedis => return node.change_order(id, number, &[(0, "c")]),
            Self::GrownInRedis => return node.change_order(id, number, &[(3, "2")]),
            Self::Uncounted => return node.change_user(id, &format!("u{CHANGED}"), &[(0, "0")]),
        };
        ledger.run(&sql, 1).await;
    }
}

async fn the_audit_holds_after_every_repair(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let mut sales = Vec::new();
    for change in CHANGES {
        let stock = match change {
            Change::DeletedOfSpread => SPREAD,
            _ => 100,
        };
        let mut sale = crate::common::sale(stock);
        sale["per_user_limit"] = json!(2);
        sale["title"] = json!(format!("{change:?}"));
        let sale = node.operate("/v1/sales", sale).await.text("id");
        let mut changed = 0;
        for n in 1..=ORDERS {
            let number = order(&node, &sale, &format!("u{n}")).await;
            if n == CHANGED {
                changed = number;
            }
        }
        if change == Change::DeletedOfClosed {
            let close = format!("/v1/campaigns/{sale}/close");
            let closed = node.operate(&close, json!({})).await;
            assert_eq!(closed.status, 200, "{closed:?}");
        }
        sales.push((change, sale, changed));
    }
    node.settled().await;
    node.stop();
    for (change, sale, number) in &sales {
        change.make(&node, &ledger, kind, (sale, *number)).await;
    }

    let (code, printed) = ledger.maintain(&["reconcile", "--json"]);
    let found: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    let found = found["differences"].as_array().unwrap();
    for (change, sale, number) in &sales {
        let kind = json!(change.kind().name());
        let same = |it: &&Value| {
            it["campaign"] == json!(sale) && it["number"] == json!(number) && it["kind"] == kind
        };
        assert_eq!(
            found.iter().filter(same).count(),
            1,
            "{change:?}: {printed}"
        );
    }
    assert_eq!((code, found.len()), (Some(1), sales.len()), "{printed}");
    let (code, printed) = ledger.maintain(&["reconcile", "--repair", "--as", "ann"]);
    assert_eq!(code, Some(0), "{printed}");

    // Appended entries are settled, and each sale continues.
    let mut node = Node::start_again(node, &ledger).await;
    for (change, sale, _) in &sales {
        if *change != Change::DeletedOfClosed {
            order(&node, sale, "next").await;
        }
    }
    node.settled().await;
    node.stop();
    let (code, printed) = ledger.maintain(&["reconcile"]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    the_audit_holds_after_every_repair(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    the_audit_holds_after_every_repair(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    the_audit_holds_after_every_repair(LedgerKind::MariaDb).await;
}
