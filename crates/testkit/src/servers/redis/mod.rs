//! Redis or Valkey: a single server, with replicas, with Sentinels, or as a cluster.

mod cluster;
mod resp;
mod sentinel;
mod server;
mod standalone;

pub use cluster::{Cluster, View, key_of_partition, slot_of_partition};
pub use resp::Reply;
pub use sentinel::SentinelSet;
pub use server::Server;
pub use standalone::Standalone;

use std::path::PathBuf;
use std::process::Command;

use super::{program, small_disk::on_small_disk};

/// Options of a fixture's servers. The defaults are no persistence, no password, no replica.
#[derive(Clone, Debug, Default)]
pub struct Options {
    valkey: bool,
    append: Option<&'static str>,
    replicas: usize,
    login: Option<Login>,
    acl: Option<String>,
    lines: Vec<String>,
    disk_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
struct Login {
    user: String,
    password: String,
}

impl Options {
    /// Default options: no persistence, no password, no replica.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses Valkey instead of Redis.
    #[must_use]
    pub fn valkey(mut self) -> Self {
        self.valkey = true;
        self
    }

    /// The server's program.
    fn program(&self) -> PathBuf {
        match self.valkey {
            true => program::find_valkey(),
            false => program::find("redis-server", "redis-server"),
        }
    }

    /// Keeps an append-only file that is synced before each reply, so that acknowledged data survives SIGKILL.
    #[must_use]
    pub fn fsync_always(mut self) -> Self {
        self.append = Some("always");
        self
    }

    /// Keeps an append-only file that is synced once a second.
    #[must_use]
    pub fn fsync_everysec(mut self) -> Self {
        self.append = Some("everysec");
        self
    }

    /// Sets the number of replicas of a [`Standalone`]. The other fixtures have fixed numbers.
    #[must_use]
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Sets a password for the default user.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.login = Some(Login {
            user: "default".to_owned(),
            password: password.to_owned(),
        });
        self
    }

    /// Sets an ACL file with these lines. The fixture, the replicas and [`Server::url`] use `user`, which needs all
    /// permissions.
    #[must_use]
    pub fn acl(mut self, lines: &str, user: &str, password: &str) -> Self {
        self.acl = Some(format!("{}\n", lines.trim_end()));
        self.login = Some(Login {
            user: user.to_owned(),
            password: password.to_owned(),
        });
        self
    }

    /// Sets the maximum memory for data. Above it, writes are refused.
    #[must_use]
    pub fn memory_bytes_max(self, bytes: u64) -> Self {
        self.line(&format!("maxmemory {bytes}"))
            .line("maxmemory-policy noeviction")
    }

    /// Puts the data on a disk of this many bytes, which [`Ballast`](super::Ballast) fills. The data is lost when the
    /// server ends.
    #[must_use]
    pub fn small_disk(mut self, bytes: u64) -> Self {
        self.disk_bytes = Some(bytes);
        self
    }

    /// The command, on a small disk if the options say so.
    fn on_disk(&self, command: Command) -> Command {
        match self.disk_bytes {
            None => command,
            Some(bytes) => on_small_disk(&command, bytes),
        }
    }

    /// Adds a line to the servers' configuration file, such as `min-replicas-to-write 1`.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Configuration of a server, without its port and folder.
    fn configuration(&self) -> Vec<String> {
        // Replicas sync at once, without the default wait of 5 s for further replicas.
        let mut lines: Vec<String> = ["save \"\"", "repl-diskless-sync-delay 0"]
            .map(str::to_owned)
            .into();
        match self.append {
            None => lines.push("appendonly no".to_owned()),
            Some(when) => {
                lines.extend(["appendonly yes".to_owned(), format!("appendfsync {when}")]);
            }
        }
        if let Some(Login { user, password }) = &self.login {
            lines.push(format!("masterauth \"{password}\""));
            match self.acl {
                None => lines.push(format!("requirepass \"{password}\"")),
                Some(_) => lines.push(format!("masteruser \"{user}\"")),
            }
        }
        lines.extend(self.lines.iter().cloned());
        lines
    }
}
