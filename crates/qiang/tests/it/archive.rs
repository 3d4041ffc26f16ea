//! `qiang log archive`, and `qiang audit` of the archives.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use crate::common::output;
use qiang::{Backend, NodeConfig, NodeStarter};
use qiang_core::{
    book::Command,
    event::PartitionId,
    ports::{CampaignStore as _, Engine as _, SettlementStore as _},
    time::Timestamp,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{Target, sale},
};

/// 10 January 2020.
const THEN: Timestamp = Timestamp::from_millis(1_578_614_400_000);

/// Exit code, standard output and standard error of a run.
fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = output(folder, args, &[]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A file with an order of January 2020 and one of February.
fn ledger() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(THEN);
    let embedded = Embedded::open(&folder.path().join("qiang.db"), clock.clone()).unwrap();
    let mut setup = sale(5).window(THEN, 1_000_000_000_000).setup(1);
    setup.campaign.created_at = THEN;
    let target = Target::of(&setup);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        embedded.create(&setup).await.unwrap();
        let open = Command::Open(Box::new(setup));
        embedded.submit(open).await.unwrap();
        embedded.claim(target.one("ann")).await.unwrap();
        clock.advance(30 * 86_400_000);
        let events_max = 10;
        embedded.submit(Command::Tick { events_max }).await.unwrap();
        embedded.claim(target.one("bob")).await.unwrap();
        let (head, _) = embedded.positions();
        let settled = embedded.await_settled(PartitionId(0), head, Duration::from_secs(20));
        assert_eq!(settled.await, Ok(true));
    });
    embedded.close();
    folder
}

#[test]
fn months_go_into_files_that_the_audit_reads() {
    let folder = ledger();
    let folder = folder.path();
    let archive = |args: &[&str]| {
        run(
            folder,
            &[&["log", "archive", "--data", "qiang.db"], args].concat(),
        )
    };
    let (code, text, _) = archive(&["--dry-run"]);
    let january = "2020-01: entries 1 to 2 can be archived\n";
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with(january) && text.contains("2020-02: "),
        "{text}"
    );
    let (code, text, _) = archive(&["--dry-run", "--before", "2020-02"]);
    assert_eq!((code, text.as_str()), (Some(0), january));
    let dry_run = [
        "reconciler",
        "run",
        "archive",
        "--data",
        "qiang.db",
        "--dry-run",
    ];
    let (code, text, _) = run(folder, &dry_run);
    assert_eq!(code, Some(1), "something is left");
    assert!(text.starts_with("2020-01: entries 1 to 2\n"), "{text}");

    for (args, what) in [(&["--before", "2020-13"][..], "2026-10"), (&[], "--to")] {
        let (code, _, errors) = archive(args);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(what), "{errors}");
    }
    let (code, _, errors) = archive(&["--to", "archives"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("there is no folder"), "{errors}");

    fs::create_dir(folder.join("archives")).unwrap();
    let (code, json, errors) = archive(&["--to", "archives", "--before", "2020-02", "--json"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let made = &report["archived"][0];
    assert_eq!(
        (&made["month"], &made["entries"]),
        (&"2020-01".into(), &2.into()),
        "{json}"
    );
    let file = folder.join("archives/qiang-2020-01.db");
    assert_eq!(made["bytes"], file.metadata().unwrap().len());
    assert_eq!(made["sha256"].as_str().unwrap().len(), 64);
    let (code, text, _) = archive(&["--to", "archives"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("archives/qiang-2020-02.db"), "{text}");
    let (code, text, _) = archive(&["--to", "archives"]);
    assert_eq!((code, text.as_str()), (Some(0), "no month to archive\n"));

    // The folder where the archive was written, no folder, and a folder from the flag.
    let audit = |args: &[&str]| run(folder, &[&["audit", "--db", "qiang.db"], args].concat());
    let (code, text, _) = audit(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("archives_whole"), "{text}");
    fs::rename(folder.join("archives"), folder.join("away")).unwrap();
    let (code, text, _) = audit(&[]);
    assert_eq!(code, Some(1), "{text}");
    let line = "qiang-2020-01.db is not there: entries 1 to 2 are not proved";
    assert!(text.contains(line), "{text}");
    let (code, text, _) = audit(&["--archives", "away"]);
    assert_eq!(code, Some(0), "{text}");
}

/// If a folder is configured, a serving node archives.
#[test]
fn a_node_archives_what_is_over_for_long_enough() {
    let folder = ledger();
    let [data, archives] = ["qiang.db", "archives"].map(|name| folder.path().join(name));
    fs::create_dir(&archives).unwrap();
    let flags = [
        ("engine.data", data.display().to_string()),
        ("engine.archive_dir", archives.display().to_string()),
        (
            "auth.hs256_secret",
            "a secret that no token is signed with".to_owned(),
        ),
    ];
    let config = NodeConfig::defaults_with(&flags).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let backend = Backend::open(&config).await.unwrap();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let running = NodeStarter::start(config, backend, listener).await.unwrap();
        let (reader, began) = (rusqlite::Connection::open(&data).unwrap(), Instant::now());
        let left = "SELECT count(*) + (SELECT 2 - count(*) FROM archives) FROM events \
                    WHERE seq <= (SELECT coalesce(max(last), 1) FROM archives)";
        while reader
            .query_row(left, [], |row| row.get::<_, i64>(0))
            .unwrap()
            > 0
        {
            assert!(began.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(reader);
        running.shutdown().await.unwrap();
    });
    for month in ["2020-01", "2020-02"] {
        assert!(archives.join(format!("qiang-{month}.db")).is_file());
    }
    let (code, text, _) = run(folder.path(), &["audit"]);
    assert_eq!(code, Some(0), "{text}");
}
