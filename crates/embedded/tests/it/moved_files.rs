//! Files that are removed, moved or replaced while they are served: a grant is answered only if its file keeps it.
#![cfg(target_os = "linux")]

use std::{fs, path::Path, time::Duration};

use qiang_core::{
    book,
    event::PartitionId,
    money::Money,
    ports::{AccountStore as _, CampaignStore as _, Claimed, Engine as _, EngineError},
};
use qiang_embedded::{
    DataFileError, Embedded, SqliteLedger,
    copies::{self, Restore},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, sale, user},
    servers::wait_for,
};
use tempfile::TempDir;
use uuid::Uuid;

/// Maximum time until a process notices the change.
const NOTICE_MAX: Duration = Duration::from_secs(60);

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

/// Opens a sale with some units.
fn open_sale(embedded: &Embedded) -> Target {
    let setup = sale(50).setup(1);
    block_on(embedded.create(&setup)).unwrap();
    let target = Target::of(&setup);
    block_on(embedded.submit(book::Command::Open(Box::new(setup)))).unwrap();
    target
}

fn claim(embedded: &Embedded, target: &Target, name: &str) -> Result<Claimed, EngineError> {
    block_on(embedded.claim(target.one(name)))
}

/// Serves, damages the files, and claims. Asserts that the claim and a later probe are refused. Returns the folder, the
/// engine, the sale, and the reason of the stop.
fn stops_behind(damage: impl FnOnce(&Path)) -> (TempDir, Embedded, Target, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    let embedded = open(&path);
    let target = open_sale(&embedded);
    claim(&embedded, &target, "a").unwrap();
    copies::back_up(&path, &folder.path().join("backup.db")).unwrap();
    claim(&embedded, &target, "b").unwrap();
    damage(&path);
    let lost = claim(&embedded, &target, "c");
    assert!(
        matches!(
            lost,
            Err(EngineError::Uncertain { .. } | EngineError::Unavailable { .. })
        ),
        "{lost:?}"
    );
    let ready = block_on(embedded.probe(PartitionId(0)));
    assert!(
        matches!(ready, Err(EngineError::Unavailable { .. })),
        "{ready:?}"
    );
    let reason = embedded.stopped().unwrap();
    (folder, embedded, target, reason)
}

fn moved(path: &Path, suffix: &str) {
    let name = |suffix| format!("{}{suffix}", path.display());
    fs::rename(name(suffix), name(&format!(".moved{suffix}"))).unwrap();
}

#[test]
fn nothing_is_granted_once_the_folder_is_removed() {
    let (_, embedded, target, reason) =
        stops_behind(|path| fs::remove_dir_all(path.parent().unwrap()).unwrap());
    assert!(reason.contains("qiang.db was removed"), "{reason}");
    assert!(claim(&embedded, &target, "d").is_err());
    embedded.close();
}

#[test]
fn nothing_is_granted_once_another_file_is_in_its_place() {
    let (_folder, embedded, _, reason) =
        stops_behind(|path| fs::rename(path.with_file_name("backup.db"), path).unwrap());
    assert!(reason.contains("replaced"), "{reason}");
    embedded.close();
}

#[test]
fn granting_goes_on_once_the_file_is_back() {
    let (_folder, embedded, target, _) = stops_behind(|path| moved(path, ""));
    let path = embedded.path();
    fs::rename(format!("{}.moved", path.display()), path).unwrap();
    wait_for("the repair", NOTICE_MAX, || {
        embedded.stopped().is_none().then_some(())
    });
    // The commit of `c` went into the moved file, unless the writer noticed the move first.
    assert!(claim(&embedded, &target, "c").is_ok());
    for (name, outcome) in [
        ("b", "already_granted"),
        ("c", "already_granted"),
        ("d", "granted"),
    ] {
        assert_eq!(
            claim(&embedded, &target, name).unwrap().outcome.name(),
            outcome
        );
    }
    embedded.close();
}

/// Like `cp` of a backup over the file, which keeps its inode. The write-ahead log belongs to the earlier content.
#[test]
fn a_file_that_is_overwritten_is_refused_until_it_is_restored() {
    let (folder, embedded, target, reason) = stops_behind(|path| {
        fs::write(path, fs::read(path.with_file_name("backup.db")).unwrap()).unwrap();
    });
    assert!(reason.contains("overwritten"), "{reason}");
    let path = embedded.path().to_owned();
    embedded.close();
    drop(embedded);
    for _ in 0..2 {
        let refused = try_open(&path).map(drop);
        assert!(
            matches!(refused, Err(DataFileError::Overwritten { .. })),
            "{refused:?}"
        );
    }
    let how = Restore {
        replace: true,
        as_it_is: false,
    };
    copies::restore(&folder.path().join("backup.db"), &path, how).unwrap();
    let restored = open(&path);
    assert_eq!(
        claim(&restored, &target, "a").unwrap().outcome.name(),
        "already_granted"
    );
    restored.close();
}

/// The log's content is saved to the file, and the next start has every answered grant.
#[test]
fn no_grant_is_lost_with_the_log_of_a_running_service() {
    for suffix in ["-wal", "-shm"] {
        let (_folder, embedded, target, reason) =
            stops_behind(|path| fs::remove_file(format!("{}{suffix}", path.display())).unwrap());
        assert!(reason.contains(suffix), "{reason}");
        let path = embedded.path().to_owned();
        embedded.close();
        drop(embedded);
        let embedded = open(&path);
        for (name, outcome) in [
            ("a", "already_granted"),
            ("b", "already_granted"),
            ("d", "granted"),
        ] {
            assert_eq!(
                claim(&embedded, &target, name).unwrap().outcome.name(),
                outcome
            );
        }
        embedded.close();
    }
}

#[test]
fn an_idle_service_notices_that_its_file_is_gone() {
    let folder = TempDir::new().unwrap();
    let [engine, ledger] = ["engine.db", "ledger.db"].map(|name| folder.path().join(name));
    let embedded = open(&engine);
    let standalone = SqliteLedger::open(&ledger, ManualClock::new(OPENS)).unwrap();
    for path in [&engine, &ledger] {
        moved(path, "");
    }
    wait_for("the engine", NOTICE_MAX, || embedded.stopped());
    wait_for("the ledger", NOTICE_MAX, || standalone.stopped());
    embedded.close();
    standalone.close();
}

#[test]
fn a_ledger_alone_takes_nothing_into_a_file_that_is_gone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap();
    let deposit = |n| {
        let funds = Money::new(100, currency());
        block_on(ledger.deposit(Uuid::from_u128(n), &user("ann"), funds))
    };
    deposit(1).unwrap();
    moved(&path, "");
    assert!(deposit(2).is_err());
    assert!(
        ledger.stopped().unwrap().contains("moved"),
        "{:?}",
        ledger.stopped()
    );
    fs::rename(format!("{}.moved", path.display()), &path).unwrap();
    wait_for("the repair", NOTICE_MAX, || {
        ledger.stopped().is_none().then_some(())
    });
    deposit(3).unwrap();
    ledger.close();
}
