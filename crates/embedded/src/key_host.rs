//! Idempotency keys of a file, whether it is an engine's or a standalone ledger.

/// Implements `KeyStore` for a [`SqliteLedgerHost`](crate::ledger_host::SqliteLedgerHost).
macro_rules! impl_keys {
    ($host:ty) => {
        const _: () = {
            use async_trait::async_trait;
            use qiang_core::{
                book::Setup,
                campaign::Details,
                id::UserId,
                money::Money,
                ports::{
                    Action, KeyBinding, KeyStore, KeyUse, LedgerError, PaidOut, Payout,
                    SettlementStore as _, setup_under,
                },
                time::Timestamp,
            };
            use uuid::Uuid;
            use $crate::{
                error::StoreError,
                ledger::{accounts, campaigns, keys, payouts},
                ledger_host::{FUNDS_WAIT_MAX, SqliteLedgerHost, job},
                reader::query,
            };

            #[async_trait]
            impl KeyStore for $host {
                async fn bind_key(
                    &self,
                    used: &KeyUse,
                    id: Uuid,
                ) -> Result<KeyBinding, LedgerError> {
                    let used = used.clone();
                    job(self, 0, move |context| {
                        keys::bind(context.conn, context.now, &used, id)
                    })
                    .await
                }

                async fn bound_key(&self, used: &KeyUse) -> Result<Option<Uuid>, LedgerError> {
                    let used = used.clone();
                    query(self.readers(), move |conn| keys::bound(conn, &used)).await
                }

                async fn deposit_under(
                    &self,
                    used: &KeyUse,
                    id: Uuid,
                    (user, amount): (&UserId, Money),
                    by: Option<&Action>,
                ) -> Result<KeyBinding, LedgerError> {
                    let (used, user, by) = (used.clone(), user.clone(), by.cloned());
                    job(self, 0, move |context| {
                        let (conn, now) = (context.conn, context.now);
                        let binding = keys::bind(conn, now, &used, id)?;
                        accounts::deposit(conn, now, binding.id, (&user, amount), by.as_ref())?;
                        Ok(binding)
                    })
                    .await
                }

                async fn create_under(
                    &self,
                    used: &KeyUse,
                    (setup, details): (&Setup, &Details),
                    audience: Option<&str>,
                    by: Option<&Action>,
                ) -> Result<KeyBinding, LedgerError> {
                    let create = || {
                        let (used, setup) = (used.clone(), setup.clone());
                        let (details, audience) = (details.clone(), audience.map(str::to_owned));
                        let by = by.cloned();
                        job(self, 0, move |context| {
                            let (conn, now) = (context.conn, context.now);
                            let binding = keys::bind(conn, now, &used, setup.campaign.id.uuid())?;
                            let setup = setup_under(&setup, binding);
                            let setup = setup.map_err(StoreError::Refused)?;
                            let entered = (&setup, &details);
                            campaigns::create(
                                conn,
                                now,
                                entered,
                                audience.as_deref(),
                                by.as_ref(),
                            )?;
                            Ok(binding)
                        })
                    };
                    match create().await {
                        Err(refusal @ LedgerError::InsufficientFunds { .. }) => {
                            let (partition, seq) = self.last_committed().ok_or(refusal)?;
                            self.await_settled(partition, seq, FUNDS_WAIT_MAX).await?;
                            create().await
                        }
                        result => result,
                    }
                }

                async fn pay_out_under(
                    &self,
                    used: &KeyUse,
                    id: Uuid,
                    payout: &Payout,
                    by: Option<&Action>,
                ) -> Result<PaidOut, LedgerError> {
                    let (used, payout, by) = (used.clone(), payout.clone(), by.cloned());
                    job(self, 0, move |context| {
                        let (conn, now) = (context.conn, context.now);
                        keys::bind(conn, now, &used, id)?;
                        payouts::pay_out(conn, now, &payout, by.as_ref())
                    })
                    .await
                }

                async fn purge_keys(
                    &self,
                    before: Timestamp,
                    limit: u32,
                ) -> Result<u64, LedgerError> {
                    job(self, 0, move |context| {
                        keys::purge(context.conn, before, limit)
                    })
                    .await
                }
            }
        };
    };
}
pub(crate) use impl_keys;
