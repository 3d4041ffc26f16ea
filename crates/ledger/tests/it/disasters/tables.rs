//! Tables that an operator changes while they are used.

use super::{begun, deposit, hasty, reason, rest};
use crate::common::{Databases as _, MariaDb, OPTIONS, Postgres, Server, audit::audit, until};
use qiang_core::{money::Money, ports::LedgerError};
use qiang_ledger::OpenError;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, currency, user},
};
use sqlx::{Connection as _, MySqlConnection, Row as _};

/// Statements of both databases, where they differ.
trait Changes: Server {
    /// Drops the key by which deposits are found, and makes it again.
    const KEY: [&str; 2];
    /// Takes what makes that key hold in another way.
    const WEAKER: &[[&str; 2]];
    /// Adds a column that the program does not fill.
    const COLUMN: [&str; 2];
    /// Takes a table away, and brings it back.
    const RENAMED: [&str; 2];
    /// All unique keys: their tables and names.
    const KEYS: &str;

    /// The statement that drops a key.
    fn drop_key(table: &str, key: &str) -> String;
}

impl Changes for Postgres {
    const KEY: [&str; 2] = [
        "ALTER TABLE deposits DROP CONSTRAINT deposits_pkey",
        "ALTER TABLE deposits ADD PRIMARY KEY (id)",
    ];
    const WEAKER: &[[&str; 2]] = &[[
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'deposits_reference'::regclass",
        "REINDEX INDEX deposits_reference",
    ]];
    const COLUMN: [&str; 2] = [
        "ALTER TABLE orders ADD COLUMN note TEXT NOT NULL DEFAULT ''; ALTER TABLE orders ALTER note DROP DEFAULT",
        "ALTER TABLE orders DROP COLUMN note",
    ];
    const RENAMED: [&str; 2] = [
        "ALTER TABLE orders RENAME TO orders_old",
        "ALTER TABLE orders_old RENAME TO orders",
    ];
    const KEYS: &str = "SELECT i.indrelid::REGCLASS::TEXT || ' ' || c.relname FROM pg_index i \
                        JOIN pg_class c ON c.oid = i.indexrelid \
                        WHERE i.indisunique AND c.relnamespace = 'public'::REGNAMESPACE ORDER BY 1";

    fn drop_key(table: &str, key: &str) -> String {
        format!(
            "DO $$ BEGIN ALTER TABLE {table} DROP CONSTRAINT {key}; \
             EXCEPTION WHEN undefined_object THEN DROP INDEX {key}; END $$"
        )
    }
}

impl Changes for MariaDb {
    const KEY: [&str; 2] = [
        "ALTER TABLE deposits DROP PRIMARY KEY",
        "ALTER TABLE deposits ADD PRIMARY KEY (id)",
    ];
    const WEAKER: &[[&str; 2]] = &[
        [
            "ALTER TABLE orders ENGINE = MyISAM",
            "ALTER TABLE orders ENGINE = InnoDB",
        ],
        [
            "ALTER TABLE accounts CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            "ALTER TABLE accounts CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ],
    ];
    const COLUMN: [&str; 2] = [
        "ALTER TABLE orders ADD COLUMN note INT NOT NULL FIRST",
        "ALTER TABLE orders DROP COLUMN note",
    ];
    const RENAMED: [&str; 2] = [
        "RENAME TABLE orders TO orders_old",
        "RENAME TABLE orders_old TO orders",
    ];
    const KEYS: &str = "SELECT DISTINCT CONCAT(table_name, ' ', index_name) FROM information_schema.statistics \
                        WHERE table_schema = DATABASE() AND non_unique = 0 \
                        AND NOT (index_name = 'PRIMARY' AND table_name IN ('accounts', 'campaigns')) ORDER BY 1";

    fn drop_key(table: &str, key: &str) -> String {
        match key {
            "PRIMARY" => format!("ALTER TABLE {table} DROP PRIMARY KEY"),
            key => format!("ALTER TABLE {table} DROP INDEX {key}"),
        }
    }
}

fn is_refused(done: &Result<(), LedgerError>) -> bool {
    matches!(done, Err(LedgerError::Unavailable { reason }) if reason.contains("lack the unique keys"))
}

/// Without the key by which a retry is found nothing is written, by a new process or by a running one.
async fn without_a_unique_key_nothing_is_written<S: Changes>() {
    let server = S::shared();
    for [dropped, made] in [&[S::KEY], S::WEAKER].concat() {
        let url = server.fresh().await;
        let ledger = hasty(&url).await;
        let history = begun(&ledger, 40).await;
        deposit(&ledger, 77).await.unwrap();
        S::execute(&url, dropped).await;
        let opened = qiang_ledger::open(&url, ManualClock::new(OPENS), OPTIONS).await;
        let error = opened.err().unwrap();
        assert!(
            matches!(error, OpenError::Keys { .. }),
            "{dropped}: {error:?}"
        );
        until("writes to be refused", async || {
            is_refused(&deposit(&ledger, 77).await)
        })
        .await;
        // The same at once, which only the key would tell apart.
        let same = tokio::join!(
            deposit(&ledger, 78),
            deposit(&ledger, 78),
            deposit(&ledger, 78)
        );
        for done in [same.0, same.1, same.2] {
            assert!(is_refused(&done), "{dropped}: {done:?}");
        }
        assert!(reason(&ledger, &history).await.contains("unique keys"));
        assert!(
            ledger.balances(&user("ann")).await.is_ok(),
            "reads still work"
        );
        S::execute(&url, made).await;
        until("writes to be taken", async || {
            deposit(&ledger, 78).await.is_ok()
        })
        .await;
        rest::<S>(&url, &ledger, &history).await;
        let balances = ledger.balances(&user("ann")).await.unwrap();
        assert_eq!(balances[0].available, Money::new(10, currency()));
    }
}

/// The program checks exactly the keys of its migrations: each dropped key is named.
async fn every_unique_key_is_asked_for<S: Changes>() {
    let server = S::shared();
    let keys = S::texts(&server.fresh().await, S::KEYS).await;
    assert!(keys.len() > 30, "{keys:?}");
    for named in keys {
        let (table, key) = named.split_once(' ').unwrap();
        let url = server.fresh().await;
        S::execute(&url, &S::drop_key(table, key)).await;
        let opened = qiang_ledger::open(&url, ManualClock::new(OPENS), OPTIONS).await;
        match opened {
            Err(OpenError::Keys { missing }) => assert!(missing.contains(table), "{missing}"),
            Err(error) => panic!("{table} {key}: {error}"),
            Ok(_) => panic!("{table} {key}: opened"),
        }
    }
}

/// An index more, a column that may be empty: nothing changes. A column that must be filled in, or a table that is
/// gone, stops settlement, which no entry is to blame for.
async fn a_changed_table_stops_settlement_and_quarantines_nothing<S: Changes>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 40).await;
    let harmless =
        "CREATE INDEX mine ON orders (state); ALTER TABLE orders ADD COLUMN remark VARCHAR(9)";
    S::execute(&url, harmless).await;
    let settled = ledger.settle(history.partition, &history.log[..20]).await;
    assert_eq!(settled, Ok(20));
    for ([change, back], named) in [(S::COLUMN, "note"), (S::RENAMED, "orders")] {
        S::execute(&url, change).await;
        let reason = reason(&ledger, &history).await;
        assert!(reason.contains(named), "{change}: {reason}");
        S::execute(&url, back).await;
    }
    rest::<S>(&url, &ledger, &history).await;
    let counted = ledger.count_quarantined(history.partition).await.unwrap();
    assert_eq!((counted.refused, counted.waiting), (0, 0));
}

/// MariaDB reads the tables of this database for the check of the keys, and of no other, at every level of the query.
#[tokio::test(flavor = "multi_thread")]
async fn the_check_of_unique_keys_reads_one_database() {
    const PLAN: &str = concat!(
        "EXPLAIN ",
        include_str!("../../../src/mysql/sql/unique_keys.sql")
    );
    let server = MariaDb::shared();
    let mut conn = MySqlConnection::connect(&server.fresh().await)
        .await
        .unwrap();
    let plan = sqlx::query(PLAN).fetch_all(&mut conn).await.unwrap();
    let reads: Vec<String> = plan.iter().map(|row| row.get("Extra")).collect();
    let is_limited = |read: &String| read.contains("Scanned 1 database");
    assert!(
        reads.len() == 3 && reads.iter().all(is_limited),
        "{reads:#?}"
    );
}

/// A table is altered again and again while entries are settled.
async fn tables_altered_in_the_rush_lose_nothing<S: Changes>() {
    let server = S::shared();
    let url = server.fresh().await;
    let ledger = hasty(&url).await;
    let history = begun(&ledger, 2_000).await;
    let altering = {
        let url = url.clone();
        tokio::spawn(async move {
            for n in 0..8 {
                S::execute(
                    &url,
                    &format!("ALTER TABLE orders ADD COLUMN extra{n} BIGINT"),
                )
                .await;
                S::execute(&url, &format!("CREATE INDEX extra{n} ON orders (extra{n})")).await;
            }
        })
    };
    for run in history.log.chunks(100) {
        let last = run.last().unwrap().seq;
        until("a run to be settled", async || {
            ledger.settle(history.partition, run).await == Ok(last)
                || ledger.settled(history.partition).await == Ok(last)
        })
        .await;
    }
    altering.await.unwrap();
    history.check(&ledger).await;
    audit::<S>(&url).await;
}

crate::on_each_server! {
    without_a_unique_key_nothing_is_written,
    every_unique_key_is_asked_for,
    a_changed_table_stops_settlement_and_quarantines_nothing,
    tables_altered_in_the_rush_lose_nothing,
}
