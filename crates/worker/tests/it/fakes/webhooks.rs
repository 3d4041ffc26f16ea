//! Webhooks of the fake ledger: there are none.

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

use super::{FakeLedger, broken};

#[async_trait]
impl WebhookStore for FakeLedger {
    async fn add_webhook(&self, _: &Webhook, _: Option<&Action>) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, LedgerError> {
        Err(broken())
    }

    async fn rotate_webhook(
        &self,
        _: Uuid,
        _: &str,
        _: Timestamp,
        _: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn change_webhook(
        &self,
        _: Uuid,
        _: &WebhookChange,
        _: Timestamp,
        _: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn delete_webhook(&self, _: Uuid, _: Option<&Action>) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn redrive_webhook(
        &self,
        _: Uuid,
        _: Option<Timestamp>,
        _: Option<&Action>,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn lease_webhook(
        &self,
        _: Uuid,
        _: Uuid,
        _: Timestamp,
        _: Timestamp,
    ) -> Result<Option<WebhookRecord>, LedgerError> {
        Err(broken())
    }

    async fn webhook_events(&self, _: i64, _: u32) -> Result<Vec<WebhookEvent>, LedgerError> {
        Err(broken())
    }

    async fn waiting_events(&self, _: Uuid) -> Result<Vec<WaitingEvent>, LedgerError> {
        Err(broken())
    }

    async fn record_deliveries(
        &self,
        _: Uuid,
        _: Uuid,
        _: Timestamp,
        _: &DeliveryReport,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn delivery_attempts(
        &self,
        _: &AttemptQuery,
    ) -> Result<Vec<DeliveryAttempt>, LedgerError> {
        Err(broken())
    }

    async fn forget_delivery_attempts(&self, _: Timestamp, _: u32) -> Result<u64, LedgerError> {
        Err(broken())
    }

    async fn redeliver(
        &self,
        _: Uuid,
        _: &Redelivery,
        _: Option<&Action>,
    ) -> Result<Option<u64>, LedgerError> {
        Err(broken())
    }

    async fn forget_webhook_events(&self, _: Timestamp, _: u32) -> Result<u64, LedgerError> {
        Err(broken())
    }
}
