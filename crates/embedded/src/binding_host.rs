//! The binding port, which names the ledger's engine, for every [`SqliteLedgerHost`](crate::ledger_host).

/// Implements `BindingStore` for a host.
macro_rules! impl_binding {
    ($host:ty) => {
        const _: () = {
            use async_trait::async_trait;
            use qiang_core::ports::{BindingStore, EngineBinding, LedgerError};
            use $crate::{
                ledger::bindings,
                ledger_host::{SqliteLedgerHost, job},
                reader::query,
            };

            #[async_trait]
            impl BindingStore for $host {
                async fn binding(&self) -> Result<Option<EngineBinding>, LedgerError> {
                    query(self.readers(), bindings::find).await
                }

                async fn bind(
                    &self,
                    from: &str,
                    to: &EngineBinding,
                ) -> Result<EngineBinding, LedgerError> {
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
        };
    };
}
pub(crate) use impl_binding;
