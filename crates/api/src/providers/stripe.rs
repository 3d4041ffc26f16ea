//! Events of Stripe: signed webhooks with snapshots of objects.
//!
//! `Stripe-Signature` has the time `t` and signatures `v1`: HMAC-SHA256 in hexadecimal over `t.BODY`, with the whole
//! secret of the endpoint as the key (docs.stripe.com/webhooks#verify-manually). During a change of the secret, an
//! event has one signature by each.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use qiang_core::{
    id::{OrderId, PaymentRef},
    money::{Currency, Money},
    time::Timestamp,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    IgnoredNotification, Notification, NotificationContent, NotificationFault, ProviderAdapter,
    ProviderPayment, ProviderRefund, ProviderReport, RefundedMoney, parse_field,
};

/// Key of the metadata that names the order.
const ORDER_KEY: &str = "qiang-order";
/// Maximum number of signatures of one event that are checked.
const SIGNATURES_MAX: usize = 8;
/// Maximum number of refunds that one event lists.
const REFUNDS_MAX: usize = 100;

/// Currencies whose amounts have no decimal digits at Stripe. All others that are not listed below have two, also ISK
/// and UGX, which have none in ISO 4217 (docs.stripe.com/currencies).
const NO_DIGITS: [&str; 15] = [
    "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF",
    "XOF", "XPF",
];
/// Currencies whose amounts have three digits at Stripe.
const THREE_DIGITS: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];

/// Adapter of one webhook endpoint of a Stripe account.
pub(super) struct StripeAdapter {
    /// One key per secret of the endpoint: one or two.
    pub(super) keys: Vec<hmac::Key>,
    /// Whether events of the test mode are taken, and those alone.
    pub(super) test_mode: bool,
    /// Connected account whose events are taken; `None` for the events of the endpoint's own account.
    pub(super) connected: Option<String>,
    /// Whether payments without an order are acknowledged.
    pub(super) ignores_others: bool,
}

/// Event with the object as it was then.
#[derive(Deserialize)]
struct StripeEvent {
    #[serde(rename = "type")]
    kind: String,
    /// Seconds since 1970.
    created: i64,
    livemode: bool,
    /// Connected account of the event. One secret signs the events of all of them.
    account: Option<String>,
    data: StripeEventData,
}

#[derive(Deserialize)]
struct StripeEventData {
    object: Value,
}

#[derive(Deserialize)]
struct StripeIntent {
    id: String,
    amount_received: i64,
    currency: String,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct StripeCheckout {
    mode: String,
    payment_status: String,
    payment_intent: Option<StripeReference>,
    amount_total: Option<i64>,
    currency: Option<String>,
    client_reference_id: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
    /// Money in the seller's currency, if the buyer saw another one.
    currency_conversion: Option<StripeConversion>,
}

#[derive(Deserialize)]
struct StripeConversion {
    amount_total: i64,
    source_currency: String,
}

#[derive(Deserialize)]
struct StripeCharge {
    refunds: Option<StripeRefundList>,
}

#[derive(Deserialize)]
struct StripeRefundList {
    data: Vec<StripeRefund>,
}

#[derive(Deserialize)]
struct StripeRefund {
    id: String,
    amount: i64,
    currency: String,
    status: Option<String>,
    payment_intent: Option<StripeReference>,
}

/// Id of an object, or the object in full.
#[derive(Deserialize)]
#[serde(untagged)]
enum StripeReference {
    Id(String),
    Expanded { id: String },
}

impl StripeReference {
    fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Expanded { id } => id,
        }
    }
}

impl ProviderAdapter for StripeAdapter {
    fn read(
        &self,
        notification: &Notification<'_>,
    ) -> Result<NotificationContent, NotificationFault> {
        self.check_signature(notification)?;
        let event: StripeEvent = serde_json::from_slice(notification.body).map_err(|error| {
            let why = format!("the body is no snapshot event of Stripe: {error}");
            NotificationFault::Invalid(why)
        })?;
        if event.account != self.connected {
            let why = "the event is of another connected account than the account's stripe_account";
            return Err(NotificationFault::invalid(why));
        }
        if event.livemode == self.test_mode && self.connected.is_some() {
            // An endpoint for connected accounts gets the events of both modes.
            return ignored(IgnoredNotification::OtherKind);
        }
        if event.livemode == self.test_mode {
            let why = match event.livemode {
                true => "the event is of Stripe's live mode, and the account has test_mode = true",
                false => {
                    "the event is of Stripe's test mode, and the account does not have test_mode = true"
                }
            };
            return Err(NotificationFault::invalid(why));
        }
        self.read_event(event)
    }
}

impl StripeAdapter {
    fn check_signature(&self, notification: &Notification<'_>) -> Result<(), NotificationFault> {
        let missing = "an event of Stripe has one header Stripe-Signature";
        let header = notification.header("stripe-signature", missing)?;
        let parts = || header.split(',').filter_map(|part| part.split_once('='));
        let mut times = parts().filter(|(name, _)| name.trim() == "t");
        let (Some((_, time)), None) = (times.next(), times.next()) else {
            return Err(NotificationFault::Unauthentic(
                "Stripe-Signature has one time `t`",
            ));
        };
        notification.check_time(time)?;
        let signed = [format!("{time}.").as_bytes(), notification.body].concat();
        let signatures = parts().filter(|(name, _)| name.trim() == "v1");
        let is_signed = signatures.take(SIGNATURES_MAX).any(|(_, signature)| {
            let signature = hex::decode(signature.trim());
            signature.is_ok_and(|signature| {
                let mut keys = self.keys.iter();
                keys.any(|key| hmac::verify(key, &signed, &signature).is_ok())
            })
        });
        is_signed
            .then_some(())
            .ok_or(NotificationFault::Unauthentic(
                "no signature v1 of Stripe-Signature is valid",
            ))
    }

    fn read_event(&self, event: StripeEvent) -> Result<NotificationContent, NotificationFault> {
        let StripeEvent {
            kind,
            created,
            data: StripeEventData { object },
            ..
        } = event;
        match kind.as_str() {
            "payment_intent.succeeded" => {
                let intent = object_of("a PaymentIntent", object)?;
                self.payment_of_intent(&intent, created)
            }
            "checkout.session.completed" | "checkout.session.async_payment_succeeded" => {
                let session = object_of("a Checkout Session", object)?;
                self.payment_of_session(&session, created)
            }
            "refund.created" | "refund.updated" | "refund.failed" | "charge.refund.updated" => {
                refund_content(&object_of("a Refund", object)?)
            }
            "charge.refunded" => listed_refunds(object_of("a Charge", object)?),
            _ => ignored(IgnoredNotification::OtherKind),
        }
    }

    fn payment_of_intent(
        &self,
        intent: &StripeIntent,
        created_s: i64,
    ) -> Result<NotificationContent, NotificationFault> {
        let amount = money("amount_received", intent.amount_received, &intent.currency)?;
        let order = order_of(intent.metadata.as_ref(), None);
        let order = order.map_err(|fault| fault.of_payment(&intent.id, amount))?;
        self.payment(&intent.id, order, amount, created_s)
    }

    fn payment_of_session(
        &self,
        session: &StripeCheckout,
        created_s: i64,
    ) -> Result<NotificationContent, NotificationFault> {
        if session.mode != "payment" {
            return ignored(IgnoredNotification::OtherKind);
        }
        let (Some(intent), "paid") = (&session.payment_intent, session.payment_status.as_str())
        else {
            return ignored(IgnoredNotification::NothingPaid);
        };
        let amount = match &session.currency_conversion {
            Some(seen) => money(
                "currency_conversion.amount_total",
                seen.amount_total,
                &seen.source_currency,
            )?,
            None => {
                let missing = || NotificationFault::invalid("the session has no amount_total");
                let amount = session.amount_total.ok_or_else(missing)?;
                money(
                    "amount_total",
                    amount,
                    session.currency.as_deref().unwrap_or(""),
                )?
            }
        };
        let reference = session.client_reference_id.as_deref();
        let order = order_of(session.metadata.as_ref(), reference);
        let order = order.map_err(|fault| fault.of_payment(intent.id(), amount))?;
        self.payment(intent.id(), order, amount, created_s)
    }

    fn payment(
        &self,
        id: &str,
        order: Option<OrderId>,
        amount: Money,
        created_s: i64,
    ) -> Result<NotificationContent, NotificationFault> {
        let reference = stripe_id("the PaymentIntent's id", id, &["pi_"])?;
        let report = match order {
            Some(order) => ProviderReport::Payment(ProviderPayment {
                order,
                reference,
                amount,
                paid_at: Timestamp::from_millis(created_s.saturating_mul(1_000)),
            }),
            None => ProviderReport::WithoutOrder {
                reference,
                amount,
                ignored: self.ignores_others,
            },
        };
        Ok(NotificationContent::Reports(vec![report]))
    }
}

/// An id of Stripe with one of these prefixes. The holder of the secret chooses ids, so others' references are refused.
fn stripe_id(field: &str, id: &str, prefixes: &[&str]) -> Result<PaymentRef, NotificationFault> {
    match prefixes.iter().any(|prefix| id.starts_with(prefix)) {
        true => parse_field(field, id),
        false => Err(NotificationFault::Invalid(format!(
            "{field} does not begin with {}",
            prefixes.join(" or ")
        ))),
    }
}

fn ignored(why: IgnoredNotification) -> Result<NotificationContent, NotificationFault> {
    Ok(NotificationContent::Ignored(why))
}

/// Reads the object of an event.
fn object_of<T: DeserializeOwned>(what: &str, object: Value) -> Result<T, NotificationFault> {
    serde_json::from_value(object).map_err(|error| {
        NotificationFault::Invalid(format!("the event's object is not {what}: {error}"))
    })
}

/// Order that the metadata name, or else the reference that the shop gave a session.
fn order_of(
    metadata: Option<&BTreeMap<String, String>>,
    reference: Option<&str>,
) -> Result<Option<OrderId>, NotificationFault> {
    if let Some(order) = metadata.and_then(|metadata| metadata.get(ORDER_KEY)) {
        return parse_field("metadata.qiang-order", order).map(Some);
    }
    // Shops also use it for numbers of their own.
    Ok(reference.and_then(|reference| reference.parse().ok()))
}

/// Refunds of a charge with their ids, oldest first. Later versions of Stripe's API leave them out.
fn listed_refunds(charge: StripeCharge) -> Result<NotificationContent, NotificationFault> {
    let Some(StripeRefundList { data }) = charge.refunds else {
        return ignored(IgnoredNotification::NoRefundIds);
    };
    if data.len() > REFUNDS_MAX {
        let why = format!("the charge lists more than {REFUNDS_MAX} refunds");
        return Err(NotificationFault::Invalid(why));
    }
    let mut reports = Vec::new();
    for refund in data.iter().rev() {
        if let NotificationContent::Reports(more) = refund_content(refund)? {
            reports.extend(more);
        }
    }
    match reports.is_empty() {
        true => ignored(IgnoredNotification::NothingPaid),
        false => Ok(NotificationContent::Reports(reports)),
    }
}

fn refund_content(refund: &StripeRefund) -> Result<NotificationContent, NotificationFault> {
    let Some(payment) = &refund.payment_intent else {
        return ignored(IgnoredNotification::OtherKind);
    };
    let has_failed = match refund.status.as_deref() {
        Some("succeeded") => false,
        Some("failed" | "canceled") => true,
        _ => return ignored(IgnoredNotification::NothingPaid),
    };
    let amount = money("the refund's amount", refund.amount, &refund.currency)?;
    let report = ProviderReport::Refund(ProviderRefund {
        payment: stripe_id("the refund's payment_intent", payment.id(), &["pi_"])?,
        reference: stripe_id("the refund's id", &refund.id, &["re_", "pyr_"])?,
        amount: RefundedMoney::Single(amount),
        has_failed,
    });
    Ok(NotificationContent::Reports(vec![report]))
}

/// Money of an amount in Stripe's units, in the minor units of ISO 4217.
fn money(field: &str, amount: i64, code: &str) -> Result<Money, NotificationFault> {
    let code = code.to_ascii_uppercase();
    let currency: Currency = parse_field("the currency", &code)?;
    let digits = match code.as_str() {
        code if NO_DIGITS.contains(&code) => 0,
        code if THREE_DIGITS.contains(&code) => 3,
        _ => 2_u32,
    };
    let exponent = currency.exponent();
    let minor = match exponent.checked_sub(digits) {
        Some(more) => amount.checked_mul(10_i64.pow(more)),
        None => {
            let unit = 10_i64.pow(digits - exponent);
            (amount % unit == 0).then_some(amount / unit)
        }
    };
    let minor = minor.ok_or_else(|| {
        NotificationFault::Invalid(format!("{field} is {amount}, which is no amount in {code}"))
    })?;
    Ok(Money::new(minor, currency))
}

#[cfg(test)]
mod tests;
