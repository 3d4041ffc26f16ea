//! Ledgers without type parameters.

use std::sync::Arc;

use async_trait::async_trait;
use qiang_core::ports::Ledger;

use super::LedgerSubject;
use crate::{ManualClock, conformance::Boxed};

/// [`LedgerSubject`] of any type.
#[async_trait]
pub(super) trait AnyLedger: Send + Sync {
    fn ledger(&self) -> &dyn Ledger;

    async fn restart(self: Box<Self>) -> Box<dyn AnyLedger>;

    async fn stop(self: Box<Self>);
}

#[async_trait]
impl<L: LedgerSubject> AnyLedger for L {
    fn ledger(&self) -> &dyn Ledger {
        LedgerSubject::ledger(self)
    }

    async fn restart(self: Box<Self>) -> Box<dyn AnyLedger> {
        Box::new(LedgerSubject::restart(*self).await)
    }

    async fn stop(self: Box<Self>) {
        LedgerSubject::stop(*self).await;
    }
}

pub(super) fn start_ledger<L: LedgerSubject>(
    clock: Arc<ManualClock>,
) -> Boxed<'static, Box<dyn AnyLedger>> {
    Box::pin(async { Box::new(L::start(clock).await) as Box<dyn AnyLedger> })
}
