//! Notifications of payment services: the port, and one adapter per service.
//!
//! An adapter checks that its service signed a notification. It then reads reports that name orders and payments, and
//! nothing of the service. `resources::provider_reports` records them.

mod accounts;
mod alipay;
mod current_accounts;
mod rsa_verifier;
mod stripe;
mod wechat_pay;

use axum::http::HeaderMap;
use qiang_core::{
    id::{OrderId, PaymentRef},
    money::Money,
    time::Timestamp,
};

pub use self::current_accounts::check_accounts;
pub(crate) use self::{
    accounts::{AccountName, PaymentAccount},
    current_accounts::CurrentAccounts,
};

/// Payment service that has an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PaymentProvider {
    /// Stripe.
    Stripe,
    /// WeChat Pay, API v3.
    WechatPay,
    /// Alipay.
    Alipay,
}

impl PaymentProvider {
    pub(crate) const ALL: [Self; 3] = [Self::Stripe, Self::WechatPay, Self::Alipay];

    /// Name in paths, metrics, the accounts file and the operation log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stripe => "stripe",
            Self::WechatPay => "wechat",
            Self::Alipay => "alipay",
        }
    }
}

/// A notification as it arrived.
pub(crate) struct Notification<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// The body as it was sent: the signature covers it.
    pub(crate) body: &'a [u8],
    /// Time of the arrival.
    pub(crate) now: Timestamp,
    /// Largest difference between the time of a signature and the arrival.
    pub(crate) tolerance_ms: i64,
}

impl Notification<'_> {
    /// The only value of a header.
    ///
    /// # Errors
    /// `missing` if the header is missing, there twice, or no text.
    fn header(&self, name: &str, missing: &'static str) -> Result<&str, NotificationFault> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        let value = value.filter(|_| values.next().is_none());
        value.ok_or(NotificationFault::Unauthentic(missing))
    }

    /// Refuses a signature of another time than now. `text` is in seconds since 1970.
    fn check_time(&self, text: &str) -> Result<(), NotificationFault> {
        let signed_at_ms = text
            .parse::<i64>()
            .ok()
            .and_then(|seconds| seconds.checked_mul(1_000))
            .ok_or(NotificationFault::Unauthentic(
                "the time of the signature is no number of seconds",
            ))?;
        let away_ms = self.now.as_millis().checked_sub(signed_at_ms);
        match away_ms.is_some_and(|ms| ms.saturating_abs() <= self.tolerance_ms) {
            true => Ok(()),
            false => Err(NotificationFault::Unauthentic(
                "the notification was signed too long ago, or the clocks differ",
            )),
        }
    }
}

/// Content of an authentic notification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotificationContent {
    /// Reports, in the order of the events.
    Reports(Vec<ProviderReport>),
    /// No payment and no refund.
    Ignored(IgnoredNotification),
}

/// A payment or a refund, in the terms of this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProviderReport {
    /// A payment for an order.
    Payment(ProviderPayment),
    /// A payment that names no order. `ignored` says whether the account also takes such payments.
    WithoutOrder {
        reference: PaymentRef,
        amount: Money,
        ignored: bool,
    },
    /// A refund that reached the buyer.
    Refund(ProviderRefund),
}

/// A payment for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderPayment {
    pub(crate) order: OrderId,
    /// The service's id of the payment.
    pub(crate) reference: PaymentRef,
    pub(crate) amount: Money,
    /// Time of the payment, by the service's clock.
    pub(crate) paid_at: Timestamp,
}

/// A refund of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderRefund {
    /// Reference of the refunded payment.
    pub(crate) payment: PaymentRef,
    /// The service's id of the refund.
    pub(crate) reference: PaymentRef,
    pub(crate) amount: RefundedMoney,
    /// Whether it failed, perhaps after it had succeeded.
    pub(crate) has_failed: bool,
}

/// Money of a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefundedMoney {
    /// Money of this refund.
    Single(Money),
    /// Minor units of this refund, in the currency of its payment.
    OfPayment(i64),
    /// Money of this refund and of all earlier ones of the same payment. Their references begin with the payment's
    /// reference and a slash.
    Total(Money),
}

/// Reason why an authentic notification reports nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredNotification {
    /// It is of another kind.
    OtherKind,
    /// No money has moved yet, or none will.
    NothingPaid,
    /// It lists no single refunds.
    NoRefundIds,
}

impl IgnoredNotification {
    /// Text for the answer and the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::OtherKind => "this kind of notification reports no payment and no refund",
            Self::NothingPaid => "no money has moved yet, or none will",
            Self::NoRefundIds => {
                "the event lists no refunds: send refund.created and refund.updated too"
            }
        }
    }
}

/// Reason why a notification cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotificationFault {
    /// The service did not sign it, or not recently. The text is for the sender and has no part of the notification.
    Unauthentic(&'static str),
    /// It is authentic, and cannot be a report of an order. The text may name fields and short values.
    Invalid(String),
}

impl NotificationFault {
    /// Adds the payment that a fault is about, so that its money is found at the service.
    fn of_payment(self, reference: &str, amount: Money) -> Self {
        match self {
            Self::Invalid(why) => Self::Invalid(format!("{why}; payment {reference} of {amount}")),
            fault => fault,
        }
    }

    fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

/// Adapter of one account at a payment service.
pub(crate) trait ProviderAdapter: Send + Sync {
    /// Checks the signature of a notification, and reads it.
    ///
    /// # Errors
    /// [`NotificationFault`] if it is not authentic, or not readable.
    fn read(
        &self,
        notification: &Notification<'_>,
    ) -> Result<NotificationContent, NotificationFault>;
}

/// Longest text of a notification that a fault shows.
const SHOWN_CHARS_MAX: usize = 80;

/// Parses an id of a notification.
///
/// # Errors
/// [`NotificationFault::Invalid`] that names the field and shows the begin of its value.
fn parse_field<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &str,
    text: &str,
) -> Result<T, NotificationFault> {
    text.parse().map_err(|error: T::Err| {
        let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        NotificationFault::invalid(format!("{field} is {shown:?}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_twice_is_missing() {
        let mut headers = HeaderMap::new();
        headers.append("x-nonce", "a".parse().unwrap());
        let read = |headers: &HeaderMap| {
            let notification = Notification {
                headers,
                body: b"",
                now: Timestamp::default(),
                tolerance_ms: 0,
            };
            let header = notification.header("x-nonce", "no nonce");
            header.map(str::to_owned)
        };
        assert_eq!(read(&headers), Ok("a".to_owned()));
        headers.append("x-nonce", "b".parse().unwrap());
        let missing = Err(NotificationFault::Unauthentic("no nonce"));
        assert_eq!(read(&headers), missing);
        assert_eq!(read(&HeaderMap::new()), missing);
    }

    #[test]
    fn the_time_of_a_signature_is_near() {
        let headers = HeaderMap::new();
        let check = |text: &str, is_near: bool| {
            let notification = Notification {
                headers: &headers,
                body: b"",
                now: Timestamp::from_millis(1_700_000_000_000),
                tolerance_ms: 300_000,
            };
            assert_eq!(notification.check_time(text).is_ok(), is_near, "{text}");
        };
        check("1700000000", true);
        check("1699999700", true);
        check("1699999699", false);
        check("1700000300", true);
        check("1700000301", false);
        check("", false);
        check("1700000000000", false);
        check("9223372036854775807", false);
        check("-9223372036854775808", false);
        check("1.7e9", false);
    }
}
