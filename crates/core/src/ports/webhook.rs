//! Webhooks: their endpoints and events in the ledger, and how an event is sent.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, LedgerError};
use crate::{
    time::Timestamp,
    webhook::{Progress, Webhook, WebhookEvent, WebhookRecord},
};

/// Endpoints of webhooks, and the events that settlement writes down for them: in its own transaction, and only where
/// an endpoint wants events of the campaign. A change of an endpoint is written down with who asked for it, in the same
/// transaction, and only where something changed.
#[async_trait]
pub trait WebhookStore: Send + Sync + 'static {
    /// Enters an endpoint. It is told what is settled from then on. Again changes nothing. False if there are
    /// [`WEBHOOKS_MAX`](crate::webhook::WEBHOOKS_MAX) already.
    async fn add_webhook(
        &self,
        webhook: &Webhook,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// All endpoints, in the order of their ids.
    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, LedgerError>;

    /// Gives an endpoint another secret; the one before is used as well until then. The same action again changes
    /// nothing. False if there is no such endpoint.
    async fn rotate_webhook(
        &self,
        id: Uuid,
        secret: &str,
        previous_until: Timestamp,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// Deletes an endpoint; false if there is none.
    async fn delete_webhook(&self, id: Uuid, by: Option<&Action>) -> Result<bool, LedgerError>;

    /// Has an endpoint tried again at once, also one that is disabled; false if there is none. Given a time, it is
    /// told once more what was decided since, as far as that is kept.
    async fn redrive_webhook(
        &self,
        id: Uuid,
        since: Option<Timestamp>,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// Gives an endpoint to a holder until then, unless somebody else has it or it is disabled; how it stands.
    async fn lease_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<WebhookRecord>, LedgerError>;

    /// Up to `limit` events behind a place, in the order of places, whoever wants them.
    async fn webhook_events(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<Vec<WebhookEvent>, LedgerError>;

    /// Writes down how far an endpoint has been told, and renews the lease. False, and nothing changes, if the holder
    /// does not have it any more: it was redriven, deleted, or given to somebody else.
    async fn record_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        until: Timestamp,
        progress: &Progress,
    ) -> Result<bool, LedgerError>;

    /// Forgets events that were decided before a time, unless an endpoint that is not disabled is yet to be told; up to
    /// `limit` of the first. How many.
    async fn forget_webhook_events(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError>;
}

/// Why an event did not get through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendFailure {
    /// What went wrong, for operators; nothing of what the endpoint answered but the status.
    pub reason: String,
    /// Whether the endpoint said that it wants no more (410).
    pub is_gone: bool,
}

/// Sends events.
#[async_trait]
pub trait WebhookSender: Send + Sync + 'static {
    /// Whether this may be an endpoint, by its form; the addresses of its host are looked at whenever it is connected.
    ///
    /// # Errors
    /// Why not.
    fn check_url(&self, url: &str) -> Result<(), String>;

    /// A fresh secret, for an endpoint to check signatures with.
    ///
    /// # Errors
    /// When there is no randomness.
    fn fresh_secret(&self) -> Result<String, String>;

    /// Sends an event, signed at this time. It got through when the endpoint has answered 2xx, within a time limit.
    async fn send(
        &self,
        webhook: &Webhook,
        event: &WebhookEvent,
        now: Timestamp,
    ) -> Result<(), SendFailure>;
}

/// How an endpoint stands, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointState {
    /// Events that it may have to be told yet.
    pub behind: u64,
    /// Since when nothing gets through, if so.
    pub failing_since: Option<Timestamp>,
    /// Whether it is not tried any more.
    pub is_disabled: bool,
}

/// What operators observe of webhooks in this process.
#[derive(Debug, Default)]
pub struct WebhookMonitor {
    endpoints: Mutex<Vec<EndpointState>>,
    sent: AtomicU64,
    failed: AtomicU64,
}

impl WebhookMonitor {
    /// How the endpoints stand.
    pub fn show(&self, records: &[WebhookRecord]) {
        let state = |record: &WebhookRecord| {
            let progress = &record.progress;
            let behind = record.last_place.saturating_sub(progress.place).max(0);
            EndpointState {
                behind: behind.unsigned_abs(),
                failing_since: progress.failing_since,
                is_disabled: progress.disabled_at.is_some(),
            }
        };
        let states = records.iter().map(state).collect();
        *self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// An event was tried.
    pub fn tried(&self, got_through: bool) {
        let count = match got_through {
            true => &self.sent,
            false => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Attempts that got through, and those that did not.
    pub fn attempts(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.sent), count(&self.failed))
    }

    /// How each endpoint stands.
    pub fn endpoints(&self) -> Vec<EndpointState> {
        let endpoints = self.endpoints.lock();
        endpoints.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
