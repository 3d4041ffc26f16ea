//! A grant that the ledger refuses is discarded while nodes are killed. Its units are sold again, its payments become
//! refunds due, and entries that waited for it are settled.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use qiang_core::{
    book,
    event::PartitionId,
    ports::{
        ActionStore as _, CampaignStore as _, Engine as _, EventLog as _, SettlementStore as _,
        THE_SERVICE,
    },
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    PRICE_MINOR, entries, list,
    node::{LedgerKind, Node, TestLedger, token},
};

const STOCK: u32 = 3;
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Lifetimes of the nodes that are killed one after another.
const LIVES_MS: [u64; 4] = [200, 450, 700, 950];

async fn post(node: &Node, user: &str, path: &str, body: Option<Value>) -> crate::common::Reply {
    let token = token(user, "claim admin");
    crate::common::call(node.addr, "POST", path, Some(&token), &[], body).await
}

/// SQL that changes the number of an order in the ledger.
fn renumber(sale: &str, from: u32, to: u32) -> String {
    format!(
        "UPDATE orders SET number = {to} \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = '{sale}') AND number = {from}"
    )
}

fn discard(ledger: &TestLedger, place: (u64, u64)) -> (Option<i32>, Value) {
    let (partition, seq) = (place.0.to_string(), place.1.to_string());
    let output = ledger.qiang(&["quarantine", "discard", &partition, &seq, "--json"]);
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

async fn a_refused_grant_is_sold_again(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let sale = node.operate("/v1/sales", crate::common::sale(STOCK)).await;
    let sale = sale.text("id");
    let orders = format!("/v1/sales/{sale}/orders");
    assert_eq!(post(&node, "u1", &orders, None).await.status, 201);
    node.settled().await;

    // The ledger has the first order under the number of the second.
    ledger.run(&renumber(&sale, 1, 2), 1).await;
    let lost = post(&node, "u2", &orders, None).await;
    assert_eq!(lost.status, 201, "{lost:?}");
    let lost = lost.text("id");
    let pay = format!("/v1/orders/{lost}/payment");
    let payment = json!({ "reference": "p-2", "amount": crate::common::sale(STOCK)["unit_price"] });
    let paid = post(&node, "u2", &pay, Some(payment)).await;
    assert_eq!(paid.status, 200, "{paid:?}");
    assert_eq!(post(&node, "u3", &orders, None).await.status, 201);
    let refused = post(&node, "u4", &orders, None).await;
    assert!(refused.status >= 400, "it is sold out: {refused:?}");
    node.settled().await;
    node.counts(1, 1).await;
    if ledger.is_file() {
        node.stop();
    }
    let quarantined = entries(&list(&ledger, &[]));
    let place = |n: usize| (quarantined[n].0, quarantined[n].1);
    assert!(
        quarantined[0].2.starts_with("granted 2 u2 "),
        "{quarantined:?}"
    );

    // A payment alone cannot be discarded, and its grant can be discarded once.
    let (code, report) = discard(&ledger, place(1));
    assert_eq!((code, &report["asked"]), (Some(1), &json!([])), "{report}");
    let (code, report) = discard(&ledger, place(0));
    assert_eq!((code, &report["left"]), (Some(0), &json!([])), "{report}");
    // A repeated request changes nothing. A node beside a database may have executed it by now.
    let (code, report) = discard(&ledger, place(0));
    let is_done = report["left"][0]["why"] == "not quarantined" && !ledger.is_file();
    let left = report["left"].as_array().map(Vec::len);
    assert_eq!(
        (code, left),
        (Some(is_done.into()), Some(is_done.into())),
        "{report}"
    );
    ledger.run(&renumber(&sale, 2, 1), 1).await;

    // Nodes are killed while they execute it.
    for life_ms in LIVES_MS {
        node = Node::start_again(node, &ledger).await;
        tokio::time::sleep(Duration::from_millis(life_ms)).await;
        node.stop();
    }
    node = Node::start_again(node, &ledger).await;
    node.counts(0, 0).await;

    let order = format!("/v1/orders/{lost}");
    let buyer = token("u2", "claim");
    let order = crate::common::call(node.addr, "GET", &order, Some(&buyer), &[], None).await;
    assert_eq!(order.text("state"), "returned");
    // The counts above may be those of before the first look: the discard may not be carried out yet.
    let started = Instant::now();
    loop {
        let account = "/v1/accounts/u2";
        let account = crate::common::call(node.addr, "GET", account, Some(&buyer), &[], None).await;
        let due = &account.json()["balances"][0]["refunds_due"]["amount"];
        if *due == json!(PRICE_MINOR) {
            break;
        }
        assert!(started.elapsed() < WAIT_MAX, "{account:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // One unit is restocked, and one of two users gets it.
    let mut sold = 0;
    let started = Instant::now();
    for user in ["u4", "u5"] {
        let reply = loop {
            let reply = post(&node, user, &orders, None).await;
            let gone = sold == 1 || started.elapsed() > WAIT_MAX;
            if reply.status == 201 || gone {
                break reply;
            }
        };
        sold += u32::from(reply.status == 201);
    }
    assert_eq!(sold, 1);
    node.settled().await;
    node.counts(0, 0).await;
    node.stop();
    let (code, printed) = ledger.maintain(&["reconcile"]);
    assert_eq!(
        (code, printed.as_str()),
        (Some(0), "0 differences, 0 in flight\n")
    );
    assert_eq!(list(&ledger, &[])["data"], json!([]));
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    a_refused_grant_is_sold_again(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    a_refused_grant_is_sold_again(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    a_refused_grant_is_sold_again(LedgerKind::MariaDb).await;
}

async fn settled(embedded: &Embedded) {
    let head = embedded.head(PartitionId(0)).await.unwrap();
    let settled = embedded.await_settled(PartitionId(0), head, WAIT_MAX);
    assert_eq!(settled.await, Ok(true));
}

fn run(path: &Path, sql: &str) {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.busy_timeout(WAIT_MAX).unwrap();
    assert_eq!(conn.execute(sql, []).unwrap(), 1, "{sql}");
}

/// Discards by hand in an engine's own file, while no node serves it. One of two refused orders was held. The other has
/// expired, and its units were sold again already.
#[tokio::test(flavor = "multi_thread")]
async fn in_the_file_of_an_engine() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    let embedded = Embedded::open(&path, ManualClock::new(OPENS)).unwrap();
    let setup = sale(2).setup(1);
    let target = Target::of(&setup);
    embedded.create(&setup).await.unwrap();
    embedded
        .submit(book::Command::Open(Box::new(setup)))
        .await
        .unwrap();
    // The campaign's row has no stock left: the ledger refuses every grant.
    let full = "UPDATE campaigns SET granted = supply";
    settled(&embedded).await;
    run(&path, full);
    let claim = async |user: &str| embedded.claim(target.one(user)).await.unwrap().outcome;
    let first = claim("u1").await.grant().unwrap().order_id();
    settled(&embedded).await;
    claim("u2").await.grant().unwrap();
    settled(&embedded).await;
    run(&path, "UPDATE campaigns SET granted = 0");
    embedded
        .submit(book::Command::Cancel {
            order: first,
            part: None,
        })
        .await
        .unwrap();
    claim("u3").await.grant().unwrap();
    settled(&embedded).await;
    embedded.close();

    let qiang = |args: &[&str]| {
        let data = ["--data", path.to_str().unwrap()];
        let quiet = [("QIANG__LOG__LEVEL", "off"), ("USER", "ann")];
        let output = crate::common::output(folder.path(), &[args, &data].concat(), &quiet);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
        (output.status.code(), text)
    };
    let (_, listed) = qiang(&["quarantine", "list"]);
    assert_eq!(
        listed.lines().count(),
        5,
        "two refused, two that wait: {listed}"
    );
    for _ in 0..2 {
        let (code, text) = qiang(&["quarantine", "discard", "0", "2", "0", "3"]);
        assert_eq!(
            (code, text.matches("is being discarded").count()),
            (Some(0), 2)
        );
    }
    let (_, listed) = qiang(&["quarantine", "list"]);
    assert_eq!(listed.matches("is being discarded").count(), 2, "{listed}");
    let (code, text) = qiang(&["reconciler", "run", "discards", "--dry-run"]);
    assert_eq!(code, Some(1));
    assert!(text.ends_with("discards: 2 found, 0 done\n"), "{text}");
    let (code, text) = qiang(&["reconciler", "run", "discards"]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "discards: 2 found, 2 done\n")
    );
    let (_, listed) = qiang(&["quarantine", "list"]);
    assert_eq!(listed, "nothing is quarantined\n");
    let embedded = Embedded::open(&path, ManualClock::new(OPENS)).unwrap();
    let actions = embedded.actions(THE_SERVICE, None, 100).await.unwrap();
    embedded.close();
    let mut done: Vec<_> = actions
        .iter()
        .map(|it| (it.kind.name(), it.detail.as_str()))
        .collect();
    // Actions of one millisecond have no order.
    done.sort_unstable();
    let (first, second) = (r#"{"entry":"0-2"}"#, r#"{"entry":"0-3"}"#);
    let expected = [
        ("discard", first),
        ("discard", first),
        ("discard", second),
        ("discard", second),
        ("run", r#"{"reconciler":"discards"}"#),
    ];
    assert_eq!(done, expected);
    assert!(actions.iter().all(|it| it.actor.as_str() == "cli:ann"));
    let db = path.to_str().unwrap();
    let report = crate::common::output(folder.path(), &["audit", "--db", db], &[]);
    assert!(report.status.success(), "{report:?}");

    // One unit is left, and the buyer of a discarded order may buy it.
    let embedded = Embedded::open(&path, ManualClock::new(OPENS)).unwrap();
    let claim = async |user: &str| embedded.claim(target.one(user)).await.unwrap().outcome;
    assert!(claim("u2").await.grant().is_some());
    assert_eq!(claim("u4").await.name(), "sold_out");
    settled(&embedded).await;
    embedded.close();
    let report = crate::common::output(folder.path(), &["audit", "--db", db], &[]);
    assert!(report.status.success(), "{report:?}");
}
