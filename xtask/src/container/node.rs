//! A node in the container of an image, with a root file system that cannot be written.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::processor::Processor;

/// User and group of the program.
pub(super) const USER: u32 = 65_532;
pub(super) const PROGRAM: &str = "/usr/local/bin/qiang";
/// Secret of tokens in this check.
const SECRET: &str = "a secret of this check, and of nothing else at all";
/// Maximum wait for the node's start and for its end.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Path of the emulator in the container, if one runs the program.
const RUNNER: &str = "/run/emulator";

/// Runs the program of the container at `$1` as its user, with the folder `$2` for its data and the secret `$3`, in a
/// mount namespace where nothing else can be written. `$4` is an emulator, or empty. `buildah run` has no such option,
/// and 1.28 fails to clean up a container that it cannot write.
const READ_ONLY: &str = r#"set -e
root=$1 data=$2 secret=$3 runner=$4
shift 4
touch "$root/etc/qiang/secret"
mount --bind "$root" "$root"
if [ -n "$runner" ]; then
  touch "$root/run/emulator"
  mount --bind "$runner" "$root/run/emulator"
fi
mount --bind "$data" "$root/var/lib/qiang"
mount --bind "$secret" "$root/etc/qiang/secret"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
! touch "$root/written" 2>/dev/null
exec chroot --userspec=65532:65532 --groups= "$root" "$@""#;

/// Settings of the node in the check.
const SETTINGS: [(&str, &str); 6] = [
    ("QIANG__AUTH__HS256_SECRET_FILE", "/etc/qiang/secret"),
    ("QIANG__ENGINE__DATA", "/var/lib/qiang/qiang.db"),
    ("QIANG__SERVER__LISTEN", "127.0.0.1:0"),
    ("QIANG__SERVER__DRAIN_DELAY_MS", "0"),
    ("QIANG__ADMIN__LISTEN", "server"),
    ("QIANG__LOG__FORMAT", "json"),
];

/// The container at a path, with a folder for data and a secret.
struct Container {
    root: PathBuf,
    folder: PathBuf,
    processor: Processor,
}

impl Container {
    fn new(folder: PathBuf, root: &Path, processor: Processor) -> Result<Self> {
        drop(fs::remove_dir_all(&folder));
        let container = Self {
            root: root.to_owned(),
            folder,
            processor,
        };
        fs::create_dir_all(container.data())?;
        chown(container.data(), Some(USER), Some(USER))?;
        fs::write(container.secret(), SECRET)?;
        fs::set_permissions(container.secret(), fs::Permissions::from_mode(0o444))?;
        Ok(container)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn secret(&self) -> PathBuf {
        self.folder.join("secret")
    }

    /// A command of the program inside, as its user and with a root that cannot be written.
    fn command(&self, args: &[&str]) -> Command {
        let runner = self.processor.runner();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", READ_ONLY, "sh"])
            .args([&self.root, &self.data(), &self.secret()])
            .arg(runner.unwrap_or(Path::new("")))
            .args(runner.map(|_| RUNNER))
            .arg(PROGRAM)
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null());
        command
    }

    /// Output of a command inside.
    fn read(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output().context("cannot run unshare")?;
        let (printed, said) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        ensure!(
            output.status.success(),
            "{args:?} in the image: {printed}{said}"
        );
        Ok(printed.trim().to_owned())
    }

    /// A token of the program inside.
    fn token(&self, user: &str, scope: &str) -> Result<String> {
        let secret = ["--secret-file", "/etc/qiang/secret"];
        self.read(&[&["token", "--sub", user, "--scope", scope], &secret[..]].concat())
    }
}

/// A node in the container, on a free port.
pub(super) struct Node {
    process: Child,
    container: Container,
    url: String,
    seller: String,
    buyer: String,
}

impl Node {
    pub(super) fn start(folder: PathBuf, mounted: &Path, processor: Processor) -> Result<Self> {
        let container = Container::new(folder, mounted, processor)?;
        let token = |user, scope| container.token(user, scope);
        let (seller, buyer) = (token("shop", "campaigns:write")?, token("ann", "claim")?);
        let log = File::create(container.folder.join("log"))?;
        let mut command = container.command(&["serve"]);
        command.envs(SETTINGS).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().context("cannot start the node")?;
        let mut node = Self {
            process,
            container,
            url: String::new(),
            seller,
            buyer,
        };
        let over = Instant::now() + WAIT_MAX;
        while node.url.is_empty() {
            ensure!(
                Instant::now() < over && node.process.try_wait()?.is_none(),
                "no start: {}",
                node.log()
            );
            thread::sleep(POLL);
            let log = node.log();
            let mut lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let serving = lines.find(|line| line["fields"]["message"] == "serving");
            if let Some(addr) = serving
                .as_ref()
                .and_then(|line| line["fields"]["addr"].as_str())
            {
                node.url = format!("http://{addr}");
            }
        }
        Ok(node)
    }

    pub(super) fn log(&self) -> String {
        let mut text = String::new();
        let file = File::open(self.container.folder.join("log"));
        drop(file.and_then(|mut file| file.read_to_string(&mut text)));
        text
    }

    /// Status and body of an answer.
    fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "--max-time",
            "20",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
        ])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .args(["-H", "Content-Type: application/json"])
        .arg(format!("{}{path}", self.url));
        if !body.is_null() {
            curl.args(["-d", &body.to_string()]);
        }
        let output = curl.output().context("cannot run curl")?;
        let text = String::from_utf8(output.stdout)?;
        let (body, status) = text.rsplit_once('\n').context("curl prints no status")?;
        Ok((
            status.parse()?,
            serde_json::from_str(body).unwrap_or(Value::Null),
        ))
    }

    /// Creates a sale and orders its unit.
    pub(super) fn sell(&self) -> Result<()> {
        for path in ["/healthz", "/readyz"] {
            let (status, body) = self.call("", "GET", path, &Value::Null)?;
            ensure!(status == 200, "{path} answers {status} {body}");
        }
        let body = json!({
            "title": "one unit",
            "stock": 1,
            "per_user_limit": 1,
            "unit_price": { "amount": 100, "currency": "CNY" },
            "hold_seconds": 600,
        });
        let (status, sale) = self.call(&self.seller, "POST", "/v1/sales", &body)?;
        ensure!(status == 201, "the sale is answered {status} {sale}");
        let path = format!(
            "/v1/sales/{}/orders",
            sale["id"].as_str().context("a sale has an id")?
        );
        let (status, order) = self.call(&self.buyer, "POST", &path, &json!({}))?;
        ensure!(status == 201, "the order is answered {status} {order}");
        ensure!(order["state"] == "held", "the order is {order}");
        Ok(())
    }

    /// Runs the health check of the image.
    pub(super) fn check_health(&self) -> Result<()> {
        let listen = self.url.trim_start_matches("http://");
        for check in [&["health", "--ready"][..], &["health"]] {
            let printed = self
                .container
                .read(&[check, &["--listen", listen]].concat())?;
            ensure!(printed.starts_with("200 "), "{check:?} prints {printed}");
        }
        // Nothing listens there: the check has to fail.
        let unused = self.container.read(&["health", "--listen", "127.0.0.1:1"]);
        ensure!(unused.is_err(), "health without a node succeeds");
        Ok(())
    }

    /// Sends SIGTERM to the program itself, whose user is not root, and waits for its end.
    pub(super) fn stop(mut self) -> Result<()> {
        // Shell and `chroot` have become the program.
        let program = self.process.id();
        let uid = fs::metadata(format!("/proc/{program}"))?.uid();
        ensure!(uid == USER, "the program runs as user {uid}");
        let status = Command::new("kill")
            .args(["-TERM", &program.to_string()])
            .status()?;
        ensure!(status.success(), "cannot send SIGTERM");
        let over = Instant::now() + WAIT_MAX;
        let status = loop {
            if let Some(status) = self.process.try_wait()? {
                break status;
            }
            ensure!(
                Instant::now() < over,
                "SIGTERM does not stop it: {}",
                self.log()
            );
            thread::sleep(POLL);
        };
        ensure!(status.success(), "it ended with {status}: {}", self.log());
        let data = self.container.data().join("qiang.db");
        ensure!(data.is_file(), "the data is not in its volume");
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
