//! PgBouncer: a pooler for a PostgreSQL server of a test.

use std::fs;
use std::net::TcpStream;
use std::ops::Deref;
use std::process::Command;

use super::postgres::Postgres;
use super::program;
use super::server_process::{ANSWER_MAX, Resources, ServerProcess};
use super::user::User;

/// How long a client of PgBouncer keeps a session of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// Until the client disconnects.
    Session,
    /// Until its transaction ends.
    Transaction,
    /// Until its statement ends.
    Statement,
}

impl PoolMode {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        }
    }
}

/// A PgBouncer with its own defaults, for all databases of a server.
#[derive(Debug)]
pub struct PgBouncer(ServerProcess);

impl Deref for PgBouncer {
    type Target = ServerProcess;

    fn deref(&self) -> &ServerProcess {
        &self.0
    }
}

impl PgBouncer {
    /// Starts PgBouncer for a server and waits until it accepts connections.
    pub fn start(server: &Postgres, mode: PoolMode) -> Self {
        let user = User::instead_of_root(&["postgres", "nobody"]);
        let (behind, owner) = (server.addr(), user.clone());
        let process = ServerProcess::builder(command)
            .user(user)
            .prepare(move |at| {
                let listen = at.addr();
                let config = format!(
                    "[databases]\n\
                     * = host={} port={}\n\
                     [pgbouncer]\n\
                     listen_addr = {}\n\
                     listen_port = {}\n\
                     unix_socket_dir =\n\
                     auth_type = trust\n\
                     auth_file = {}\n\
                     pool_mode = {}\n",
                    behind.ip(),
                    behind.port(),
                    listen.ip(),
                    listen.port(),
                    at.folder().join("users").display(),
                    mode.name()
                );
                let write = |name: &str, text: &str| {
                    fs::write(at.folder().join(name), text).expect("write PgBouncer's files");
                };
                write("pgbouncer.ini", &config);
                write("users", "\"qiang\" \"\"\n");
                if let Some(owner) = &owner {
                    owner.own(at.folder());
                }
            })
            .ready(|at| TcpStream::connect_timeout(&at.addr(), ANSWER_MAX).is_ok());
        Self(process.start())
    }

    /// The URL of a database of the server, through PgBouncer.
    pub fn through(&self, server: &Postgres, url: &str) -> String {
        url.replace(&server.addr().to_string(), &self.addr().to_string())
    }
}

fn command(at: &Resources) -> Command {
    let mut command = Command::new(program::find("pgbouncer", "pgbouncer"));
    command.arg(at.folder().join("pgbouncer.ini"));
    command
}
