//! Entries that the ledger refuses, from end to end. A node on Redis is under load, rows of the ledger are changed by
//! hand, and an entry is written into a log by hand. All other entries are settled. The program counts and lists
//! refused entries. It settles them after the rows are corrected, or discards them. Then the audit finds no fault.

mod after_money_repair;
mod after_repair;
mod by_hand;
mod deleted_orders;
mod deleted_returns;
mod deleted_shares;
mod discard;
mod engine_file;
mod kinds;
mod node;
mod reconcile;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use qiang_worker::settlement::REFUSED_MAX;
use serde_json::{Value, json};

use self::node::{Node, TestLedger, token};

/// Numbers of users: the first half, and all.
const EARLY: u32 = 40;
const USERS: u32 = 80;
/// Minor units of one share of the packet.
const SHARE_MINOR: i64 = 10;
/// Price of one unit of a sale, in minor units.
const PRICE_MINOR: i64 = 500;
/// A share that is not granted yet and is hidden from the ledger's table.
const HIDDEN_SHARE: u32 = EARLY + 7;
/// Offset that is added to a number to hide its row.
const AWAY: u32 = 1_000_000;
/// Bound of the wait for new counts.
const COUNTED_MAX: Duration = Duration::from_secs(60);
/// Id under which a campaign is hidden.
const ELSEWHERE: &str = "00000000-0000-7000-8000-000000000000";

fn hide_number(table: &str, campaign: &str, number: u32) -> String {
    format!(
        "UPDATE {table} SET number = number + {AWAY} \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = '{campaign}') AND number = {number}"
    )
}

fn mend_numbers(table: &str) -> String {
    format!("UPDATE {table} SET number = number - {AWAY} WHERE number > {AWAY}")
}

fn rename(from: &str, to: &str) -> String {
    format!("UPDATE campaigns SET id = '{to}' WHERE id = '{from}'")
}

/// The packet, the sale with a hidden first order, and the hidden sale.
struct Campaigns {
    packet: String,
    sale: String,
    lost: String,
}

impl Campaigns {
    async fn open(node: &Node) -> Self {
        let supply = USERS + 20;
        let total = i64::from(supply) * SHARE_MINOR;
        let money = json!({ "amount": total, "currency": "CNY" });
        let deposit = node.operate("/v1/accounts/olga/deposits", crate::common::deposit(total));
        assert_eq!(deposit.await.status, 201);
        let packet = json!({
            "title": "p", "total": money, "shares": supply, "split": { "rule": "equal" },
        });
        let sale = crate::common::sale(supply);
        Self {
            packet: node.operate("/v1/red-packets", packet).await.text("id"),
            sale: node.operate("/v1/sales", sale.clone()).await.text("id"),
            lost: node.operate("/v1/sales", sale).await.text("id"),
        }
    }

    /// All `users` claim in all three campaigns, several at a time. Returns the users' shares of the packet.
    async fn load(&self, node: &Node, users: std::ops::Range<u32>) -> BTreeMap<u64, String> {
        let mut claims = tokio::task::JoinSet::new();
        let lanes = 8;
        for lane in 0..lanes {
            let users = users.clone().filter(move |n| n % lanes == lane);
            let (addr, users) = (node.addr, users.collect::<Vec<_>>());
            let paths = [
                format!("/v1/red-packets/{}/claims", self.packet),
                format!("/v1/sales/{}/orders", self.sale),
                format!("/v1/sales/{}/orders", self.lost),
            ];
            claims.spawn(async move {
                let mut shares = Vec::new();
                for user in users.into_iter().map(|n| format!("u{n}")) {
                    for path in &paths {
                        let token = token(&user, "claim");
                        let reply =
                            crate::common::call(addr, "POST", path, Some(&token), &[], None).await;
                        assert_eq!(reply.status, 201, "{path}: {reply:?}");
                        if path == &paths[0] {
                            let number = reply.json()["number"].as_u64().unwrap();
                            shares.push((number, user.clone()));
                        }
                    }
                }
                shares
            });
        }
        claims.join_all().await.into_iter().flatten().collect()
    }
}

fn entries(listed: &Value) -> Vec<(u64, u64, String, Option<u64>)> {
    let entry = |entry: &Value| {
        (
            entry["partition"].as_u64().unwrap(),
            entry["seq"].as_u64().unwrap(),
            entry["event"].as_str().unwrap().to_owned(),
            entry["waits_for"].as_u64(),
        )
    };
    listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(entry)
        .collect()
}

async fn what_the_ledger_refuses_is_quarantined_and_settled_later(kind: node::LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start(&ledger).await;
    let campaigns = Campaigns::open(&node).await;
    campaigns.load(&node, 0..EARLY).await;
    node.settled().await;

    ledger
        .run(&hide_number("shares", &campaigns.packet, HIDDEN_SHARE), 1)
        .await;
    ledger
        .run(&hide_number("orders", &campaigns.sale, 1), 1)
        .await;
    ledger.run(&rename(&campaigns.lost, ELSEWHERE), 1).await;
    let (shares, poison) = tokio::join!(campaigns.load(&node, EARLY..USERS), async {
        node.poison(&campaigns.sale, "paid 1 by-hand")
    });
    let close = format!("/v1/campaigns/{}/close", campaigns.packet);
    assert_eq!(node.operate(&close, Value::Null).await.status, 200);

    // All logs are settled, and every user but one has a share of the packet.
    node.settled().await;
    let (refused, waiting) = (3, u64::from(USERS - EARLY));
    node.counts(refused, waiting).await;
    let ready = node.ready().await;
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["settlement_stuck"], Value::Null);
    let quarantine = json!({ "refused": refused, "waiting": waiting });
    assert_eq!(ready["quarantined_entries"], quarantine);
    let unlucky = &shares[&u64::from(HIDDEN_SHARE)];
    for user in shares.values() {
        let expected = if user == unlucky { 0 } else { SHARE_MINOR };
        assert_eq!(node.balance(user).await, expected, "{user}");
    }

    // A node lists entries over HTTP, even beside another process on the file. It settles none before the repair.
    let asked = async |method: &str, path: &str| {
        let token = token("olga", "admin");
        crate::common::call(node.addr, method, path, Some(&token), &[], None).await
    };
    let over_http = asked("GET", "/v1/quarantine").await.json();
    let over_http = entries(&over_http);
    let (partition, seq) = poison;
    let redrive_poison = format!("/v1/quarantine/{partition}-{seq}/redrive");
    let refused_again = asked("POST", &redrive_poison).await;
    refused_again.assert_problem(409, "still-refused");

    // Only one process can open a file.
    if ledger.is_file() {
        let busy = ledger.qiang(&["quarantine", "list"]);
        let text = String::from_utf8(busy.stderr).unwrap();
        assert_eq!(
            (busy.status.code(), text.lines().count()),
            (Some(1), 1),
            "{text}"
        );
        assert!(text.contains("another process is serving"), "{text}");
        node.stop();
    }
    let listed = list(&ledger, &[]);
    let quarantined = entries(&listed);
    assert_eq!(quarantined.len() as u64, refused + waiting, "{listed:#}");
    assert_eq!(over_http, quarantined);
    let mut refusals: Vec<_> = quarantined
        .iter()
        .filter(|entry| entry.3.is_none())
        .collect();
    refusals.sort_by_key(|entry| entry.2.clone());
    let share = format!("granted {HIDDEN_SHARE} {unlucky} 1 {SHARE_MINOR}");
    let lost = format!("granted {} ", EARLY + 1);
    assert!(refusals[0].2.starts_with(&lost), "{refusals:?}");
    assert_eq!(refusals[1].2, share);
    assert_eq!((refusals[2].0, refusals[2].1), poison);
    assert_eq!(refusals[2].2, "paid 1 by-hand");
    let closed: Vec<_> = quarantined
        .iter()
        .filter(|entry| entry.2.starts_with("closed"))
        .collect();
    assert_eq!(closed.len(), 1);
    assert_eq!(
        closed[0].3,
        Some(refusals[1].1),
        "the close waits for the share"
    );
    let some = list(
        &ledger,
        &["--partition", &poison.0.to_string(), "--limit", "1"],
    );
    assert_eq!(entries(&some)[0].0, poison.0);
    let table = String::from_utf8(ledger.qiang(&["quarantine", "list"]).stdout).unwrap();
    assert!(
        table.contains(&share) && table.contains("waits for entry"),
        "{table}"
    );
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(1));
    assert_eq!(report["set_aside"], quarantine);

    // Before the rows are corrected, no entry is settled.
    let (code, driven) = redrive(&ledger, &["--all"]);
    assert_eq!(code, Some(1));
    assert_eq!(driven["settled"], json!([]));
    assert_eq!(driven["left"].as_array().unwrap().len(), quarantined.len());
    assert_eq!(entries(&list(&ledger, &[])), quarantined);

    ledger.run(&mend_numbers("shares"), 1).await;
    ledger.run(&mend_numbers("orders"), 1).await;
    ledger.run(&rename(ELSEWHERE, &campaigns.lost), 1).await;
    let place =
        |entry: &(u64, u64, String, Option<u64>)| [entry.0.to_string(), entry.1.to_string()];
    let places = [place(closed[0]), place(refusals[2])];
    let [partition, seq] = place(closed[0]);
    let (code, driven) = redrive(&ledger, &[&partition, &seq]);
    assert_eq!(
        (code, &driven["settled"]),
        (Some(1), &json!([])),
        "{driven}"
    );
    assert!(
        driven["left"][0]["why"]
            .as_str()
            .unwrap()
            .contains("waits for entry"),
        "{driven}"
    );
    let [partition, seq] = place(refusals[2]);
    let (code, driven) = redrive(&ledger, &[&partition, &seq]);
    assert_eq!(
        (code, &driven["settled"]),
        (Some(0), &json!([poison])),
        "{driven}"
    );
    let (code, driven) = redrive(&ledger, &["--all"]);
    assert_eq!((code, &driven["left"]), (Some(0), &json!([])), "{driven}");
    // A missing entry makes no action.
    let (code, _) = redrive(&ledger, &["0", "999999"]);
    assert_eq!(code, Some(1));
    let entry = |partition: &str, seq: &str| json!({ "entry": format!("{partition}-{seq}") });
    let one = places.map(|[partition, seq]| entry(&partition, &seq));
    let all = json!({ "all": true });
    // Redrives that settled nothing are not listed.
    let expected = [&one[1], &all].map(|it| ("cli:unknown".to_owned(), "redrive", it.clone()));
    let mut actions = ledger.actions().await;
    actions.retain(|(_, kind, _)| *kind == "redrive");
    assert_eq!(actions, expected);
    assert_eq!(
        driven["settled"].as_array().unwrap().len(),
        quarantined.len() - 1
    );
    let empty = ledger.qiang(&["quarantine", "list"]);
    assert_eq!(empty.stdout, b"nothing is quarantined\n");

    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
    if ledger.is_file() {
        node = Node::start_again(node, &ledger).await;
    }
    node.counts(0, 0).await;
    assert_eq!(node.ready().await["quarantined_entries"], Value::Null);
    assert_eq!(node.balance(unlucky).await, SHARE_MINOR);
    // The close returned the unclaimed money, and the seller has the payment that was written by hand.
    assert_eq!(node.balance("olga").await, 20 * SHARE_MINOR + PRICE_MINOR);
}

/// Grants at ack `ledger` follow each other until one takes less than this. If settlement waits for its timer, each
/// grant takes nearly 50 ms.
const TIMER_NEARLY: Duration = Duration::from_millis(35);
/// Bound of such grants on a busy machine.
const ASKING_MAX: u32 = 2_000;

/// A grant with a quarantined entry is never answered as settled, however often the claim is repeated. A grant that the
/// ledger accepts is answered without a pause.
async fn a_grant_in_quarantine_is_not_in_the_ledger(kind: node::LedgerKind) {
    let ledger = TestLedger::new(kind);
    let node = Node::start(&ledger).await;
    let shares = ASKING_MAX + 10;
    let money = json!({ "amount": i64::from(shares) * SHARE_MINOR, "currency": "CNY" });
    let deposit = node.operate(
        "/v1/accounts/olga/deposits",
        crate::common::deposit(i64::from(shares) * SHARE_MINOR),
    );
    assert_eq!(deposit.await.status, 201);
    let packet = json!({
        "title": "p", "total": money, "shares": shares, "split": { "rule": "equal" }, "ack": "ledger",
    });
    let packet = node.operate("/v1/red-packets", packet).await.text("id");
    let path = format!("/v1/red-packets/{packet}/claims");
    let claim = async |user: &str| {
        let token = token(user, "claim");
        crate::common::call(node.addr, "POST", &path, Some(&token), &[], None).await
    };
    let (mut asked, mut fastest) = (0, Duration::MAX);
    while fastest >= TIMER_NEARLY {
        assert!(asked < ASKING_MAX, "no answer came within {fastest:?}");
        let began = Instant::now();
        let reply = claim(&format!("u{asked}")).await;
        // The first grant arrives at any time of the timer's period.
        if asked > 0 {
            fastest = fastest.min(began.elapsed());
        }
        asked += 1;
        assert_eq!((reply.status, reply.text("ack").as_str()), (201, "ledger"));
    }

    let hide = hide_number("shares", &packet, asked + 1);
    ledger.run(&hide, 1).await;
    for _ in 0..2 {
        let reply = claim("late").await;
        let problem = reply.json()["type"].to_string();
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(problem.contains("uncertain"), "{problem}");
    }
    assert_eq!(claim("next").await.text("ack"), "ledger");
}

fn list(ledger: &TestLedger, more: &[&str]) -> Value {
    let output = ledger.qiang(&[&["quarantine", "list", "--json"], more].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn redrive(ledger: &TestLedger, which: &[&str]) -> (Option<i32>, Value) {
    let output = ledger.qiang(&[&["quarantine", "redrive", "--json"], which].concat());
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_from_a_file() {
    a_grant_in_quarantine_is_not_in_the_ledger(node::LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_from_postgres() {
    a_grant_in_quarantine_is_not_in_the_ledger(node::LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_from_mariadb() {
    a_grant_in_quarantine_is_not_in_the_ledger(node::LedgerKind::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    what_the_ledger_refuses_is_quarantined_and_settled_later(node::LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    what_the_ledger_refuses_is_quarantined_and_settled_later(node::LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    what_the_ledger_refuses_is_quarantined_and_settled_later(node::LedgerKind::MariaDb).await;
}

/// After many refusals in a partition, settlement of the partition stops and raises an alarm, while grants continue.
/// The same happens if the ledger refuses the quarantine itself. Both states end automatically with their cause.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_quarantined_is_an_alarm() {
    let ledger = TestLedger::new(node::LedgerKind::Postgres);
    let node = Node::start(&ledger).await;
    let campaigns = Campaigns::open(&node).await;
    campaigns.load(&node, 0..8).await;
    node.settled().await;
    let partition = node.partition(&campaigns.sale);
    let many = format!(
        "INSERT INTO set_aside SELECT {partition}, n, '{ELSEWHERE}', n || ' 0 {ELSEWHERE} ended', 'no', NULL, 0 \
         FROM generate_series({AWAY} + 1, {AWAY} + {REFUSED_MAX}) n"
    );
    ledger.run(&many, REFUSED_MAX).await;
    node.poison(&campaigns.sale, "paid 999 by-hand");
    let why = node.stuck().await;
    let reason = format!("{REFUSED_MAX} entries are in quarantine already, and now: order 999 of");
    assert!(
        why.starts_with(&format!("partition {partition}: ")),
        "{why}"
    );
    assert!(why.contains(&reason), "{why}");
    campaigns.load(&node, 8..16).await;
    let mend = format!("DELETE FROM set_aside WHERE seq > {AWAY}");
    ledger.run(&mend, REFUSED_MAX).await;
    node.settled().await;
    node.counts(1, 0).await;

    ledger
        .run("ALTER TABLE set_aside RENAME TO elsewhere", 0)
        .await;
    node.poison(&campaigns.sale, "paid 998 by-hand");
    let why = node.stuck().await;
    assert!(why.contains("set_aside"), "{why}");
    campaigns.load(&node, 16..24).await;
    ledger
        .run("ALTER TABLE elsewhere RENAME TO set_aside", 0)
        .await;
    node.settled().await;
    node.counts(2, 0).await;
}

/// Errors of wrong arguments are one line.
#[tokio::test]
async fn what_cannot_be_done_is_said_in_one_line() {
    let ledger = TestLedger::new(node::LedgerKind::File);
    let check = |args: &[&str], code: i32, said: &str| {
        let output = ledger.qiang(&[&["quarantine"], args].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
        text
    };
    let one_line = |args: &[&str], code: i32, said: &str| {
        let text = check(args, code, said);
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    one_line(&["list"], 2, "no ledger: ");
    one_line(&["redrive", "--all"], 2, "no ledger: ");
    one_line(
        &["redrive", "3", "17", "4"],
        2,
        "give each entry as two numbers",
    );
    one_line(
        &["redrive", "70000", "1"],
        2,
        "give each entry as two numbers",
    );
    check(&["redrive"], 2, "--all");
    check(&["list", "--limit", "0"], 2, "--limit");
    let url = "postgres://ann:sesame@127.0.0.1:1/books";
    for command in [&["list"][..], &["redrive", "--all"]] {
        let args = [&["quarantine"], command].concat();
        let output = ledger.qiang_with(&args, &[("QIANG__LEDGER__URL", url)]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), text.lines().count()),
            (Some(1), 1),
            "{text}"
        );
        assert!(
            text.contains("the ledger's database is not available"),
            "{text}"
        );
        assert!(!text.contains("sesame"), "{text}");
    }
}
