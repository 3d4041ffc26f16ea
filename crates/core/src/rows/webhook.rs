//! Rows of webhooks: endpoints, and the events that settlement records for them.

use sha2::{Digest as _, Sha256};

use super::{Contradiction, DIRECT, Spend, Value, columns};
use crate::{
    campaign::{CampaignKind, Phase},
    event::{Entry, PartitionId},
    id::UserId,
    time::Timestamp,
    webhook::{
        DeliveryProgress, EventData, EventType, Filter, Webhook, WebhookEvent, WebhookRecord,
    },
};

/// Bytes of the digest in an event's id. A collision at one log position takes about 2^64 events.
const DIGEST_BYTES: usize = 16;

/// Columns of a [`WebhookRecord`]: id, url, secret, previous_secret, previous_until, types, campaigns, owner,
/// created_at, place, failing_since, attempts, retry_at, last_error, disabled_at, and the last place of all events.
pub type WebhookColumns = (
    String,
    String,
    String,
    Option<String>,
    Option<i64>,
    String,
    String,
    Option<String>,
    i64,
    i64,
    Option<i64>,
    i64,
    Option<i64>,
    Option<String>,
    Option<i64>,
    i64,
);

impl WebhookRecord {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: WebhookColumns) -> Result<Self, Contradiction> {
        let (
            id,
            url,
            secret,
            previous,
            previous_until,
            types,
            campaigns,
            owner,
            created_at,
            place,
            failing_since,
            attempts,
            retry_at,
            last_error,
            disabled_at,
            last_place,
        ) = columns;
        let bad = |what: &str| Contradiction::new(format!("webhook {id} has a bad {what}"));
        let types = types.split_whitespace().map(EventType::from_name);
        let campaigns = campaigns.split_whitespace().map(str::parse);
        let filter = Filter {
            types: types.collect::<Option<_>>().ok_or_else(|| bad("type"))?,
            campaigns: campaigns
                .collect::<Result<_, _>>()
                .map_err(|_| bad("campaign"))?,
            owner: (owner.as_deref().map(UserId::new).transpose()).map_err(|_| bad("owner"))?,
        };
        let at = |ms: Option<i64>| ms.map(Timestamp::from_millis);
        Ok(Self {
            webhook: Webhook {
                id: id.parse().map_err(|_| bad("id"))?,
                url,
                secret,
                previous_secret: previous.zip(at(previous_until)),
                filter,
                managed_by: None,
                created_at: Timestamp::from_millis(created_at),
            },
            progress: DeliveryProgress {
                place,
                failing_since: at(failing_since),
                attempts: attempts.try_into().unwrap_or(u32::MAX),
                retry_at: at(retry_at),
                last_error,
                disabled_at: at(disabled_at),
            },
            last_place,
            waiting: 0,
            waiting_until: None,
        })
    }
}

/// Columns of a [`WebhookEvent`]: place, partition and seq of its entry, kind, at, campaign id, kind, owner and
/// currency, number, user, quantity, amount, payment, currency, reference. The second currency is that of the amount,
/// and null for the campaign's currency.
pub type WebhookEventColumns = (
    i64,
    i64,
    i64,
    String,
    i64,
    String,
    String,
    String,
    String,
    Option<i64>,
    Option<String>,
    i64,
    i64,
    Option<String>,
    Option<String>,
    Option<String>,
);

impl WebhookEvent {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: WebhookEventColumns) -> Result<Self, Contradiction> {
        let (
            place,
            partition,
            seq,
            kind,
            at,
            campaign,
            campaign_kind,
            owner,
            currency,
            number,
            user,
            quantity,
            amount_minor,
            payment,
            own_currency,
            reference,
        ) = columns;
        let own_currency = own_currency.filter(|own| *own != currency);
        let bad = |what: &str| Contradiction::new(format!("event {place} has a bad {what}"));
        let (quantity_text, amount_text) = (quantity.to_string(), amount_minor.to_string());
        let number_text = number.map(|number| number.to_string());
        let mut content = vec![
            Some(kind.as_str()),
            Some(campaign.as_str()),
            number_text.as_deref(),
            user.as_deref(),
            Some(quantity_text.as_str()),
            Some(amount_text.as_str()),
            payment.as_deref(),
        ];
        // Events in the campaign's currency have no extra field, so their ids do not depend on it.
        content.extend(own_currency.is_some().then_some(own_currency.as_deref()));
        Ok(Self {
            place,
            id: event_id(partition, seq, at, &content),
            kind: EventType::from_name(&kind).ok_or_else(|| bad("kind"))?,
            at: Timestamp::from_millis(at),
            data: Some(EventData {
                campaign: campaign.parse().map_err(|_| bad("campaign"))?,
                campaign_kind: CampaignKind::from_name(&campaign_kind)
                    .ok_or_else(|| bad("campaign"))?,
                owner,
                currency: own_currency
                    .as_ref()
                    .unwrap_or(&currency)
                    .parse()
                    .map_err(|_| bad("currency"))?,
                number,
                user,
                quantity,
                amount_minor,
                payment,
                reference,
            }),
        })
    }
}

/// Id of an event. A restore reuses log positions and posting numbers, so the id also has a digest of the event's
/// content. The same event keeps its id, even if it is settled and sent repeatedly. No other event of this or another
/// installation has the same id.
///
/// The id of a refund depends on its reference only, because its posting may differ after a restore.
fn event_id(partition: i64, seq: i64, at: i64, content: &[Option<&str>]) -> String {
    let mut hash = Sha256::new();
    for part in content {
        // Lengths separate the parts. The maximum length stands for an absent part.
        hash.update(
            part.map_or(u64::MAX, |text| text.len() as u64)
                .to_le_bytes(),
        );
        hash.update(part.unwrap_or_default());
    }
    if partition != DIRECT {
        hash.update(at.to_le_bytes());
    }
    let digest = hex::encode(&hash.finalize()[..DIGEST_BYTES]);
    match partition {
        DIRECT => format!("evt_direct_{digest}"),
        _ => format!("evt_{partition}_{seq}_{digest}"),
    }
}

/// An event that settlement records for endpoints, without its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRow<'a> {
    /// Partition of its entry, or [`DIRECT`].
    pub source: i64,
    /// Position of the entry, or number of the posting.
    pub seq: i64,
    /// Type.
    pub kind: EventType,
    /// Time of the decision, in milliseconds.
    pub at: i64,
    /// `ref` of the campaign.
    pub campaign: i64,
    /// Number of the grant.
    pub number: Option<i64>,
    /// User of the grant.
    pub user: Option<&'a str>,
    /// Units. For a close, the written row of the campaign has the number.
    pub quantity: i64,
    /// Minor units. See `quantity`.
    pub amount: i64,
    /// Reference of the payment.
    pub payment: Option<&'a str>,
    /// Currency of the amount; `None` for the campaign's currency.
    pub currency: Option<&'static str>,
    /// Condition for the row of the campaign as it is written.
    pub condition: Option<EventCondition>,
}

/// Condition of an event about a campaign. If the campaign is spread, several parts report the same change, and only
/// one of them meets the condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventCondition {
    /// All parts are open.
    Opened,
    /// The campaign has this phase.
    Phase(Phase),
    /// All units are granted, and were not before these changes.
    SoldOut {
        /// Change of the granted units.
        granted: i64,
        /// Change of the stock.
        supply: i64,
    },
    /// All parts are closed. The event has what went back to the owner.
    Closed,
}

/// Columns of a campaign's row that conditions are checked against: phase, supply, granted, returned, refunded.
pub type ConditionColumns = (String, i64, i64, i64, i64);

impl<'a> EventRow<'a> {
    /// The event as it is recorded; `None` if the row of its campaign does not meet the condition.
    #[must_use]
    pub fn resolve(mut self, row: &ConditionColumns) -> Option<Self> {
        let (phase, supply, granted, returned, refunded) = row;
        let is_met = match self.condition {
            None => true,
            Some(EventCondition::Opened) => phase != Phase::Draft.name(),
            Some(EventCondition::Phase(wanted)) => phase == wanted.name(),
            Some(EventCondition::SoldOut {
                granted: change,
                supply: added,
            }) => granted >= supply && granted - change < supply - added,
            Some(EventCondition::Closed) => {
                (self.quantity, self.amount) = (*returned, *refunded);
                phase == Phase::Closed.name()
            }
        };
        is_met.then_some(self)
    }
}

impl EventRow<'static> {
    /// Event of the opening of a campaign with this `ref`.
    #[must_use]
    pub fn opened(partition: PartitionId, entry: &Entry, campaign: i64) -> Self {
        Self {
            source: i64::from(partition.0),
            seq: entry.seq as i64, // a place in a log
            kind: EventType::CampaignOpened,
            at: entry.at.as_millis(),
            campaign,
            number: None,
            user: None,
            quantity: 0,
            amount: 0,
            payment: None,
            currency: None,
            condition: Some(EventCondition::Opened),
        }
    }
}

impl<'a> EventRow<'a> {
    /// Event of a directly posted refund with this number; `None` for a payout without an order.
    #[must_use]
    pub fn refunded(seq: i64, at: Timestamp, spend: &'a Spend, reference: &'a str) -> Option<Self> {
        let (campaign, number) = spend.order?;
        Some(Self {
            source: DIRECT,
            seq,
            kind: EventType::OrderRefunded,
            at: at.as_millis(),
            campaign,
            number: Some(number.into()),
            user: Some(spend.user.as_str()),
            quantity: 0,
            amount: spend.amount.minor,
            payment: Some(reference),
            currency: Some(spend.amount.currency.code()),
            condition: None,
        })
    }

    /// Columns of `webhook_events`: place, then the fields in their order.
    #[must_use]
    pub fn columns(&self, place: i64) -> [Value<'a>; 12] {
        let kind = self.kind.name();
        let [a, b]: [Value<'a>; 2] = columns!(self; source, seq);
        let [c, d, e, f, g, h, i, j]: [Value<'a>; 8] =
            columns!(self; at, campaign, number, user, quantity, amount, payment, currency);
        [place.into(), a, b, kind.into(), c, d, e, f, g, h, i, j]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAMPAIGN: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";

    fn columns() -> WebhookEventColumns {
        let text = |text: &str| text.to_owned();
        let kind = text(EventType::OrderHeld.name());
        let campaign = (text(CAMPAIGN), text("sale"), text("shop"), text("CNY"));
        let (campaign, campaign_kind, owner, currency) = campaign;
        let user = Some(text("alice"));
        (
            7,
            0,
            3,
            kind,
            1_000,
            campaign,
            campaign_kind,
            owner,
            currency,
            Some(2),
            user,
            1,
            500,
            None,
            None,
            None,
        )
    }

    fn id(change: impl FnOnce(&mut WebhookEventColumns)) -> String {
        let mut columns = columns();
        change(&mut columns);
        WebhookEvent::from_columns(columns)
            .expect("good columns")
            .id
    }

    #[test]
    fn an_id_names_one_event_whatever_a_restore_gives_again() {
        let first = id(|_| {});
        assert!(first.starts_with("evt_0_3_"), "{first}");
        assert_eq!(
            id(|columns| columns.0 = 8),
            first,
            "a repeated settlement only changes the place"
        );
        let referred = id(|columns| columns.15 = Some("PO-1".to_owned()));
        assert_eq!(referred, first, "a shop may add its reference later");
        // Other events at the same log position after a restore.
        let others = [
            id(|columns| columns.10 = Some("bob".to_owned())),
            id(|columns| columns.9 = Some(3)),
            id(|columns| columns.4 = 1_001),
            id(|columns| columns.3 = EventType::OrderPaid.name().to_owned()),
            id(|columns| columns.5 = CAMPAIGN.replace('0', "1")),
            id(|columns| columns.13 = Some(String::new())),
            id(|columns| columns.14 = Some("EUR".to_owned())),
        ];
        let mut all = others.to_vec();
        all.push(first);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), others.len() + 1, "{all:?}");
    }

    #[test]
    fn a_refund_is_named_by_its_reference() {
        let refund = |seq: i64, at: i64, reference: &str| {
            id(|columns| {
                (columns.1, columns.2, columns.4) = (DIRECT, seq, at);
                columns.13 = Some(reference.to_owned());
            })
        };
        assert!(refund(1, 1, "r-1").starts_with("evt_direct_"));
        assert_eq!(refund(1, 1, "r-1"), refund(2, 2, "r-1"));
        assert_ne!(refund(1, 1, "r-1"), refund(1, 1, "r-2"));
    }
}
