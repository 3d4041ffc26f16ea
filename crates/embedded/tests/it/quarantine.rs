//! Entries that the engine's own ledger refuses are quarantined, with the entries that depend on them. All others are
//! settled, and granting continues. Once the cause is repaired, the quarantined entries are settled too.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::AckLevel,
    event::{Event, PartitionId, Seq},
    money::Money,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EngineError, EventLog as _,
        LedgerError, QuarantineCount, QuarantineStore as _, SettlementStore as _,
    },
    split::SplitRule,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, red_packet, user},
};
use tempfile::TempDir;
use uuid::Uuid;

const PARTITION: PartitionId = PartitionId(0);
const SHARES: u32 = 400;
const SHARE_MINOR: i64 = 10;
/// Number of the share whose row is hidden for some time.
const HIDDEN: u32 = 150;
const WAIT_MAX: Duration = Duration::from_secs(20);

fn open(path: &Path) -> Embedded {
    let opened = Embedded::open(path, ManualClock::new(OPENS));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// Starts an engine with an open red packet.
async fn with_packet(ack: AckLevel) -> (TempDir, PathBuf, Embedded, Target) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    let embedded = open(&path);
    let packet = red_packet(i64::from(SHARES) * SHARE_MINOR, SHARES, SplitRule::Equal);
    let setup = packet.ack(ack).setup(1);
    let funds = Money::new(i64::from(SHARES) * SHARE_MINOR, currency());
    let (id, owner) = (Uuid::from_u128(1), user("owner"));
    embedded.deposit(id, &owner, funds).await.unwrap();
    embedded.create(&setup).await.unwrap();
    let command = Command::Open(Box::new(setup.clone()));
    embedded.submit(command).await.unwrap();
    (folder, path, embedded, Target::of(&setup))
}

fn run(path: &Path, sql: &str) -> usize {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.busy_timeout(WAIT_MAX).unwrap();
    conn.execute(sql, []).unwrap()
}

fn hide(path: &Path) {
    let hide = format!("UPDATE shares SET number = number + 1000 WHERE number = {HIDDEN}");
    assert_eq!(run(path, &hide), 1);
}

fn mend(path: &Path) {
    let mend = "UPDATE shares SET number = number - 1000 WHERE number > 1000";
    assert_eq!(run(path, mend), 1);
}

/// Claims for users `from` to `to` at once. Each gets a share.
async fn claim(embedded: &Embedded, packet: Target, users: std::ops::Range<u32>) {
    let claims = users.map(|n| embedded.claim(packet.one(&format!("u{n}"))));
    for ticket in claims.collect::<Vec<_>>() {
        assert!(ticket.await.unwrap().outcome.grant().is_some());
    }
}

async fn settled(embedded: &Embedded) -> Seq {
    let head = embedded.head(PARTITION).await.unwrap();
    let reached = embedded.await_settled(PARTITION, head, WAIT_MAX).await;
    assert_eq!(reached, Ok(true), "{:?}", embedded.stuck());
    head
}

async fn balance(embedded: &Embedded, name: &str) -> i64 {
    let balances = embedded.balances(&user(name)).await.unwrap();
    balances.iter().map(|balance| balance.available.minor).sum()
}

/// Waits until the table and the engine report these counts.
async fn counted(embedded: &Embedded, refused: u64, waiting: u64) {
    let expected = QuarantineCount { refused, waiting };
    let count = embedded.count_quarantined(PARTITION).await;
    assert_eq!(count, Ok(expected));
    let started = Instant::now();
    while embedded.quarantined() != expected {
        assert!(started.elapsed() < WAIT_MAX, "{:?}", embedded.quarantined());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_ledger_refuses_is_quarantined_and_settled_after_all() {
    let (_folder, path, embedded, packet) = with_packet(AckLevel::Fsync).await;
    claim(&embedded, packet, 0..100).await;
    settled(&embedded).await;
    counted(&embedded, 0, 0).await;
    hide(&path);
    claim(&embedded, packet, 100..300).await;
    let close = Command::Act {
        campaign: packet.id,
        action: CampaignAction::Close,
    };
    embedded.submit(close).await.unwrap();
    let head = settled(&embedded).await;
    assert_eq!(embedded.stuck(), None);
    counted(&embedded, 1, 1).await;

    let listed = embedded.list_quarantined(None, 10).await.unwrap();
    let [refused, closing] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert!(refused.reason.contains("share 150 of"), "{refused:?}");
    let Event::Granted { user, number, .. } = &refused.entry.event else {
        panic!("{refused:?}")
    };
    assert_eq!(*number, HIDDEN);
    assert_eq!(closing.waits_for, Some(refused.entry.seq));
    assert_eq!(closing.entry.seq, head);
    let mut sum = 0;
    for n in 0..300 {
        sum += balance(&embedded, &format!("u{n}")).await;
    }
    assert_eq!(sum, 299 * SHARE_MINOR, "all users but one have a share");
    assert_eq!(balance(&embedded, "owner").await, 0, "the close waits");

    let again = embedded.redrive(PARTITION, refused.entry.seq).await;
    let refusal = matches!(again, Err(LedgerError::Damaged { .. }));
    assert!(refusal, "{again:?}");
    embedded.close();
    let embedded = open(&path);
    counted(&embedded, 1, 1).await;
    mend(&path);
    for row in &listed {
        assert_eq!(embedded.redrive(PARTITION, row.entry.seq).await, Ok(true));
    }
    counted(&embedded, 0, 0).await;
    assert_eq!(balance(&embedded, user.as_str()).await, SHARE_MINOR);
    assert_eq!(balance(&embedded, "owner").await, 100 * SHARE_MINOR);
    embedded.close();
}

/// A quarantined grant is not in the ledger, although the position is after it. Neither the claim nor its repetition is
/// answered `ledger` before the entry is settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_in_quarantine_is_not_acknowledged() {
    let (_folder, path, embedded, packet) = with_packet(AckLevel::Ledger).await;
    claim(&embedded, packet, 1..HIDDEN).await;
    hide(&path);
    for _ in 0..2 {
        let refused = embedded.claim(packet.one("late")).await.unwrap_err();
        let EngineError::Uncertain { reason } = &refused else {
            panic!("{refused:?}")
        };
        assert!(reason.contains("in quarantine"), "{reason}");
    }
    let next = embedded.claim(packet.one("next")).await.unwrap();
    assert_eq!(next.ack, AckLevel::Ledger);
    mend(&path);
    let listed = embedded.list_quarantined(None, 1).await.unwrap();
    let seq = listed[0].entry.seq;
    assert_eq!(embedded.redrive(PARTITION, seq).await, Ok(true));
    let late = embedded.claim(packet.one("late")).await.unwrap();
    assert_eq!(late.ack, AckLevel::Ledger);
    embedded.close();
}

/// After this number of refusals the cause must be elsewhere: settlement stops and reports it, while granting
/// continues. It resumes automatically once entries have left the quarantine.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_quarantine_is_an_alarm() {
    let (_folder, path, embedded, packet) = with_packet(AckLevel::Fsync).await;
    settled(&embedded).await;
    let fill = "INSERT INTO set_aside (partition, seq, campaign, entry, reason, waits_for, at) \
                WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) \
                SELECT 0, 1000000 + n, 'x', 'x', 'no', NULL, 0 FROM n";
    assert_eq!(run(&path, fill), 1_000);
    hide(&path);
    claim(&embedded, packet, 0..200).await;
    let started = Instant::now();
    let why = loop {
        assert!(started.elapsed() < WAIT_MAX, "settlement is not stuck");
        match embedded.stuck() {
            Some(why) => break why,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(
        why.contains("1000 entries are in quarantine already"),
        "{why}"
    );
    assert!(why.contains("share 150 of"), "{why}");
    claim(&embedded, packet, 200..250).await;
    assert_eq!(run(&path, "DELETE FROM set_aside"), 1_000);
    settled(&embedded).await;
    counted(&embedded, 1, 0).await;
    assert_eq!(embedded.stuck(), None);
    embedded.close();
}
