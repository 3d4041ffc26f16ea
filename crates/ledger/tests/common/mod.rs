//! Real database servers, and fresh ledgers on them.
#![allow(dead_code, reason = "each test target uses its part of it")]

use std::{
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
pub trait Server: Send + Sync + Sized + 'static {
    fn start() -> Self;
    fn kill(&self);
    fn restart(&mut self);
    /// The URL of a database; `""` for the one that is always there.
    fn url(&self, database: &str) -> String;
    fn make_database(&self, name: &str) -> impl Future<Output = ()> + Send;
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

/// A ledger with few connections: many tests run at once.
pub async fn open(url: &str, clock: Arc<dyn Clock>) -> Arc<dyn Ledger> {
    let options = LedgerOptions {
        connections_max: 4,
        acquire_max: Duration::from_secs(30),
    };
    qiang_ledger::open(url, clock, options).await.unwrap()
}

fn output(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {done:?}");
}

pub struct Postgres {
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

    fn url(&self, database: &str) -> String {
        let database = if database.is_empty() {
            "postgres"
        } else {
            database
        };
        format!(
            "postgres://qiang@127.0.0.1:{}/{database}",
            self.port.number()
        )
    }

    async fn make_database(&self, name: &str) {
        let mut conn = sqlx::PgConnection::connect(&self.url("")).await.unwrap();
        let sql = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    }

    fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }
}

pub struct MariaDb {
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

    fn url(&self, database: &str) -> String {
        let database = if database.is_empty() {
            "mysql"
        } else {
            database
        };
        format!("mysql://root@127.0.0.1:{}/{database}", self.port.number())
    }

    async fn make_database(&self, name: &str) {
        let mut conn = sqlx::MySqlConnection::connect(&self.url("")).await.unwrap();
        let sql = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(sql).execute(&mut conn).await.unwrap();
    }

    fn shared() -> &'static Self {
        static SHARED: OnceLock<MariaDb> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }
}
