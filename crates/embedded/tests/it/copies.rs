//! Backups made while claims are granted, and the state after a restore.

use std::{fs, path::Path, sync::Arc};

use qiang_core::{
    book::Command,
    event::PartitionId,
    ports::{CampaignStore as _, Engine, SettlementStore as _},
};
use qiang_embedded::{
    DataFileError, Embedded, SqliteLedger,
    copies::{CopyReport, Restore, back_up, restore},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};

const REPLACE: Restore = Restore {
    replace: true,
    as_it_is: false,
};

fn open(path: &Path) -> Embedded {
    let opened = Embedded::open(path, ManualClock::new(OPENS));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

async fn on_sale(embedded: &Embedded, units: u32) -> Target {
    let setup = sale(units).setup(1);
    embedded.create(&setup).await.unwrap();
    let target = Target::of(&setup);
    let opened = embedded.submit(Command::Open(Box::new(setup))).await;
    opened.unwrap();
    target
}

fn is_there(result: &Result<CopyReport, DataFileError>, name: &str) -> bool {
    matches!(result, Err(DataFileError::Exists { path }) if path.ends_with(name))
}

/// A user with an answer from before the backup has the same grant in the copy. Later users get the remaining units.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_backed_up_while_it_grants() {
    const GRANTS: u32 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["qiang.db", "b.db"].map(|name| folder.path().join(name));
    let embedded = open(&path);
    let target = on_sale(&embedded, GRANTS).await;
    let name = |n: u32| format!("user-{n}");
    let claims = (0..GRANTS / 2).map(|n| embedded.claim(target.one(&name(n))));
    let mut before = Vec::new();
    for claim in Vec::from_iter(claims) {
        before.push(*claim.await.unwrap().outcome.grant().unwrap());
    }
    let later = Vec::from_iter((GRANTS / 2..GRANTS).map(|n| embedded.claim(target.one(&name(n)))));
    let (from, to) = (path.clone(), copy.clone());
    let backup = tokio::task::spawn_blocking(move || back_up(&from, &to));
    for claim in later {
        assert!(claim.await.unwrap().outcome.grant().is_some());
    }
    let copied = backup.await.unwrap().unwrap();
    let head = copied.head.unwrap();
    assert!((1 + u64::from(GRANTS) / 2..=1 + u64::from(GRANTS)).contains(&head));
    assert!(copied.settled.iter().all(|(_, settled)| *settled <= head));
    assert_eq!(copied.bytes, copy.metadata().unwrap().len());
    assert!(is_there(&back_up(&path, &copy), "b.db"));

    // No file is replaced while it is in use, or without a request.
    let in_use = restore(&copy, &path, REPLACE);
    assert!(
        matches!(in_use, Err(DataFileError::InUse { .. })),
        "{in_use:?}"
    );
    embedded.abort();
    drop(embedded);
    assert!(is_there(
        &restore(&copy, &path, Restore::default()),
        "qiang.db"
    ));
    assert_eq!(restore(&copy, &path, REPLACE).unwrap().head, Some(head));
    assert!(is_there(&restore(&copy, &path, REPLACE), ".replaced"));

    let embedded = open(&path);
    assert_eq!(embedded.positions().0, head);
    for (n, grant) in (0..).zip(&before) {
        let again = embedded.claim(target.one(&name(n))).await.unwrap().outcome;
        assert_eq!(again.grant(), Some(grant));
    }
    embedded.close();
    assert!(stands_alone(folder.path(), "qiang.db"));
    // The replaced file is kept with its log and can be served.
    let replaced = open(&folder.path().join("qiang.db.replaced"));
    assert_eq!(replaced.positions().0, 1 + u64::from(GRANTS));
    replaced.close();
}

/// Whether a file has no write-ahead log next to it.
fn stands_alone(folder: &Path, name: &str) -> bool {
    !folder.join(format!("{name}-wal")).exists()
}

/// SQLite would apply a leftover write-ahead log to any file at its path.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_left_over_is_not_played_into_a_restored_file() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["qiang.db", "b.db"].map(|name| folder.path().join(name));
    let embedded = open(&path);
    let target = on_sale(&embedded, 5).await;
    back_up(&path, &copy).unwrap();
    embedded.claim(target.one("a")).await.unwrap();
    // As if the process had died here.
    let wal = folder.path().join("qiang.db-wal");
    let left_over = fs::read(&wal).unwrap();
    assert!(!left_over.is_empty());
    embedded.close();
    drop(embedded);
    fs::write(&wal, &left_over).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(is_there(&restore(&copy, &path, Restore::default()), "-wal"));
    restore(&copy, &path, REPLACE).unwrap();
    assert_eq!(
        fs::read(folder.path().join("qiang.db.replaced-wal")).unwrap(),
        left_over
    );
    let embedded = open(&path);
    assert_eq!(embedded.positions().0, 1);
    embedded.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_alone_is_backed_up_and_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy, back] = ["l.db", "b.db", "back.db"].map(|name| folder.path().join(name));
    let open = |path: &Path| SqliteLedger::open(path, Arc::new(qiang_embedded::SystemClock));
    let ledger = open(&path).unwrap();
    let setup = sale(3).setup(1);
    ledger.create(&setup).await.unwrap();
    let log = vec![qiang_core::event::Entry {
        seq: 1,
        at: OPENS,
        campaign: setup.campaign.id,
        event: qiang_core::event::Event::Opened { parts: 1 },
    }];
    assert_eq!(ledger.settle(PartitionId(3), &log).await, Ok(1));
    let copied = back_up(&path, &copy).unwrap();
    assert_eq!(
        (copied.head, copied.settled),
        (None, vec![(PartitionId(3), 1)])
    );
    ledger.close();
    restore(&copy, &back, Restore::default()).unwrap();
    assert!(!Embedded::is_engine(&back).unwrap());
    let ledger = open(&back).unwrap();
    assert_eq!(ledger.positions().await, Ok(vec![(PartitionId(3), 1)]));
    assert!(ledger.campaign(setup.campaign.id).await.unwrap().is_some());
    ledger.close();
}

#[test]
fn what_is_no_file_of_ours_is_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let [other, to] = ["other.db", "to.db"].map(|name| folder.path().join(name));
    assert!(back_up(&other, &to).is_err(), "there is none");
    let conn = rusqlite::Connection::open(&other).unwrap();
    conn.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(conn);
    for copied in [back_up(&other, &to), restore(&other, &to, REPLACE)] {
        assert!(
            matches!(copied, Err(DataFileError::Damaged { .. })),
            "{copied:?}"
        );
    }
    assert!(!to.exists());
}

#[cfg(unix)]
#[test]
fn others_may_not_read_a_copy() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["qiang.db", "b.db"].map(|name| folder.path().join(name));
    let embedded = open(&path);
    back_up(&path, &copy).unwrap();
    embedded.close();
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
