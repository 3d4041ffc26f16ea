//! Sound ledgers.

use qiang_core::{book::Command, id::PaymentRef, payment::ReceivedMoney};
use qiang_testkit::{
    campaign::{OPEN_MS, OPENS, sale},
    servers::mariadb::{MariaDb, Options},
};

use super::{
    AUDIT_PAGE, KINDS, LedgerKind, World, assert_sound, audit, empty, history, mariadb, opened,
    postgres, world,
};

/// Number of audits during grants and settlement, and maximum grants.
const AUDITS: usize = 5;
const GRANTS_MAX: u32 = 100_000;
/// Paid orders per settlement.
const BATCH: usize = 10;

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
            let nothing = no_log || check["name"] == "nothing_aside";
            assert_eq!(check["examined"] == 0, nothing, "{check}");
            let name = check["name"].as_str().unwrap();
            assert!(AUDIT_PAGE.contains(&format!("`{name}`")), "{name}");
        }
        // Now everything is settled.
        world.settle(0);
        assert_sound(&url);

        let text = audit(&url).unwrap().to_string();
        let begin = format!("a ledger, as of one moment: {url}\n");
        assert!(text.starts_with(&begin), "{text}");
        let end = "ok: 33 checks hold; 29 are not applicable";
        assert!(text.ends_with(end), "{text}");
    }
}

#[test]
fn a_ledger_without_rows_is_sound() {
    for kind in KINDS {
        assert_sound(&empty(kind));
    }
}

/// Settlement continues while the tables are read one after the other. All must be as of the same moment.
#[test]
fn a_ledger_is_read_as_of_one_moment() {
    for kind in KINDS {
        let url = kind.database();
        let mut world = World::new(async |clock| opened(&url, clock).await);
        let target = world.open(
            0,
            1,
            &sale(GRANTS_MAX).price(7).window(OPENS, 100 * OPEN_MS),
        );
        let payment = PaymentRef::new("paid").unwrap();
        std::thread::scope(|scope| {
            let audits = scope.spawn(|| {
                for _ in 0..AUDITS {
                    assert_sound(&url);
                }
            });
            let (mut users, mut settled) = (0..GRANTS_MAX, 0);
            while !audits.is_finished() {
                for n in users.by_ref().take(BATCH) {
                    let order = world.granted(0, target, &format!("u{n}"));
                    let payment = payment.clone();
                    world.play(
                        0,
                        Command::Pay {
                            order,
                            payment,
                            paid_at: None,
                            received: ReceivedMoney::Price,
                            cancelled: 0,
                        },
                    );
                }
                assert!(!users.is_empty(), "the audits take for ever");
                let book = &world.books[0];
                let log = &book.logs()[0];
                let settling = world.ledger.settle(book.partitions()[0], &log[settled..]);
                world.runtime.block_on(settling).unwrap();
                settled = log.len();
            }
            audits.join().unwrap();
        });
    }
}

/// A user with read permission is enough, because nothing is written.
#[test]
fn a_reader_may_audit() {
    for kind in KINDS {
        let (_world, url) = world(kind);
        let name = url.rsplit('/').next().unwrap();
        let url = match kind {
            LedgerKind::Postgres => {
                kind.run(
                    &url,
                    "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
                );
                format!("postgres://reader:unasked@{}/{name}", postgres().addr())
            }
            LedgerKind::MariaDb => {
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

/// All texts and numbers are copied unchanged.
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
        // Texts that differ only in case are different.
        kind.run(
            &url,
            "UPDATE accounts SET owner = 'U2' WHERE owner = 'u2' AND purpose = 'user'",
        );
        let (broken, report) = super::broken(&url);
        assert!(broken.contains("grants_posted"), "{report:#}");
        drop(world);
    }
}

/// A server's default may limit results to one row. The audit reads all rows anyway.
#[test]
fn limits_of_the_server_hide_no_rows() {
    let server = MariaDb::start(&Options::new().without_fsync());
    let url = server.create_database();
    let world = World::new(async |clock| opened(&url, clock).await);
    let world = history(world);
    let examined = |report: &serde_json::Value| -> u64 {
        let checks = report["checks"].as_array().unwrap().iter();
        checks
            .map(|check| check["examined"].as_u64().unwrap())
            .sum()
    };
    let all = examined(&assert_sound(&url));
    server.sql("SET GLOBAL sql_select_limit = 1; SET GLOBAL max_join_size = 1");
    assert_eq!(examined(&assert_sound(&url)), all);
    drop(world);
}
