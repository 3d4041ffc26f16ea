//! Test of the data of a killed benchmark: the audit passes, and changes nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::beside_others;

fn assert_sound(db: &Path) {
    let report = qiang_audit::audit(db).unwrap();
    assert!(report.ok, "{report}");
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

#[test]
fn what_a_killed_process_left_is_sound() {
    let _run = beside_others();
    let folder = TempDir::new().unwrap();
    let db = folder.path().join("qiang.db");
    let wal = folder.path().join("qiang.db-wal");
    let mut bench = Command::new(env!("CARGO_BIN_EXE_qiang-bench"))
        .args(["engine", "--shares", "1000000", "--data"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let grants = || -> u64 {
        let reader =
            rusqlite::Connection::open_with_flags(&db, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
        let count =
            reader.and_then(|r| r.query_row("SELECT max(seq) FROM events", [], |row| row.get(0)));
        count.unwrap_or(0i64).unsigned_abs()
    };
    while grants() < 5_000 {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "the load has not begun"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    bench.kill().unwrap();
    bench.wait().unwrap();
    assert!(wal.metadata().unwrap().len() > 0);

    let before = contents(folder.path());
    assert_sound(&db);
    fs::remove_file(folder.path().join("qiang.db-shm")).unwrap();
    assert_sound(&db);
    assert_eq!(contents(folder.path()), before);
}
