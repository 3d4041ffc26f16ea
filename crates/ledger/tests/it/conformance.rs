//! Runs the conformance suite of all ledgers on PostgreSQL, and on MariaDB or the MySQL server that
//! `QIANG_TEST_MYSQL_URL` names.

use std::sync::Arc;

use crate::common::{Databases, Postgres, audit::audit, mysql::MySql, open};
use qiang_core::ports::Ledger;
use qiang_testkit::{
    ManualClock, conformance::standalone::LedgerSubject, ledger_conformance, quarantine_conformance,
};

/// Ledger in a database of its own, on a server that the cases share.
struct InDatabase<S> {
    url: String,
    clock: Arc<ManualClock>,
    ledger: Arc<dyn Ledger>,
    _server: Arc<S>,
}

impl<S: Databases> LedgerSubject for InDatabase<S> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        let server = S::shared();
        let url = server.fresh().await;
        Self {
            ledger: open(&url, Arc::clone(&clock) as _).await,
            url,
            clock,
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

    async fn stop(self) {
        audit::<S>(&self.url).await;
    }
}

mod postgres {
    use super::*;
    ledger_conformance!(InDatabase<Postgres>);
    quarantine_conformance!(InDatabase<Postgres>);
}

mod mariadb {
    use super::*;
    ledger_conformance!(InDatabase<MySql>);
    quarantine_conformance!(InDatabase<MySql>);
}
