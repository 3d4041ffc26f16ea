//! The `WebhookStore` port.

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

use super::SqlLedger;
use crate::{deliveries, dialect::Dialect, pool::AccessMode, webhooks};

#[async_trait]
impl<D: Dialect> WebhookStore for SqlLedger<D> {
    async fn add_webhook(
        &self,
        webhook: &Webhook,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        let args = (webhook.clone(), by.cloned());
        self.run(AccessMode::Write, args, |conn, (webhook, by)| {
            Box::pin(webhooks::add::<D>(conn, webhook, by.as_ref()))
        })
        .await
    }

    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, LedgerError> {
        self.read(|conn| Box::pin(webhooks::list::<D>(conn))).await
    }

    async fn rotate_webhook(
        &self,
        id: Uuid,
        secret: &str,
        previous_until: Timestamp,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        let args = (secret.to_owned(), by.cloned());
        self.run(AccessMode::Write, args, move |conn, (secret, by)| {
            let secret = (secret.as_str(), previous_until);
            Box::pin(webhooks::rotate::<D>(conn, id, secret, by.as_ref()))
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
        let args = (change.clone(), by.cloned());
        self.run(AccessMode::Write, args, move |conn, (change, by)| {
            Box::pin(webhooks::change::<D>(conn, id, (change, at), by.as_ref()))
        })
        .await
    }

    async fn delete_webhook(&self, id: Uuid, by: Option<&Action>) -> Result<bool, LedgerError> {
        self.run(AccessMode::Write, by.cloned(), move |conn, by| {
            Box::pin(webhooks::delete::<D>(conn, id, by.as_ref()))
        })
        .await
    }

    async fn redrive_webhook(
        &self,
        id: Uuid,
        since: Option<Timestamp>,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        self.run(AccessMode::Write, by.cloned(), move |conn, by| {
            Box::pin(webhooks::redrive::<D>(conn, id, since, by.as_ref()))
        })
        .await
    }

    async fn lease_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<WebhookRecord>, LedgerError> {
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(webhooks::lease::<D>(conn, (id, holder), (now, until)))
        })
        .await
    }

    async fn webhook_events(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<Vec<WebhookEvent>, LedgerError> {
        self.read(move |conn| Box::pin(webhooks::events::<D>(conn, after, limit)))
            .await
    }

    async fn waiting_events(&self, id: Uuid) -> Result<Vec<WaitingEvent>, LedgerError> {
        self.read(move |conn| Box::pin(deliveries::waiting::<D>(conn, id)))
            .await
    }

    async fn record_deliveries(
        &self,
        id: Uuid,
        holder: Uuid,
        until: Timestamp,
        report: &DeliveryReport,
    ) -> Result<bool, LedgerError> {
        self.run(AccessMode::Write, report.clone(), move |conn, report| {
            Box::pin(deliveries::record::<D>(conn, (id, holder), until, report))
        })
        .await
    }

    async fn delivery_attempts(
        &self,
        query: &AttemptQuery,
    ) -> Result<Vec<DeliveryAttempt>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(deliveries::attempts::<D>(conn, query))
        })
        .await
    }

    async fn forget_delivery_attempts(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError> {
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(deliveries::forget_attempts::<D>(conn, before, limit))
        })
        .await
    }

    async fn redeliver(
        &self,
        id: Uuid,
        what: &Redelivery,
        by: Option<&Action>,
    ) -> Result<Option<u64>, LedgerError> {
        let args = (what.clone(), by.cloned());
        self.run(AccessMode::Write, args, move |conn, (what, by)| {
            Box::pin(deliveries::redeliver::<D>(conn, id, what, by.as_ref()))
        })
        .await
    }

    async fn forget_webhook_events(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError> {
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(webhooks::forget::<D>(conn, before, limit))
        })
        .await
    }
}
