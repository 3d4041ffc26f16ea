//! Campaigns with rows changed by SQL: the program lists differences, and copies values from the side that the operator
//! names. Without a side, nothing is written.

use serde_json::{Value, json};

use super::{
    SHARE_MINOR,
    node::{LedgerKind, Node, TestLedger},
};

/// Changes by hand that a repair from either side ends, and the kind of difference of each.
pub(super) const CHANGES: [(&str, &str); 6] = [
    ("supply = supply + 50", "supply_differs"),
    ("unit_price = unit_price + 7", "price_differs"),
    ("ends_at = ends_at + 3600000", "window_differs"),
    ("per_user_limit = 3", "limit_differs"),
    ("phase = 'paused'", "phase_differs"),
    ("admission = 450", "admission_differs"),
];
/// Changes that only a repair from the engine ends, because no command changes these facts in an engine.
pub(super) const FIXED: [(&str, &str); 2] = [
    ("hold_ms = hold_ms + 60000", "hold_differs"),
    ("ack = 'ledger'", "ack_differs"),
];
/// Changes that no repair ends, of a sale and of a packet.
pub(super) const REFUSED: [(&str, &str); 2] = [
    ("terms_revision = 7", "terms_revision_differs"),
    ("total = total + supply", "total_differs"),
];
const STOCK: u32 = 100;
const SHARES: u32 = 4;

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

/// Sales with one order each.
async fn open(node: &Node, count: usize) -> Vec<String> {
    let mut sales = Vec::new();
    for _ in 0..count {
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
    let sales = open(&node, CHANGES.len()).await;
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

/// A packet with one granted share.
async fn open_packet(node: &Node) -> String {
    let total = i64::from(SHARES) * SHARE_MINOR;
    let deposit = node.operate("/v1/accounts/olga/deposits", crate::common::deposit(total));
    assert_eq!(deposit.await.status, 201);
    let packet = json!({
        "title": "p", "total": { "amount": total, "currency": "CNY" },
        "shares": SHARES, "split": { "rule": "equal" },
    });
    let packet = node.operate("/v1/red-packets", packet).await.text("id");
    let path = format!("/v1/red-packets/{packet}/claims");
    let token = super::node::token("ann", "claim");
    let share = crate::common::call(node.addr, "POST", &path, Some(&token), &[], None).await;
    assert_eq!(share.status, 201, "{share:?}");
    packet
}

/// Campaigns whose repair was refused, with the reasons.
fn refusals(found: &Value) -> Vec<(&str, &str)> {
    let rows = found["refused"].as_array().unwrap().iter();
    let pair = rows.map(|row| (row["campaign"].as_str(), row["reason"].as_str()));
    pair.map(|(campaign, reason)| (campaign.unwrap(), reason.unwrap()))
        .collect()
}

async fn what_no_command_changes_is_brought_to_the_ledger_alone(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let sales = open(&node, FIXED.len()).await;
    node.settled().await;
    node.stop();
    let mut expected = Vec::new();
    for (sale, (set, differs)) in sales.iter().zip(FIXED) {
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

    let repair = ["--repair", "--campaigns-from", "ledger", "--as", "ann"];
    let (code, found) = reconcile(&ledger, &repair);
    assert_eq!(
        (code, differences(&found)),
        (Some(1), expected),
        "{found:#}"
    );
    assert_eq!(found["repaired_campaigns"], json!([]), "{found:#}");
    for (sale, (_, differs)) in sales.iter().zip(FIXED) {
        let reason = format!("no command changes this in an engine: {differs}");
        let refused = refusals(&found);
        assert!(
            refused.contains(&(sale.as_str(), reason.as_str())),
            "{found:#}"
        );
    }

    let repair = ["--repair", "--campaigns-from", "engine", "--as", "ann"];
    let (code, found) = reconcile(&ledger, &repair);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
    let repaired = found["repaired_campaigns"].as_array().unwrap();
    assert_eq!(repaired.len(), FIXED.len(), "{found:#}");
    let mut node = Node::start_again(node, &ledger).await;
    node.settled().await;
    node.stop();
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
}

/// The repair writes no phase that only a close may set, no money of a packet and no other revision of the terms. An
/// unreadable row does not keep other campaigns from being compared.
async fn what_cannot_be_brought_over_is_refused(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let sales = open(&node, 4).await;
    let packet = open_packet(&node).await;
    node.settled().await;
    node.stop();
    ledger.run(&change(&sales[0], "phase = 'ended'"), 1).await;
    ledger
        .run(&change(&sales[1], "requirements = 'nonsense'"), 1)
        .await;
    ledger.run(&change(&sales[2], "supply = 120"), 1).await;
    let [(revision, revision_differs), (total, total_differs)] = REFUSED;
    ledger.run(&change(&sales[3], revision), 1).await;
    ledger.run(&change(&packet, total), 1).await;
    let mut expected = vec![
        (sales[0].clone(), "phase_differs".to_owned()),
        (sales[3].clone(), revision_differs.to_owned()),
        (packet.clone(), total_differs.to_owned()),
    ];
    expected.sort();
    for side in ["engine", "ledger"] {
        let repair = ["--repair", "--campaigns-from", side, "--as", "ann"];
        let (code, found) = reconcile(&ledger, &repair);
        assert_eq!(
            (code, differences(&found)),
            (Some(1), expected.clone()),
            "{found:#}"
        );
        let reasons = [
            (&sales[0], "only scheduled and paused are repaired"),
            (&sales[3], "one side lacks a change"),
            (&packet, "shares and money of a packet need postings"),
        ];
        let refused = refusals(&found);
        assert_eq!(refused.len(), reasons.len(), "{found:#}");
        for (campaign, reason) in reasons {
            let is_this = |it: &(&str, &str)| it.0 == campaign && it.1.contains(reason);
            assert!(refused.iter().any(is_this), "{reason}: {found:#}");
        }
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
    ledger
        .run(&change(&sales[3], "terms_revision = 0"), 1)
        .await;
    ledger
        .run(&change(&packet, "total = total - supply"), 1)
        .await;
    let (code, found) = reconcile(&ledger, &[]);
    assert_eq!((code, differences(&found)), (Some(0), vec![]), "{found:#}");
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
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
async fn what_no_command_changes_in_a_file() {
    what_no_command_changes_is_brought_to_the_ledger_alone(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_command_changes_in_postgres() {
    what_no_command_changes_is_brought_to_the_ledger_alone(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_command_changes_in_mariadb() {
    what_no_command_changes_is_brought_to_the_ledger_alone(LedgerKind::MariaDb).await;
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
    let sales = open(&node, CHANGES.len()).await;
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
