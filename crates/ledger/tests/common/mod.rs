//! Real database servers, and fresh ledgers on them.
#![allow(dead_code, reason = "each test target uses its part of it")]

pub(crate) mod audit;
pub(crate) mod history;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use qiang_core::ports::{Clock, Ledger};
use qiang_ledger::LedgerOptions;
use qiang_testkit::servers::{Port, Process, wait_for};
use sqlx::Connection as _;
use tempfile::TempDir;

/// A kind of database server.
pub(crate) trait Server: Send + Sync + Sized + 'static {
    type Stranger: Send;
    /// Whether a migration can be left half done.
    const COMMITS_EACH_STATEMENT: bool;
    fn start() -> Self;
    fn kill(&self);
    fn restart(&mut self);
    /// The URL of a database; `""` for the one that is always there.
    fn url(&self, database: &str) -> String {
        Self::url_at(self.addr(), database)
    }
    fn url_at(addr: SocketAddr, database: &str) -> String;
    fn addr(&self) -> SocketAddr;
    fn make_database(&self, name: &str) -> impl Future<Output = ()> + Send;
    /// The only number that a query of a database returns.
    fn count(url: &str, sql: &'static str) -> impl Future<Output = i64> + Send;
    /// Carries out statements on a connection of their own.
    fn execute(url: &str, sql: &str) -> impl Future<Output = ()> + Send;
    /// A connection with an open transaction, which wins when it is in a deadlock with settlement.
    fn stranger(url: &str) -> impl Future<Output = Self::Stranger> + Send;
    /// Does something in that transaction, which may wait for others.
    fn has(stranger: &mut Self::Stranger, sql: &str) -> impl Future<Output = ()> + Send;
    /// How many transactions of a database wait for a lock.
    fn waiting(url: &str) -> impl Future<Output = i64> + Send;
    /// How many transactions are open in a database.
    fn transactions(url: &str) -> impl Future<Output = i64> + Send;
    /// Lets no transaction that moves an account commit, until the stranger is let go.
    fn hold_commits(url: &str) -> impl Future<Output = Self::Stranger> + Send;
    fn let_commits_go(stranger: Self::Stranger) -> impl Future<Output = ()> + Send;
    /// How many commits wait.
    fn commits(url: &str) -> impl Future<Output = i64> + Send;
    /// The server that the tests of this target share.
    fn shared() -> &'static Self;

    /// The URL of a new database without tables.
    fn empty(&self) -> impl Future<Output = String> + Send {
        static MADE: AtomicU32 = AtomicU32::new(0);
        async {
            let name = format!("case_{}", MADE.fetch_add(1, Ordering::Relaxed));
            self.make_database(&name).await;
            self.url(&name)
        }
    }

    /// The URL of a new database with the ledger's tables.
    fn fresh(&self) -> impl Future<Output = String> + Send {
        async {
            let url = self.empty().await;
            qiang_ledger::migrate(&url).await.unwrap();
            url
        }
    }
}

/// How long anything may take that is waited for.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Between two looks. MariaDB's list of transactions is only made anew when nobody has read it for 100 ms.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// Looks until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let whole = async {
        while !look().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let seen = tokio::time::timeout(WAIT_MAX, whole).await;
    assert!(seen.is_ok(), "waited in vain for {what}");
}

/// Few connections, for many tests run at once, and time to wait for them.
pub(crate) const OPTIONS: LedgerOptions = LedgerOptions {
    connections_max: 4,
    acquire_max: Duration::from_secs(30),
    work_max: WAIT_MAX,
};

/// A ledger with few connections: many tests run at once.
pub(crate) async fn open(url: &str, clock: Arc<dyn Clock>) -> Arc<dyn Ledger> {
    qiang_ledger::open(url, clock, OPTIONS).await.unwrap()
}

fn output(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

pub(crate) struct Postgres {
    folder: TempDir,
    port: Port,
    process: Option<Process>,
}

const POSTGRES_BIN: &str = "/usr/lib/postgresql/15/bin";
const AS_POSTGRES: [&str; 4] = ["--reuid", "postgres", "--regid", "postgres"];

impl Postgres {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn up(&self) -> Process {
        let mut command = Command::new("setpriv");
        command
            .args(AS_POSTGRES)
            .args(["--clear-groups", "--"])
            .arg(Path::new(POSTGRES_BIN).join("postgres"))
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.number().to_string(), "-h", "127.0.0.1"])
            .args([
                "-c",
                "unix_socket_directories=",
                "-c",
                "max_connections=400",
            ])
            .current_dir("/");
        let process = Process::start(&command, &self.folder.path().join("output"));
        let url = self.url("");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                wait_for("PostgreSQL", Duration::from_secs(60), || {
                    runtime
                        .block_on(sqlx::PgConnection::connect(&url))
                        .ok()
                        .map(drop)
                })
            });
        });
        process
    }
}

impl Server for Postgres {
    type Stranger = sqlx::PgConnection;
    const COMMITS_EACH_STATEMENT: bool = false;

    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        std::process::Command::new("chown")
            .arg("postgres:")
            .arg(folder.path())
            .status()
            .unwrap();
        let mut server = Self {
            folder,
            port: Port::free(),
            process: None,
        };
        output(
            Command::new("setpriv")
                .args(AS_POSTGRES)
                .args(["--clear-groups", "--"])
                .arg(Path::new(POSTGRES_BIN).join("initdb"))
                .args([
                    "-A",
                    "trust",
                    "-U",
                    "qiang",
                    "-E",
                    "UTF8",
                    "--no-sync",
                    "-D",
                ])
                .arg(server.data())
                .current_dir("/"),
        );
        server.process = Some(server.up());
        server
    }

    fn kill(&self) {
        self.process.as_ref().unwrap().kill();
    }

    fn restart(&mut self) {
        drop(self.process.take());
        self.process = Some(self.up());
    }

    fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    fn url_at(addr: SocketAddr, database: &str) -> String {
        let database = if database.is_empty() {
            "postgres"
        } else {
            database
        };
        format!("postgres://qiang@{addr}/{database}")
    }

    async fn make_database(&self, name: &str) {
        Self::execute(&self.url(""), &format!("CREATE DATABASE {name}")).await;
    }

    async fn count(url: &str, sql: &'static str) -> i64 {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        let counted = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
        counted.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    async fn execute(url: &str, sql: &str) {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    }

    async fn stranger(url: &str) -> sqlx::PgConnection {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        // Whoever is the first to look for deadlocks finds it and gives way.
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
        let waits = "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS \
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

    fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }
}

pub(crate) struct MariaDb {
    folder: TempDir,
    port: Port,
    process: Option<Process>,
}

impl MariaDb {
    fn up(&self) -> Process {
        let folder = self.folder.path();
        let mut command = Command::new("/usr/sbin/mariadbd");
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", folder.join("data").display()))
            .arg(format!("--socket={}", folder.join("socket").display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .arg(format!("--port={}", self.port.number()))
            .args([
                "--user=root",
                "--bind-address=127.0.0.1",
                "--max-connections=400",
            ])
            .args([
                "--innodb-buffer-pool-size=256M",
                "--innodb-log-file-size=256M",
            ]);
        let process = Process::start(&command, &folder.join("output"));
        let url = self.url("");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                wait_for("MariaDB", Duration::from_secs(60), || {
                    runtime
                        .block_on(sqlx::MySqlConnection::connect(&url))
                        .ok()
                        .map(drop)
                })
            });
        });
        process
    }
}

impl Server for MariaDb {
    type Stranger = sqlx::MySqlConnection;
    const COMMITS_EACH_STATEMENT: bool = true;

    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let mut server = Self {
            folder,
            port: Port::free(),
            process: None,
        };
        output(
            Command::new("mariadb-install-db")
                .arg("--no-defaults")
                .args([
                    "--user=root",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ])
                .arg(format!(
                    "--datadir={}",
                    server.folder.path().join("data").display()
                )),
        );
        server.process = Some(server.up());
        server
    }

    fn kill(&self) {
        self.process.as_ref().unwrap().kill();
    }

    fn restart(&mut self) {
        drop(self.process.take());
        self.process = Some(self.up());
    }

    fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    fn url_at(addr: SocketAddr, database: &str) -> String {
        let database = if database.is_empty() {
            "mysql"
        } else {
            database
        };
        format!("mysql://root@{addr}/{database}")
    }

    async fn make_database(&self, name: &str) {
        Self::execute(&self.url(""), &format!("CREATE DATABASE {name}")).await;
    }

    async fn count(url: &str, sql: &'static str) -> i64 {
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        let counted = sqlx::query_scalar(sql).fetch_one(&mut conn).await;
        counted.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    async fn execute(url: &str, sql: &str) {
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    }

    async fn stranger(url: &str) -> sqlx::MySqlConnection {
        Self::execute(url, "CREATE TABLE heavy (n INT PRIMARY KEY)").await;
        let mut conn = sqlx::MySqlConnection::connect(url).await.unwrap();
        // The transaction that has written less gives way.
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

    fn shared() -> &'static Self {
        static SHARED: OnceLock<MariaDb> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }
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
