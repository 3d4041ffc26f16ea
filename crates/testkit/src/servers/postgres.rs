//! PostgreSQL: one server with a superuser `qiang` without a password.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

pub use super::database::Options;
use super::process::wrapped;
use super::program;
use super::server_process::{Resources, ServerProcess};
use super::user::User;

const USER: &str = "qiang";

/// The database that every new server has.
const DATABASE: &str = "postgres";

/// Users to run the server as if the tests run as root; the first that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// Folder of a copy.
const COPY: &str = "copy";

/// Turns off the syncing of commits.
const FSYNC_OFF: [&str; 2] = ["fsync=off", "full_page_writes=off"];

/// A PostgreSQL server of a test. It is stopped, killed and started again as a [`ServerProcess`].
#[derive(Debug)]
pub struct Postgres {
    server: ServerProcess,
    databases: AtomicU32,
}

impl Deref for Postgres {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.server
    }
}

impl Postgres {
    /// Creates a folder, starts the server and waits until it accepts connections.
    pub fn start(options: &Options) -> Self {
        let user = User::instead_of_root(&USERS);
        let (options, owner) = (options.clone(), user.clone());
        let server = ServerProcess::builder(move |at| command(at, &options))
            .user(user)
            .prepare(move |at| initialise(at.folder(), owner.as_ref()))
            .ready(is_ready);
        Self {
            server: server.start(),
            databases: AtomicU32::new(0),
        }
    }

    /// The first database.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// Creates another, empty database and returns its URL.
    pub fn create_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("{USER}_{number}");
        self.sql(&format!("CREATE DATABASE {name}"));
        self.url_of(&name)
    }

    /// Runs a statement in the first database and returns the rows as lines, with `|` between the columns.
    ///
    /// # Panics
    /// If it fails.
    pub fn sql(&self, statement: &str) -> String {
        self.sql_in(DATABASE, statement)
    }

    /// The same in another database.
    ///
    /// # Panics
    /// If it fails.
    pub fn sql_in(&self, database: &str, statement: &str) -> String {
        let mut psql = Command::new(program::find_postgres("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"]);
        psql.arg(self.url_of(database)).args(["-c", statement]);
        program::run(statement, &mut psql)
    }

    /// Copies the server's data, as a new replica does.
    ///
    /// # Panics
    /// If that fails.
    pub fn copy(&self) {
        let mut command = Command::new(program::find_postgres("pg_basebackup"));
        command
            .args([
                "--no-sync",
                "--checkpoint=fast",
                "--write-recovery-conf",
                "--host=127.0.0.1",
            ])
            .arg(format!("--port={}", self.addr().port()))
            .arg(format!("--username={USER}"))
            .arg("--pgdata")
            .arg(self.resources().folder().join(COPY))
            .current_dir(self.resources().folder());
        let user = User::instead_of_root(&USERS);
        program::run("pg_basebackup", &mut wrapped(&command, user.as_ref()));
    }

    /// Kills the server and promotes the last [`copy`](Self::copy). Later commits are lost.
    ///
    /// # Panics
    /// If that fails.
    pub fn promote_copy(&self) {
        self.kill();
        let folder = self.resources().folder();
        fs::rename(folder.join("data"), folder.join("lost")).expect("move the old data");
        fs::rename(folder.join(COPY), folder.join("data")).expect("move the copy");
        self.start_again();
        self.sql("SELECT pg_promote()");
    }

    /// The URL of a database by its name.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}@{}/{database}", self.addr())
    }
}

/// Dumps the database at a URL to a file, as of one moment.
///
/// # Panics
/// If that fails.
pub fn dump(url: &str, file: &Path) {
    let mut command = Command::new(program::find_postgres("pg_dump"));
    command.args(["--format=custom", "--file"]).arg(file);
    program::run("pg_dump", command.args(["--dbname", url]));
}

/// Restores the database at a URL from a dump, in one transaction. Clients stay connected.
///
/// # Panics
/// If that fails.
pub fn restore(url: &str, file: &Path) {
    let mut command = Command::new(program::find_postgres("pg_restore"));
    command.args(["--clean", "--if-exists", "--single-transaction"]);
    program::run("pg_restore", command.args(["--dbname", url]).arg(file));
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It stops in order, because a killed server leaves its shared memory. During a panic, another panic would
        // abort.
        if self.is_running() && !std::thread::panicking() {
            self.process().stop_by(Signal::INT);
        }
    }
}

/// Runs `initdb`.
fn initialise(folder: &Path, user: Option<&User>) {
    if let Some(user) = user {
        user.own(folder);
    }
    let mut command = Command::new(program::find_postgres("initdb"));
    command
        .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        .arg(format!("--username={USER}"))
        .arg("--pgdata")
        .arg(folder.join("data"))
        .current_dir(folder);
    program::run("initdb", &mut wrapped(&command, user));
}

fn command(at: &Resources, options: &Options) -> Command {
    let mut command = Command::new(program::find_postgres("postgres"));
    command.arg("-D").arg(at.folder().join("data"));
    command.args(["-p", &at.port(0).to_string()]);
    let ours = [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        // Segments are files in the folder, so that a killed server leaves none in memory.
        "dynamic_shared_memory_type=mmap",
        "shared_buffers=32MB",
        "max_connections=200",
    ];
    for setting in ours.into_iter().chain(options.settings(&FSYNC_OFF)) {
        command.args(["-c", setting]);
    }
    options.on_disk(command)
}

fn is_ready(at: &Resources) -> bool {
    let mut probe = Command::new(program::find_postgres("pg_isready"));
    probe.args(["-q", "-h", "127.0.0.1", "-p", &at.port(0).to_string()]);
    probe.status().is_ok_and(|status| status.success())
}
