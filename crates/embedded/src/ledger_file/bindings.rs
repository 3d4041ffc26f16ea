//! The binding port of a file. It names the ledger's engine.

use async_trait::async_trait;
use qiang_core::ports::{BindingStore, EngineBinding, LedgerError};

use crate::{
    ledger::bindings,
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> BindingStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn binding(&self) -> Result<Option<EngineBinding>, LedgerError> {
        query(self.readers(), bindings::find).await
    }

    async fn bind(&self, from: &str, to: &EngineBinding) -> Result<EngineBinding, LedgerError> {
        let (from, to) = (from.to_owned(), to.clone());
        job(self, 0, move |context| {
            bindings::bind(context.conn, &from, &to)
        })
        .await
    }

    async fn beat(&self, engine: &str) -> Result<bool, LedgerError> {
        let engine = engine.to_owned();
        job(self, 0, move |context| {
            bindings::beat(context.conn, &engine)
        })
        .await
    }

    /// Needs no check: one process has the file and binds it before it settles. No other engine's entries
    /// arrive here.
    fn settle_for(&self, _: &str) {}

    fn is_shared(&self) -> bool {
        false
    }
}
