//! Copies of a ledger, and restoring one of them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use qiang_core::database::DatabaseKind;
use qiang_testkit::{
    ManualClock,
    servers::{mariadb, postgres},
};

use crate::node::ledgers::{FILE, OpenLedger};

/// Location of a ledger: the URL of its database, and the folder for its file and its copies.
pub(crate) struct LedgerPlace {
    pub(crate) url: Option<String>,
    pub(crate) folder: tempfile::TempDir,
}

impl LedgerPlace {
    fn database(&self) -> Option<(DatabaseKind, &str)> {
        let url = self.url.as_deref()?;
        Some((
            DatabaseKind::from_url(url).expect("the URL of a database"),
            url,
        ))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a copy of the ledger.
    pub(crate) fn dump(&self, name: &str) {
        let copy = self.path(name);
        match self.database() {
            Some((DatabaseKind::Postgres, url)) => postgres::dump(url, &copy),
            Some((DatabaseKind::MySql, url)) => mariadb::dump(url, &copy),
            None => {
                let conn = rusqlite::Connection::open(self.path(FILE)).expect("the file opens");
                let copied = conn.execute("VACUUM INTO ?1", [copy.to_str()]);
                copied.expect("the file is copied");
            }
        }
    }

    /// Restores a copy of the ledger. Clients of a database stay connected.
    pub(crate) async fn restore(
        &self,
        ledger: &mut OpenLedger,
        name: &str,
        clock: Arc<ManualClock>,
    ) {
        let copy = self.path(name);
        match self.database() {
            Some((DatabaseKind::Postgres, url)) => postgres::restore(url, &copy),
            Some((DatabaseKind::MySql, url)) => mariadb::restore(url, &copy),
            None => {
                ledger.close();
                replace(&self.path(FILE), &copy);
                *ledger = OpenLedger::open(None, self.folder.path(), clock).await;
            }
        }
    }
}

fn replace(file: &Path, copy: &Path) {
    for beside in ["-wal", "-shm"] {
        // These files are missing if the last connection has closed the file.
        drop(fs::remove_file(format!("{}{beside}", file.display())));
    }
    fs::copy(copy, file).expect("the file is copied");
}
