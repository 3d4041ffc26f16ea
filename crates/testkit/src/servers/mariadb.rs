//! MariaDB: one server with a user `root`, who needs no password.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::postgres::text_of;
use super::process::PortTaken;
use super::{Port, Process, program};

/// How many ports are tried for a server.
const PORTS_MAX: usize = 5;

/// A server on loopback that has not greeted by now does not take connections yet.
const GREETING_MAX: Duration = Duration::from_secs(1);

/// The first database.
const DATABASE: &str = "qiang";

/// How a server is set up. By default as in production: a commit is on the disk.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<String>,
}

impl Options {
    /// Commits are synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Faster; commits survive a kill, but not the loss of power.
    #[must_use]
    pub fn without_fsync(self) -> Self {
        self.setting("innodb-flush-log-at-trx-commit=2")
            .setting("innodb-flush-method=nosync")
    }

    /// A further `name=value`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }
}

/// A MariaDB server of its own.
#[derive(Debug)]
pub struct MariaDb {
    settings: Vec<String>,
    port: Port,
    databases: AtomicU32,
    process: Mutex<Process>,
    /// Last, so that the process is gone when the folder goes.
    folder: TempDir,
}

impl MariaDb {
    /// Makes a folder, starts the server and waits until it takes connections.
    pub fn start(options: &Options) -> Self {
        let folder = super::folder();
        initialise(folder.path());
        for _ in 0..PORTS_MAX {
            let port = Port::free();
            if let Ok(process) = launch(folder.path(), &port, &options.settings) {
                return Self {
                    settings: options.settings.clone(),
                    port,
                    databases: AtomicU32::new(0),
                    process: Mutex::new(process),
                    folder,
                };
            }
        }
        panic!("{PORTS_MAX} ports were taken by others, one after the other")
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The first database.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// Makes another, empty database and returns its URL.
    pub fn create_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("{DATABASE}_{number}");
        self.sql(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
        self.url_of(&name)
    }

    /// Runs a statement in the first database and returns the rows as lines, with tabs between the columns.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, statement: &str) -> String {
        let mut client = Command::new(program::find("mariadb", "mariadb-client-core"));
        client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]);
        client.args(["--user=root", "--batch", "--skip-column-names"]);
        client.arg(format!("--port={}", self.port.number()));
        text_of(
            statement,
            client.arg(DATABASE).args(["--execute", statement]).output(),
        )
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Ends it with SIGKILL. Its port stays ours.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Halts it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.process().pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process().resume();
    }

    /// Starts it on the same port and folder, after a kill if it runs, and waits until it has recovered.
    pub fn start_again(&self) {
        let mut process = self.process();
        process.kill();
        *process = launch(self.folder.path(), &self.port, &self.settings)
            .unwrap_or_else(|_| panic!("somebody took {}", self.addr()));
    }

    /// What it wrote since its first start.
    pub fn output(&self) -> String {
        self.process().output()
    }

    fn url_of(&self, database: &str) -> String {
        format!("mysql://root@{}/{database}", self.addr())
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `mariadb-install-db`. What it writes need not survive more than itself.
fn initialise(folder: &Path) {
    // A server that starts clears the temporary tables out of this folder, whoever they belong to.
    let temporary = folder.join("tmp");
    fs::create_dir(&temporary).expect("make the folder for temporary tables");
    let mut command = Command::new(program::find("mariadb-install-db", "mariadb-server-core"));
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", folder.join("data").display()))
        .arg(format!("--tmpdir={}", temporary.display()))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .args(["--skip-name-resolve", "--innodb-log-file-size=16M"])
        .args([
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
        ])
        .current_dir(folder);
    text_of("mariadb-install-db", command.output());
    let create = format!("CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;\n");
    fs::write(folder.join("init.sql"), create).expect("write init.sql");
}

fn launch(folder: &Path, port: &Port, settings: &[String]) -> Result<Process, PortTaken> {
    let mut command = Command::new(program::find("mariadbd", "mariadb-server-core"));
    let below = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    command
        .arg("--no-defaults")
        .arg(below("datadir", "data"))
        .arg(below("tmpdir", "tmp"))
        .arg(below("socket", "socket"))
        .arg(below("pid-file", "pid"))
        .arg(below("init-file", "init.sql"))
        .arg(format!("--port={}", port.number()))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args([
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M",
        ])
        .arg("--max-connections=200")
        .args(settings.iter().map(|setting| format!("--{setting}")))
        .current_dir(folder);
    // The folder is ours, and so is the server; as root it wants to be told that this is meant.
    command.arg("--user=root");
    let process = Process::start(&command, &folder.join("output"));
    process.wait_until_up(|| greets(port.addr()))?;
    Ok(process)
}

/// The server speaks first: a length, a number, and the protocol's version, 10.
fn greets(addr: SocketAddr) -> bool {
    let greeting = || {
        let mut stream = TcpStream::connect_timeout(&addr, GREETING_MAX)?;
        stream.set_read_timeout(Some(GREETING_MAX))?;
        let mut start = [0; 5];
        stream.read_exact(&mut start).map(|()| start[4])
    };
    greeting().is_ok_and(|version| version == 10)
}
