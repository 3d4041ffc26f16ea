//! Ledgers of tests: in a file, in PostgreSQL and in MariaDB. Cases share the servers, and each has its own database.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use qiang_core::ports::Ledger;
use qiang_embedded::SqliteLedger;
use qiang_ledger::LedgerOptions;
use qiang_testkit::{
    ManualClock,
    servers::{
        mariadb::{self, MariaDb},
        postgres::{self, Postgres},
    },
};

/// Name of the ledger's file.
pub(crate) const FILE: &str = "ledger.db";

/// Kind of a ledger's storage.
pub(crate) trait LedgerDatabase: Send + Sync + 'static {
    /// The URL of a new and empty database; `None` for a file.
    fn database() -> Option<String>;
}

pub(crate) struct InFile;

impl LedgerDatabase for InFile {
    fn database() -> Option<String> {
        None
    }
}

pub(crate) struct InPostgres;

impl LedgerDatabase for InPostgres {
    fn database() -> Option<String> {
        static SERVER: OnceLock<Postgres> = OnceLock::new();
        let start = || {
            let options = postgres::Options::new().without_fsync();
            Postgres::start(&options.setting("max_connections=200"))
        };
        Some(SERVER.get_or_init(start).create_database())
    }
}

pub(crate) struct InMariaDb;

impl LedgerDatabase for InMariaDb {
    fn database() -> Option<String> {
        static SERVER: OnceLock<MariaDb> = OnceLock::new();
        let start = || {
            let options = mariadb::Options::new().without_fsync();
            MariaDb::start(&options.setting("max_connections=200"))
        };
        Some(SERVER.get_or_init(start).create_database())
    }
}

/// The URL of a new database with the tables of a ledger; `None` for a file.
pub(crate) async fn prepare<L: LedgerDatabase>() -> Option<String> {
    let url = L::database()?;
    let migrated = qiang_ledger::migrate(&url).await;
    migrated.unwrap_or_else(|error| panic!("{error:?}"));
    Some(url)
}

/// An open ledger.
#[derive(Clone)]
pub(crate) enum OpenLedger {
    File(SqliteLedger),
    Database(Arc<dyn Ledger>),
}

impl OpenLedger {
    /// Opens the database, or a file in the folder.
    pub(crate) async fn open(url: Option<&str>, folder: &Path, clock: Arc<ManualClock>) -> Self {
        let Some(url) = url else {
            let ledger = SqliteLedger::open(&folder.join(FILE), clock);
            return Self::File(ledger.unwrap_or_else(|error| panic!("{error}")));
        };
        let options = LedgerOptions {
            connections_max: 3,
            ..LedgerOptions::default()
        };
        let ledger = qiang_ledger::open(url, clock, options).await;
        Self::Database(ledger.unwrap_or_else(|error| panic!("{error:?}")))
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        match self {
            Self::File(file) => file,
            Self::Database(ledger) => &**ledger,
        }
    }

    pub(crate) fn shared(&self) -> Arc<dyn Ledger> {
        match self {
            Self::File(file) => Arc::new(file.clone()),
            Self::Database(ledger) => Arc::clone(ledger),
        }
    }

    pub(crate) fn close(&self) {
        if let Self::File(file) = self {
            file.close();
        }
    }
}
