//! Audits of databases: sound ledgers in PostgreSQL and MariaDB, one that is written during the read, planted breaches,
//! and databases that cannot be audited.

mod beside;
mod breaches;
mod engine;
mod places;
mod quarantine;
mod refusals;
mod sound;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use qiang_audit::AuditFindings;
use qiang_core::ports::Ledger;
use qiang_ledger::LedgerOptions;
use qiang_testkit::{
    ManualClock,
    campaign::OPENS,
    servers::{mariadb, postgres},
};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, raw_sql};
use tokio::runtime::{Builder, Runtime};

use crate::standalone_history::{World, history};

/// Documentation page that names every check.
const AUDIT_PAGE: &str = include_str!("../../../../../docs/reference/audit.md");

/// Tables of a ledger.
const TABLES: [&str; 18] = [
    "sale_terms",
    "campaigns",
    "parts",
    "shares",
    "orders",
    "payments",
    "order_returns",
    "accounts",
    "postings",
    "direct_postings",
    "deposits",
    "payouts",
    "idempotency_keys",
    "settled",
    "set_aside",
    "repairs",
    "withheld",
    "withheld_numbers",
];

/// Databases that a ledger may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LedgerKind {
    Postgres,
    MariaDb,
}

const KINDS: [LedgerKind; 2] = [LedgerKind::Postgres, LedgerKind::MariaDb];

fn postgres() -> &'static postgres::Postgres {
    static SERVER: OnceLock<postgres::Postgres> = OnceLock::new();
    SERVER.get_or_init(|| postgres::Postgres::start(&postgres::Options::new().without_fsync()))
}

fn mariadb() -> &'static mariadb::MariaDb {
    static SERVER: OnceLock<mariadb::MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| mariadb::MariaDb::start(&mariadb::Options::new().without_fsync()))
}

impl LedgerKind {
    /// URL of a new, empty database.
    fn database(self) -> String {
        match self {
            Self::Postgres => postgres().create_database(),
            Self::MariaDb => mariadb().create_database(),
        }
    }

    /// Runs statements. Names that may be reserved words are written as `"name"`.
    fn run(self, url: &str, sql: &str) {
        runtime().block_on(async {
            match self {
                Self::Postgres => {
                    let mut conn = PgConnection::connect(url).await.unwrap();
                    let done = conn.execute(raw_sql(AssertSqlSafe(sql))).await;
                    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
                    conn.close().await.unwrap();
                }
                Self::MariaDb => {
                    let mut conn = MySqlConnection::connect(url).await.unwrap();
                    let quoted = sql.replace('"', "`");
                    let done = conn.execute(raw_sql(AssertSqlSafe(quoted))).await;
                    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
                    conn.close().await.unwrap();
                }
            }
        });
    }

    /// Copies a ledger into its own database, without any key or constraint. The original must have no connections.
    fn bare_copy(self, url: &str) -> String {
        let name = url.rsplit('/').next().unwrap();
        let copy = match self {
            Self::Postgres => {
                let copy = format!("{name}_bare_{}", next());
                postgres().sql(&format!("CREATE DATABASE {copy} TEMPLATE {name}"));
                url.replace(name, &copy)
            }
            Self::MariaDb => mariadb().create_database(),
        };
        let bare = |table: &&str| match self {
            Self::Postgres => format!(
                "CREATE TABLE bare AS SELECT * FROM {table}; DROP TABLE {table};
                 ALTER TABLE bare RENAME TO {table};"
            ),
            Self::MariaDb => format!("CREATE TABLE {table} AS SELECT * FROM {name}.{table};"),
        };
        let mut sql: String = TABLES.iter().map(bare).collect();
        if self == Self::MariaDb {
            sql += &format!("CREATE TABLE schema_version AS SELECT * FROM {name}.schema_version;");
        }
        self.run(&copy, &sql);
        copy
    }
}

/// A unique number.
fn next() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn opened(url: &str, clock: Arc<ManualClock>) -> Arc<dyn Ledger> {
    qiang_ledger::migrate(url).await.unwrap();
    let ledger = qiang_ledger::open(url, clock, LedgerOptions::default()).await;
    ledger.unwrap_or_else(|error| panic!("{error}"))
}

/// A ledger with its history in a new database.
fn world(kind: LedgerKind) -> (World, String) {
    let url = kind.database();
    let world = World::new(async |clock| opened(&url, clock).await);
    (history(world), url)
}

/// A sound ledger without connections.
fn sound(kind: LedgerKind) -> String {
    world(kind).1
}

/// An empty ledger.
fn empty(kind: LedgerKind) -> String {
    let url = kind.database();
    let clock = ManualClock::new(OPENS);
    runtime().block_on(async { drop(opened(&url, clock).await) });
    url
}

fn audit(url: &str) -> anyhow::Result<AuditFindings> {
    runtime().block_on(qiang_audit::audit_ledger(url))
}

/// Audits a ledger. Returns the broken checks and the whole report.
fn broken(url: &str) -> (BTreeSet<String>, Value) {
    crate::outcome::broken(&audit(url).unwrap())
}

fn assert_sound(url: &str) -> Value {
    let (broken, report) = broken(url);
    assert!(broken.is_empty(), "{report:#}");
    report
}
