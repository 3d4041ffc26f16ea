//! The program as a process, with its log as JSON in a file.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::{Value, json};

use crate::common::{Reply, SECRET, call, in_an_hour, sign};

/// Bound of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A Redis for all tests, without an append-only file and without replicas.
pub(crate) fn redis() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&Options::new()))
}

/// A token for a service with [`SECRET`].
pub(crate) fn token(user: &str) -> String {
    sign(&json!({ "sub": user, "scope": "claim send admin", "exp": in_an_hour() }))
}

/// Waits until `look` returns a value.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let over = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < over, "{what}");
        tokio::time::sleep(POLL).await;
    }
}

/// A started process, killed at the end of the test.
pub(crate) struct Program {
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Program {
    /// Starts the program in a folder, with these arguments and configuration keys. It listens on a free port. A key
    /// without a dot is the name of another variable of the environment.
    pub(crate) fn start(folder: &Path, args: &[&str], keys: &[(&str, &str)]) -> Self {
        Self::start_of(env!("CARGO_BIN_EXE_qiang").as_ref(), folder, args, keys)
    }

    /// Starts another program in the same way.
    pub(crate) fn start_of(
        program: &Path,
        folder: &Path,
        args: &[&str],
        keys: &[(&str, &str)],
    ) -> Self {
        let log = folder.join(format!("{}.log", rand::random::<u64>()));
        let mut command = Command::new(program);
        command
            .current_dir(folder)
            .args(args)
            .env_clear()
            .envs(qiang_testkit::NO_LIMITS)
            .env("QIANG__LOG__FORMAT", "json")
            .env("QIANG__SERVER__LISTEN", "127.0.0.1:0")
            .env("QIANG__SERVER__DRAIN_DELAY_MS", "0")
            .env("QIANG__WORKER__LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        for (key, value) in keys {
            match key.contains('.') {
                true => {
                    let name = key.replace('.', "__").to_uppercase();
                    command.env(format!("QIANG__{name}"), value)
                }
                false => command.env(key, value),
            };
        }
        let child = command.spawn().unwrap();
        Self { child, log }
    }

    /// Starts `qiang serve` on the embedded engine.
    pub(crate) fn serve(folder: &Path, keys: &[(&str, &str)]) -> Self {
        let secret = [("auth.hs256_secret", SECRET)];
        Self::start(folder, &["serve"], &[&secret[..], keys].concat())
    }

    /// Starts a command on [`redis`], with this key prefix.
    pub(crate) fn on_redis(
        folder: &Path,
        command: &str,
        prefix: &str,
        keys: &[(&str, &str)],
    ) -> Self {
        let program = env!("CARGO_BIN_EXE_qiang").as_ref();
        Self::on_redis_of(program, folder, command, prefix, keys)
    }

    /// Starts a program on [`redis`] that may have another version.
    pub(crate) fn on_redis_of(
        program: &Path,
        folder: &Path,
        command: &str,
        prefix: &str,
        keys: &[(&str, &str)],
    ) -> Self {
        let url = redis().url();
        let usual = [
            ("engine.kind", "redis"),
            ("redis.urls", &url),
            ("redis.prefix", prefix),
            ("redis.partitions", "2"),
        ];
        let secret = [("auth.hs256_secret", SECRET)];
        let keys = [&usual[..], &secret[..], keys].concat();
        Self::start_of(program, folder, &[command], &keys)
    }

    /// Lines of its log. Other output has the form `{"text": …}`.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|_| json!({ "text": line }));
        text.lines().map(parse).collect()
    }

    /// Waits for a line with this message, and returns the fields and the level of the first one.
    pub(crate) async fn line(&self, message: &str) -> Value {
        let look = async || {
            let mut lines = self.lines().into_iter();
            lines.find(|line| line["fields"]["message"] == message)
        };
        let what = format!("no line `{message}`");
        let mut line = until(&what, look).await;
        line["fields"]["level"] = line["level"].clone();
        line["fields"].take()
    }

    /// Address from the last line that reports it.
    pub(crate) async fn addr(&self) -> SocketAddr {
        self.line("serving").await;
        let lines = self.lines().into_iter().rev();
        let mut said = lines.filter(|line| line["fields"]["message"] == "serving");
        let addr = said.next().unwrap()["fields"]["addr"]
            .as_str()
            .unwrap()
            .to_owned();
        addr.parse().unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        call(self.addr().await, "GET", path, None, &[], None).await
    }

    /// Waits until `/readyz` answers with this status.
    pub(crate) async fn ready(&self, status: u16) -> Value {
        let look = async || {
            let reply = self.get("/readyz").await;
            (reply.status == status).then(|| reply.json())
        };
        until(&format!("/readyz is never {status}"), look).await
    }

    /// Posts as an operator.
    pub(crate) async fn post(&self, path: &str, body: Option<Value>) -> Reply {
        let addr = self.addr().await;
        call(addr, "POST", path, Some(&token("olga")), &[], body).await
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the process, and returns its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let over = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                Instant::now() < over,
                "the process does not end: {:?}",
                self.lines()
            );
            tokio::time::sleep(POLL).await;
        }
    }
}
