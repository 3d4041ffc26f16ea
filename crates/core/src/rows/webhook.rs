//! The rows of webhooks: endpoints, and the events that settlement writes down for them.

use sha2::{Digest as _, Sha256};

use super::{Contradiction, DIRECT, Spend, Value, columns};
use crate::{
    campaign::CampaignKind,
    id::UserId,
    time::Timestamp,
    webhook::{EventData, EventType, Filter, Progress, Webhook, WebhookEvent, WebhookRecord},
};

/// Bytes of the digest in an event's id: two events share one by chance after 2^64 events at a place.
const DIGEST_BYTES: usize = 16;

/// The columns of a [`WebhookRecord`]: id, url, secret, previous_secret, previous_until, types, campaigns, owner,
/// created_at, place, failing_since, attempts, retry_at, last_error, disabled_at, and the last place that there is.
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
    /// When one holds what was never written.
    pub fn of(columns: WebhookColumns) -> Result<Self, Contradiction> {
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
        let types = types.split_whitespace().map(EventType::of_name);
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
                created_at: Timestamp::from_millis(created_at),
            },
            progress: Progress {
                place,
                failing_since: at(failing_since),
                attempts: attempts.try_into().unwrap_or(u32::MAX),
                retry_at: at(retry_at),
                last_error,
                disabled_at: at(disabled_at),
            },
            last_place,
        })
    }
}

/// The columns of a [`WebhookEvent`]: place, partition and seq of its entry, kind, at, the campaign's id, kind, owner
/// and currency, number, user, quantity, amount, payment, and the currency of the amount, null if it is the campaign's.
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
);

impl WebhookEvent {
    /// Reads the columns.
    ///
    /// # Errors
    /// When one holds what was never written.
    pub fn of(columns: WebhookEventColumns) -> Result<Self, Contradiction> {
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
        // Events in the campaign's currency keep the ids that they had before others could be in another one.
        content.extend(own_currency.is_some().then_some(own_currency.as_deref()));
        Ok(Self {
            place,
            id: event_id(partition, seq, at, &content),
            kind: EventType::of_name(&kind).ok_or_else(|| bad("kind"))?,
            at: Timestamp::from_millis(at),
            data: Some(EventData {
                campaign: campaign.parse().map_err(|_| bad("campaign"))?,
                campaign_kind: CampaignKind::of_name(&campaign_kind)
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
            }),
        })
    }
}

/// An event's id. Places in logs and numbers of postings are given again after a restore, so that the id also has a
/// digest of what the event says: the same event has the same id, however often it is settled and sent, and no other
/// event of this or another installation has it.
///
/// A refund is the same for as long as its reference is, whichever posting it has after a restore.
fn event_id(partition: i64, seq: i64, at: i64, content: &[Option<&str>]) -> String {
    let mut hash = Sha256::new();
    for part in content {
        // Lengths keep the parts apart; absent is no text.
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

/// An event that settlement writes down for endpoints, without its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRow<'a> {
    /// The partition of its entry, or [`DIRECT`].
    pub source: i64,
    /// The entry, or the posting.
    pub seq: i64,
    /// What it is about.
    pub kind: EventType,
    /// When it was decided, in milliseconds.
    pub at: i64,
    /// The campaign's `ref`.
    pub campaign: i64,
    /// The grant's number.
    pub number: Option<i64>,
    /// Who has it.
    pub user: Option<&'a str>,
    /// Units. Of a close the campaign's row says how many, once it is written.
    pub quantity: i64,
    /// Minor units. See `quantity`.
    pub amount: i64,
    /// The reference of the payment.
    pub payment: Option<&'a str>,
    /// The currency of the amount; none if it is the campaign's.
    pub currency: Option<&'static str>,
}

impl<'a> EventRow<'a> {
    /// A refund that was posted by itself, under this number; none of a payout for no order.
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
        })
    }

    /// The columns of `webhook_events`: its place, and then the fields in their order.
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
        )
    }

    fn id(change: impl FnOnce(&mut WebhookEventColumns)) -> String {
        let mut columns = columns();
        change(&mut columns);
        WebhookEvent::of(columns).expect("good columns").id
    }

    #[test]
    fn an_id_names_one_event_whatever_a_restore_gives_again() {
        let first = id(|_| {});
        assert!(first.starts_with("evt_0_3_"), "{first}");
        assert_eq!(
            id(|columns| columns.0 = 8),
            first,
            "settled again, it has another place"
        );
        // The same place in the log after a restore.
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
