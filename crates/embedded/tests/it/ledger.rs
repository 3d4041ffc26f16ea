//! Runs the conformance suite of all ledgers on the standalone SQLite ledger.

use std::sync::Arc;

use qiang_core::ports::Ledger;
use qiang_embedded::SqliteLedger;
use qiang_testkit::{
    ManualClock, conformance::standalone::LedgerSubject, ledger_conformance, quarantine_conformance,
};

struct OneFile {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    ledger: SqliteLedger,
}

fn open(directory: &tempfile::TempDir, clock: &Arc<ManualClock>) -> SqliteLedger {
    let path = directory.path().join("ledger.db");
    let clock = Arc::clone(clock);
    SqliteLedger::open(&path, clock).unwrap_or_else(|error| panic!("{error}"))
}

impl LedgerSubject for OneFile {
    async fn start(clock: Arc<ManualClock>) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the file");
        let ledger = open(&directory, &clock);
        Self {
            directory,
            clock,
            ledger,
        }
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.ledger
    }

    async fn restart(self) -> Self {
        self.ledger.abort();
        let ledger = open(&self.directory, &self.clock);
        Self { ledger, ..self }
    }

    async fn stop(self) {
        self.ledger.close();
    }
}

ledger_conformance!(OneFile);
quarantine_conformance!(OneFile);
