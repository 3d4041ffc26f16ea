//! Audits of a ledger alone: a file without a log, with campaigns in one part and in several.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use qiang_embedded::SqliteLedger;
use qiang_testkit::{ManualClock, campaign::OPENS};
use tempfile::TempDir;

use super::{AUDIT_PAGE, breaches, broken, standalone_breaches};
use crate::standalone_history::{World, history};

/// Checks that only a ledger alone has, and one that differs there.
const OWN_CHECKS: [&str; 14] = [
    "positions_known",
    "parts_whole",
    "counts_add_up",
    "numbers_dense",
    "withheld_add_up",
    "limits_kept",
    "orders_sound",
    "orders_paid",
    "grants_posted",
    "payments_posted",
    "refunds_posted",
    "escrow_left",
    "keys_unique",
    "draws_recomputed",
];

/// A ledger with its history in a file.
fn in_file(path: &Path) -> (World, SqliteLedger) {
    let mut file = None;
    let world = World::new(async |clock| {
        let opened = SqliteLedger::open(path, clock).unwrap_or_else(|error| panic!("{error}"));
        file = Some(opened.clone());
        Arc::new(opened) as _
    });
    (history(world), file.expect("it was opened"))
}

/// A sound file, and its folder.
fn sound() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    in_file(&path).1.close();
    (folder, path)
}

#[test]
fn a_ledger_alone_is_sound_and_says_what_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let (world, file) = in_file(&path);
    for _ in 0..2 {
        let (broken, report) = broken(&path);
        assert!(broken.is_empty(), "{report:#}");
        assert_eq!(report["kind"], "ledger");
        let checks = report["checks"].as_array().unwrap();
        let own =
            |check: &&serde_json::Value| OWN_CHECKS.contains(&check["name"].as_str().unwrap());
        assert_eq!(checks.iter().filter(own).count(), OWN_CHECKS.len());
        for check in checks {
            let no_log = check["not_applicable"] == "this file holds no log";
            assert_eq!(check["ok"].is_null(), no_log, "{check}");
            let nothing = no_log || check["name"] == "nothing_aside";
            assert_eq!(check["examined"] == 0, nothing, "{check}");
            let name = check["name"].as_str().unwrap();
            assert!(AUDIT_PAGE.contains(&format!("`{name}`")), "{name}");
        }
        file.close();
    }
    // Now everything is settled.
    let world = World {
        ledger: Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap()),
        ..world
    };
    world.settle(0);
    let (broken, report) = broken(&path);
    assert!(broken.is_empty(), "{report:#}");
}

#[test]
fn the_table_lists_what_could_not_be_checked() {
    let (_folder, path) = sound();
    let text = qiang_audit::audit(&path).unwrap().to_string();
    assert!(text.starts_with("the file of a ledger alone"), "{text}");
    assert!(
        text.contains("not applicable: this file holds no log"),
        "{text}"
    );
    let end = "ok: 33 checks hold; 29 are not applicable";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn every_planted_breach_is_reported_by_the_checks_it_breaks_and_no_others() {
    let (folder, sound) = sound();
    let planted = folder.path().join("planted.db");
    let mut failed = BTreeSet::new();
    let mut wrong = Vec::new();
    for (what, expected, sql) in standalone_breaches::breaches() {
        fs::copy(&sound, &planted).unwrap();
        let mut sql = sql.to_owned();
        for n in [11, 12, 13, 14, 15, 1, 2, 3, 4] {
            let row = format!("(SELECT ref FROM campaigns WHERE title = 'campaign {n}')");
            sql = sql.replace(&format!("@{n}"), &row);
        }
        breaches::plant(&planted, &sql);
        let (found, report) = broken(&planted);
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        if found != expected {
            let checks = report["checks"].as_array().unwrap().iter();
            let found: Vec<_> = checks
                .filter(|check| check["ok"] == false)
                .map(|check| format!("{}: {}", check["name"], check["offending"][0]))
                .collect();
            wrong.push(format!("{what}: expected {expected:?}, found {found:#?}"));
        }
        failed.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in OWN_CHECKS {
        assert!(failed.contains(name), "no breach of {name} was planted");
    }
}
