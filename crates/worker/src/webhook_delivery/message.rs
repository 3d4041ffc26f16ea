//! Message of a delivery: the event as JSON, and its signatures.

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use jiff::{Timestamp as Calendar, fmt::temporal::DateTimePrinter};
use qiang_core::{
    campaign::CampaignKind,
    time::Timestamp,
    webhook::{EventData, EventType, Webhook, WebhookEvent},
};
use serde::Serialize;

/// Prefix of a secret.
pub(crate) const SECRET_PREFIX: &str = "whsec_";

/// Body and header values of a request.
pub(crate) struct SignedRequest {
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) timestamp: i64,
    /// One signature per secret, separated by spaces.
    pub(crate) signatures: String,
    pub(crate) body: Bytes,
}

#[derive(Serialize)]
struct EventJson<'a> {
    r#type: &'static str,
    /// Time of the decision.
    timestamp: String,
    data: EventDataJson<'a>,
}

#[derive(Serialize, Default)]
struct EventDataJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quantity: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<MoneyJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refunded: Option<MoneyJson>,
}

#[derive(Serialize)]
struct MoneyJson {
    amount: i64,
    currency: String,
}

impl<'a> EventDataJson<'a> {
    fn from_event(kind: EventType, data: &'a EventData) -> Self {
        let campaign = data.campaign.to_string();
        let money = MoneyJson {
            amount: data.amount_minor,
            currency: data.currency.to_string(),
        };
        let about = Self {
            kind: Some(data.campaign_kind.name()),
            owner: Some(&data.owner),
            reference: data.reference.as_deref(),
            ..Self::default()
        };
        if let EventType::CampaignOpened | EventType::CampaignSoldOut | EventType::CampaignChanged =
            kind
        {
            return Self {
                campaign: Some(campaign),
                change: data.payment.as_deref(),
                ..about
            };
        }
        if kind == EventType::CampaignClosed {
            return Self {
                campaign: Some(campaign),
                returned: Some(data.quantity),
                refunded: (data.campaign_kind == CampaignKind::RedPacket).then_some(money),
                ..about
            };
        }
        let is_refund = kind == EventType::OrderRefunded;
        let (amount, refunded) = match is_refund {
            true => (None, Some(money)),
            false => (Some(money), None),
        };
        let is_order = data.campaign_kind == CampaignKind::Sale;
        let order = data.number.filter(|_| is_order);
        Self {
            order: order.map(|number| format!("{campaign}-{number}")),
            campaign: Some(campaign),
            number: data.number,
            user: data.user.as_deref(),
            quantity: (!is_refund).then_some(data.quantity),
            amount,
            refunded,
            payment: data.payment.as_deref(),
            ..about
        }
    }
}

/// Content of an event as JSON.
///
/// # Errors
/// If its time is outside the calendar.
pub(crate) fn content(event: &WebhookEvent) -> Result<String, String> {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    let at = Calendar::from_millisecond(event.at.as_millis());
    let at = at.map_err(|_| "the event's time is outside the calendar".to_owned())?;
    let data = event.data.as_ref();
    let content = EventJson {
        r#type: event.kind.name(),
        timestamp: PRINTER.timestamp_to_string(&at),
        data: data.map_or_else(EventDataJson::default, |data| {
            EventDataJson::from_event(event.kind, data)
        }),
    };
    serde_json::to_string(&content).map_err(|error| error.to_string())
}

impl SignedRequest {
    /// Message of an event for an endpoint, signed at `now` with every valid secret.
    ///
    /// # Errors
    /// If a secret is malformed, or the time is outside the calendar.
    pub(crate) fn signed(
        webhook: &Webhook,
        event: &WebhookEvent,
        now: Timestamp,
    ) -> Result<Self, String> {
        let body = content(event)?.into_bytes();
        let timestamp = now.as_millis().div_euclid(1_000);
        let signed: Option<Vec<String>> = webhook
            .secrets(now)
            .map(|secret| signature(secret, &event.id, timestamp, &body))
            .collect();
        Ok(Self {
            id: event.id.clone(),
            timestamp,
            signatures: signed
                .ok_or("the endpoint has a malformed secret")?
                .join(" "),
            body: body.into(),
        })
    }
}

/// HMAC-SHA256 over id, timestamp and body, separated by dots.
fn signature(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    let secret = secret.strip_prefix(SECRET_PREFIX)?;
    let key = hmac::Key::new(HMAC_SHA256, &BASE64_STANDARD.decode(secret).ok()?);
    let mut signed = hmac::Context::with_key(&key);
    signed.update(format!("{id}.{timestamp}.").as_bytes());
    signed.update(body);
    Some(format!("v1,{}", BASE64_STANDARD.encode(signed.sign())))
}
