//! Deliveries: events that wait for a retry, and the log of attempts.

use uuid::Uuid;

use super::{DeliveryProgress, EventType, WebhookEvent};
use crate::{
    id::{CampaignId, OrderId},
    string_enum::string_enum,
    time::Timestamp,
};

/// Order, share or campaign that an event is about. An endpoint receives the events of one subject in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventSubject {
    /// The campaign.
    pub campaign: CampaignId,
    /// Number of the grant; `None` for the campaign itself.
    pub number: Option<i64>,
}

/// State of an event that waits for a retry to an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryState {
    /// Place of the event.
    pub place: i64,
    /// Failed attempts. 0 for an event that follows a failed event of its subject.
    pub attempts: u32,
    /// Time of its first failure.
    pub failing_since: Option<Timestamp>,
    /// Time of the next attempt; `None` for an event that follows another one of its subject.
    pub retry_at: Option<Timestamp>,
}

impl RetryState {
    /// Retry of an event that is due at once.
    #[must_use]
    pub fn at_once(place: i64) -> Self {
        Self {
            place,
            retry_at: Some(Timestamp::from_millis(0)),
            ..Self::default()
        }
    }
}

/// An event that waits for a retry to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingEvent {
    /// The event.
    pub event: WebhookEvent,
    /// State of its retries.
    pub retry: RetryState,
}

/// State of an event after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptState {
    /// The endpoint accepted the event.
    Delivered,
    /// The attempt failed, and another one follows.
    Failed,
    /// The attempt failed, and no other one follows.
    GivenUp,
}

string_enum!(AttemptState {
    Delivered = "delivered",
    Failed = "failed",
    GivenUp = "given_up",
});

/// An attempt to deliver an event to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryAttempt {
    /// UUID of version 7, so that ids sort by time.
    pub id: Uuid,
    /// Place of the event.
    pub place: i64,
    /// Id of the event.
    pub event: String,
    /// Type of the event.
    pub kind: EventType,
    /// Subject of the event.
    pub subject: EventSubject,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Duration of the request.
    pub duration_ms: i64,
    /// Number of the attempt at this event, from 1.
    pub attempt: u32,
    /// Status of the endpoint's answer, if it answered.
    pub status: Option<u16>,
    /// First characters of the answer's body.
    pub body: Option<String>,
    /// Cause of the failure.
    pub error: Option<String>,
    /// State of the event after the attempt.
    pub state: AttemptState,
    /// Time of the next attempt.
    pub next_at: Option<Timestamp>,
}

/// Filter and page of the attempts at one endpoint, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptQuery {
    /// The endpoint.
    pub webhook: Uuid,
    /// Attempts at the event with this id.
    pub event: Option<String>,
    /// Attempts at events of this order.
    pub order: Option<OrderId>,
    /// Attempts that left the event in this state.
    pub state: Option<AttemptState>,
    /// Attempts before this one.
    pub before: Option<Uuid>,
    /// Maximum number of attempts.
    pub limit: u32,
}

/// Changes after some deliveries to an endpoint. They are recorded in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryReport {
    /// New progress of the endpoint.
    pub progress: DeliveryProgress,
    /// Events that wait for a retry, new ones and changed ones.
    pub waiting: Vec<RetryState>,
    /// Places of events that wait no longer.
    pub finished: Vec<i64>,
    /// Attempts for the log.
    pub attempts: Vec<DeliveryAttempt>,
}

impl From<DeliveryProgress> for DeliveryReport {
    fn from(progress: DeliveryProgress) -> Self {
        Self {
            progress,
            ..Self::default()
        }
    }
}

impl DeliveryReport {
    /// Places whose earlier rows are replaced or removed.
    pub fn changed_places(&self) -> impl Iterator<Item = i64> {
        let waiting = self.waiting.iter().map(|retry| retry.place);
        waiting.chain(self.finished.iter().copied())
    }
}

/// Events to deliver once more to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redelivery {
    /// The event with this id, if the log has an attempt at it.
    Event(String),
    /// Events that were given up since this time, oldest first, unless a later attempt succeeded.
    GivenUp(Timestamp),
}
