//! Campaigns entered and opened in one commit.

use std::{io::Write as _, path::Path, process::Command, sync::Arc, time::Duration};

use qiang_core::{
    book::{self, Setup},
    campaign::Details,
    event::{Event, PartitionId},
    id::{CampaignId, IdempotencyKey},
    metadata::Metadata,
    money::Money,
    outcome::Outcome,
    ports::{
        AccountStore as _, CampaignStore as _, Creation, Engine as _, EventLog as _, KeyStore as _,
        KeyUse, LedgerError, SettlementStore as _,
    },
    split::SplitRule,
};
use qiang_embedded::{Embedded, SystemClock};
use qiang_testkit::{
    campaign::{Builder, Target, currency, red_packet, user},
    servers::{Process, wait_for},
};

/// Environment of the child: the file to create in, and the number of the round.
const FILE: &str = "QIANG_TEST_CREATIONS_FILE";
const ROUND: &str = "QIANG_TEST_CREATIONS_ROUND";
const KILLS: u64 = 5;
/// Concurrent creations in the child.
const BATCH: u64 = 16;
/// One in `LARGE_EVERY` packets has enough shares to be written before its batch.
const LARGE_EVERY: u64 = 4;
const LARGE: u32 = 3_000;
const BEGIN_MAX: Duration = Duration::from_secs(30);
/// Longer than the test runs.
const OPENS_FOR_MS: i64 = 200_000_000_000_000;

fn open(path: &Path) -> Embedded {
    let opened = Embedded::open(path, Arc::new(SystemClock));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

fn deposit(embedded: &Embedded, minor: i64) {
    let amount = Money::new(minor, currency());
    block_on(embedded.deposit(uuid::Uuid::from_u128(7), &user("sender"), amount)).unwrap();
}

/// The `n`-th packet: three shares with this total.
fn creation(n: u64, total: i64) -> Creation {
    creation_of(n, red_packet(total, 3, SplitRule::Equal))
}

/// The `n`-th packet of a child.
fn small_or_large(n: u64) -> Creation {
    match n % LARGE_EVERY {
        0 => creation_of(n, red_packet(LARGE.into(), LARGE, SplitRule::Equal)),
        _ => creation(n, 100),
    }
}

fn creation_of(n: u64, packet: Builder) -> Creation {
    let opens = qiang_core::time::Timestamp::from_millis(0);
    let packet = packet.owner("sender");
    let key = IdempotencyKey::new(&format!("key-{n}")).unwrap();
    Creation {
        used: Some(KeyUse::new("sender POST /x", key, [1; 32])),
        setup: packet.window(opens, OPENS_FOR_MS).setup(n),
        details: Details::default(),
        metadata: Metadata::default(),
        audience: None,
        waiting_room: false,
        by: None,
        opens: true,
    }
}

fn id(creation: &Creation) -> CampaignId {
    creation.setup.campaign.id
}

fn claim(embedded: &Embedded, setup: &Setup, name: &str) -> Outcome {
    block_on(embedded.claim(Target::of(setup).one(name)))
        .unwrap()
        .outcome
}

#[test]
fn a_campaign_is_entered_and_opened_in_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qiang.db");
    let mut embedded = open(&path);
    deposit(&embedded, 300);
    let asked = [creation(1, 100), creation(2, 400), creation(3, 100)];
    let created = block_on(embedded.create_all(asked.to_vec())).unwrap();
    let fresh = created
        .iter()
        .map(|it| it.as_ref().is_ok_and(|it| it.fresh));
    assert!(fresh.eq([true, false, true]), "{created:?}");
    let refused = block_on(embedded.create_under(creation(4, 400)));
    assert!(
        matches!(refused, Err(LedgerError::InsufficientFunds { .. })),
        "{refused:?}"
    );
    for restarted in [false, true] {
        let opened = asked.each_ref().map(|it| embedded.has_opened(id(it)));
        // After a restart no packet is in memory, and a repeated opening changes nothing.
        assert_eq!(opened, [!restarted, false, !restarted]);
        // A refused packet left nothing, also in the log. A repeated request adds nothing.
        let again = block_on(embedded.create_under(asked[0].clone())).unwrap();
        assert!(!again.fresh && again.id == id(&asked[0]).uuid());
        let reopened = book::Command::Open(Box::new(asked[2].setup.clone()));
        block_on(embedded.submit(reopened)).unwrap();
        let log = block_on(embedded.read(PartitionId(0), 0, 100)).unwrap();
        let log: Vec<_> = log.into_iter().map(|it| (it.campaign, it.event)).collect();
        let opened = Event::Opened { parts: 1 };
        let expected = [id(&asked[0]), id(&asked[2])].map(|id| (id, opened.clone()));
        assert_eq!(log, expected, "{restarted}");
        embedded.abort();
        embedded = open(&path);
    }
    let outcome = claim(&embedded, &asked[2].setup, "a");
    assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
    let settled = embedded.await_settled(PartitionId(0), 3, Duration::from_secs(20));
    assert_eq!(block_on(settled), Ok(true));
    assert_eq!(block_on(embedded.drafts(None, 9)), Ok(Vec::new()));
    embedded.close();
}

/// Creates packets without end, and prints each number once it is answered.
fn child(path: &Path, round: u64) -> ! {
    let embedded = open(path);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut out = std::io::stdout().lock();
    for first in (round * 1_000_000..).step_by(BATCH as usize) {
        let create = |n| {
            let embedded = embedded.clone();
            let create = async move { embedded.create_under(small_or_large(n)).await };
            (n, runtime.spawn(create))
        };
        let creations: Vec<_> = (first..first + BATCH).map(create).collect();
        for (n, created) in creations {
            assert!(runtime.block_on(created).unwrap().unwrap().fresh);
            writeln!(out, "\ncreated {n} .").unwrap();
            out.flush().unwrap();
        }
    }
    unreachable!("there is no end")
}

fn count(path: &Path, sql: &str) -> u32 {
    // A connection that can write would remove the write-ahead log of a killed process.
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = rusqlite::Connection::open_with_flags(path, flags).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Numbers of reserved packets and of shares without a packet.
fn of_no_packet(path: &Path) -> (u32, u32) {
    let shares = "SELECT count(*) FROM shares WHERE campaign NOT IN (SELECT ref FROM campaigns)";
    let reserved = count(path, "SELECT count(*) FROM preparations");
    (reserved, count(path, shares))
}

/// Number of packets that lack shares.
fn incomplete(path: &Path) -> u32 {
    let sql = "SELECT count(*) FROM campaigns c \
               WHERE supply <> (SELECT count(*) FROM shares s WHERE s.campaign = c.ref)";
    count(path, sql)
}

#[test]
fn what_was_created_survives_sigkill_and_is_open() {
    if let Some(path) = std::env::var_os(FILE) {
        child(
            Path::new(&path),
            std::env::var(ROUND).unwrap().parse().unwrap(),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qiang.db");
    let embedded = open(&path);
    deposit(&embedded, 1_000_000_000_000);
    embedded.close();
    let (mut created, mut found) = (Vec::new(), Vec::new());
    for round in 1..=KILLS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "creations::what_was_created_survives_sigkill_and_is_open",
            "--nocapture",
        ]);
        command.env(FILE, &path).env(ROUND, round.to_string());
        let child = Process::start(&command, &path.with_extension(format!("output-{round}")));
        wait_for("the child's first creation", BEGIN_MAX, || {
            assert!(child.ended().is_none(), "{}", child.output());
            child.output().contains("\ncreated ").then_some(())
        });
        std::thread::sleep(Duration::from_micros(10_000 + round * 23_456));
        child.kill();
        let output = child.output();
        let numbers = output
            .lines()
            .filter_map(|line| line.strip_prefix("created "));
        // The last line may be cut off.
        let whole = numbers.filter_map(|line| line.strip_suffix(" .")?.parse::<u64>().ok());
        let before = created.len();
        created.extend(whole);
        assert!(created.len() > before, "the child created nothing");

        // Each packet is open with its shares, and the ledger has no packet that is not open. Neither half of a
        // creation is kept without the other.
        found.push(of_no_packet(&path));
        let embedded = open(&path);
        for n in &created[before..] {
            let creation = small_or_large(*n);
            let outcome = claim(&embedded, &creation.setup, "a");
            assert!(
                matches!(outcome, Outcome::Granted(_)),
                "packet {n}: {outcome:?}"
            );
            let again = block_on(embedded.create_under(creation)).unwrap();
            assert!(!again.fresh, "packet {n}");
        }
        let (head, _) = embedded.positions();
        let settled = embedded.await_settled(PartitionId(0), head, Duration::from_secs(60));
        assert_eq!(block_on(settled), Ok(true));
        assert_eq!(block_on(embedded.drafts(None, 9)), Ok(Vec::new()));
        // The abandoned shares of a large packet are deleted.
        wait_for("the shares of packets that are not", BEGIN_MAX, || {
            (of_no_packet(&path) == (0, 0)).then_some(())
        });
        assert_eq!(incomplete(&path), 0);
        embedded.abort();
    }
    println!("reserved, and shares of no packet, after each kill: {found:?}");
    println!("{} creations survived {KILLS} kills", created.len());
}
