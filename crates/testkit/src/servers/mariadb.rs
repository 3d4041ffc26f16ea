//! MariaDB: one server with a user `root` without a password.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

pub use super::database::Options;
use super::program;
use super::server_process::{ANSWER_MAX, Resources, ServerProcess};

/// The first database.
const DATABASE: &str = "qiang";

/// Turns off the syncing of commits and of new tables. All tables share one file, because a file for each makes a
/// ledger's tables take four times as long.
const FSYNC_OFF: [&str; 4] = [
    "innodb-flush-log-at-trx-commit=2",
    "innodb-flush-method=nosync",
    "innodb-file-per-table=OFF",
    "debug-no-sync",
];

/// A MariaDB server of a test. It is stopped, killed and started again as a [`ServerProcess`].
#[derive(Debug)]
pub struct MariaDb {
    server: ServerProcess,
    databases: AtomicU32,
}

impl Deref for MariaDb {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.server
    }
}

impl MariaDb {
    /// Creates a folder, starts the server and waits until it accepts connections.
    pub fn start(options: &Options) -> Self {
        let options = options.clone();
        let server = ServerProcess::builder(move |at| command(at, &options))
            .prepare(|at| initialise(at.folder()))
            .ready(|at| greets(at.addr()));
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
        let name = format!("{DATABASE}_{number}");
        self.sql(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
        self.url_of(&name)
    }

    /// Runs a statement in the first database and returns the rows as lines, with tabs between the columns.
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
        let mut client = client("mariadb", &self.url_of(database));
        client.args(["--batch", "--skip-column-names", "--execute", statement]);
        program::run(statement, &mut client)
    }

    fn url_of(&self, database: &str) -> String {
        format!("mysql://root@{}/{database}", self.addr())
    }
}

/// A client for the database at a URL of this module.
fn client(program: &str, url: &str) -> Command {
    let place = url
        .rsplit_once('@')
        .and_then(|(_, place)| place.split_once('/'));
    let port = place.and_then(|(addr, name)| Some((addr.rsplit_once(':')?.1, name)));
    let (port, name) = port.expect("the URL of a test database");
    let package = match program {
        "mariadb-dump" => "mariadb-client",
        _ => "mariadb-client-core",
    };
    let mut client = Command::new(program::find(program, package));
    client
        .args([
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--user=root",
        ])
        .arg(format!("--port={port}"))
        .arg(name);
    client
}

/// Dumps the database at a URL to a file, as of one moment.
///
/// # Panics
/// If that fails.
pub fn dump(url: &str, file: &Path) {
    let mut command = client("mariadb-dump", url);
    command.arg("--single-transaction");
    fs::write(file, program::run("mariadb-dump", &mut command)).expect("write the dump");
}

/// Restores the database at a URL from a dump, table after table. No other client may use it during the restore.
///
/// # Panics
/// If that fails.
pub fn restore(url: &str, file: &Path) {
    let mut command = client("mariadb", url);
    command.stdin(fs::File::open(file).expect("open the dump"));
    program::run("mariadb", &mut command);
}

/// Runs `mariadb-install-db`. The data need not survive a loss of power.
fn initialise(folder: &Path) {
    // A starting server deletes all temporary tables in this folder, also those of other servers.
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
    program::run("mariadb-install-db", &mut command);
    let create = format!("CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4;\n");
    fs::write(folder.join("init.sql"), create).expect("write init.sql");
}

fn command(at: &Resources, options: &Options) -> Command {
    let mut command = Command::new(program::find("mariadbd", "mariadb-server-core"));
    let below = |option: &str, name: &str| {
        let path = at.folder().join(name);
        format!("--{option}={}", path.display())
    };
    command
        .arg("--no-defaults")
        .arg(below("datadir", "data"))
        .arg(below("tmpdir", "tmp"))
        .arg(below("socket", "socket"))
        .arg(below("pid-file", "pid"))
        .arg(below("init-file", "init.sql"))
        .arg(format!("--port={}", at.port(0)))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args([
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=16M",
        ])
        .arg("--max-connections=200")
        .args(
            options
                .settings(&FSYNC_OFF)
                .map(|setting| format!("--{setting}")),
        )
        // Root must be named explicitly for a start as root. The server ignores the option for other users.
        .arg("--user=root");
    options.on_disk(command)
}

/// The server sends first: a length, a number, and the protocol's version, 10.
fn greets(addr: SocketAddr) -> bool {
    let greeting = || {
        let mut stream = TcpStream::connect_timeout(&addr, ANSWER_MAX)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut start = [0; 5];
        stream.read_exact(&mut start).map(|()| start[4])
    };
    greeting().is_ok_and(|version| version == 10)
}
