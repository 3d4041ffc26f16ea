//! PostgreSQL: one server with a superuser `qiang`, who needs no password.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::PortTaken;
use super::user::User;
use super::{Port, Process, program};

/// How many ports are tried for a server.
const PORTS_MAX: usize = 5;

const USER: &str = "qiang";

/// The database that every new server has.
const DATABASE: &str = "postgres";

/// How a server is set up. By default as in production: a commit is on the disk.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<String>,
}

impl Options {
    /// `fsync` is on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Faster; commits survive a kill, but not the loss of power.
    #[must_use]
    pub fn without_fsync(self) -> Self {
        self.setting("fsync=off").setting("full_page_writes=off")
    }

    /// A further `name=value`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }
}

/// A PostgreSQL server of its own.
#[derive(Debug)]
pub struct Postgres {
    settings: Vec<String>,
    port: Port,
    user: Option<User>,
    databases: AtomicU32,
    process: Mutex<Process>,
    /// Last, so that the processes are gone when the folder goes.
    folder: TempDir,
}

impl Postgres {
    /// Makes a folder, starts the server and waits until it takes connections.
    pub fn start(options: &Options) -> Self {
        let folder = super::folder();
        let user = User::instead_of_root(&["postgres", "nobody"]);
        if let Some(user) = &user {
            user.take(folder.path());
        }
        initialise(folder.path(), user.as_ref());
        for _ in 0..PORTS_MAX {
            let port = Port::free();
            if let Ok(process) = launch(folder.path(), &port, user.as_ref(), &options.settings) {
                return Self {
                    settings: options.settings.clone(),
                    port,
                    user,
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
        let name = format!("{USER}_{number}");
        self.sql(&format!("CREATE DATABASE {name}"));
        self.url_of(&name)
    }

    /// Runs a statement in the first database and returns the rows as lines, with `|` between the columns.
    ///
    /// # Panics
    /// When it fails.
    pub fn sql(&self, statement: &str) -> String {
        let mut psql = Command::new(program::find_postgres("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"]);
        text_of(
            statement,
            psql.arg(self.url()).args(["-c", statement]).output(),
        )
    }

    /// The process id of the postmaster.
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Ends it and all its processes with SIGKILL. Its port stays ours.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Halts the postmaster: new connections are not answered. Open ones have a process of their own and go on.
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
        let again = launch(
            self.folder.path(),
            &self.port,
            self.user.as_ref(),
            &self.settings,
        );
        *process = again.unwrap_or_else(|_| panic!("somebody took {}", self.addr()));
    }

    /// What it wrote since its first start.
    pub fn output(&self) -> String {
        self.process().output()
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}@{}/{database}", self.addr())
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let process = self.process();
        // In order, because a killed server leaves its piece of shared memory behind; but a panic here would abort.
        if process.ended().is_none() && !std::thread::panicking() {
            process.stop_by(Signal::INT);
        }
    }
}

/// Runs `initdb`.
fn initialise(folder: &Path, user: Option<&User>) {
    let initdb = program::find_postgres("initdb");
    let mut command = match user {
        None => Command::new(initdb),
        Some(user) => {
            let mut setpriv = Command::new(program::find("setpriv", "util-linux"));
            setpriv.args(user.setpriv()).arg("--").arg(initdb);
            setpriv
        }
    };
    command
        .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        .arg(format!("--username={USER}"))
        .arg("--pgdata")
        .arg(folder.join("data"))
        .current_dir(folder);
    text_of("initdb", command.output());
}

fn launch(
    folder: &Path,
    port: &Port,
    user: Option<&User>,
    settings: &[String],
) -> Result<Process, PortTaken> {
    let mut command = Command::new(program::find_postgres("postgres"));
    command.arg("-D").arg(folder.join("data"));
    command.args(["-p", &port.number().to_string()]);
    let ours = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        // Segments in the folder, so that a killed server leaves none of them in memory.
        "dynamic_shared_memory_type=mmap",
        "shared_buffers=32MB",
        "max_connections=200",
    ];
    for setting in ours.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    command.current_dir(folder);
    let setpriv = user.map(User::setpriv);
    let setpriv: Vec<&str> = setpriv.iter().flatten().map(String::as_str).collect();
    let process = Process::start_as(&command, &setpriv, &folder.join("output"));
    let mut probe = Command::new(program::find_postgres("pg_isready"));
    probe.args(["-q", "-h", "127.0.0.1", "-p", &port.number().to_string()]);
    let probe = Mutex::new(probe);
    process.wait_until_up(|| {
        let mut probe = probe.lock().unwrap_or_else(PoisonError::into_inner);
        probe.status().is_ok_and(|status| status.success())
    })?;
    Ok(process)
}

/// What a program wrote.
pub(super) fn text_of(what: &str, output: std::io::Result<Output>) -> String {
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    text(&output.stdout)
}
