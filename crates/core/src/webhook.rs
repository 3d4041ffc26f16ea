//! Webhooks: endpoints, their filters and delivery progress, and the events that report settled changes.

mod delivery;

use uuid::Uuid;

pub use self::delivery::{
    AttemptQuery, AttemptState, DeliveryAttempt, DeliveryReport, EventSubject, Redelivery,
    RetryState, WaitingEvent,
};
use crate::{
    campaign::CampaignKind,
    id::{CampaignId, UserId},
    money::Currency,
    string_enum::string_enum,
    time::Timestamp,
};

/// Maximum number of endpoints of operators. Settlement checks each campaign's events against all endpoints.
pub const WEBHOOKS_MAX: usize = 100;
/// Maximum number of endpoints of one seller.
pub const SELLER_WEBHOOKS_MAX: usize = 5;
/// Maximum number of endpoints of all sellers together.
pub const ALL_SELLERS_WEBHOOKS_MAX: usize = 100;
/// Maximum events that wait for a retry to one endpoint before no further events are sent to it. A read of events may
/// exceed it by its own size.
pub const WAITING_EVENTS_MAX: u64 = 500;
/// Maximum campaigns in a filter.
pub const FILTER_CAMPAIGNS_MAX: usize = 100;

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// A user got a share of a red packet.
    ShareGranted,
    /// A user got an order of a sale, which holds its units for a limited time.
    OrderHeld,
    /// An order was paid. It may have expired before, if its units could be reserved again.
    OrderPaid,
    /// An order was cancelled.
    OrderCancelled,
    /// An order was not paid in time.
    OrderExpired,
    /// The seller extended the hold of an order.
    OrderHoldExtended,
    /// A paid order was returned: a refund of its price is due.
    OrderReturned,
    /// A payment arrived that pays nothing: its refund is due.
    OrderRefundDue,
    /// A refund that was due was paid, in full or in part.
    OrderRefunded,
    /// A campaign was opened: it takes claims in its window.
    CampaignOpened,
    /// The last unit or share of a campaign was granted.
    CampaignSoldOut,
    /// A campaign was changed: its stock or terms, or it was paused or resumed.
    CampaignChanged,
    /// A campaign was closed: its remainder went back to its owner.
    CampaignClosed,
    /// Test of an endpoint.
    Test,
}

string_enum!(EventType {
    ShareGranted = "share.granted",
    OrderHeld = "order.held",
    OrderPaid = "order.paid",
    OrderCancelled = "order.cancelled",
    OrderExpired = "order.expired",
    OrderHoldExtended = "order.hold_extended",
    OrderReturned = "order.returned",
    OrderRefundDue = "order.refund_due",
    OrderRefunded = "order.refunded",
    CampaignOpened = "campaign.opened",
    CampaignSoldOut = "campaign.sold_out",
    CampaignChanged = "campaign.changed",
    CampaignClosed = "campaign.closed",
    Test = "webhook.test",
});

impl EventType {
    /// Types that follow from settled entries, and that a filter may name.
    pub fn settled() -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|one| *one != Self::Test)
    }

    /// Whether its events are about an order.
    #[must_use]
    pub fn is_of_order(self) -> bool {
        self.name().starts_with("order.")
    }
}

/// Events that an endpoint wants. An event must satisfy every condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Accepted types; empty for all.
    pub types: Vec<EventType>,
    /// Accepted campaigns; empty for all.
    pub campaigns: Vec<CampaignId>,
    /// Sender or seller of the accepted campaigns; `None` for all.
    pub owner: Option<UserId>,
}

impl Filter {
    /// Whether an event satisfies the filter.
    #[must_use]
    pub fn fits(&self, event: &WebhookEvent) -> bool {
        let Some(data) = &event.data else {
            return true;
        };
        (self.types.is_empty() || self.types.contains(&event.kind))
            && self.watches(data.campaign, &data.owner)
    }

    /// Whether events of a campaign can satisfy the filter.
    #[must_use]
    pub fn watches(&self, campaign: CampaignId, owner: &str) -> bool {
        (self.campaigns.is_empty() || self.campaigns.contains(&campaign))
            && (self.owner.as_ref()).is_none_or(|wanted| wanted.as_str() == owner)
    }

    /// Types, separated by spaces.
    #[must_use]
    pub fn type_names(&self) -> String {
        type_names(&self.types)
    }

    /// Campaigns, separated by spaces.
    #[must_use]
    pub fn campaign_names(&self) -> String {
        campaign_names(&self.campaigns)
    }
}

/// Types, separated by spaces.
#[must_use]
pub fn type_names(types: &[EventType]) -> String {
    let names: Vec<_> = types.iter().map(|one| one.name()).collect();
    names.join(" ")
}

/// Campaigns, separated by spaces.
#[must_use]
pub fn campaign_names(campaigns: &[CampaignId]) -> String {
    let names: Vec<_> = campaigns.iter().map(CampaignId::to_string).collect();
    names.join(" ")
}

/// An endpoint: its URL, its filter, and the secrets that sign its events.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Id.
    pub id: Uuid,
    /// URL to which events are posted.
    pub url: String,
    /// Secret that signs events: `whsec_` and base64 bytes, as Standard Webhooks specifies.
    pub secret: String,
    /// Previous secret, and the time until which it signs events as well.
    pub previous_secret: Option<(String, Timestamp)>,
    /// Filter of the events.
    pub filter: Filter,
    /// Seller who made it and manages it; `None` for operators. Its filter then names this seller.
    pub managed_by: Option<UserId>,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// Change of an endpoint. Fields that are `None` stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// New URL. Events that wait for a retry are due at once.
    pub url: Option<String>,
    /// New accepted types.
    pub types: Option<Vec<EventType>>,
    /// New accepted campaigns.
    pub campaigns: Option<Vec<CampaignId>>,
    /// New sender or seller; `Some(None)` for all.
    pub owner: Option<Option<UserId>>,
    /// Whether events are delivered. An endpoint that is enabled again receives the events since it was disabled, as
    /// far as they are kept.
    pub is_enabled: Option<bool>,
}

impl WebhookChange {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Webhook {
    /// Secrets that sign events at this time, the newest first.
    pub fn secrets(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let previous = self.previous_secret.as_ref();
        let previous = previous.filter(|(_, until)| now < *until);
        std::iter::once(self.secret.as_str()).chain(previous.map(|(secret, _)| secret.as_str()))
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Webhook");
        shown.field("id", &self.id).field("filter", &self.filter);
        shown.finish_non_exhaustive()
    }
}

/// Delivery progress of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// Place up to which every wanted event is delivered, was given up, or waits for a retry.
    pub place: i64,
    /// Time of the first failure since the last success; `None` while deliveries succeed.
    pub failing_since: Option<Timestamp>,
    /// Failed attempts since then.
    pub attempts: u32,
    /// Time of the next attempt at events after the place, if the endpoint refuses all events; `None` for at once.
    pub retry_at: Option<Timestamp>,
    /// Last failure, for operators.
    pub last_error: Option<String>,
    /// Time at which the endpoint was disabled, if it is.
    pub disabled_at: Option<Timestamp>,
}

impl DeliveryProgress {
    /// Names of the statuses.
    pub const STATUSES: [&'static str; 3] = ["ok", "failing", "disabled"];

    /// Delivery status of the endpoint.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (self.disabled_at, self.failing_since) {
            (None, None) => Self::STATUSES[0],
            (None, Some(_)) => Self::STATUSES[1],
            (Some(_), _) => Self::STATUSES[2],
        }
    }
}

/// An endpoint in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRecord {
    /// The endpoint.
    pub webhook: Webhook,
    /// Its delivery progress.
    pub progress: DeliveryProgress,
    /// Place of the last event for any endpoint.
    pub last_place: i64,
    /// Number of events that wait for a retry.
    pub waiting: u64,
    /// Time of the first of these retries.
    pub waiting_until: Option<Timestamp>,
}

impl WebhookRecord {
    /// Whether there is room for one more endpoint of this seller, or of operators, beside these.
    #[must_use]
    pub fn has_room(records: &[Self], managed_by: Option<&UserId>) -> bool {
        let count = |is_counted: &dyn Fn(Option<&UserId>) -> bool| {
            let managers = records.iter().map(|it| it.webhook.managed_by.as_ref());
            managers.filter(|manager| is_counted(*manager)).count()
        };
        match managed_by {
            None => count(&|manager| manager.is_none()) < WEBHOOKS_MAX,
            Some(seller) => {
                count(&|manager| manager == Some(seller)) < SELLER_WEBHOOKS_MAX
                    && count(&|manager| manager.is_some()) < ALL_SELLERS_WEBHOOKS_MAX
            }
        }
    }

    /// Whether a delivery may be attempted at this time.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let is_now = |at: Timestamp| at <= now;
        let progress = &self.progress;
        let has_next = progress.place < self.last_place && self.waiting < WAITING_EVENTS_MAX;
        progress.disabled_at.is_none()
            && (has_next && progress.retry_at.is_none_or(is_now)
                || self.waiting_until.is_some_and(is_now))
    }

    /// Upper bound of the events that may still be delivered.
    #[must_use]
    pub fn behind(&self) -> u64 {
        let rest = self.last_place.saturating_sub(self.progress.place).max(0);
        rest.unsigned_abs().saturating_add(self.waiting)
    }

    /// Time of the next attempt, if it has to wait.
    #[must_use]
    pub fn next_attempt(&self) -> Option<Timestamp> {
        let times = [self.progress.retry_at, self.waiting_until];
        times.into_iter().flatten().min()
    }
}

/// Data of an event, apart from its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventData {
    /// The campaign.
    pub campaign: CampaignId,
    /// Kind of the campaign.
    pub campaign_kind: CampaignKind,
    /// Sender or seller of the campaign.
    pub owner: String,
    /// Currency of the amount.
    pub currency: Currency,
    /// Number of the grant in its campaign; `None` for an event about the campaign.
    pub number: Option<i64>,
    /// User of the grant.
    pub user: Option<String>,
    /// Units of the grant. At the close, units that went back to the owner.
    pub quantity: i64,
    /// Minor units of the share, or price of the order. For a payment whose refund is due, the amount received. At the
    /// close, the amount that went back to the sender. For a refund, the amount paid.
    pub amount_minor: i64,
    /// Reference of the payment, or of the refund. For a changed campaign, the kind of the change. `None` for other
    /// events.
    pub payment: Option<String>,
    /// The shop's own number of the order; in other events that of the campaign.
    pub reference: Option<String>,
}

/// A webhook event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    /// Place among all events. Events of one subject are in the order of their decisions.
    pub place: i64,
    /// Id, the same for every delivery of the event.
    pub id: String,
    /// Type.
    pub kind: EventType,
    /// Time of the decision.
    pub at: Timestamp,
    /// Data; `None` for a test.
    pub data: Option<EventData>,
}

impl WebhookEvent {
    /// Creates an event that tests an endpoint.
    #[must_use]
    pub fn test(id: Uuid, now: Timestamp) -> Self {
        Self {
            place: 0,
            id: format!("test_{}", id.simple()),
            kind: EventType::Test,
            at: now,
            data: None,
        }
    }

    /// Subject of the event; `None` for a test.
    #[must_use]
    pub fn subject(&self) -> Option<EventSubject> {
        let data = self.data.as_ref()?;
        Some(EventSubject {
            campaign: data.campaign,
            number: data.number,
        })
    }
}
