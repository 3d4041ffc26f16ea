//! The whole service against kill -9 and a full disk, under load: answers are kept, repeated requests are replayed, and
//! the audit finds nothing.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{SECRET, call, in_an_hour, packet, sign};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use qiang_testkit::servers::{Resources, ServerProcess};
use rand::RngExt as _;
use serde_json::json;
use tokio::{net::TcpStream, task::block_in_place};

const QIANG: &str = env!("CARGO_BIN_EXE_qiang");
const KILLS: usize = 20;
const CONNECTIONS: usize = 16;
const READY_MAX: Duration = Duration::from_secs(30);

/// A started service, with its data in the file `qiang.db` of its folder.
struct Served {
    server: ServerProcess,
}

impl Served {
    /// Starts the command that `program` makes, with the arguments of a service in the folder.
    fn start(program: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let command = move |at: &Resources| {
            let mut command = program();
            command
                .args(["serve", "--data", "qiang.db", "--listen"])
                .arg(at.addr().to_string())
                .envs(qiang_testkit::NO_LIMITS)
                .env("QIANG__AUTH__HS256_SECRET", SECRET)
                .env("QIANG__LOG__LEVEL", "off");
            command
        };
        Self {
            server: block_in_place(|| ServerProcess::builder(command).start()),
        }
    }

    async fn open_packet(&self, shares: u32) -> String {
        let token = token("sam", "send admin");
        let money = crate::common::deposit(i64::from(shares) * 10);
        let path = "/v1/accounts/sam/deposits";
        let deposited = call(
            self.server.addr(),
            "POST",
            path,
            Some(&token),
            &[],
            Some(money),
        )
        .await;
        assert_eq!(deposited.status, 201, "{deposited:?}");
        let body = packet(i64::from(shares) * 10, shares);
        let opened = call(
            self.server.addr(),
            "POST",
            "/v1/red-packets",
            Some(&token),
            &[],
            Some(body),
        )
        .await;
        assert_eq!(opened.status, 201, "{opened:?}");
        opened.text("id")
    }
}

fn token(user: &str, scope: &str) -> String {
    sign(&json!({ "sub": user, "scope": scope, "exp": in_an_hour() }))
}

/// Users who claim in sequence on several connections, and their answers.
struct Users {
    path: String,
    next: AtomicU64,
    stop: AtomicBool,
    /// Answers with a grant, by user.
    granted: Mutex<BTreeMap<u64, Bytes>>,
    /// Users without a decision: the connection broke, or the service answered that the result is unknown.
    undecided: Mutex<Vec<u64>>,
}

impl Users {
    fn new(packet: &str) -> Arc<Self> {
        Arc::new(Self {
            path: format!("/v1/red-packets/{packet}/claims"),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            granted: Mutex::default(),
            undecided: Mutex::default(),
        })
    }

    fn load(self: &Arc<Self>, addr: SocketAddr) -> Vec<tokio::task::JoinHandle<()>> {
        self.stop.store(false, Ordering::Relaxed);
        (0..CONNECTIONS)
            .map(|_| tokio::spawn(Arc::clone(self).one(addr)))
            .collect()
    }

    /// Waits until a user has a grant.
    async fn wait_for_a_grant(&self) {
        let started = Instant::now();
        while self.granted.lock().is_empty() {
            assert!(started.elapsed() < READY_MAX, "no user has a grant");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn one(self: Arc<Self>, addr: SocketAddr) {
        let Ok(stream) = TcpStream::connect(addr).await else {
            return;
        };
        let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else {
            return;
        };
        let connection = tokio::spawn(connection);
        while !self.stop.load(Ordering::Relaxed) {
            let user = self.next.fetch_add(1, Ordering::Relaxed);
            let request = Request::post(&self.path)
                .header("host", "test")
                .header(
                    "authorization",
                    format!("Bearer {}", token(&name(user), "claim")),
                )
                .body(Full::new(Bytes::new()))
                .unwrap();
            let answer = async {
                let response = sender.send_request(request).await.ok()?;
                let status = response.status().as_u16();
                Some((
                    status,
                    response.into_body().collect().await.ok()?.to_bytes(),
                ))
            };
            match answer.await {
                Some((201, body)) => drop(self.granted.lock().insert(user, body)),
                Some((503, _)) => self.undecided.lock().push(user),
                Some((status, body)) => panic!("a new user was answered {status}: {body:?}"),
                None => {
                    self.undecided.lock().push(user);
                    break;
                }
            }
        }
        connection.abort();
    }

    /// All `users` repeat their claim. A user with a grant gets the same answer, and every other user gets a decision.
    async fn ask_again(&self, addr: SocketAddr, users: &[u64]) {
        for user in users {
            let again = call(
                addr,
                "POST",
                &self.path,
                Some(&token(&name(*user), "claim")),
                &[],
                None,
            )
            .await;
            let mut granted = self.granted.lock();
            match granted.get(user) {
                Some(first) => assert_eq!(
                    (again.status, &again.body),
                    (200, first),
                    "user {user} got another answer"
                ),
                None => {
                    assert!([200, 201].contains(&again.status), "{again:?}");
                    granted.insert(*user, again.body);
                }
            }
        }
    }

    /// Checks that every grant is in the ledger's rows.
    fn check_ledger(&self, database: &Path) {
        let conn = rusqlite::Connection::open_with_flags(
            database,
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
        )
        .unwrap();
        let mut statement = conn
            .prepare("SELECT amount FROM events WHERE kind = 1 AND number = ?1 AND user = ?2")
            .unwrap();
        for (user, answer) in &*self.granted.lock() {
            let answer: serde_json::Value = serde_json::from_slice(answer).unwrap();
            let number = answer["number"].as_i64().unwrap();
            let amount: i64 = statement
                .query_row(rusqlite::params![number, name(*user)], |row| row.get(0))
                .unwrap_or_else(|error| {
                    panic!("the grant {number} of user {user} is lost: {error}")
                });
            assert_eq!(Some(amount), answer["amount"]["amount"].as_i64());
        }
    }
}

fn name(user: u64) -> String {
    format!("user-{user}")
}

async fn settled(addr: SocketAddr) {
    let started = Instant::now();
    loop {
        let ready = call(addr, "GET", "/readyz", None, &[], None).await;
        if ready.status == 200 && ready.json()["settlement_lag"] == json!(0) {
            return;
        }
        assert!(
            started.elapsed() < READY_MAX,
            "the ledger does not catch up: {ready:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn audit(database: &Path) {
    let output = Command::new(QIANG)
        .args(["audit", "--db"])
        .arg(database)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_under_load_lose_and_double_nothing() {
    let served = Served::start(|| Command::new(QIANG));
    let addr = served.server.addr();
    let packet = served.open_packet(100_000).await;
    let users = Users::new(&packet);
    let mut before = 0;
    for _ in 0..KILLS {
        let load = users.load(addr);
        let wait = rand::rng().random_range(5..120);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        block_in_place(|| served.server.kill());
        for task in load {
            task.await.unwrap();
        }
        block_in_place(|| served.server.start_again());
        let last: Vec<u64> = users
            .granted
            .lock()
            .keys()
            .rev()
            .take(40)
            .copied()
            .collect();
        users.ask_again(addr, &last).await;
        let undecided = std::mem::take(&mut *users.undecided.lock());
        users.ask_again(addr, &undecided).await;
        let granted = users.granted.lock().len();
        assert!(granted > before, "no user got a grant between two kills");
        before = granted;
    }
    settled(addr).await;
    let database = served.server.resources().folder().join("qiang.db");
    users.check_ledger(&database);
    audit(&database);
}

/// Bytes of the small disk.
const DISK_BYTES: u64 = 24 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_grants_nothing_it_cannot_keep_and_heals_without_a_restart() {
    // The disk is mounted in a namespace of the service's own, which needs no privileges.
    let served = Served::start(|| {
        let script = format!(
            "mount -t tmpfs -o size={DISK_BYTES} small-disk . && cd \"$PWD\" && exec \"$0\" \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "--"]);
        command.args(["sh", "-c", &script, QIANG]);
        command
    });
    let addr = served.server.addr();
    let disk = PathBuf::from(format!("/proc/{}/cwd", served.server.pid()));
    let users = Users::new(&served.open_packet(100_000).await);

    let load = users.load(addr);
    users.wait_for_a_grant().await;
    let ballast = disk.join("ballast");
    fill(&ballast);
    wait_for(addr, 503).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let granted_while_full = users.granted.lock().len();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        users.granted.lock().len(),
        granted_while_full,
        "a full disk stored something"
    );

    std::fs::remove_file(&ballast).unwrap();
    wait_for(addr, 200).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    users.stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    let granted = users.granted.lock().len();
    assert!(
        granted > granted_while_full,
        "no grant followed the full disk"
    );
    let undecided = std::mem::take(&mut *users.undecided.lock());
    assert!(!undecided.is_empty());
    let some: Vec<u64> = undecided.iter().rev().take(200).copied().collect();
    users.ask_again(addr, &some).await;
    let granted_users: Vec<u64> = users
        .granted
        .lock()
        .keys()
        .rev()
        .take(200)
        .copied()
        .collect();
    users.ask_again(addr, &granted_users).await;
    settled(addr).await;
    // SQLite would resolve the path into the namespace, which does not exist outside. Nothing is written now.
    let copy = tempfile::tempdir().unwrap();
    for file in ["qiang.db", "qiang.db-wal"] {
        std::fs::copy(disk.join(file), copy.path().join(file)).unwrap();
    }
    users.check_ledger(&copy.path().join("qiang.db"));
    audit(&copy.path().join("qiang.db"));
}

/// Fills the rest of the disk.
fn fill(ballast: &Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(ballast).unwrap();
    let block = [0_u8; 4_096];
    // Ends when the disk is full. The bound is a little above the size of the disk.
    for _ in 0..=DISK_BYTES / 4_096 {
        if file.write_all(&block).is_err() {
            return;
        }
    }
    panic!("the disk is larger than its size");
}

async fn wait_for(addr: SocketAddr, status: u16) {
    let started = Instant::now();
    loop {
        let ready = call(addr, "GET", "/readyz", None, &[], None).await;
        if ready.status == status {
            return;
        }
        assert!(
            started.elapsed() < READY_MAX,
            "readiness stays {}: {:?}",
            ready.status,
            ready.body
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
