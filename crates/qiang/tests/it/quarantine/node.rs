//! Test fixture: a node of the program on a Redis that the tests share, and its ledger.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use qiang_core::ports::{Action, ActionStore, THE_SERVICE};
use qiang_embedded::{SqliteLedger, SystemClock};
use qiang_testkit::servers::{
    mariadb, postgres,
    redis::{Options, Standalone},
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection, PgConnection, raw_sql};
use tempfile::TempDir;

use crate::common::{Reply, SECRET, call, in_an_hour, sign};

/// Bound of every wait.
const WAIT_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PARTITIONS: u16 = 4;

fn redis() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&Options::new()))
}

fn postgres() -> &'static postgres::Postgres {
    static SERVER: OnceLock<postgres::Postgres> = OnceLock::new();
    SERVER.get_or_init(|| postgres::Postgres::start(&postgres::Options::new().without_fsync()))
}

fn mariadb() -> &'static mariadb::MariaDb {
    static SERVER: OnceLock<mariadb::MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| mariadb::MariaDb::start(&mariadb::Options::new().without_fsync()))
}

/// Storage of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerKind {
    File,
    Postgres,
    MariaDb,
}

/// A ledger, with its flags of the command line.
pub(crate) struct TestLedger {
    kind: LedgerKind,
    folder: TempDir,
    url: String,
    prefix: String,
}

impl TestLedger {
    pub(crate) fn new(kind: LedgerKind) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let folder = TempDir::new().unwrap();
        let url = match kind {
            LedgerKind::File => String::new(),
            LedgerKind::Postgres => postgres().create_database(),
            LedgerKind::MariaDb => mariadb().create_database(),
        };
        let ledger = Self {
            kind,
            folder,
            url,
            prefix: format!("aside{}", LAST.fetch_add(1, Ordering::Relaxed)),
        };
        if kind != LedgerKind::File {
            assert!(ledger.qiang(&["migrate"]).status.success());
        }
        ledger
    }

    pub(crate) fn is_file(&self) -> bool {
        self.kind == LedgerKind::File
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    /// Runs the program on this ledger.
    pub(crate) fn qiang(&self, args: &[&str]) -> Output {
        let path = self.path();
        let place = match self.kind {
            LedgerKind::File => ["--data", path.to_str().unwrap()],
            LedgerKind::Postgres | LedgerKind::MariaDb => ["--ledger", &self.url],
        };
        self.qiang_on(&[args, &place].concat())
    }

    /// Runs the program on the backends that `args` name.
    pub(crate) fn qiang_on(&self, args: &[&str]) -> Output {
        self.qiang_with(args, &[])
    }

    /// Runs the program with these variables.
    pub(crate) fn qiang_with(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
        command.current_dir(self.folder.path()).args(args);
        command.env_clear().envs(env.iter().copied());
        command.output().unwrap()
    }

    /// Runs the program on this ledger and its engine. Returns the exit code and the output.
    pub(crate) fn maintain(&self, args: &[&str]) -> (Option<i32>, String) {
        let path = self.path();
        let place = match self.kind {
            LedgerKind::File => ["--data", path.to_str().unwrap()],
            LedgerKind::Postgres | LedgerKind::MariaDb => ["--ledger", &self.url],
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
        command
            .current_dir(self.folder.path())
            .args(args)
            .args(["--engine", "redis", "--redis", &redis().url()])
            .args(place)
            .env_clear()
            .env("QIANG__LOG__LEVEL", "off")
            .env("QIANG__REDIS__PREFIX", &self.prefix)
            .env("QIANG__REDIS__PARTITIONS", PARTITIONS.to_string());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        (output.status.code(), format!("{printed}{errors}"))
    }

    /// Audits the ledger beside Redis. Returns the exit code and the report.
    pub(crate) fn audit(&self, node: &Node) -> (Option<i32>, Value) {
        let path = self.path();
        let place = match self.kind {
            LedgerKind::File => ["--db", path.to_str().unwrap()],
            LedgerKind::Postgres | LedgerKind::MariaDb => ["--ledger", &self.url],
        };
        let redis = ["--redis", &redis().url(), "--prefix", &node.prefix];
        let output = self.qiang_on(&[&["audit", "--json"][..], &place, &redis].concat());
        let report = serde_json::from_slice(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        (
            output.status.code(),
            report.unwrap_or_else(|_| panic!("{errors}")),
        )
    }

    /// Actors, actions and details on the service, from the operation log.
    pub(crate) async fn actions(&self) -> Vec<(String, &'static str, Value)> {
        let clock = Arc::new(SystemClock);
        if self.is_file() {
            let file = SqliteLedger::open(&self.path(), clock).unwrap();
            let actions = actions_of(&file).await;
            file.close();
            return actions;
        }
        let options = qiang_ledger::LedgerOptions::default();
        let database = qiang_ledger::open(&self.url, clock, options).await;
        actions_of(&*database.unwrap()).await
    }

    /// Runs an SQL statement in the ledger, and checks the number of changed rows.
    pub(crate) async fn run(&self, sql: &str, rows: u64) {
        let done = self.run_any(sql).await;
        assert_eq!(done, rows, "{sql}");
    }

    /// Runs an SQL statement in the ledger. Returns the number of changed rows.
    pub(crate) async fn run_any(&self, sql: &str) -> u64 {
        match self.kind {
            LedgerKind::File => {
                let conn = rusqlite::Connection::open(self.path()).unwrap();
                conn.busy_timeout(WAIT_MAX).unwrap();
                // A killed node has left its write-ahead log beside the file, and this connection must not remove it.
                let keep_wal = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
                conn.set_db_config(keep_wal, true).unwrap();
                // Like the shell of SQLite, allow deletes of rows that other rows refer to.
                conn.pragma_update(None, "foreign_keys", false).unwrap();
                conn.execute(sql, []).map(|rows| rows as u64).unwrap()
            }
            LedgerKind::Postgres => {
                let mut conn = PgConnection::connect(&self.url).await.unwrap();
                let done = conn.execute(raw_sql(AssertSqlSafe(sql))).await;
                done.unwrap().rows_affected()
            }
            LedgerKind::MariaDb => {
                let mut conn = MySqlConnection::connect(&self.url).await.unwrap();
                let done = conn.execute(raw_sql(AssertSqlSafe(sql))).await;
                done.unwrap().rows_affected()
            }
        }
    }
}

async fn actions_of(ledger: &dyn ActionStore) -> Vec<(String, &'static str, Value)> {
    let actions = ledger.actions(THE_SERVICE, None, 1_000).await.unwrap();
    let one = |it: Action| {
        let detail = serde_json::from_str(&it.detail).unwrap();
        (it.actor.to_string(), it.kind.name(), detail)
    };
    actions.into_iter().map(one).collect()
}

pub(crate) fn token(user: &str, scope: &str) -> String {
    sign(&json!({ "sub": user, "scope": scope, "exp": in_an_hour() }))
}

/// A node, killed if the test fails.
pub(crate) struct Node {
    child: Child,
    pub(crate) addr: SocketAddr,
    prefix: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Node {
    pub(crate) async fn start(ledger: &TestLedger) -> Self {
        Self::start_with(ledger, &[]).await
    }

    /// Starts a node with these variables.
    pub(crate) async fn start_with(ledger: &TestLedger, env: &[(&str, &str)]) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = free.local_addr().unwrap();
        drop(free);
        let mut command = Command::new(env!("CARGO_BIN_EXE_qiang"));
        let path = ledger.path();
        command
            .current_dir(ledger.folder.path())
            .args(["serve", "--engine", "redis", "--redis", &redis().url()])
            .args(["--listen", &addr.to_string()]);
        match ledger.kind {
            LedgerKind::File => command.args(["--data", path.to_str().unwrap()]),
            LedgerKind::Postgres | LedgerKind::MariaDb => command.args(["--ledger", &ledger.url]),
        };
        command
            .env_clear()
            .envs(qiang_testkit::NO_LIMITS)
            .env("QIANG__AUTH__HS256_SECRET", SECRET)
            .env("QIANG__LOG__LEVEL", "off")
            .env("QIANG__REDIS__PREFIX", &ledger.prefix)
            .env("QIANG__REDIS__RETAIN_MS", "0")
            .env("QIANG__REDIS__PARTITIONS", PARTITIONS.to_string())
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let mut node = Self {
            child,
            addr,
            prefix: ledger.prefix.clone(),
        };
        let started = Instant::now();
        while tokio::net::TcpStream::connect(addr).await.is_err() {
            let ended = node.child.try_wait().unwrap();
            assert!(ended.is_none(), "the node ended at its start");
            assert!(started.elapsed() < WAIT_MAX, "the node does not listen");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        node
    }

    /// Kills the node. Its answered grants are in Redis.
    pub(crate) fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    pub(crate) async fn start_again(mut stopped: Self, ledger: &TestLedger) -> Self {
        stopped.stop();
        Self::start(ledger).await
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Reply {
        call(self.addr, "GET", path, token, &[], None).await
    }

    /// Posts as the operator, who may also send packets.
    pub(crate) async fn operate(&self, path: &str, body: Value) -> Reply {
        let token = token("olga", "admin send");
        let body = (!body.is_null()).then_some(body);
        call(self.addr, "POST", path, Some(&token), &[], body).await
    }

    /// Available balance of a user, as settled.
    pub(crate) async fn balance(&self, user: &str) -> i64 {
        let path = format!("/v1/accounts/{user}");
        let reply = self.get(&path, Some(&token(user, ""))).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let amount = &reply.json()["balances"][0]["available"]["amount"];
        amount.as_i64().unwrap_or(0)
    }

    pub(crate) async fn ready(&self) -> Value {
        self.get("/readyz", None).await.json()
    }

    /// Sum of a metric over the series whose labels contain `label`.
    async fn measured(&self, name: &str, label: &str) -> f64 {
        let text = self.get("/metrics", None).await;
        let text = String::from_utf8(text.body.to_vec()).unwrap();
        let lines = text.lines().filter(|line| {
            let own = line.strip_prefix(name);
            own.is_some_and(|rest| rest.starts_with([' ', '{']) && rest.contains(label))
        });
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    /// Waits until every entry of every log is settled or quarantined.
    pub(crate) async fn settled(&self) {
        let started = Instant::now();
        for partition in 0..PARTITIONS {
            let key = self.key(partition, "partition");
            let head = redis().primary().call(&["HGET", &key, "seq"]).unwrap();
            let head: u64 = head.text().map_or(0, |head| head.parse().unwrap());
            // Settled entries are trimmed after the commit.
            let log = self.key(partition, "log");
            if head == 0 {
                continue;
            }
            loop {
                let left = redis().primary().call(&["XLEN", &log]).unwrap();
                if left.integer() == Some(0) {
                    break;
                }
                assert!(
                    started.elapsed() < WAIT_MAX,
                    "partition {partition} is halted"
                );
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Waits for these counts of quarantined entries, and checks that settlement is not stuck.
    pub(crate) async fn counts(&self, refused: u64, waiting: u64) {
        let (started, name) = (Instant::now(), "qiang_quarantined_entries");
        loop {
            let found = (
                self.measured(name, "state=\"refused\"").await as u64,
                self.measured(name, "state=\"waiting\"").await as u64,
            );
            if found == (refused, waiting) {
                break;
            }
            assert!(
                started.elapsed() < super::COUNTED_MAX,
                "{found:?} are counted"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        assert!(!self.is_stuck().await);
    }

    pub(crate) async fn is_stuck(&self) -> bool {
        self.measured("qiang_settlement_stuck", "").await > 0.0
    }

    /// Waits until settlement is stuck. Returns the reason.
    pub(crate) async fn stuck(&self) -> String {
        let started = Instant::now();
        while !self.is_stuck().await {
            assert!(started.elapsed() < WAIT_MAX, "settlement is not stuck");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let ready = self.ready().await;
        assert_eq!(ready["status"], "ready", "the node does not grant");
        ready["settlement_stuck"].as_str().unwrap().to_owned()
    }

    fn key(&self, partition: u16, rest: &str) -> String {
        format!("{}:{{p{partition:02}}}:{rest}", self.prefix)
    }

    /// The partition of a campaign.
    pub(crate) fn partition(&self, campaign: &str) -> u16 {
        let has = |partition: &u16| {
            let key = self.key(*partition, &format!("c:{campaign}"));
            let there = redis().primary().call(&["EXISTS", &key]).unwrap();
            there.integer() == Some(1)
        };
        (0..PARTITIONS).find(has).unwrap()
    }

    /// Deletes an order from Redis by hand.
    pub(crate) fn remove_order(&self, campaign: &str, user: &str, number: u64) {
        let partition = self.partition(campaign);
        let number = number.to_string();
        for (rest, field) in [("users", user), ("orders", &number)] {
            let key = self.key(partition, &format!("c:{campaign}:{rest}"));
            let removed = redis().primary().call(&["HDEL", &key, field]).unwrap();
            assert_eq!(removed.integer(), Some(1), "{rest}");
        }
    }

    /// Removes a user's grant from a packet in Redis by hand.
    pub(crate) fn remove_user(&self, campaign: &str, user: &str) {
        let partition = self.partition(campaign);
        let key = self.key(partition, &format!("c:{campaign}:users"));
        let removed = redis().primary().call(&["HDEL", &key, user]).unwrap();
        assert_eq!(removed.integer(), Some(1));
    }

    /// Changes fields of an order in Redis by hand. Fields are given by their index between tabs.
    pub(crate) fn change_order(&self, campaign: &str, number: u64, fields: &[(usize, &str)]) {
        self.change_row(campaign, ("orders", &number.to_string()), fields);
    }

    /// Changes fields of a buyer in Redis by hand. Fields are given by their index between tabs.
    pub(crate) fn change_user(&self, campaign: &str, user: &str, fields: &[(usize, &str)]) {
        self.change_row(campaign, ("users", user), fields);
    }

    fn change_row(&self, campaign: &str, (of, name): (&str, &str), fields: &[(usize, &str)]) {
        let key = self.key(self.partition(campaign), &format!("c:{campaign}:{of}"));
        let row = redis().primary().call(&["HGET", &key, name]).unwrap();
        let row = row.text().unwrap().to_owned();
        let mut changed: Vec<&str> = row.split('\t').collect();
        for (place, value) in fields {
            changed[*place] = value;
        }
        let changed = changed.join("\t");
        assert_ne!(row, changed, "{of} {name}");
        let write = ["HSET", &key, name, &changed];
        redis().primary().call(&write).unwrap();
    }

    /// Writes an event of a campaign into its partition's log by hand. Returns partition and position.
    pub(crate) fn poison(&self, campaign: &str, event: &str) -> (u64, u64) {
        const WRITE: &str = "local seq = redis.call('HINCRBY', KEYS[1], 'seq', 1) \
             redis.call('XADD', KEYS[2], seq .. '-0', 'c', ARGV[1], 't', ARGV[2], 'e', ARGV[3]) \
             return seq";
        let partition = self.partition(campaign);
        let (state, log) = (self.key(partition, "partition"), self.key(partition, "log"));
        let write = [
            "EVAL",
            WRITE,
            "2",
            &state,
            &log,
            campaign,
            "1795262400000",
            event,
        ];
        let seq = redis().primary().call(&write).unwrap();
        (partition.into(), seq.integer().unwrap().unsigned_abs())
    }
}
