//! Webhooks of the fake ledger: there are none.

use async_trait::async_trait;
use qiang_core::{
    ports::{Action, LedgerError, WebhookStore},
    time::Timestamp,
    webhook::{DeliveryProgress, Webhook, WebhookEvent, WebhookRecord},
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

    async fn record_webhook(
        &self,
        _: Uuid,
        _: Uuid,
        _: Timestamp,
        _: &DeliveryProgress,
    ) -> Result<bool, LedgerError> {
        Err(broken())
    }

    async fn forget_webhook_events(&self, _: Timestamp, _: u32) -> Result<u64, LedgerError> {
        Err(broken())
    }
}
