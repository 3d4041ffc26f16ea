//! Audits of archives that were changed or lost.

use std::{collections::BTreeSet, fs, path::Path};

use qiang_audit::AuditFindings;
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};

use crate::archives::scene::{Scene, long_packet, long_sale};

fn broken(report: &AuditFindings) -> BTreeSet<&str> {
    let broken = report.checks.iter().filter(|check| check.is_broken());
    broken.map(|check| check.name).collect()
}

/// A file without a writer, with two archives in its folder.
fn archived() -> Scene {
    let scene = Scene::new();
    let (packet, sale) = (scene.create(long_packet(1)), scene.create(long_sale(2)));
    scene.month(packet, sale, 1);
    scene.month(packet, sale, 2);
    assert_eq!(scene.archive().len(), 2);
    scene.engine.close();
    scene
}

fn run(path: &Path, sql: &str) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("PRAGMA ignore_check_constraints = ON")
        .unwrap();
    assert!(conn.execute(sql, []).unwrap() > 0, "{sql}");
}

/// Makes the file accept its changed archive of January.
fn sign(scene: &Scene) {
    let digest = Sha256::digest(fs::read(scene.path("qiang-2027-01.db")).unwrap());
    let digest = hex::encode(digest);
    let sign = format!("UPDATE archives SET sha256 = '{digest}' WHERE first = 1");
    run(&scene.path("qiang.db"), &sign);
}

#[test]
fn an_audit_needs_every_archive_as_it_was_written() {
    let scene = archived();
    let [db, january] = ["qiang.db", "qiang-2027-01.db"].map(|name| scene.path(name));
    let report = qiang_audit::audit(&db).unwrap();
    assert!(report.ok, "{report}");
    let names: Vec<_> = report
        .checks
        .iter()
        .take(3)
        .map(|it| (it.name, it.examined > 0))
        .collect();
    let expected = [
        ("archives_whole", true),
        ("archives_follow", true),
        ("archives_agree", false),
    ];
    assert_eq!(names, expected);

    let written = fs::read(&january).unwrap();
    let mut changed = written.clone();
    let at = changed
        .windows(4)
        .position(|bytes| bytes == b"u1-7")
        .unwrap();
    changed[at + 3] = b'8';
    for (content, what) in [
        (Some(changed), "is not the file that was written"),
        (None, "is not there"),
    ] {
        match content {
            Some(content) => fs::write(&january, content).unwrap(),
            None => fs::remove_file(&january).unwrap(),
        }
        let report = qiang_audit::audit(&db).unwrap();
        assert_eq!(
            broken(&report),
            BTreeSet::from(["archives_whole"]),
            "{report}"
        );
        let text = report.to_string();
        let line = format!("qiang-2027-01.db {what}: entries 1 to ");
        assert!(
            text.contains(&line) && text.contains("are not proved"),
            "{text}"
        );
        assert!(
            text.contains("not applicable: archives of the log are missing"),
            "{text}"
        );
    }
    fs::write(&january, &written).unwrap();
    assert!(qiang_audit::audit(&db).unwrap().ok);
}

/// The checks of the log detect a changed archive, even if the recorded digest was changed with it.
#[test]
fn a_changed_entry_is_found_although_its_archive_is_signed_anew() {
    let changes: [(&str, &[&str]); 7] = [
        (
            "UPDATE events SET user = 'eve' WHERE user = 'u1-7' AND quantity = 1",
            &["shares_follow_log"],
        ),
        (
            "UPDATE events SET amount = amount + 1 WHERE kind = 1 AND user = 'u1-7'",
            &["share_amounts"],
        ),
        ("DELETE FROM events WHERE seq = 9", &["archives_whole"]),
        ("DELETE FROM events WHERE seq = 1", &["archives_whole"]),
        (
            "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
            &["archives_whole"],
        ),
        ("DELETE FROM events WHERE kind = 2", &["archives_whole"]),
        (
            "UPDATE campaigns SET id = upper(id) || 'x'",
            &["log_entries"],
        ),
    ];
    for (change, expected) in changes {
        let scene = archived();
        run(&scene.path("qiang-2027-01.db"), change);
        sign(&scene);
        let report = qiang_audit::audit(&scene.path("qiang.db")).unwrap();
        let found = broken(&report);
        let is_found = expected.iter().all(|name| found.contains(name));
        assert!(is_found, "{change}: {report}");
    }
}

#[test]
fn what_the_file_says_of_its_archives_is_checked() {
    let check = |change: &str, expected: &str| {
        let scene = archived();
        let db = scene.path("qiang.db");
        run(&db, change);
        let report = qiang_audit::audit(&db).unwrap();
        assert!(broken(&report).contains(expected), "{change}: {report}");
    };
    check("DELETE FROM archives WHERE first = 1", "archives_follow");
    check("DELETE FROM archives", "log_dense");
    check(
        "UPDATE archives SET last = last - 1 WHERE first = 1",
        "archives_whole",
    );
    check(
        "UPDATE archives SET month = '2026-12' WHERE first = 1",
        "archives_whole",
    );
    check(
        "UPDATE settled SET seq = (SELECT max(last) - 1 FROM archives)",
        "archives_follow",
    );
    check(
        "INSERT INTO events SELECT 5, at, campaign, kind, number, user, quantity, amount, note FROM events LIMIT 1",
        "archives_agree",
    );
}

/// One of several archives is missing, or the file does not know it. The others do not replace it.
#[test]
fn a_missing_archive_is_found_wherever_it_stands() {
    let scene = Scene::new();
    let (packet, sale) = (scene.create(long_packet(1)), scene.create(long_sale(2)));
    for month in 1..=3 {
        scene.month(packet, sale, month);
    }
    assert_eq!(scene.archive().len(), 3);
    scene.engine.close();
    let [db, away] = ["qiang.db", "away"].map(|name| scene.path(name));
    for month in ["2027-01", "2027-02", "2027-03"] {
        let name = format!("qiang-{month}.db");
        fs::rename(scene.path(&name), &away).unwrap();
        let report = qiang_audit::audit(&db).unwrap();
        assert_eq!(
            broken(&report),
            BTreeSet::from(["archives_whole"]),
            "{report}"
        );
        let line = format!("{name} is not there");
        assert!(report.to_string().contains(&line), "{report}");
        fs::rename(&away, scene.path(&name)).unwrap();
    }
    assert!(qiang_audit::audit(&db).unwrap().ok);
    run(&db, "DELETE FROM archives WHERE month = '2027-02'");
    let report = qiang_audit::audit(&db).unwrap();
    assert!(broken(&report).contains("archives_follow"), "{report}");
}

#[test]
fn archives_lie_beside_the_file_or_where_it_is_said() {
    let scene = archived();
    let (db, elsewhere) = (scene.path("qiang.db"), scene.path("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    let at = |folder: &Path| qiang_audit::audit_with(&db, Some(folder)).unwrap();
    let report = at(&elsewhere);
    assert_eq!(
        broken(&report),
        BTreeSet::from(["archives_whole"]),
        "{report}"
    );
    for name in ["qiang-2027-01.db", "qiang-2027-02.db"] {
        fs::rename(scene.path(name), elsewhere.join(name)).unwrap();
    }
    assert!(at(&elsewhere).ok);
    let report = qiang_audit::audit(&db).unwrap();
    assert_eq!(
        broken(&report),
        BTreeSet::from(["archives_whole"]),
        "{report}"
    );
    // A copy of the file, with the archives in another folder.
    let copy = elsewhere.join("copy.db");
    qiang_embedded::copies::back_up(&db, &copy).unwrap();
    let report = qiang_audit::audit(&copy).unwrap();
    assert!(report.ok, "{report}");
}
