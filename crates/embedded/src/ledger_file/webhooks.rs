//! The webhook port of a file.

use async_trait::async_trait;
use qiang_core::{
    ports::{Action, LedgerError, WebhookStore},
    time::Timestamp,
    webhook::{
        AttemptQuery, DeliveryAttempt, DeliveryReport, Redelivery, WaitingEvent, Webhook,
        WebhookChange, WebhookEvent, WebhookRecord,
    },
};
use uuid::Uuid;

use crate::{
    ledger::{deliveries, webhooks},
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

    async fn change_webhook(
        &self,
        id: Uuid,
        change: &WebhookChange,
        at: Timestamp,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        let (change, by) = (change.clone(), by.cloned());
        job(self, 0, move |context| {
            context.done.forgets = true;
            webhooks::change(context.conn, id, (&change, at), by.as_ref())
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

    async fn waiting_events(&self, id: Uuid) -> Result<Vec<WaitingEvent>, LedgerError> {
        let waiting = move |conn: &_| deliveries::waiting(conn, id);
        query(self.readers(), waiting).await
    }

    async fn record_deliveries(
        &self,
        id: Uuid,
        holder: Uuid,
        until: Timestamp,
        report: &DeliveryReport,
    ) -> Result<bool, LedgerError> {
        let report = report.clone();
        job(self, 0, move |context| {
            deliveries::record(context.conn, (id, holder), until, &report)
        })
        .await
    }

    async fn delivery_attempts(
        &self,
        query_of: &AttemptQuery,
    ) -> Result<Vec<DeliveryAttempt>, LedgerError> {
        let query_of = query_of.clone();
        let attempts = move |conn: &_| deliveries::attempts(conn, &query_of);
        query(self.readers(), attempts).await
    }

    async fn forget_delivery_attempts(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError> {
        job(self, 0, move |context| {
            deliveries::forget_attempts(context.conn, before, limit)
        })
        .await
    }

    async fn redeliver(
        &self,
        id: Uuid,
        what: &Redelivery,
        by: Option<&Action>,
    ) -> Result<Option<u64>, LedgerError> {
        let (what, by) = (what.clone(), by.cloned());
        job(self, 0, move |context| {
            deliveries::redeliver(context.conn, id, &what, by.as_ref())
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
