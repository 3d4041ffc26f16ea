//! Checks an image: its settings and its files, and a node in it that sells a unit and stops.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{IMAGE, Store};

/// User and group of the program.
const USER: u32 = 65_532;
/// Secret of tokens in this check.
const SECRET: &str = "a secret of this check, and of nothing else at all";
/// Maximum wait for the node's start and for its end.
const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Files that must be there.
const FILES: [&str; 5] = [
    "etc/ssl/certs/ca-certificates.crt",
    "usr/share/zoneinfo/Asia/Shanghai",
    "usr/share/doc/qiang/LICENSE",
    "usr/share/doc/qiang/sbom.cdx.json",
    "usr/local/bin/qiang",
];

/// Runs the program of the container at `$1` as its user, with the folder `$2` for its data and the secret `$3`, in a
/// mount namespace where nothing else can be written. `buildah run` has no such option, and 1.28 fails to clean up a
/// container that it cannot write.
const READ_ONLY: &str = r#"set -e
root=$1 data=$2 secret=$3
shift 3
touch "$root/etc/qiang/secret"
mount --bind "$root" "$root"
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

pub(super) fn run(store: &Store) -> Result<()> {
    store.read("rm --all")?;
    let container = store.read(&format!("from --pull-never {IMAGE}"))?;
    let config = store.read(&format!("inspect --type image {IMAGE}"))?;
    settings(&serde_json::from_str(&config)?)?;
    let mounted = PathBuf::from(store.read(&format!("mount {container}"))?);
    for file in FILES {
        let there = fs::metadata(mounted.join(file));
        ensure!(there.is_ok_and(|it| it.len() > 0), "the image lacks {file}");
    }
    owned(&mounted, &mounted)?;
    let node = Node::start(store, &container, &mounted)?;
    let sold = node.sell();
    if sold.is_err() {
        println!("{}", node.log());
    }
    sold?;
    node.stop()
}

/// The image's own settings.
fn settings(inspected: &Value) -> Result<()> {
    let config = &inspected["OCIv1"]["config"];
    let expected = json!({
        "User": "65532:65532",
        "WorkingDir": "/var/lib/qiang",
        "StopSignal": "SIGTERM",
        "Entrypoint": ["/usr/local/bin/qiang"],
    });
    for (key, value) in expected.as_object().into_iter().flatten() {
        ensure!(
            config[key] == *value,
            "{key} of the image is {}",
            config[key]
        );
    }
    for label in ["title", "version", "revision", "licenses"] {
        let text = config["Labels"][format!("org.opencontainers.image.{label}")].as_str();
        ensure!(
            text.is_some_and(|it| !it.is_empty()),
            "the image has no label {label}"
        );
    }
    Ok(())
}

/// Only the data's folder belongs to the program's user, and nothing else can be written by it.
fn owned(root: &Path, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let metadata = path.symlink_metadata()?;
        let inside = path.strip_prefix(root)?.display().to_string();
        let is_data = inside == "var/lib/qiang";
        let is_own = metadata.uid() == USER || metadata.gid() == USER;
        ensure!(
            is_own == is_data,
            "/{inside} belongs to {}:{}",
            metadata.uid(),
            metadata.gid()
        );
        let mode = metadata.permissions().mode();
        let is_open = !metadata.is_symlink() && mode & 0o6002 != 0;
        ensure!(!is_open, "/{inside} has mode {mode:o}");
        if metadata.is_dir() {
            owned(root, &path)?;
        }
    }
    Ok(())
}

/// A node in the container, on a free port and with a folder for its data.
struct Node {
    process: Child,
    folder: PathBuf,
    url: String,
    seller: String,
    buyer: String,
}

impl Node {
    fn start(store: &Store, container: &str, mounted: &Path) -> Result<Self> {
        let folder = store.folder.join("node");
        drop(fs::remove_dir_all(&folder));
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        chown(&data, Some(USER), Some(USER))?;
        let secret = folder.join("secret");
        fs::write(&secret, SECRET)?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o444))?;
        let run = format!(
            "run --isolation chroot --volume {}:/var/lib/qiang --volume {}:/etc/qiang/secret:ro {container} --",
            data.display(),
            secret.display()
        );
        let token = |user: &str, scope: &str| {
            store.read(&format!(
                "{run} /usr/local/bin/qiang token --sub {user} --scope {scope} --secret-file /etc/qiang/secret"
            ))
        };
        let (seller, buyer) = (token("shop", "campaigns:write")?, token("ann", "claim")?);
        let log = File::create(folder.join("log"))?;
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", READ_ONLY, "sh"])
            .args([mounted, &data, &secret])
            .args(["/usr/local/bin/qiang", "serve"])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(SETTINGS)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = command.spawn().context("cannot start the node")?;
        let mut node = Self {
            process,
            folder,
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

    fn log(&self) -> String {
        let mut text = String::new();
        let file = File::open(self.folder.join("log"));
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
    fn sell(&self) -> Result<()> {
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

    /// Sends SIGTERM to the program itself, whose user is not root, and waits for its end.
    fn stop(mut self) -> Result<()> {
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
        let data = self.folder.join("data/qiang.db");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_user_may_write_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("open"), "").unwrap();
        let set = |mode| fs::set_permissions(root.join("open"), fs::Permissions::from_mode(mode));
        set(0o644).unwrap();
        assert!(owned(root, root).is_ok());
        for mode in [0o666, 0o4755] {
            set(mode).unwrap();
            let error = owned(root, root).unwrap_err().to_string();
            assert!(error.contains("/open has mode"), "{error}");
        }
    }

    #[test]
    fn settings_of_another_image_are_refused() {
        let mut config = json!({
            "User": "65532:65532",
            "WorkingDir": "/var/lib/qiang",
            "StopSignal": "SIGTERM",
            "Entrypoint": ["/usr/local/bin/qiang"],
            "Labels": {},
        });
        for label in ["title", "version", "revision", "licenses"] {
            config["Labels"][format!("org.opencontainers.image.{label}")] = json!("x");
        }
        let check = |config: &Value| settings(&json!({ "OCIv1": { "config": config } }));
        check(&config).unwrap();
        for (key, value) in [
            ("User", json!("0")),
            ("Labels", json!({})),
            ("Entrypoint", json!(null)),
        ] {
            let mut other = config.clone();
            other[key] = value;
            assert!(check(&other).is_err(), "{key}");
        }
    }
}
