//! The webhook port of a file.

use async_trait::async_trait;
use qiang_core::{
    ports::{Action, LedgerError, WebhookStore},
    time::Timestamp,
    webhook::{DeliveryProgress, Webhook, WebhookEvent, WebhookRecord},
};
use uuid::Uuid;

use crate::{
    ledger::webhooks,
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> WebhookStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn add_webhook(
        &self,
        webhook: &Webhook,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        let (webhook, by) = (webhook.clone(), by.cloned());
        job(self, 0, move |context| {
            context.done.forgets = true;
            webhooks::add(context.conn, &webhook, by.as_ref())
        })
        .await
    }

    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, LedgerError> {
        query(self.readers(), webhooks::list).await
    }

    async fn rotate_webhook(
        &self,
        id: Uuid,
        secret: &str,
        previous_until: Timestamp,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        let (secret, by) = (secret.to_owned(), by.cloned());
        job(self, 0, move |context| {
            let secret = (secret.as_str(), previous_until);
            webhooks::rotate(context.conn, id, secret, by.as_ref())
        })
        .await
    }

    async fn delete_webhook(&self, id: Uuid, by: Option<&Action>) -> Result<bool, LedgerError> {
        let by = by.cloned();
        job(self, 0, move |context| {
            context.done.forgets = true;
            webhooks::delete(context.conn, id, by.as_ref())
        })
        .await
    }

    async fn redrive_webhook(
        &self,
        id: Uuid,
        since: Option<Timestamp>,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        let by = by.cloned();
        job(self, 0, move |context| {
            webhooks::redrive(context.conn, id, since, by.as_ref())
        })
        .await
    }

    async fn lease_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        _: Timestamp,
        until: Timestamp,
    ) -> Result<Option<WebhookRecord>, LedgerError> {
        job(self, 0, move |context| {
            webhooks::lease(context.conn, (id, holder), until)
        })
        .await
    }

    async fn webhook_events(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<Vec<WebhookEvent>, LedgerError> {
        let events = move |conn: &_| webhooks::events(conn, after, limit);
        query(self.readers(), events).await
    }

    async fn record_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        until: Timestamp,
        progress: &DeliveryProgress,
    ) -> Result<bool, LedgerError> {
        let progress = progress.clone();
        job(self, 0, move |context| {
            webhooks::record(context.conn, (id, holder), until, &progress)
        })
        .await
    }

    async fn forget_webhook_events(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError> {
        job(self, 0, move |context| {
            webhooks::forget(context.conn, before, limit)
        })
        .await
    }
}
