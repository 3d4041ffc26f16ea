//! Campaigns with rows changed by SQL: the program lists differences, and copies values from the side that the operator
//! names. Without a side, nothing is written.

use serde_json::{Value, json};

use super::node::{LedgerKind, Node, TestLedger};

/// Changes by hand, and the kind of difference of each.
const CHANGES: [(&str, &str); 5] = [
    ("supply = supply + 50", "supply_differs"),
    ("unit_price = unit_price + 7", "price_differs"),
    ("ends_at = ends_at + 3600000", "window_differs"),
    ("per_user_limit = 3", "limit_differs"),
    ("phase = 'paused'", "phase_differs"),
];
const STOCK: u32 = 100;

fn change(id: &str, set: &str) -> String {
    format!("UPDATE campaigns SET {set} WHERE id = '{id}'")
}

fn reconcile(ledger: &TestLedger, args: &[&str]) -> (Option<i32>, Value) {
    let all = [&["reconcile", "--json"], args].concat();
    let (code, printed) = ledger.maintain(&all);
    let found = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    (code, found)
}

/// Kinds and campaigns that differ, in order.
fn differences(found: &Value) -> Vec<(String, String)> {
    let rows = found["campaign_differences"].as_array().unwrap();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let pair = |row: &Value| (text(row, "campaign"), text(row, "kind"));
    let mut pairs: Vec<_> = rows.iter().map(pair).collect();
    pairs.sort();
    pairs
}

/// A sale with an order for each change.
async fn open(node: &Node) -> Vec<String> {
    let mut sales = Vec::new();
    for _ in CHANGES {
        let sale = node.operate("/v1/sales", crate::common::sale(STOCK)).await;
        let sale = sale.text("id");
        let path = format!("/v1/sales/{sale}/orders");
        let token = super::node::token("ann", "claim");
        let order = crate::common::call(node.addr, "POST", &path, Some(&token), &[], None).await;
        assert_eq!(order.status, 201, "{order:?}");
        sales.push(sale);
    }
    sales
}

async fn what_was_changed_by_hand_is_brought_over(kind: LedgerKind, side: &str) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let sales = open(&node).await;
    node.settled().await;
    node.stop();
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");

    let mut expected = Vec::new();
    for (sale, (set, differs)) in sales.iter().zip(CHANGES) {
        ledger.run(&change(sale, set), 1).await;
        expected.push((sale.clone(), differs.to_owned()));
    }
    expected.sort();
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!(
        (code, differences(&found)),
        (Some(1), expected.clone()),
        "{found:#}"
    );
    assert_eq!(found["undecided"], json!([]));

    // A repair that names no side writes nothing.
    let (code, found) = reconcile(&ledger, &["--repair", "--as", "ann"]);
    assert_eq!(
        (code, differences(&found)),
        (Some(1), expected.clone()),
        "{found:#}"
    );
    assert_eq!(found["repaired_campaigns"], json!([]));
    assert_eq!(found["repaired"], json!([]));
    assert_ne!(found["undecided"], json!([]));
    let (_, printed) = ledger.maintain(&["reconcile", "--repair", "--as", "ann"]);
    assert!(
        printed.contains("choose the side that wins by --campaigns-from"),
        "{printed}"
    );
    assert_eq!(ledger.actions().await, []);

    let repair = ["--repair", "--campaigns-from", side, "--as", "ann"];
    let (code, found) = reconcile(&ledger, &repair);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
    let repaired = found["repaired_campaigns"].as_array().unwrap();
    assert_eq!(repaired.len(), CHANGES.len(), "{found:#}");
    // No process settles now.
    let by_ledger = side == "ledger";
    let pending = found["pending_campaigns"].as_array().unwrap().len();
    assert_eq!(pending, if by_ledger { CHANGES.len() } else { 0 });
    let raised = repaired.iter().find(|it| it["campaign"] == json!(sales[0]));
    let stock = if by_ledger { "stock 150" } else { "supply 100" };
    assert_eq!(raised.unwrap()["applied"], json!([stock]), "{found:#}");
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");

    let mut node = Node::start_again(node, &ledger).await;
    node.settled().await;
    let get = async |sale: &str| {
        let path = format!("/v1/sales/{sale}");
        let token = super::node::token("ann", "claim");
        let got = crate::common::call(node.addr, "GET", &path, Some(&token), &[], None).await;
        assert_eq!(got.status, 200, "{got:?}");
        got.json()
    };
    let stock = if by_ledger { STOCK + 50 } else { STOCK };
    assert_eq!(get(&sales[0]).await["stock"], json!(stock));
    let phase = if by_ledger { "paused" } else { "live" };
    assert_eq!(get(&sales[4]).await["state"]["phase"], json!(phase));
    if ledger.is_file() {
        node.stop();
    }
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
}

/// The repair writes no phase that only a close may set, and no stock below the granted units. An unreadable row does
/// not keep other campaigns from being compared.
async fn what_cannot_be_brought_over_is_refused(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let sales = open(&node).await;
    node.settled().await;
    node.stop();
    ledger.run(&change(&sales[0], "phase = 'ended'"), 1).await;
    ledger
        .run(&change(&sales[1], "requirements = 'nonsense'"), 1)
        .await;
    ledger.run(&change(&sales[2], "supply = 120"), 1).await;
    for side in ["engine", "ledger"] {
        let repair = ["--repair", "--campaigns-from", side, "--as", "ann"];
        let (code, found) = reconcile(&ledger, &repair);
        let ended = (sales[0].clone(), "phase_differs".to_owned());
        assert_eq!(
            (code, differences(&found)),
            (Some(1), vec![ended]),
            "{found:#}"
        );
        let refused = found["refused"].as_array().unwrap();
        assert_eq!(refused.len(), 1, "{found:#}");
        assert_eq!(refused[0]["campaign"], json!(sales[0]));
        let not_compared = found["not_compared"].as_array().unwrap();
        let unread = not_compared
            .iter()
            .filter(|it| it["campaign"] == json!(sales[1]));
        assert_eq!(unread.count(), 1, "{found:#}");
    }
    ledger
        .run(&change(&sales[0], "phase = 'scheduled'"), 1)
        .await;
    ledger.run(&change(&sales[1], "requirements = ''"), 1).await;
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_wins_in_a_file() {
    what_was_changed_by_hand_is_brought_over(LedgerKind::File, "engine").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_wins_in_a_file() {
    what_was_changed_by_hand_is_brought_over(LedgerKind::File, "ledger").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_wins_in_postgres() {
    what_was_changed_by_hand_is_brought_over(LedgerKind::Postgres, "engine").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_wins_in_postgres() {
    what_was_changed_by_hand_is_brought_over(LedgerKind::Postgres, "ledger").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_wins_in_mariadb() {
    what_was_changed_by_hand_is_brought_over(LedgerKind::MariaDb, "engine").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_wins_in_mariadb() {
    what_was_changed_by_hand_is_brought_over(LedgerKind::MariaDb, "ledger").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_in_postgres() {
    what_cannot_be_brought_over_is_refused(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_in_mariadb() {
    what_cannot_be_brought_over_is_refused(LedgerKind::MariaDb).await;
}

const SPREAD: [(&str, &str); 2] = [
    ("QIANG__REDIS__SHARD_SUPPLY_MIN", "2"),
    ("QIANG__REDIS__SHARDS_MAX", "3"),
];

/// A sale with several shards, beside a node that serves it and settles: the repair waits until the ledger has the
/// values.
async fn a_spread_sale_is_repaired(side: &str) {
    let ledger = TestLedger::new(LedgerKind::Postgres);
    let node = Node::start_with(&ledger, &SPREAD).await;
    let sales = open(&node).await;
    node.settled().await;
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
    let sale = &sales[0];
    ledger
        .run(&change(sale, "supply = 150, unit_price = 77"), 1)
        .await;
    let differ = ["price_differs", "supply_differs"];
    let expected: Vec<_> = differ.map(|kind| (sale.clone(), kind.to_owned())).into();
    let (code, found) = reconcile(&ledger, &[]);
    // The price of each other shard differs from the row.
    let mut kinds = differences(&found);
    kinds.dedup();
    assert_eq!((code, kinds), (Some(1), expected), "{found:#}");

    let repair = ["--repair", "--campaigns-from", side, "--as", "ann"];
    let (code, found) = reconcile(&ledger, &repair);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
    assert_eq!(found["pending_campaigns"], json!([]), "{found:#}");
    assert_eq!(found["refused"], json!([]), "{found:#}");
    let repaired = found["repaired_campaigns"].as_array().unwrap();
    assert_eq!(repaired.len(), 1, "{found:#}");
    let path = format!("/v1/sales/{sale}");
    let token = super::node::token("ann", "claim");
    let got = crate::common::call(node.addr, "GET", &path, Some(&token), &[], None).await;
    let (stock, price) = match side {
        "ledger" => (150, json!(77)),
        _ => (STOCK, got.json()["unit_price"]["amount"].clone()),
    };
    assert_eq!(got.json()["stock"], json!(stock));
    assert_eq!(got.json()["unit_price"]["amount"], price);
    assert_ne!(price, json!(0));
    let updated = format!(
        "UPDATE campaigns SET updated_at = updated_at WHERE supply = {stock} AND id = '{sale}'"
    );
    ledger.run(&updated, 1).await;
    node.settled().await;
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_wins_of_a_spread_sale() {
    a_spread_sale_is_repaired("engine").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_wins_of_a_spread_sale() {
    a_spread_sale_is_repaired("ledger").await;
}
