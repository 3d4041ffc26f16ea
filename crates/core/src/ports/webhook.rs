//! Webhooks: their endpoints and events in the ledger, and the sender of events.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, LedgerError};
use crate::{
    time::Timestamp,
    webhook::{
        AttemptQuery, DeliveryAttempt, DeliveryProgress, DeliveryReport, Redelivery, WaitingEvent,
        Webhook, WebhookChange, WebhookEvent, WebhookRecord,
    },
};

/// Store of webhook endpoints and events. Settlement records an event in its own transaction, only if an endpoint
/// subscribes to events of the campaign. A change of an endpoint and its action are written in one transaction, only if
/// something changed.
#[async_trait]
pub trait WebhookStore: Send + Sync + 'static {
    /// Adds an endpoint, which receives events that are settled from then on. A repeated call changes nothing. Returns
    /// false if there is no [room](WebhookRecord::has_room) for it.
    async fn add_webhook(
        &self,
        webhook: &Webhook,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// All endpoints, in the order of their ids.
    async fn webhooks(&self) -> Result<Vec<WebhookRecord>, LedgerError>;

    /// Replaces the secret of an endpoint; the previous secret also signs until `previous_until`. A repeated action
    /// changes nothing. Returns false if there is no such endpoint.
    async fn rotate_webhook(
        &self,
        id: Uuid,
        secret: &str,
        previous_until: Timestamp,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// Changes an endpoint at a time, and ends its lease, so that the change applies to the next delivery. A repeated
    /// action changes nothing. Returns false if there is no such endpoint.
    async fn change_webhook(
        &self,
        id: Uuid,
        change: &WebhookChange,
        at: Timestamp,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// Deletes an endpoint; returns false if there is none.
    async fn delete_webhook(&self, id: Uuid, by: Option<&Action>) -> Result<bool, LedgerError>;

    /// Makes an endpoint, even a disabled one, and its waiting events due at once; returns false if there is none. With
    /// a time, the endpoint receives stored events decided since then again. A repeated action changes nothing.
    async fn redrive_webhook(
        &self,
        id: Uuid,
        since: Option<Timestamp>,
        by: Option<&Action>,
    ) -> Result<bool, LedgerError>;

    /// Makes stored events wait for a delivery at once, as far as there is room for waiting events, and enables the
    /// endpoint. Without such events, and for a repeated action, nothing changes. Returns the number of events, and
    /// `None` if there is no endpoint.
    async fn redeliver(
        &self,
        id: Uuid,
        what: &Redelivery,
        by: Option<&Action>,
    ) -> Result<Option<u64>, LedgerError>;

    /// Leases an endpoint to a holder until `until`, unless another holder has it or it is disabled. Returns its record
    /// then.
    async fn lease_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<WebhookRecord>, LedgerError>;

    /// Up to `limit` events after a position, in the order of positions, for all endpoints.
    async fn webhook_events(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<Vec<WebhookEvent>, LedgerError>;

    /// Events that wait for a retry to an endpoint, in the order of places.
    async fn waiting_events(&self, id: Uuid) -> Result<Vec<WaitingEvent>, LedgerError>;

    /// Records deliveries to an endpoint, and renews the lease. Returns false, and changes nothing, if the holder has
    /// lost the lease: the endpoint was changed, redriven, deleted, or leased to another holder.
    async fn record_deliveries(
        &self,
        id: Uuid,
        holder: Uuid,
        until: Timestamp,
        report: &DeliveryReport,
    ) -> Result<bool, LedgerError>;

    /// Records the progress of an endpoint alone, as [`record_deliveries`](Self::record_deliveries) does.
    async fn record_webhook(
        &self,
        id: Uuid,
        holder: Uuid,
        until: Timestamp,
        progress: &DeliveryProgress,
    ) -> Result<bool, LedgerError> {
        let report = progress.clone().into();
        self.record_deliveries(id, holder, until, &report).await
    }

    /// Attempts at one endpoint, newest first.
    async fn delivery_attempts(
        &self,
        query: &AttemptQuery,
    ) -> Result<Vec<DeliveryAttempt>, LedgerError>;

    /// Deletes up to `limit` attempts that were made before a time, oldest first. Returns their number.
    async fn forget_delivery_attempts(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError>;

    /// Deletes up to `limit` events that were decided before a time, oldest first, unless an enabled endpoint has yet
    /// to receive them. Returns their number.
    async fn forget_webhook_events(
        &self,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, LedgerError>;
}

/// Error of an event that was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SendFailure {
    /// Cause, for operators. It contains only the status of the endpoint's response.
    pub reason: String,
    /// Whether the endpoint answered 410, which ends its subscription.
    pub is_gone: bool,
}

/// Answer of an endpoint to an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointAnswer {
    /// Its status; `None` if there was no answer.
    pub status: Option<u16>,
    /// First characters of its body.
    pub body: Option<String>,
    /// Error, if the event was not delivered.
    pub failure: Option<SendFailure>,
}

/// Sends events.
#[async_trait]
pub trait WebhookSender: Send + Sync + 'static {
    /// Checks the form of an endpoint's URL. The addresses of its host are checked at each connection.
    ///
    /// # Errors
    /// The reason why the URL is refused.
    fn check_url(&self, url: &str) -> Result<(), String>;

    /// Generates a secret with which an endpoint verifies signatures.
    ///
    /// # Errors
    /// If no randomness is available.
    fn fresh_secret(&self) -> Result<String, String>;

    /// Content of an event as JSON: what endpoints receive.
    ///
    /// # Errors
    /// If its time is outside the calendar.
    fn content(&self, event: &WebhookEvent) -> Result<String, String>;

    /// Sends an event, signed at this time. It is delivered if the endpoint answers 2xx within a time limit.
    async fn attempt(
        &self,
        webhook: &Webhook,
        event: &WebhookEvent,
        now: Timestamp,
    ) -> EndpointAnswer;

    /// Sends an event as [`attempt`](Self::attempt) does, and returns whether it was delivered.
    async fn send(
        &self,
        webhook: &Webhook,
        event: &WebhookEvent,
        now: Timestamp,
    ) -> Result<(), SendFailure> {
        let answer = self.attempt(webhook, event, now).await;
        answer.failure.map_or(Ok(()), Err)
    }
}

/// Delivery state of an endpoint, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointState {
    /// Events that may still be delivered to it.
    pub behind: u64,
    /// Time since which all deliveries fail, if they do.
    pub failing_since: Option<Timestamp>,
    /// Whether it is disabled.
    pub is_disabled: bool,
}

/// Webhook metrics of this process.
#[derive(Debug, Default)]
pub struct WebhookMonitor {
    endpoints: Mutex<Vec<EndpointState>>,
    sent: AtomicU64,
    failed: AtomicU64,
}

impl WebhookMonitor {
    /// Sets the state of all endpoints.
    pub fn show(&self, records: &[WebhookRecord]) {
        let state = |record: &WebhookRecord| {
            let progress = &record.progress;
            EndpointState {
                behind: record.behind(),
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

    /// Counts an attempt.
    pub fn tried(&self, got_through: bool) {
        let count = match got_through {
            true => &self.sent,
            false => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Numbers of successful and failed attempts.
    pub fn attempts(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.sent), count(&self.failed))
    }

    /// State of each endpoint.
    pub fn endpoints(&self) -> Vec<EndpointState> {
        let endpoints = self.endpoints.lock();
        endpoints.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
