//! The `BindingStore` port.

use async_trait::async_trait;
use qiang_core::ports::{BindingStore, EngineBinding, LedgerError};

use super::SqlLedger;
use crate::{bindings, dialect::Dialect, pool::AccessMode};

#[async_trait]
impl<D: Dialect> BindingStore for SqlLedger<D> {
    async fn binding(&self) -> Result<Option<EngineBinding>, LedgerError> {
        self.read(move |conn| Box::pin(bindings::find::<D>(conn)))
            .await
    }

    async fn bind(&self, from: &str, to: &EngineBinding) -> Result<EngineBinding, LedgerError> {
        let args = (from.to_owned(), to.clone());
        self.run(AccessMode::Write, args, |conn, (from, to)| {
            Box::pin(bindings::bind::<D>(conn, from, to))
        })
        .await
    }

    async fn beat(&self, engine: &str) -> Result<bool, LedgerError> {
        self.run(AccessMode::Write, engine.to_owned(), |conn, engine| {
            Box::pin(bindings::beat::<D>(conn, engine))
        })
        .await
    }

    fn settle_for(&self, engine: &str) {
        self.fence.set(engine);
    }

    fn is_shared(&self) -> bool {
        true
    }
}
