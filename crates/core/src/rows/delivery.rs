//! Rows of deliveries: events that wait for a retry, and the log of attempts.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Contradiction, Value};
use crate::{
    id::UserId,
    time::Timestamp,
    webhook::{
        AttemptState, DeliveryAttempt, EventSubject, EventType, RetryState, WaitingEvent,
        WebhookEvent, WebhookRecord,
    },
};

/// Further columns of an endpoint: id, managed_by, number of its waiting events, and the time of their first retry.
pub type BacklogColumns = (String, Option<String>, i64, Option<i64>);

/// Columns of a [`RetryState`]: place, attempts, failing_since, retry_at.
pub type RetryColumns = (i64, i64, Option<i64>, Option<i64>);

/// Columns of a [`DeliveryAttempt`]: id, place, event, kind, campaign, number, at, duration_ms, attempt, status, body,
/// error, state, next_at.
pub type AttemptColumns = (
    String,
    i64,
    String,
    String,
    String,
    Option<i64>,
    i64,
    i64,
    i64,
    Option<i64>,
    Option<String>,
    Option<String>,
    String,
    Option<i64>,
);

impl WebhookRecord {
    /// Adds further columns of endpoints to their records. A record without them is removed, because the endpoint was
    /// deleted in between.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn with_backlogs(
        records: Vec<Self>,
        backlogs: Vec<BacklogColumns>,
    ) -> Result<Vec<Self>, Contradiction> {
        let backlogs = backlogs
            .into_iter()
            .map(|(id, by, count, until)| (id, (by, count, until)));
        let mut backlogs: HashMap<_, _> = backlogs.collect();
        let mut complete = Vec::with_capacity(records.len());
        for mut record in records {
            let id = record.webhook.id.to_string();
            let Some((managed_by, count, until)) = backlogs.remove(&id) else {
                continue;
            };
            let bad = |_| Contradiction::new(format!("webhook {id} has a bad seller"));
            let seller = managed_by.as_deref().map(UserId::new).transpose();
            record.webhook.managed_by = seller.map_err(bad)?;
            record.waiting = count.unsigned_abs();
            record.waiting_until = until.map(Timestamp::from_millis);
            complete.push(record);
        }
        Ok(complete)
    }
}

impl RetryState {
    fn from_columns((place, attempts, failing_since, retry_at): RetryColumns) -> Self {
        Self {
            place,
            attempts: attempts.try_into().unwrap_or(u32::MAX),
            failing_since: failing_since.map(Timestamp::from_millis),
            retry_at: retry_at.map(Timestamp::from_millis),
        }
    }

    /// Columns of `webhook_retries`.
    #[must_use]
    pub fn columns<'a>(&self, webhook: &'a str) -> [Value<'a>; 5] {
        let at = |at: Option<Timestamp>| at.map(Timestamp::as_millis).into();
        [
            webhook.into(),
            self.place.into(),
            i64::from(self.attempts).into(),
            at(self.failing_since),
            at(self.retry_at),
        ]
    }
}

impl WaitingEvent {
    /// Joins stored retries with their events. A retry without its event is left out.
    pub fn from_rows(retries: Vec<RetryColumns>, events: Vec<WebhookEvent>) -> Vec<Self> {
        let retries = retries.into_iter().map(RetryState::from_columns);
        let retries: HashMap<_, _> = retries.map(|retry| (retry.place, retry)).collect();
        let joined = events.into_iter().filter_map(|event| {
            let retry = *retries.get(&event.place)?;
            Some(Self { event, retry })
        });
        joined.collect()
    }
}

/// Texts of an attempt's ids, which its columns borrow.
#[derive(Debug)]
pub struct AttemptNames {
    id: String,
    campaign: String,
}

impl DeliveryAttempt {
    /// Texts that [`columns`](Self::columns) borrows.
    #[must_use]
    pub fn names(&self) -> AttemptNames {
        AttemptNames {
            id: self.id.to_string(),
            campaign: self.subject.campaign.to_string(),
        }
    }

    /// Columns of `webhook_attempts`: id, webhook, place, event, kind, campaign, number, at, duration_ms, attempt,
    /// status, body, error, state, next_at.
    #[must_use]
    pub fn columns<'a>(&'a self, webhook: &'a str, names: &'a AttemptNames) -> [Value<'a>; 15] {
        [
            names.id.as_str().into(),
            webhook.into(),
            self.place.into(),
            self.event.as_str().into(),
            self.kind.name().into(),
            names.campaign.as_str().into(),
            self.subject.number.into(),
            self.at.as_millis().into(),
            self.duration_ms.into(),
            i64::from(self.attempt).into(),
            self.status.map(i64::from).into(),
            self.body.as_deref().into(),
            self.error.as_deref().into(),
            self.state.name().into(),
            self.next_at.map(Timestamp::as_millis).into(),
        ]
    }

    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: AttemptColumns) -> Result<Self, Contradiction> {
        let (
            id,
            place,
            event,
            kind,
            campaign,
            number,
            at,
            duration_ms,
            attempt,
            status,
            body,
            error,
            state,
            next_at,
        ) = columns;
        let bad = |what: &str| Contradiction::new(format!("attempt {id} has a bad {what}"));
        let campaign = campaign.parse().map_err(|_| bad("campaign"))?;
        let status = status.map(u16::try_from).transpose();
        Ok(Self {
            id: id.parse().map_err(|_| bad("id"))?,
            place,
            event,
            kind: EventType::from_name(&kind).ok_or_else(|| bad("kind"))?,
            subject: EventSubject { campaign, number },
            at: Timestamp::from_millis(at),
            duration_ms,
            attempt: attempt.try_into().unwrap_or(u32::MAX),
            status: status.map_err(|_| bad("status"))?,
            body,
            error,
            state: AttemptState::from_name(&state).ok_or_else(|| bad("state"))?,
            next_at: next_at.map(Timestamp::from_millis),
        })
    }

    /// Text after the ids of all attempts.
    pub const AFTER_IDS: &'static str = "g";

    /// Id of an attempt at this time.
    #[must_use]
    pub fn id_at(at: Timestamp, random: &[u8; 10]) -> Uuid {
        let millis = u64::try_from(at.as_millis()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, random).into_uuid()
    }
}
