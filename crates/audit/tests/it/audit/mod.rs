//! Audits of files: sound ledgers, one in use, files that are not ledgers, and ledgers with one planted breach each.

mod amount_breaches;
mod breaches;
mod cancellation_breaches;
mod change_breaches;
mod extension_breaches;
mod history;
mod large_breaches;
mod list_breaches;
mod payout_breaches;
mod return_breaches;
mod split_breaches;
mod standalone;
mod standalone_breaches;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use qiang_testkit::{ManualClock, campaign::OPENS};
use serde_json::Value;
use tempfile::TempDir;

/// Audits a file. Returns the broken checks and the whole report.
pub(crate) fn broken(db: &Path) -> (BTreeSet<String>, Value) {
    crate::outcome::broken(&qiang_audit::audit(db).unwrap())
}

fn assert_sound(db: &Path) {
    let (broken, report) = broken(db);
    assert!(broken.is_empty(), "{report:#}");
}

/// All files of a folder with their bytes, except the `-shm`, which readers share.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_none_or(|extension| extension != "db-shm")
        })
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The newest commits are in the write-ahead log beside the file, and none is beside the link.
#[cfg(unix)]
#[test]
fn a_served_file_is_audited_through_a_link() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let db = folder.path().join("qiang.db");
    let link = elsewhere.path().join("linked.db");
    let world = history::live(&db);
    std::os::unix::fs::symlink(&db, &link).unwrap();
    let wal = folder.path().join("qiang.db-wal");
    assert!(wal.metadata().unwrap().len() > 0);
    let (broken, through_link) = broken(&link);
    assert!(broken.is_empty(), "{through_link:#}");
    let (_, direct) = self::broken(&db);
    assert_eq!(through_link["checks"], direct["checks"]);
    assert!(!elsewhere.path().join("linked.db-wal").exists());
    drop(world);
}

#[test]
fn a_full_history_is_sound_while_it_is_served_and_after() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    let world = history::live(&db);
    assert_sound(&db);
    let wal = folder.path().join("qiang.db-wal");
    assert!(
        wal.metadata().unwrap().len() > 0,
        "the audit read from a write-ahead log in use"
    );

    history::load_and_stop(world);
    assert_sound(&db);
    // Every check but one has examined rows.
    let (_, report) = broken(&db);
    for check in report["checks"].as_array().unwrap() {
        let nothing = check["name"] == "nothing_aside";
        assert_eq!(check["examined"] == 0, nothing, "{}", check["name"]);
    }
}

/// Products of units and what paid them leave 64 bits from three thousand million units on.
#[test]
fn an_order_of_four_thousand_million_units_is_returned_in_parts() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    let mut world = history::World::new(&db);
    return_breaches::returned_of_many(&mut world);
    world.settle();
    assert_sound(&db);
    world.embedded.close();
    assert_sound(&db);
}

/// An engine's own ledger may refuse an entry, too. The audit names it and the entries that wait for it. No other check
/// is broken, unless another process settles such an entry.
#[test]
fn an_engine_with_a_quarantine_breaks_nothing_else() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    let world = history::live(&db);
    world.embedded.close();
    drop(world);
    let conn = rusqlite::Connection::open(&db).unwrap();
    // A grant of the open packet `lazy` is removed as if it had never been settled.
    conn.execute_batch(
        "CREATE TEMP TABLE g AS
         SELECT e.seq, e.at, e.user, e.amount, c.id, c.ref, e.number
         FROM events e JOIN campaigns c ON c.ref = e.campaign AND c.title = 'lazy'
         WHERE e.kind = 1 ORDER BY e.seq DESC LIMIT 1;
         INSERT INTO set_aside
         SELECT 0, seq, id, format('%d %d %s granted %d %s 1 %d', seq, at, id, number, user, amount), 'no', NULL, at, 0
         FROM g;
         UPDATE shares SET user = NULL, granted_at = NULL, amount = NULL
         WHERE (campaign, number) = (SELECT ref, number FROM g);
         UPDATE campaigns SET granted = granted - 1 WHERE ref = (SELECT ref FROM g);
         UPDATE accounts SET balance = balance + (SELECT amount FROM g)
         WHERE id = (SELECT p.debit FROM postings p, g WHERE p.source = 0 AND p.seq = g.seq);
         UPDATE accounts SET balance = balance - (SELECT amount FROM g)
         WHERE id = (SELECT p.credit FROM postings p, g WHERE p.source = 0 AND p.seq = g.seq);
         CREATE TEMP TABLE p AS SELECT * FROM postings
         WHERE source = 0 AND seq = (SELECT seq FROM g);
         DELETE FROM postings WHERE source = 0 AND seq = (SELECT seq FROM g);",
    )
    .unwrap();
    let (found, report) = broken(&db);
    assert_eq!(Vec::from_iter(found), ["nothing_aside"], "{report:#}");
    assert_eq!(report["set_aside"]["refused"], 1);
    let text = qiang_audit::audit(&db).unwrap().to_string();
    assert!(text.contains("was refused: no"), "{text}");

    conn.execute("INSERT INTO postings SELECT * FROM temp.p", [])
        .unwrap();
    let (found, report) = broken(&db);
    assert!(found.contains("postings_follow_log"), "{report:#}");
}

#[test]
fn a_file_at_rest_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("a ledger?.db");
    let world = history::live(&db);
    world.embedded.close();
    drop(world);
    let before = contents(folder.path());
    assert_eq!(before.len(), 2, "the ledger and its lock");
    assert_sound(&db);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn the_table_is_for_eyes() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    let world = history::live(&db);
    world.embedded.close();
    let text = qiang_audit::audit(&db).unwrap().to_string();
    assert!(text.contains("no_oversell"), "{text}");
    assert!(text.ends_with("ok: 49 checks hold"), "{text}");

    breaches::plant(
        &db,
        "UPDATE accounts SET balance = balance + 1 WHERE owner = 'eva'",
    );
    let text = qiang_audit::audit(&db).unwrap().to_string();
    assert!(text.contains("(user of eva) has"), "{text}");
    assert!(text.ends_with("BROKEN: 2 of 49 checks"), "{text}");
}

#[test]
fn what_is_no_ledger_is_reported_in_one_line() {
    let folder = TempDir::new().unwrap();
    let check = |db: &Path, expected: &str| {
        let text = crate::outcome::refusal(qiang_audit::audit(db));
        assert!(text.contains(expected), "{text}");
    };
    let path = |name: &str| folder.path().join(name);
    check(&path("missing.db"), "no such file");
    check(folder.path(), "not a ledger");
    fs::write(path("text.db"), "All shares are claimed.\n".repeat(100)).unwrap();
    check(&path("text.db"), "not a ledger");
    fs::write(path("empty.db"), "").unwrap();
    check(&path("empty.db"), "not a ledger");
    let newer = rusqlite::Connection::open(path("newer.db")).unwrap();
    newer
        .execute_batch("CREATE TABLE t (x); PRAGMA user_version = 999")
        .unwrap();
    check(&path("newer.db"), "schema version 999");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        3,
        "nothing was created"
    );
}

/// Documentation page that names every check.
const AUDIT_PAGE: &str = include_str!("../../../../../docs/reference/audit.md");
/// Documentation page with examples of SQL.
const QUERIES_PAGE: &str = include_str!("../../../../../docs/reference/queries.md");

#[test]
fn pages_have_queries_that_find_something_and_name_every_check() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    history::load_and_stop(history::live(&db));
    let conn = rusqlite::Connection::open(&db).unwrap();
    let id = |title: &str| -> String {
        conn.query_row(
            "SELECT id FROM campaigns WHERE title = ?1",
            [title],
            |row| row.get(0),
        )
        .unwrap()
    };
    let values = [
        (":user", "ann".to_owned()),
        (":packet", id("lazy")),
        (":sale", id("single")),
    ];
    let examples: Vec<&str> = QUERIES_PAGE
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    assert_eq!(examples.len(), 8);
    for sql in examples {
        let mut statement = conn.prepare(sql).unwrap();
        for (name, value) in &values {
            if let Some(at) = statement.parameter_index(name).unwrap() {
                statement.raw_bind_parameter(at, value).unwrap();
            }
        }
        assert!(statement.raw_query().next().unwrap().is_some(), "{sql}");
    }

    let (_, report) = broken(&db);
    for check in report["checks"].as_array().unwrap() {
        let name = check["name"].as_str().unwrap();
        assert!(AUDIT_PAGE.contains(&format!("`{name}`")), "{name}");
    }
}

/// Number of POSIX locks that this process has on a file.
#[cfg(target_os = "linux")]
fn locks(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let inode = format!(":{} ", fs::metadata(path).unwrap().ino());
    let pid = format!(" {} ", std::process::id());
    let all = fs::read_to_string("/proc/locks").unwrap();
    let own = |line: &&str| line.contains("POSIX") && line.contains(&inode) && line.contains(&pid);
    all.lines().filter(own).count()
}

/// Only SQLite reads a file that this process serves, even if its write-ahead log is empty: closing another descriptor
/// would end the engine's locks.
#[cfg(target_os = "linux")]
#[test]
fn the_audit_of_a_served_file_leaves_its_locks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("served.db");
    let embedded = qiang_embedded::Embedded::open(&path, ManualClock::new(OPENS)).unwrap();
    let before = locks(&path);
    assert!(before > 0);
    let conn = rusqlite::Connection::open(&path).unwrap();
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(conn);
    let wal = fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert_eq!((busy, wal), (0, 0));
    let report = qiang_audit::audit_served(&path).unwrap();
    assert!(report.ok, "{report}");
    assert_eq!(locks(&path), before);
    embedded.close();
}
