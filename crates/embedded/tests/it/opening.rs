//! Opening a file: one writer at a time, no damaged file, no newer one. A long log gives the same book.

use std::path::Path;

use qiang_core::{
    book::{CampaignAction, Command},
    event::PartitionId,
    outcome::Outcome,
    ports::{
        AccountStore as _, CampaignStore as _, Engine, EngineError, EventLog, SettlementStore as _,
    },
    split::SplitRule,
};
use qiang_embedded::{DataFileError, Embedded};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, red_packet, sale, user},
};

fn try_open(path: &Path) -> Result<Embedded, DataFileError> {
    Embedded::open(path, ManualClock::new(OPENS))
}

fn open(path: &Path) -> Embedded {
    try_open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// Makes a file with a red packet and a sale, each with three settled grants.
fn with_grants(path: &Path) {
    let embedded = open(path);
    let packet = red_packet(1_000, 5, SplitRule::DoubleAverage { min: 1 });
    for (n, builder) in (1..).zip([packet, sale(5)]) {
        let setup = builder.setup(n);
        let funds = qiang_core::money::Money::new(1_000, setup.campaign.currency());
        block_on(embedded.deposit(setup.campaign.id.uuid(), &user("owner"), funds)).unwrap();
        block_on(embedded.create(&setup)).unwrap();
        let target = Target::of(&setup);
        block_on(embedded.submit(Command::Open(Box::new(setup)))).unwrap();
        for name in ["a", "b", "c"] {
            block_on(embedded.claim(target.one(name))).unwrap();
        }
    }
    let (head, _) = embedded.positions();
    let settled = embedded.await_settled(PartitionId(0), head, std::time::Duration::from_secs(20));
    assert_eq!(block_on(settled), Ok(true));
    embedded.close();
}

/// Asserts that a start after `damage` is refused with the reason `why`.
pub(crate) fn refuses(damage: &str, why: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    with_grants(&path);
    let file = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(
        file.execute(damage, []).map(|rows| rows > 0),
        Ok(true),
        "{damage}"
    );
    drop(file);
    for _ in 0..2 {
        match try_open(&path).err() {
            Some(DataFileError::Damaged { reason }) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{damage}: {other:?}"),
        }
    }
}

/// Statement that appends an unsettled entry to the log.
fn entry(seq: u64, campaign: u8, rest: &str) -> String {
    let columns = "seq, at, campaign, kind, number, user, quantity, amount, note";
    format!("INSERT INTO events ({columns}) VALUES ({seq}, 0, {campaign}, {rest}, NULL)")
}

#[test]
fn a_gap_in_the_log_is_damage() {
    refuses(
        &entry(10, 2, "7, NULL, NULL, NULL, NULL"),
        "entry 9 is missing",
    );
}

#[test]
fn a_log_that_ends_before_settlement_is_damage() {
    refuses("DELETE FROM events WHERE seq >= 7", "settled up to entry 8");
}

#[test]
fn entries_that_make_no_sense_are_damage() {
    let refuses = |rest: &str, why: &str| refuses(&entry(9, 2, rest), why);
    refuses("99, 4, 'd', 1, 0", "entry 9 of the log: bad kind");
    refuses("1, 4, 'a b', 1, 0", "entry 9 of the log: bad user");
    refuses("1, 4, 'd', 6, 0", "entry 9 of the log: it grants more");
    refuses("1, 7, 'd', 1, 0", "entry 9 of the log: its number");
    refuses("2, 9, NULL, NULL, NULL", "entry 9 of the log: bad text");
}

#[test]
fn an_entry_of_no_campaign_is_damage() {
    refuses(
        &entry(9, 9, "7, NULL, NULL, NULL, NULL"),
        "campaign row 9 is missing",
    );
}

/// Asserts that claims of the red packet are refused with the reason `why` after `damage`. The sale continues.
fn refuses_the_packet(damage: &str, why: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    with_grants(&path);
    let file = rusqlite::Connection::open(&path).unwrap();
    let changed = file.execute(damage, []).map(|rows| rows > 0);
    assert_eq!(changed, Ok(true), "{damage}");
    drop(file);
    let embedded = open(&path);
    let [packet, sale] = [
        red_packet(1_000, 5, SplitRule::DoubleAverage { min: 1 }),
        sale(5),
    ];
    let (packet, sale) = (Target::of(&packet.setup(1)), Target::of(&sale.setup(2)));
    let claims = [packet.one("a"), packet.one("d")].map(|claim| block_on(embedded.claim(claim)));
    // Numbers are read from the campaign's own row, which may be sound.
    match block_on(embedded.tally(packet.id)) {
        Ok(tally) => assert!(tally.is_none_or(|tally| tally.conserves()), "{damage}"),
        Err(EngineError::Unavailable { reason }) => assert!(reason.contains(why), "{reason}"),
        Err(other) => panic!("{damage}: {other:?}"),
    }
    for refused in claims {
        match refused {
            Err(EngineError::Unavailable { reason }) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{damage}: {other:?}"),
        }
    }
    let granted = block_on(embedded.claim(sale.one("d"))).unwrap();
    assert!(
        matches!(granted.outcome, Outcome::Granted(_)),
        "{granted:?}"
    );
}

#[test]
fn one_campaign_that_cannot_be_read_stops_no_other() {
    refuses_the_packet(
        "UPDATE shares SET amount = amount + 1 WHERE number = 5",
        "do not add up",
    );
    refuses_the_packet("DELETE FROM shares WHERE number = 5", "do not add up");
    refuses_the_packet(
        "UPDATE shares SET user = NULL, granted_at = NULL WHERE number = 2",
        "not the next",
    );
    refuses_the_packet(
        "UPDATE campaigns SET granted = 2 WHERE ref = 1",
        "do not come to",
    );
    refuses_the_packet(
        "UPDATE campaigns SET currency = 'XXL' WHERE ref = 1",
        "bad currency",
    );
    refuses_the_packet(
        "UPDATE campaigns SET split_version = 9 WHERE ref = 1",
        "split version",
    );
}

#[test]
fn a_second_writer_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let first = open(&path);
    let in_use = |path: &Path| matches!(try_open(path).err(), Some(DataFileError::InUse { .. }));
    assert!(in_use(&path));
    let handle = first.clone();
    drop(first);
    assert!(in_use(&path), "another handle is left");
    drop(handle);
    drop(open(&path)); // // the last handle stops the writer
    let third = open(&path);
    third.close();
    drop(open(&path));
    drop(third);
}

/// After a clean close, a copy of the file alone is complete, also if another process has the file open.
#[test]
fn the_file_alone_has_everything_after_a_close() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let setup = sale(5).setup(1);
    block_on(embedded.create(&setup)).unwrap();
    let target = Target::of(&setup);
    block_on(embedded.submit(Command::Open(Box::new(setup)))).unwrap();
    let granted = block_on(embedded.claim(target.one("a"))).unwrap().outcome;
    // An open connection: the last one to close would empty the log automatically.
    let reader = rusqlite::Connection::open(&path).unwrap();
    let tables = "SELECT count(*) FROM sqlite_schema";
    let count = || reader.query_row(tables, [], |row| row.get::<_, i64>(0));
    assert!(count().unwrap() > 0);
    embedded.close();
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    let again = block_on(open(&copy).claim(target.one("a"))).unwrap();
    let (qiang_core::outcome::Outcome::AlreadyGranted(again), Some(grant)) =
        (again.outcome, granted.grant())
    else {
        panic!("{granted:?}, then {again:?}");
    };
    assert_eq!(again, *grant);
}

/// Serves, grants, and copies the file while it is open, as after a kill or a careless backup.
fn copied_while_open(directory: &Path, suffixes: &[&str]) -> std::path::PathBuf {
    let (path, copy) = (directory.join("qiang.db"), directory.join("copy.db"));
    let embedded = open(&path);
    let setup = sale(5).setup(1);
    block_on(embedded.create(&setup)).unwrap();
    let target = Target::of(&setup);
    block_on(embedded.submit(Command::Open(Box::new(setup)))).unwrap();
    block_on(embedded.claim(target.one("a"))).unwrap();
    let name = |path: &Path, suffix| format!("{}{suffix}", path.display());
    for suffix in suffixes {
        std::fs::copy(name(&path, suffix), name(&copy, suffix)).unwrap();
    }
    embedded.close();
    copy
}

fn is_incomplete(path: &Path) -> bool {
    matches!(try_open(path).err(), Some(DataFileError::Incomplete { .. }))
}

#[test]
fn a_copy_without_its_write_ahead_log_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let copy = copied_while_open(directory.path(), &[""]);
    assert!(is_incomplete(&copy));
    let error = Embedded::is_engine(&copy).unwrap_err().to_string();
    assert!(error.contains("copy.db-wal is not beside it"), "{error}");
    assert_eq!(error.lines().count(), 1);
    // A reader leaves an empty log next to the file, which does not belong to it.
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = rusqlite::Connection::open_with_flags(&copy, flags).unwrap();
    let count = reader.query_row("SELECT count(*) FROM events", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(count, Ok(0), "the reader sees a committed entry");
    drop(reader);
    assert!(is_incomplete(&copy));

    let how = qiang_embedded::copies::Restore {
        as_it_is: true,
        ..Default::default()
    };
    let taken = directory.path().join("taken.db");
    qiang_embedded::copies::restore(&copy, &taken, how).unwrap();
    open(&taken).close();
}

#[test]
fn a_copy_with_its_write_ahead_log_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let copy = copied_while_open(directory.path(), &["", "-wal"]);
    let embedded = open(&copy);
    assert_eq!(embedded.positions().0, 2);
    embedded.abort();
    drop(embedded);
    open(&copy).close();
}

/// A repair empties the log in place. If the process then dies, nothing is missing.
#[test]
fn a_log_that_was_emptied_in_its_place_is_no_loss() {
    let directory = tempfile::tempdir().unwrap();
    let copy = copied_while_open(directory.path(), &["", "-wal"]);
    drop(open(&copy));
    let file = rusqlite::Connection::open(&copy).unwrap();
    file.execute("UPDATE file_kind SET open_as = 'elsewhere'", [])
        .unwrap();
    drop(file);
    std::fs::write(directory.path().join("copy.db-wal"), "").unwrap();
    assert!(is_incomplete(&copy));
    let wal = directory.path().join("copy.db-wal");
    let id = |path: &Path| {
        let found = path.metadata().unwrap();
        let place = std::os::unix::fs::MetadataExt::dev(&found);
        format!("{place}:{}", std::os::unix::fs::MetadataExt::ino(&found))
    };
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let file = rusqlite::Connection::open_with_flags(&copy, flags).unwrap();
    // The log stays when the connection is closed.
    let keeps_log = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    file.set_db_config(keeps_log, true).unwrap();
    file.execute("UPDATE file_kind SET open_as = 'begun'", [])
        .unwrap();
    let own = format!("{}:{}:", id(&copy), id(&wal));
    file.execute("UPDATE file_kind SET open_as = ?1", [own])
        .unwrap();
    file.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(()))
        .unwrap();
    drop(file);
    let aside = directory.path().join("aside");
    std::fs::rename(&wal, &aside).unwrap();
    assert!(is_incomplete(&copy), "it has no log at all");
    std::fs::rename(&aside, &wal).unwrap();
    std::fs::write(&wal, "").unwrap();
    open(&copy).close();
}

#[cfg(unix)]
#[test]
fn others_may_not_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let embedded = open(&directory.path().join("qiang.db"));
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.file_name());
    }
    embedded.close();
}

#[test]
fn a_newer_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    with_grants(&path);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    let error = try_open(&path).err().unwrap();
    assert!(
        matches!(error, DataFileError::TooNew { found: 99, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("newer"), "{error}");
}

#[test]
fn two_hundred_thousand_grants_are_the_same_after_a_restart() {
    const GRANTS: u32 = 200_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let packet = red_packet(10_000_000, GRANTS, SplitRule::Equal);
    let mut targets = Vec::new();
    for (n, builder) in (1..).zip([packet, sale(GRANTS).limit(7)]) {
        let setup = builder.setup(n);
        let funds = qiang_core::money::Money::new(10_000_000, setup.campaign.currency());
        block_on(embedded.deposit(setup.campaign.id.uuid(), &user("owner"), funds)).unwrap();
        block_on(embedded.create(&setup)).unwrap();
        targets.push(Target::of(&setup));
        block_on(embedded.submit(Command::Open(Box::new(setup)))).unwrap();
    }
    let claim = |n: u32| targets[n as usize % 2].one(&format!("user-{n}"));
    block_on(async {
        for first in (0..GRANTS).step_by(20_000) {
            let ask = |n| embedded.claim(claim(n));
            let tickets: Vec<_> = (first..first + 20_000).map(ask).collect();
            for ticket in tickets {
                assert_eq!(ticket.await.unwrap().outcome.name(), "granted");
            }
        }
        for number in (1..=GRANTS / 2).step_by(1_000) {
            let order = targets[1].order(number);
            embedded
                .submit(Command::Cancel { order, part: None })
                .await
                .unwrap();
        }
    });
    let (campaign, action) = (targets[0].id, CampaignAction::Close);
    block_on(embedded.submit(Command::Act { campaign, action })).unwrap();
    let tallies = |embedded: &Embedded| {
        let tally = |target: &Target| block_on(embedded.tally(target.id)).unwrap().unwrap();
        targets.iter().map(tally).collect::<Vec<_>>()
    };
    let before = (tallies(&embedded), embedded.positions().0);
    embedded.abort();
    drop(embedded);

    let embedded = open(&path);
    assert_eq!((tallies(&embedded), embedded.positions().0), before);
    assert_eq!(before.0[0].grants + before.0[1].grants, GRANTS);
    assert!(before.0.iter().all(|tally| tally.conserves()));
    let last = block_on(embedded.read(PartitionId(0), before.1 - 1, 10)).unwrap();
    assert_eq!(last.len(), 1);
    for n in [0, GRANTS - 2] {
        let claimed = block_on(embedded.claim(claim(n))).unwrap();
        assert_eq!(claimed.outcome.name(), "already_granted");
    }
    embedded.abort();
}

/// SQLite checkpoints its write-ahead log automatically once it has 64 MiB, which would be under peak load.
#[test]
fn an_idle_writer_checkpoints_what_is_settled() {
    const GRANTS: u32 = 12_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let setup = sale(GRANTS).setup(1);
    let target = Target::of(&setup);
    block_on(embedded.create(&setup)).unwrap();
    block_on(embedded.submit(Command::Open(Box::new(setup)))).unwrap();
    let claims: Vec<_> = (0..GRANTS)
        .map(|n| embedded.claim(target.one(&format!("user-{n}"))))
        .collect();
    for claim in claims {
        block_on(claim).unwrap();
    }
    let (head, _) = embedded.positions();
    let settled = embedded.await_settled(PartitionId(0), head, std::time::Duration::from_secs(60));
    assert_eq!(block_on(settled), Ok(true));
    // Answered after the writer's work at the time of the published position.
    block_on(embedded.probe(PartitionId(0))).unwrap();
    let alone = directory.path().join("alone.db");
    std::fs::copy(&path, &alone).unwrap(); // // without the write-ahead log
    let file = rusqlite::Connection::open(&alone).unwrap();
    let checkpointed: u32 = file
        .query_row("SELECT seq FROM settled", [], |row| row.get(0))
        .unwrap();
    assert!(checkpointed >= 10_000, "{checkpointed}");
}

#[test]
fn closing_answers_all_that_was_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = open(&directory.path().join("qiang.db"));
    let setup = sale(500).setup(1);
    block_on(embedded.create(&setup)).unwrap();
    let target = Target::of(&setup);
    block_on(embedded.submit(Command::Open(Box::new(setup)))).unwrap();

    let claims = (0..200).map(|n| embedded.claim(target.one(&format!("user-{n}"))));
    let tickets: Vec<_> = claims.collect();
    embedded.close();
    for ticket in tickets {
        let wait_max = std::time::Duration::from_secs(10);
        let answer = block_on(async { tokio::time::timeout(wait_max, ticket).await });
        let claimed = answer.expect("it was never answered").unwrap();
        assert!(claimed.outcome.grant().is_some(), "{claimed:?}");
    }
}

/// A file of another program is refused as an engine's and as a ledger's, and no byte of it changes.
#[test]
fn a_foreign_file_is_refused_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("foreign.db");
    let refuses = |what: &str| {
        let before = std::fs::read(&path).unwrap();
        let ledger = qiang_embedded::SqliteLedger::open(&path, ManualClock::new(OPENS));
        for refused in [
            try_open(&path).map(drop),
            ledger.map(drop),
            Embedded::is_engine(&path).map(drop),
        ] {
            assert!(
                matches!(refused, Err(DataFileError::Foreign { .. })),
                "{what}: {refused:?}"
            );
        }
        assert_eq!(std::fs::read(&path).unwrap(), before, "{what}");
    };
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("CREATE TABLE songs (id)").unwrap();
    refuses("tables without a version");
    conn.pragma_update(None, "user_version", 20).unwrap();
    refuses("tables with a version");
    conn.execute_batch("CREATE TABLE campaigns (id); CREATE TABLE events (id)")
        .unwrap();
    refuses("some tables with our names");
    conn.pragma_update(None, "user_version", 99).unwrap();
    refuses("a newer version");
    conn.execute_batch("DROP TABLE songs; DROP TABLE campaigns; DROP TABLE events")
        .unwrap();
    refuses("a version without tables");
    conn.pragma_update(None, "user_version", 0).unwrap();
    conn.pragma_update(None, "application_id", 7).unwrap();
    refuses("another program's identifier");
    drop(conn);
    std::fs::write(
        &path,
        "a text that is long enough to be no header".repeat(9),
    )
    .unwrap();
    refuses("no database");
}
