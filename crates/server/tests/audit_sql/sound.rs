//! Ledgers that are sound.

use std::sync::atomic::{AtomicBool, Ordering};

use qiang_core::split::SplitRule;
use qiang_testkit::{
    ManualClock,
    campaign::{OPEN_MS, OPENS, red_packet},
};

use super::{KINDS, Kind, World, assert_sound, audit, empty, mariadb, opened, postgres, world};

/// Shares that are granted while the ledger is audited.
const RUSH: u32 = 3_000;
/// Entries that are settled together.
const BATCH: usize = 20;
/// Audits that are made meanwhile, at least.
const AUDITS_MIN: usize = 3;

#[test]
fn a_ledger_is_sound_and_says_where_it_is() {
    for kind in KINDS {
        let (world, url) = world(kind);
        let report = assert_sound(&url);
        assert_eq!(report["kind"], "ledger");
        assert_eq!(report["database"].as_str().unwrap(), url);
        for check in report["checks"].as_array().unwrap() {
            let no_log = check["not_applicable"] == "the log is in the engine";
            assert_eq!(check["ok"].is_null(), no_log, "{check}");
            assert_eq!(check["examined"] == 0, no_log, "{check}");
        }
        // When all is settled there is nothing in between any more.
        world.settle(0);
        assert_sound(&url);

        let output = audit(&["--ledger", &url]);
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let begin = format!("a ledger, as of one moment: {url}\n");
        assert!(text.starts_with(&begin), "{text}");
        let end = "ok: 26 checks hold; 26 are not applicable";
        assert!(text.trim_end().ends_with(end), "{text}");
    }
}

#[test]
fn a_ledger_without_rows_is_sound() {
    for kind in KINDS {
        assert_sound(&empty(kind));
    }
}

/// Settlement goes on while the rows are read: table after table, each must be as of the same moment.
#[test]
fn a_ledger_is_read_as_of_one_moment() {
    for kind in KINDS {
        let url = kind.database();
        let mut world =
            World::new(async |clock: std::sync::Arc<ManualClock>| opened(&url, clock).await);
        let rule = SplitRule::DoubleAverage { min: 1 };
        let packet = red_packet(100_000, RUSH, rule).window(OPENS, 100 * OPEN_MS);
        let packet = world.open(0, 1, &packet);
        for n in 0..RUSH {
            world.granted(0, packet, &format!("u{n}"));
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let audits = scope.spawn(|| {
                let mut grants = Vec::new();
                while grants.len() < AUDITS_MIN || !done.load(Ordering::Relaxed) {
                    let report = assert_sound(&url);
                    let checks = report["checks"].as_array().unwrap();
                    let posted = checks
                        .iter()
                        .find(|check| check["name"] == "positions_known");
                    grants.push(posted.unwrap()["examined"].as_i64().unwrap());
                }
                grants
            });
            let book = &world.books[0];
            let (partition, log) = (book.partitions()[0], &book.logs()[0]);
            for batch in log.chunks(BATCH) {
                let settled = world.ledger.settle(partition, batch);
                world.runtime.block_on(settled).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            let grants = audits.join().unwrap();
            assert!(
                grants.iter().any(|n| (1..i64::from(RUSH)).contains(n)),
                "no audit fell into the settlement: {grants:?}"
            );
        });
    }
}

/// A user who may only read is enough: nothing is written.
#[test]
fn a_reader_may_audit() {
    for kind in KINDS {
        let (_world, url) = world(kind);
        let name = url.rsplit('/').next().unwrap();
        let url = match kind {
            Kind::Postgres => {
                kind.run(
                    &url,
                    "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
                );
                format!("postgres://reader:unasked@{}/{name}", postgres().addr())
            }
            Kind::MariaDb => {
                mariadb().sql(&format!(
                    "CREATE USER reader@'%' IDENTIFIED BY 'a/b#c'; GRANT SELECT ON {name}.* TO reader@'%'"
                ));
                format!("mariadb://reader:a%2Fb%23c@{}/{name}", mariadb().addr())
            }
        };
        let report = assert_sound(&url);
        let place = report["database"].as_str().unwrap();
        assert!(place.contains("://reader@127.0.0.1:"), "{place}");
    }
}

/// Text and numbers come through as they are, whatever they are.
#[test]
fn rows_come_through_as_they_are() {
    for kind in KINDS {
        let (world, url) = world(kind);
        let name = "张三 🧧 \u{7f}é";
        for table in ["shares", "orders"] {
            kind.run(
                &url,
                &format!("UPDATE {table} SET \"user\" = '{name}' WHERE \"user\" = 'u1'"),
            );
        }
        kind.run(
            &url,
            &format!("UPDATE accounts SET owner = '{name}' WHERE owner = 'u1'"),
        );
        assert_sound(&url);
        // A difference in case alone is one.
        kind.run(
            &url,
            "UPDATE accounts SET owner = 'U2' WHERE owner = 'u2' AND purpose = 'user'",
        );
        let (broken, report) = super::broken(&url);
        assert!(broken.contains("grants_posted"), "{report:#}");
        drop(world);
    }
}
