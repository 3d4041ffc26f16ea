//! `qiang audit`, the command: on ledgers that are sound, on one that is in use, on files that are no ledgers, and on
//! ledgers with one planted breach each.
#![allow(clippy::unwrap_used)]

mod alone;
mod alone_breaches;
mod alone_history;
mod breaches;
mod history;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) fn qiang(args: &[&str], db: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qiang"))
        .args(args)
        .arg("--db")
        .arg(db)
        .output()
        .unwrap()
}

/// The audit of a file: the checks that are broken, and the whole report.
pub(crate) fn broken(db: &Path) -> (BTreeSet<String>, Value) {
    let output = qiang(&["audit", "--json"], db);
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let checks = report["checks"].as_array().unwrap();
    let broken: BTreeSet<String> = checks
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(report["ok"], broken.is_empty());
    assert_eq!(output.status.code(), Some(i32::from(!broken.is_empty())));
    (broken, report)
}

fn assert_sound(db: &Path) {
    let (broken, report) = broken(db);
    assert!(broken.is_empty(), "{report:#}");
}

/// Every file of a folder with its bytes; the `-shm`, which readers share, is left out.
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

    history::rush_and_stop(world);
    assert_sound(&db);
    // All that the audit looks at was there to be looked at.
    let (_, report) = broken(&db);
    for check in report["checks"].as_array().unwrap() {
        assert_ne!(check["examined"], 0, "{}", check["name"]);
    }
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
    let output = qiang(&["audit"], &db);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no_oversell"), "{text}");
    assert!(text.trim_end().ends_with("ok: 39 checks hold"), "{text}");

    breaches::plant(
        &db,
        "UPDATE accounts SET balance = balance + 1 WHERE owner = 'eva'",
    );
    let output = qiang(&["audit"], &db);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("(user of eva) has"), "{text}");
    assert!(
        text.trim_end().ends_with("BROKEN: 2 of 39 checks"),
        "{text}"
    );
}

#[test]
fn what_is_no_ledger_is_said_in_one_line() {
    let folder = TempDir::new().unwrap();
    let check = |db: &Path, said: &str| {
        let output = qiang(&["audit"], db);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(said), "{text}");
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
        .execute_batch("CREATE TABLE t (x); PRAGMA user_version = 7")
        .unwrap();
    check(&path("newer.db"), "schema version 7");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        3,
        "nothing was created"
    );
}

/// The description of the tables, with its examples.
const DATA_MODEL: &str = include_str!("../../../../docs/DATA_MODEL.md");

#[test]
fn the_data_model_has_queries_that_find_something_and_names_every_check() {
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    history::rush_and_stop(history::live(&db));
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
    let examples: Vec<&str> = DATA_MODEL
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
        assert!(DATA_MODEL.contains(&format!("`{name}`")), "{name}");
    }
}
