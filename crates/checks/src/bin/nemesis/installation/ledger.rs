//! Database of the ledger.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use qiang_testkit::servers::{
    ServerProcess,
    mariadb::MariaDb,
    postgres::{Options, Postgres},
};

use super::blocking;

/// Kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LedgerKind {
    Postgres,
    Mariadb,
}

impl LedgerKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
        }
    }
}

/// The server, and the database on it.
#[derive(Debug)]
pub(crate) struct LedgerSite {
    server: Server,
    pub(crate) url: String,
    /// The database's name.
    pub(crate) database: String,
}

#[derive(Debug)]
enum Server {
    Postgres(Postgres),
    Mariadb(MariaDb),
}

impl LedgerSite {
    /// Starts a server with an empty database.
    pub(crate) fn start(kind: LedgerKind) -> Result<Self> {
        let options = Options::new().without_fsync();
        let (server, url) = blocking(|| match kind {
            LedgerKind::Postgres => {
                let server = Postgres::start(&options);
                let url = server.create_database();
                (Server::Postgres(server), url)
            }
            LedgerKind::Mariadb => {
                let server = MariaDb::start(&options);
                let url = server.create_database();
                (Server::Mariadb(server), url)
            }
        })?;
        let (_, database) = url.rsplit_once('/').context("a URL with a database")?;
        Ok(Self {
            database: database.to_owned(),
            server,
            url,
        })
    }

    pub(crate) fn process(&self) -> &ServerProcess {
        match &self.server {
            Server::Postgres(server) => server,
            Server::Mariadb(server) => server,
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.process().addr()
    }

    /// The PostgreSQL server, for operations that only it offers.
    pub(crate) fn postgres(&self) -> Option<&Postgres> {
        match &self.server {
            Server::Postgres(server) => Some(server),
            Server::Mariadb(_) => None,
        }
    }

    /// Runs a statement and returns lines with `|` between the columns.
    pub(crate) fn sql(&self, statement: &str) -> Result<String> {
        blocking(|| match &self.server {
            Server::Postgres(server) => server.sql_in(&self.database, statement),
            Server::Mariadb(server) => server.sql_in(&self.database, statement).replace('\t', "|"),
        })
    }
}
