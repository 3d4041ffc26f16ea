//! Ledger of a cell, and the means to block a transaction of settlement before its end.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use qiang_core::{event::Seq, ports::Ledger};
use qiang_embedded::{SqliteLedger, SystemClock};
use qiang_ledger::LedgerOptions;
use qiang_testkit::servers::{mariadb::MariaDb, postgres::Postgres};
use rusqlite::OpenFlags;
use sqlx::{Connection as _, Executor as _, MySqlConnection, PgConnection, raw_sql};
use tempfile::TempDir;

use crate::crash_matrix::{
    LedgerKind,
    harness::wait_for,
    pool::{self, Lent},
};

/// Rows of 100,000 bytes that a blocked transaction on SQLite writes first. SQLite cannot keep them all in memory, so
/// some are in the write-ahead log, uncommitted.
const BALLAST_ROWS: u32 = 900;
/// Size of the log between its size before and after these rows.
const BALLAST_BYTES: u64 = 16 << 20;
/// The row to lock, and its lock.
const ROW: &str = "CREATE TABLE held (id BIGINT PRIMARY KEY); INSERT INTO held (id) VALUES (1);";
const LOCK: &str = "BEGIN; SELECT id FROM held FOR UPDATE;";
/// Pause between two queries: MariaDB caches its list of transactions for a tenth of a second.
const SHOWN_AGAIN: Duration = Duration::from_millis(150);

/// The ledger of a cell.
pub(crate) enum CellLedger {
    File { path: PathBuf, _folder: TempDir },
    Postgres(Lent<Postgres>, String),
    MariaDb(Lent<MariaDb>, String),
}

/// Block of settlement transactions that have written everything but the position. In a database, a trigger waits for a
/// row that this transaction has locked. SQLite has no row locks, so its trigger never ends.
pub(crate) enum Hold {
    File,
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl CellLedger {
    /// An empty ledger.
    pub(crate) async fn new(kind: LedgerKind) -> Self {
        let ledger = match kind {
            LedgerKind::Sqlite => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("ledger.db");
                return Self::File {
                    path,
                    _folder: folder,
                };
            }
            LedgerKind::Postgres => {
                let server = pool::postgres();
                let url = server.create_database();
                Self::Postgres(server, url)
            }
            LedgerKind::MariaDb => {
                let server = pool::mariadb();
                let url = server.create_database();
                Self::MariaDb(server, url)
            }
        };
        qiang_ledger::migrate(ledger.address()).await.unwrap();
        ledger
    }

    /// The database's URL, or the path of the file.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::File { path, .. } => path.to_str().expect("a plain path"),
            Self::Postgres(_, url) | Self::MariaDb(_, url) => url,
        }
    }

    /// The flag of the command line for this ledger.
    pub(crate) fn flag(&self) -> &'static str {
        match self {
            Self::File { .. } => "--data",
            Self::Postgres(..) | Self::MariaDb(..) => "--ledger",
        }
    }

    /// Opens the ledger for work that ends before another process opens it: a file has one writer.
    pub(crate) async fn with<T>(&self, work: impl AsyncFnOnce(Arc<dyn Ledger>) -> T) -> T {
        let clock = Arc::new(SystemClock);
        match self {
            Self::File { path, .. } => {
                let ledger = SqliteLedger::open(path, clock);
                let ledger = ledger.unwrap_or_else(|error| panic!("{error}"));
                let done = work(Arc::new(ledger.clone())).await;
                ledger.close();
                done
            }
            Self::Postgres(_, url) | Self::MariaDb(_, url) => {
                let ledger = qiang_ledger::open(url, clock, LedgerOptions::default()).await;
                work(ledger.unwrap_or_else(|error| panic!("{error}"))).await
            }
        }
    }

    /// Settled positions, read beside other writers.
    pub(crate) async fn positions(&self) -> BTreeMap<u16, Seq> {
        const SQL: &str = "SELECT partition, seq FROM settled";
        let rows: Vec<(i64, i64)> = match self {
            Self::File { path, .. } => {
                let conn =
                    rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                        .unwrap();
                let mut statement = conn.prepare(SQL).unwrap();
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
                rows.unwrap().map(Result::unwrap).collect()
            }
            Self::Postgres(_, url) => {
                let mut conn = PgConnection::connect(url).await.unwrap();
                sqlx::query_as(SQL).fetch_all(&mut conn).await.unwrap()
            }
            Self::MariaDb(_, url) => {
                let mut conn = MySqlConnection::connect(url).await.unwrap();
                let sql = "SELECT `partition`, seq FROM settled";
                sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap()
            }
        };
        let row = |(partition, seq)| (partition as u16, seq as Seq);
        rows.into_iter().map(row).collect()
    }

    pub(crate) fn kill(&self) {
        match self {
            Self::File { .. } => panic!("a file cannot be killed"),
            Self::Postgres(server, _) => server.kill(),
            Self::MariaDb(server, _) => server.kill(),
        }
    }

    pub(crate) fn start_again(&self) {
        match self {
            Self::File { .. } => panic!("a file cannot be started"),
            Self::Postgres(server, _) => server.start_again(),
            Self::MariaDb(server, _) => server.start_again(),
        }
    }

    /// Blocks all transactions of settlement. On a file, transactions that end before `from` still commit.
    pub(crate) async fn hold(&self, from: Seq) -> Hold {
        match self {
            Self::File { path, .. } => {
                stand_still(path, from);
                Hold::File
            }
            Self::Postgres(_, url) => {
                let mut conn = PgConnection::connect(url).await.unwrap();
                conn.execute(raw_sql(ROW)).await.unwrap();
                conn.execute(raw_sql(LOCK)).await.unwrap();
                let mut other = PgConnection::connect(url).await.unwrap();
                let trigger = raw_sql(include_str!("stand_still_postgres.sql"));
                other.execute(trigger).await.unwrap();
                Hold::Postgres(conn)
            }
            Self::MariaDb(_, url) => {
                let mut conn = MySqlConnection::connect(url).await.unwrap();
                conn.execute(raw_sql(ROW)).await.unwrap();
                conn.execute(raw_sql(LOCK)).await.unwrap();
                let mut other = MySqlConnection::connect(url).await.unwrap();
                let trigger = raw_sql(include_str!("stand_still_mariadb.sql"));
                other.execute(trigger).await.unwrap();
                Hold::MariaDb(conn)
            }
        }
    }

    /// Waits until a transaction has written rows and is blocked.
    pub(crate) async fn wait_for_held(&self) {
        const ON_POSTGRES: &str = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND backend_xid IS NOT NULL
                AND query LIKE 'UPDATE settled%'";
        const ON_MARIADB: &str = "SELECT count(*) FROM information_schema.innodb_trx
            WHERE trx_state = 'LOCK WAIT' AND trx_rows_modified > 0";
        wait_for("a transaction that is held up", async || match self {
            Self::File { path, .. } => {
                let log = format!("{}-wal", path.display());
                std::fs::metadata(log).is_ok_and(|log| log.len() > BALLAST_BYTES)
            }
            Self::Postgres(_, url) => {
                let mut conn = PgConnection::connect(url).await.unwrap();
                let count: i64 = sqlx::query_scalar(ON_POSTGRES)
                    .fetch_one(&mut conn)
                    .await
                    .unwrap();
                count > 0
            }
            Self::MariaDb(_, url) => {
                tokio::time::sleep(SHOWN_AGAIN).await;
                let mut conn = MySqlConnection::connect(url).await.unwrap();
                let count: i64 = sqlx::query_scalar(ON_MARIADB)
                    .fetch_one(&mut conn)
                    .await
                    .unwrap();
                count > 0
            }
        })
        .await;
    }

    /// Removes the block.
    pub(crate) async fn let_go(&self, hold: Hold) {
        // If the server was killed, the block is gone already, so a failed rollback is ignored.
        match hold {
            Hold::File => {
                let Self::File { path, .. } = self else {
                    unreachable!("held here")
                };
                let conn = rusqlite::Connection::open(path).unwrap();
                // The file was not closed: without its write-ahead log, it could not be opened again.
                let keep_wal = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
                conn.set_db_config(keep_wal, true).unwrap();
                let dropped = "DROP TRIGGER stand_still; DROP VIEW ballast_rows; DROP VIEW endless;
                    DROP TABLE ballast;";
                conn.execute_batch(dropped).unwrap();
            }
            Hold::Postgres(mut conn) => drop(conn.execute("ROLLBACK").await),
            Hold::MariaDb(mut conn) => drop(conn.execute("ROLLBACK").await),
        }
    }
}

/// Adds a trigger on the last write of settlement, which fills SQLite's memory and then never ends.
fn stand_still(path: &Path, from: Seq) {
    let conn = rusqlite::Connection::open(path).unwrap();
    let sql = format!(
        "CREATE TABLE ballast (bytes);
         CREATE VIEW ballast_rows AS WITH RECURSIVE n (i) AS
             (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {BALLAST_ROWS}) SELECT i FROM n;
         CREATE VIEW endless AS WITH RECURSIVE n (i) AS
             (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
         CREATE TRIGGER stand_still BEFORE UPDATE ON settled WHEN NEW.seq >= {from} BEGIN
             INSERT INTO ballast SELECT zeroblob(100000) FROM ballast_rows;
             SELECT count(*) FROM endless;
         END;"
    );
    conn.execute_batch(&sql).unwrap();
}
