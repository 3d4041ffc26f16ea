//! The idempotency key port of a file.

use std::sync::Arc;

use async_trait::async_trait;
use qiang_core::{
    id::{PaymentRef, UserId},
    money::Money,
    ports::{
        Action, Creation, KeyBinding, KeyState, KeyStore, KeyUse, LedgerError, Payout,
        PayoutReceipt, SettlementStore as _, WholeCreation,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    ledger::{keys, payouts},
    ledger_file::{FUNDS_WAIT_MAX, LedgerFile, SqliteLedgerHost, enter, enter_whole, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> KeyStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn bind_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyBinding, LedgerError> {
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

    async fn begin_key(&self, used: &KeyUse, id: Uuid) -> Result<KeyState, LedgerError> {
        let used = used.clone();
        job(self, 0, move |context| {
            keys::begin(context.conn, context.now, &used, id)
        })
        .await
    }

    async fn answer_key(&self, used: &KeyUse, id: Uuid, answer: &str) -> Result<(), LedgerError> {
        let (used, answer) = (used.clone(), answer.to_owned());
        job(self, 0, move |context| {
            keys::answer(context.conn, context.now, &used, id, &answer)
        })
        .await
    }

    async fn rebind_key(&self, used: &KeyUse, from: Uuid, to: Uuid) -> Result<bool, LedgerError> {
        let used = used.clone();
        job(self, 0, move |context| {
            keys::rebind(context.conn, &used, from, to)
        })
        .await
    }

    async fn release_key(&self, used: &KeyUse, id: Uuid) -> Result<(), LedgerError> {
        let used = used.clone();
        job(self, 0, move |context| {
            keys::release(context.conn, &used, id)
        })
        .await
    }

    async fn deposit_named(
        &self,
        used: Option<&KeyUse>,
        id: Uuid,
        (user, amount): (&UserId, Money),
        reference: &PaymentRef,
        by: Option<&Action>,
    ) -> Result<KeyBinding, LedgerError> {
        let (used, by) = (used.cloned(), by.cloned());
        let (user, reference) = (user.clone(), reference.clone());
        job(self, 0, move |context| {
            let (at, to) = ((context.conn, context.now), (&user, amount));
            keys::deposit_named(at, used.as_ref(), id, to, &reference, by.as_ref())
        })
        .await
    }

    async fn create_all(
        &self,
        campaigns: Vec<Creation>,
    ) -> Result<Vec<Result<KeyBinding, LedgerError>>, LedgerError> {
        let campaigns: Arc<[_]> = campaigns.into();
        let mut created = enter(self, Arc::clone(&campaigns)).await?;
        if !created.iter().any(lacks) {
            return Ok(created);
        }
        let Some((partition, seq)) = self.last_committed() else {
            return Ok(created);
        };
        // Recent claims of the senders may not be settled to their accounts yet.
        let poor: Vec<_> = (0..created.len()).filter(|n| lacks(&created[*n])).collect();
        let again = poor.iter().map(|n| campaigns[*n].clone()).collect();
        let settled = self.await_settled(partition, seq, FUNDS_WAIT_MAX).await;
        let again = match settled {
            Ok(_) => enter(self, again).await,
            Err(error) => Err(error),
        };
        let again = again.unwrap_or_else(|error| vec![Err(error); poor.len()]);
        for (n, again) in poor.into_iter().zip(again) {
            created[n] = again;
        }
        Ok(created)
    }

    async fn create_whole(&self, campaigns: Vec<Creation>) -> Result<WholeCreation, LedgerError> {
        let campaigns: Arc<[_]> = campaigns.into();
        let created = enter_whole(self, Arc::clone(&campaigns)).await?;
        if created.iter().any(lacks)
            && let Some((partition, seq)) = self.last_committed()
        {
            // Recent claims of the senders may not be settled to their accounts yet.
            self.await_settled(partition, seq, FUNDS_WAIT_MAX).await?;
            let again = enter_whole(self, campaigns).await?;
            return Ok(WholeCreation::from_results(again));
        }
        Ok(WholeCreation::from_results(created))
    }

    async fn pay_out_under(
        &self,
        used: &KeyUse,
        id: Uuid,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError> {
        let (used, payout, by) = (used.clone(), payout.clone(), by.cloned());
        job(self, 0, move |context| {
            let (conn, now) = (context.conn, context.now);
            let (_, paid) = keys::bind_with((conn, now), &used, id, |_| {
                payouts::pay_out(conn, now, &payout, by.as_ref())
            })?;
            Ok(paid)
        })
        .await
    }

    async fn is_change_made(&self, id: Uuid) -> Result<bool, LedgerError> {
        query(self.readers(), move |conn: &_| {
            keys::is_change_made(conn, id)
        })
        .await
    }

    async fn purge_keys(&self, before: Timestamp, limit: u32) -> Result<u64, LedgerError> {
        job(self, 0, move |context| {
            keys::purge(context.conn, before, limit)
        })
        .await
    }
}

/// Whether the sender of a campaign has too little money for it.
fn lacks(created: &Result<KeyBinding, LedgerError>) -> bool {
    matches!(created, Err(LedgerError::InsufficientFunds { .. }))
}
