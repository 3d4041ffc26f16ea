//! Node under test.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use qiang_testkit::servers::{Resources, ServerProcess};
use tempfile::TempDir;

use crate::report::Report;

/// Secret that signs tokens.
pub(crate) const SECRET: &str = "a-secret-for-fuzzing-runs-of-32-bytes-at-least";

/// Settings of the node. Limits are off, because all requests come from one address. Time limits are short, so that the
/// leftovers of malformed requests expire soon.
const SETTINGS: [(&str, &str); 7] = [
    ("QIANG__AUTH__HS256_SECRET", SECRET),
    ("QIANG__SERVER__DRAIN_DELAY_MS", "0"),
    ("QIANG__SERVER__HEADER_TIMEOUT_MS", "2000"),
    ("QIANG__SERVER__REQUEST_TIMEOUT_MS", "5000"),
    ("QIANG__QUEUE__STREAM_MS", "200"),
    ("QIANG__TICKETS__DIFFICULTY", "4"),
    ("QIANG__LOG__LEVEL", "warn"),
];

/// Process of `qiang serve` with the embedded engine.
pub(crate) struct Node {
    process: ServerProcess,
    folder: TempDir,
}

impl Node {
    /// Starts the node.
    pub(crate) fn start(qiang: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (program, data) = (qiang.to_owned(), folder.path().join("qiang.db"));
        if !program.is_file() {
            bail!(
                "cannot find {}: build it with `cargo build -p qiang`",
                program.display()
            );
        }
        let command = move |at: &Resources| {
            let mut command = Command::new(&program);
            command.arg("serve");
            command.env("QIANG__SERVER__LISTEN", at.addr().to_string());
            command.env("QIANG__ENGINE__DATA", &data);
            command.envs(SETTINGS);
            command.envs(qiang_testkit::NO_LIMITS);
            command
        };
        let is_up =
            |at: &Resources| TcpStream::connect_timeout(&at.addr(), Duration::from_secs(1)).is_ok();
        let process = ServerProcess::builder(command).ready(is_up).start();
        Ok(Self { process, folder })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.process.addr()
    }

    /// Resident memory of the node, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = fs::read_to_string(path).context("the node has exited")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kib: u64 = kib.context("the node has exited")?.trim().parse()?;
        Ok(kib * 1024)
    }

    /// Lines of the node's output about panics.
    pub(crate) fn panics(&self) -> Vec<String> {
        let output = self.process.output();
        let panics = output.lines().filter(|line| line.contains("panicked"));
        panics.map(str::to_owned).collect()
    }

    /// Checks that the node still serves, stops it, and audits its file.
    pub(crate) fn finish(self, qiang: &Path, report: &Report) -> Result<()> {
        if !self.process.is_running() {
            let output = self.process.output();
            let last: Vec<_> = output.lines().rev().take(20).collect();
            report.violation("the node has exited", &last.join("\n"));
            return Ok(());
        }
        let path = self.folder.path().join("qiang.db");
        self.process.stop();
        report.panicked(&self.panics());
        let mut audit = Command::new(qiang);
        let audited = audit.args(["audit", "--db"]).arg(&path).output()?;
        if !audited.status.success() {
            report.violation(
                "the audit failed",
                &String::from_utf8_lossy(&audited.stdout),
            );
        }
        Ok(())
    }
}
