//! The ledger passes the suite that all ledgers pass, on PostgreSQL and on MariaDB.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{MariaDb, Postgres, Server, audit, open};
use qiang_core::ports::Ledger;
use qiang_testkit::{
    ManualClock, conformance::standalone::LedgerSubject, ledger_conformance, quarantine_conformance,
};

/// A ledger in a database of its own, on a server that the cases share.
struct InDatabase<S> {
    url: String,
    clock: Arc<ManualClock>,
    ledger: Arc<dyn Ledger>,
    lacks_units: bool,
    _server: Arc<S>,
}

impl<S: Server> LedgerSubject for InDatabase<S> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        let server = S::shared();
        let url = server.fresh().await;
        Self {
            ledger: open(&url, Arc::clone(&clock) as _).await,
            url,
            clock,
            lacks_units: false,
            _server: server,
        }
    }

    fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    async fn restart(self) -> Self {
        drop(self.ledger);
        Self {
            ledger: open(&self.url, Arc::clone(&self.clock) as _).await,
            ..self
        }
    }

    fn lacks_units(&mut self) {
        self.lacks_units = true;
    }

    async fn stop(self) {
        if self.lacks_units {
            let report = qiang_audit::audit_ledger(&self.url).await.unwrap();
            assert!(!report.ok, "{report}");
        } else {
            audit(&self.url).await;
        }
    }
}

mod postgres {
    use super::*;
    ledger_conformance!(InDatabase<Postgres>);
    quarantine_conformance!(InDatabase<Postgres>);
}

mod mariadb {
    use super::*;
    ledger_conformance!(InDatabase<MariaDb>);
    quarantine_conformance!(InDatabase<MariaDb>);
}
