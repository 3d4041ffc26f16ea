//! Webhooks: what others are told of what was settled. Endpoints, what they want to be told, and the events.

use uuid::Uuid;

use crate::{
    campaign::CampaignKind,
    id::{CampaignId, UserId},
    money::Currency,
    time::Timestamp,
    words::words,
};

/// Endpoints that there may be: settlement asks for each campaign whether one wants its events.
pub const WEBHOOKS_MAX: usize = 100;
/// Campaigns that a filter may name.
pub const FILTER_CAMPAIGNS_MAX: usize = 100;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// A user got a share of a red packet.
    ShareGranted,
    /// A user got an order of a sale, which holds its units.
    OrderHeld,
    /// An order was paid; also one that had expired and whose units could be reserved again.
    OrderPaid,
    /// An order was given back.
    OrderCancelled,
    /// An order was not paid in time.
    OrderExpired,
    /// A paid order was returned: its price is owed to the buyer.
    OrderReturned,
    /// A payment arrived that buys nothing: it is owed to the buyer.
    OrderRefundDue,
    /// What was owed for an order was paid back, all of it or a part.
    OrderRefunded,
    /// A campaign was closed: what was left went back to its owner.
    CampaignClosed,
    /// Somebody tries whether an endpoint answers.
    Test,
}

words!(EventType {
    ShareGranted = "share.granted",
    OrderHeld = "order.held",
    OrderPaid = "order.paid",
    OrderCancelled = "order.cancelled",
    OrderExpired = "order.expired",
    OrderReturned = "order.returned",
    OrderRefundDue = "order.refund_due",
    OrderRefunded = "order.refunded",
    CampaignClosed = "campaign.closed",
    Test = "webhook.test",
});

impl EventType {
    /// Those that follow from what is in the ledger, and that a filter may name.
    pub fn settled() -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|one| *one != Self::Test)
    }
}

/// Which events an endpoint wants: those that fit all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these types; of all where there are none.
    pub types: Vec<EventType>,
    /// Of these campaigns; of all where there are none.
    pub campaigns: Vec<CampaignId>,
    /// Of campaigns of this sender or seller; of everybody's where there is none.
    pub owner: Option<UserId>,
}

impl Filter {
    /// Whether an event fits.
    #[must_use]
    pub fn fits(&self, event: &WebhookEvent) -> bool {
        let Some(data) = &event.data else {
            return true;
        };
        (self.types.is_empty() || self.types.contains(&event.kind))
            && self.watches(data.campaign, &data.owner)
    }

    /// Whether events of a campaign may fit.
    #[must_use]
    pub fn watches(&self, campaign: CampaignId, owner: &str) -> bool {
        (self.campaigns.is_empty() || self.campaigns.contains(&campaign))
            && (self.owner.as_ref()).is_none_or(|wanted| wanted.as_str() == owner)
    }

    /// The types, with blanks between.
    #[must_use]
    pub fn type_names(&self) -> String {
        let names: Vec<_> = self.types.iter().map(|one| one.name()).collect();
        names.join(" ")
    }

    /// The campaigns, with blanks between.
    #[must_use]
    pub fn campaign_names(&self) -> String {
        let names: Vec<_> = self.campaigns.iter().map(CampaignId::to_string).collect();
        names.join(" ")
    }
}

/// An endpoint: where events go, and what they are signed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: Uuid,
    /// Where events are posted.
    pub url: String,
    /// What they are signed with: `whsec_` and bytes in base64, as Standard Webhooks has it.
    pub secret: String,
    /// The secret before, and until when events are signed with it too.
    pub previous_secret: Option<(String, Timestamp)>,
    /// Which events it wants.
    pub filter: Filter,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Webhook {
    /// The secrets that events are signed with at this time, the newest first.
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

/// How far an endpoint has been told, and how that goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The place up to which it has been told everything that it wants.
    pub place: i64,
    /// Since when nothing gets through, if so.
    pub failing_since: Option<Timestamp>,
    /// Attempts that have failed since then.
    pub attempts: u32,
    /// When the next attempt is due; none for at once.
    pub retry_at: Option<Timestamp>,
    /// What the last failure was, for operators.
    pub last_error: Option<String>,
    /// Since when nothing is tried any more.
    pub disabled_at: Option<Timestamp>,
}

impl Progress {
    /// The words for how an endpoint stands.
    pub const STATUSES: [&'static str; 3] = ["ok", "failing", "disabled"];

    /// How the endpoint stands.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (self.disabled_at, self.failing_since) {
            (None, None) => Self::STATUSES[0],
            (None, Some(_)) => Self::STATUSES[1],
            (Some(_), _) => Self::STATUSES[2],
        }
    }

    /// Whether there is something to try at this time, given the last place that there is.
    #[must_use]
    pub fn is_due(&self, last_place: i64, now: Timestamp) -> bool {
        self.disabled_at.is_none()
            && self.place < last_place
            && self.retry_at.is_none_or(|at| at <= now)
    }
}

/// An endpoint as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookRecord {
    /// The endpoint.
    pub webhook: Webhook,
    /// How far it has been told.
    pub progress: Progress,
    /// The place of the last event that there is, for whomever.
    pub last_place: i64,
}

/// What an event is about, beside its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventData {
    /// The campaign.
    pub campaign: CampaignId,
    /// What it is.
    pub campaign_kind: CampaignKind,
    /// Its sender or seller.
    pub owner: String,
    /// The currency of its amount.
    pub currency: Currency,
    /// The grant's number in its campaign; none where the event is about the campaign.
    pub number: Option<i64>,
    /// Who has the grant.
    pub user: Option<String>,
    /// Units of the grant; at the close those that went back to the owner.
    pub quantity: i64,
    /// Minor units: the share's, or the order's price; of a payment that is owed back what arrived, at the close what
    /// went back to the sender, and of a refund what was paid back.
    pub amount_minor: i64,
    /// The reference of the payment, of events about one; of a refund its own.
    pub payment: Option<String>,
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    /// Its place among all of them; those of a campaign are in their order.
    pub place: i64,
    /// Its id: the same however often it is told.
    pub id: String,
    /// What it is about.
    pub kind: EventType,
    /// When it was decided.
    pub at: Timestamp,
    /// The rest; none of a test.
    pub data: Option<EventData>,
}

impl WebhookEvent {
    /// A try whether an endpoint answers.
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
}
