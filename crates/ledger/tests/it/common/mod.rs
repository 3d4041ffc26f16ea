//! Real database servers, and new ledgers on them.

pub(crate) mod audit;
pub(crate) mod history;
pub(crate) mod mysql;

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use qiang_core::ports::{Clock, Ledger};
use qiang_ledger::LedgerOptions;
use qiang_testkit::servers::{ServerProcess, mariadb, postgres};
pub(crate) use qiang_testkit::servers::{mariadb::MariaDb, postgres::Postgres};
use sqlx::Connection as _;

/// Server with databases for tests.
pub(crate) trait Databases: Send + Sync + Sized + 'static {
    /// URL of a new database without tables.
    fn empty(&self) -> String;
    /// Runs queries that return one number each. Returns the numbers.
    fn counts(url: &str, queries: &[&'static str]) -> impl Future<Output = Vec<i64>> + Send;
    /// The server that the tests of this target share. It stops when the last test drops it.
    fn shared() -> Arc<Self>;

    /// URL of a new database with the ledger's tables.
    fn fresh(&self) -> impl Future<Output = String> + Send {
        async {
            let url = self.empty();
            qiang_ledger::migrate(&url).await.unwrap();
            url
        }
    }
}

/// Kind of database server that tests start.
pub(crate) trait Server: Databases + Deref<Target = ServerProcess> {
    type Stranger: Send;
    /// Whether a failed migration can be left half done.
    const COMMITS_EACH_STATEMENT: bool;
    /// Memory settings of a server with the machine to itself.
    const MEMORY: [&str; 2];

    /// Statements that make every new session of a database read-only, and that revert it.
    const READ_ONLY: [&str; 2];

    fn start_with(settings: &[&str]) -> Self;
    /// Settings of a shared server that reduce disk writes, for tests without machine crashes.
    const QUICK: &[&str];
    /// Runs a query that returns one number.
    fn count(url: &str, sql: &'static str) -> impl Future<Output = i64> + Send {
        async move { Self::counts(url, &[sql]).await[0] }
    }
    /// The only column of a query's rows.
    fn texts(url: &str, sql: &'static str) -> impl Future<Output = Vec<String>> + Send;
    /// Carries out statements on a connection of their own.
    fn execute(url: &str, sql: &str) -> impl Future<Output = ()> + Send;
    /// Returns a connection with an open transaction that wins a deadlock with settlement.
    fn stranger(url: &str) -> impl Future<Output = Self::Stranger> + Send;
    /// Runs statements in that transaction. They may wait for others.
    fn has(stranger: &mut Self::Stranger, sql: &str) -> impl Future<Output = ()> + Send;
    /// Number of transactions of a database that wait for a lock.
    fn waiting(url: &str) -> impl Future<Output = i64> + Send;
    /// Number of open transactions of a database.
    fn transactions(url: &str) -> impl Future<Output = i64> + Send;
    /// Blocks the commit of every transaction that moves an account, until [`Self::let_commits_go`].
    fn hold_commits(url: &str) -> impl Future<Output = Self::Stranger> + Send;
    fn let_commits_go(stranger: Self::Stranger) -> impl Future<Output = ()> + Send;
    /// Number of waiting commits.
    fn commits(url: &str) -> impl Future<Output = i64> + Send;

    /// Starts a server with the fixture's settings, which suit small tables.
    fn start() -> Self {
        Self::start_with(&[])
    }
}

/// Time limit of every wait.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Interval between two checks. MariaDB refreshes its list of transactions only if it was not read for 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Waits until a condition is true.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let whole = async {
        while !look().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let seen = tokio::time::timeout(WAIT_MAX, whole).await;
    assert!(seen.is_ok(), "waited in vain for {what}");
}

/// Few connections, because many tests run at once, and a long wait for them.
pub(crate) const OPTIONS: LedgerOptions = LedgerOptions {
    connections_max: 4,
    acquire_max: Duration::from_secs(30),
    work_max: WAIT_MAX,
};

/// Opens a ledger with few connections, because many tests run at once.
pub(crate) async fn open(url: &str, clock: Arc<dyn Clock>) -> Arc<dyn Ledger> {
    qiang_ledger::open(url, clock, OPTIONS).await.unwrap()
}

impl Databases for Postgres {
    fn empty(&self) -> String {
        self.create_database()
    }

    async fn counts(url: &str, queries: &[&'static str]) -> Vec<i64> {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        let mut counts = Vec::new();
        for sql in queries.iter().copied() {
            let counted = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
            counts.push(counted.unwrap_or_else(|error| panic!("{sql}: {error}")));
        }
        counts
    }

    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        share(&SHARED)
    }
}

impl Server for Postgres {
    type Stranger = sqlx::PgConnection;
    const COMMITS_EACH_STATEMENT: bool = false;
    const QUICK: &[&str] = &["fsync=off", "full_page_writes=off"];

    const READ_ONLY: [&str; 2] = [
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); \
         END $$",
        "BEGIN READ WRITE; \
         DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); \
         END $$; \
         COMMIT",
    ];
    const MEMORY: [&str; 2] = ["shared_buffers=1GB", "max_wal_size=4GB"];

    fn start_with(settings: &[&str]) -> Self {
        let options = postgres::Options::new().setting("max_connections=400");
        Postgres::start(
            &settings
                .iter()
                .fold(options, |options, setting| options.setting(setting)),
        )
    }

    async fn execute(url: &str, sql: &str) {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    }

    async fn texts(url: &str, sql: &'static str) -> Vec<String> {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap()
    }

    async fn stranger(url: &str) -> sqlx::PgConnection {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        // The transaction that looks for deadlocks first finds it and is rolled back.
        Self::has(&mut conn, "SET deadlock_timeout = '300s'; BEGIN").await;
        conn
    }

    async fn has(stranger: &mut sqlx::PgConnection, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(stranger).await.unwrap();
    }

    async fn waiting(url: &str) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        Self::count(url, sql).await
    }

    async fn transactions(url: &str) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()";
        Self::count(url, sql).await
    }

    async fn hold_commits(url: &str) -> sqlx::PgConnection {
        let waits = "DROP TRIGGER IF EXISTS waits ON accounts; \
                     CREATE OR REPLACE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS \
                     'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'; \
                     CREATE CONSTRAINT TRIGGER waits AFTER INSERT OR UPDATE ON accounts \
                     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION waits()";
        Self::execute(url, waits).await;
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        Self::has(&mut conn, "SELECT pg_advisory_lock(1)").await;
        conn
    }

    async fn let_commits_go(mut stranger: sqlx::PgConnection) {
        Self::has(&mut stranger, "SELECT pg_advisory_unlock(1)").await;
    }

    async fn commits(url: &str) -> i64 {
        Self::waiting(url).await
    }
}

impl Databases for MariaDb {
    fn empty(&self) -> String {
        self.create_database()
    }

    async fn counts(url: &str, queries: &[&'static str]) -> Vec<i64> {
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        let mut counts = Vec::new();
        for sql in queries.iter().copied() {
            let counted = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
            counts.push(counted.unwrap_or_else(|error| panic!("{sql}: {error}")));
        }
        counts
    }

    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<MariaDb>> = Mutex::new(Weak::new());
        share(&SHARED)
    }
}

impl Server for MariaDb {
    type Stranger = sqlx::MySqlConnection;
    const COMMITS_EACH_STATEMENT: bool = true;
    const QUICK: &[&str] = &[
        "innodb-flush-log-at-trx-commit=2",
        "innodb-flush-method=nosync",
        "innodb-file-per-table=OFF",
        "debug-no-sync",
    ];

    const READ_ONLY: [&str; 2] = ["SET GLOBAL tx_read_only = 1", "SET GLOBAL tx_read_only = 0"];
    const MEMORY: [&str; 2] = ["innodb-buffer-pool-size=1G", "innodb-log-file-size=1G"];

    fn start_with(settings: &[&str]) -> Self {
        let options = mariadb::Options::new().setting("max-connections=400");
        MariaDb::start(
            &settings
                .iter()
                .fold(options, |options, setting| options.setting(setting)),
        )
    }

    async fn execute(url: &str, sql: &str) {
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    }

    async fn texts(url: &str, sql: &'static str) -> Vec<String> {
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap()
    }

    async fn stranger(url: &str) -> sqlx::MySqlConnection {
        Self::execute(url, "CREATE TABLE heavy (n INT PRIMARY KEY)").await;
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        // The transaction with fewer changes is rolled back.
        let sql = "START TRANSACTION; INSERT INTO heavy SELECT seq FROM seq_1_to_20000";
        Self::has(&mut conn, sql).await;
        conn
    }

    async fn has(stranger: &mut sqlx::MySqlConnection, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(stranger).await.unwrap();
    }

    async fn waiting(url: &str) -> i64 {
        let sql = "SELECT count(*) FROM information_schema.innodb_trx t \
                   JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                   WHERE p.db = DATABASE() AND t.trx_state = 'LOCK WAIT'";
        Self::count(url, sql).await
    }

    async fn transactions(url: &str) -> i64 {
        let sql = "SELECT count(*) FROM information_schema.innodb_trx t \
                   JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = DATABASE()";
        Self::count(url, sql).await
    }

    async fn hold_commits(url: &str) -> sqlx::MySqlConnection {
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
            Self::has(&mut conn, &format!("BACKUP STAGE {stage}")).await;
        }
        conn
    }

    async fn let_commits_go(mut stranger: sqlx::MySqlConnection) {
        Self::has(&mut stranger, "BACKUP STAGE END").await;
    }

    async fn commits(url: &str) -> i64 {
        let sql = "SELECT count(*) FROM information_schema.processlist \
                   WHERE db = DATABASE() AND state = 'Waiting for backup lock' AND info = 'COMMIT'";
        Self::count(url, sql).await
    }
}

fn share<S: Server>(shared: &Mutex<Weak<S>>) -> Arc<S> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(S::start_with(S::QUICK));
        *shared = Arc::downgrade(&server);
        server
    })
}

/// Makes a test of each case for each kind of server.
#[macro_export]
macro_rules! on_each_server {
    ($($case:ident,)*) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case::<$crate::common::Postgres>().await;
            })*
        }

        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case::<$crate::common::MariaDb>().await;
            })*
        }
    };
}
