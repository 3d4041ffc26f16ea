//! Standalone ledger on a file: its kind, its lock, and independent partitions. The conformance suite covers
//! settlement.

use std::{
    future::poll_fn,
    path::Path,
    task::Poll,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Book, Command, Setup},
    event::{Entry, Event, PartitionId},
    money::Money,
    ports::{AccountStore as _, CampaignStore as _, LedgerError, SettlementStore as _},
};
use qiang_embedded::{DataFileError, Embedded, SqliteLedger};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, sale, user},
};
use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

fn try_open(path: &Path) -> Result<SqliteLedger, DataFileError> {
    SqliteLedger::open(path, ManualClock::new(OPENS))
}

fn open(path: &Path) -> SqliteLedger {
    try_open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn open_engine(path: &Path) -> Result<Embedded, DataFileError> {
    Embedded::open(path, ManualClock::new(OPENS))
}

/// A sale with its log: opened, and one grant to each of `grants` users.
fn sold(n: u64, grants: u32) -> (Setup, Vec<Entry>) {
    let setup = sale(grants).setup(n);
    let (mut book, mut log) = (Book::new(), Vec::new());
    let target = Target::of(&setup);
    let open = Command::Open(Box::new(setup.clone()));
    book.apply(OPENS, &open, &mut log).unwrap();
    for n in 0..grants {
        let claim = target.one(&format!("user-{n}"));
        book.claim(OPENS, &claim, &mut log).unwrap();
    }
    (setup, log)
}

#[test]
fn a_file_is_an_engines_or_a_ledgers() {
    let folder = TempDir::new().unwrap();
    let (ledgers, engines) = (folder.path().join("ledger.db"), folder.path().join("q.db"));
    drop(open(&ledgers));
    drop(open_engine(&engines).unwrap_or_else(|error| panic!("{error}")));
    for _ in 0..2 {
        let refused = open_engine(&ledgers).err().unwrap().to_string();
        assert!(refused.contains("ledger.db is a ledger alone"), "{refused}");
        let refused = try_open(&engines).err().unwrap().to_string();
        assert!(refused.contains("q.db is an embedded engine"), "{refused}");
        assert_eq!(refused.lines().count(), 1);
    }
    drop(open(&ledgers));
    drop(open_engine(&engines).unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn a_second_writer_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let first = open(&path);
    let handle = first.clone();
    drop(first);
    let in_use = |path: &Path| matches!(try_open(path).err(), Some(DataFileError::InUse { .. }));
    assert!(in_use(&path), "another handle is left");
    handle.close();
    drop(open(&path));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_partition_has_its_position_and_its_waiters() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = open(&path);
    let logs: Vec<_> = (1..=3).map(|n| sold(n, 4)).collect();
    let partition = |n: usize| PartitionId(7 * n as u16);
    let mut waiters = Vec::new();
    for (n, (setup, log)) in logs.iter().enumerate() {
        ledger.create(setup).await.unwrap();
        let (waiter, seq) = (ledger.clone(), log.len() as u64);
        waiters.push(tokio::spawn(async move {
            let wait_max = Duration::from_secs(30);
            waiter.await_settled(partition(n), seq, wait_max).await
        }));
    }
    assert_eq!(ledger.positions().await, Ok(Vec::new()));
    // The second and the third partition continue; the first waits.
    for n in [2, 1] {
        assert_eq!(ledger.settle(partition(n), &logs[n].1).await, Ok(5));
    }
    for waiter in waiters.drain(1..) {
        assert_eq!(waiter.await.unwrap(), Ok(true));
    }
    let reached = ledger.await_settled(partition(0), 1, Duration::ZERO).await;
    assert_eq!(reached, Ok(false));
    let positions = vec![(partition(1), 5), (partition(2), 5)];
    assert_eq!(ledger.positions().await.as_ref(), Ok(&positions));
    assert_eq!(ledger.settled(partition(0)).await, Ok(0));

    ledger.close();
    let closed = ledger.settle(partition(0), &logs[0].1).await;
    assert!(matches!(closed, Err(LedgerError::Unavailable { .. })));
    let ledger = open(&path);
    assert_eq!(ledger.positions().await, Ok(positions));
    assert_eq!(ledger.settled(partition(2)).await, Ok(5));
}

/// While many partitions settle thousands of entries at once, a later request is done before most of them.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_the_partitions_backlog() {
    const RUNS: u16 = 12;
    let folder = TempDir::new().unwrap();
    let ledger = open(&folder.path().join("ledger.db"));
    let logs: Vec<_> = (1..=u64::from(RUNS)).map(|n| sold(n, 5_000)).collect();
    for (setup, _) in &logs {
        ledger.create(setup).await.unwrap();
    }
    let settle =
        |(n, (_, log)): (u16, &'static (Setup, Vec<Entry>))| ledger.settle(PartitionId(n), log);
    let logs: &'static [_] = logs.leak();
    let mut backlog: Vec<_> = (0..).zip(logs).map(settle).collect();
    // The first poll queues the job.
    poll_fn(|context| {
        for run in &mut backlog {
            assert!(run.as_mut().poll(context).is_pending());
        }
        Poll::Ready(())
    })
    .await;
    let amount = Money::new(5, currency());
    let (id, user) = (Uuid::from_u128(1), user("a"));
    ledger.deposit(id, &user, amount).await.unwrap();
    let done = ledger.positions().await.unwrap().len();
    assert!(
        done <= usize::from(RUNS) / 2,
        "the deposit waited for {done}"
    );
    for run in backlog {
        assert_eq!(run.await, Ok(5_001));
    }
}

#[tokio::test]
async fn what_is_settled_was_opened_there() {
    let folder = TempDir::new().unwrap();
    let ledger = open(&folder.path().join("ledger.db"));
    let (setup, log) = sold(1, 2);
    ledger.create(&setup).await.unwrap();
    let spread = |log: &[Entry], parts: u16| -> Vec<Entry> {
        let mut log = log.to_vec();
        log[0].event = Event::Opened { parts };
        log
    };
    let refused = |settled: Result<u64, LedgerError>, why: &str| {
        let reason = settled.unwrap_err().to_string();
        assert!(reason.contains(why), "{reason}");
    };
    let (one, other, third) = (PartitionId(1), PartitionId(2), PartitionId(3));
    let first = ledger.settle(one, &spread(&log[..2], 2)).await;
    assert_eq!(first, Ok(2));
    // Twice in one partition; with another number of shards; without an opening; with a surplus shard.
    let mut again = spread(&log[..1], 2);
    again[0].seq = 3;
    refused(ledger.settle(one, &again).await, "is scheduled");
    refused(ledger.settle(other, &spread(&log[..1], 3)).await, "of 3");
    refused(ledger.settle(other, &spread(&log[..1], 1)).await, "of 1");
    let mut unopened = vec![log[2].clone()];
    unopened[0].seq = 1;
    refused(ledger.settle(other, &unopened).await, "never opened");
    assert_eq!(ledger.positions().await, Ok(vec![(one, 2)]));
    assert_eq!(ledger.settle(other, &spread(&log[..1], 2)).await, Ok(1));
    refused(
        ledger.settle(third, &spread(&log[..1], 2)).await,
        "3 parts that are open",
    );
}

/// Another connection holds the file's write lock for longer than the writer waits: no change is confirmed. Once the
/// lock is released, entries are settled once.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_commit_is_uncertain_and_the_ledger_comes_back() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = open(&path);
    let (setup, log) = sold(1, 3);
    ledger.create(&setup).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (another, _) = sold(2, 1);
    let created = ledger.create(&another).await;
    assert!(
        matches!(created, Err(LedgerError::Uncertain { .. })),
        "{created:?}"
    );
    assert!(ledger.stopped().is_some());
    let refused = ledger.settle(PartitionId(1), &log).await;
    assert!(
        matches!(refused, Err(LedgerError::Unavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(ledger.positions().await, Ok(Vec::new()));
    other.execute_batch("ROLLBACK").unwrap();

    let patience = Instant::now() + Duration::from_secs(60);
    while ledger.stopped().is_some() {
        assert!(Instant::now() < patience, "{:?}", ledger.stopped());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ledger.create(&another).await.unwrap();
    assert_eq!(ledger.settle(PartitionId(1), &log).await, Ok(4));
    let record = ledger.campaign(setup.campaign.id).await.unwrap().unwrap();
    assert_eq!(record.granted, 3);
}

/// As after kill -9: the files as they are, with a write-ahead log that was never checkpointed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_in_the_files_at_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = open(&path);
    let (setup, log) = sold(1, 20);
    ledger.create(&setup).await.unwrap();
    for upto in 1..=log.len() {
        let settled = ledger.settle(PartitionId(1), &log[..upto]).await;
        assert_eq!(settled, Ok(upto as u64));
        if upto % 5 == 0 {
            let killed = folder.path().join(format!("killed-{upto}.db"));
            for suffix in ["", "-wal"] {
                let name = |path: &Path| format!("{}{suffix}", path.display());
                std::fs::copy(name(&path), name(&killed)).unwrap();
            }
            let killed = open(&killed);
            let positions = killed.positions().await.unwrap();
            assert_eq!(positions, [(PartitionId(1), upto as u64)]);
            let record = killed.campaign(setup.campaign.id).await.unwrap();
            assert_eq!(record.unwrap().granted as usize, upto - 1);
        }
    }
}
