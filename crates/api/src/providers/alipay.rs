//! Asynchronous notifications of Alipay: forms signed by RSA2.
//!
//! The signature is RSA with SHA-256 over `name=value` of all parameters but `sign` and `sign_type`, sorted by name and
//! joined by `&`, as decoded bytes (opendocs.alipay.com/open/270/105902). A notification has no time that bounds its
//! age: Alipay repeats it for 25 hours, and a repeated payment counts once.

use jiff::{civil::DateTime, tz};
use percent_encoding::percent_decode;
use qiang_core::{
    id::{OrderId, PaymentRef},
    money::Money,
    time::Timestamp,
};

use super::{
    IgnoredNotification, Notification, NotificationContent, NotificationFault, ProviderAdapter,
    ProviderPayment, ProviderRefund, ProviderReport, RefundedMoney, parse_field,
    rsa_verifier::RsaVerifier,
};

/// Maximum number of parameters.
const PARAMETERS_MAX: usize = 128;
/// Parameters that are used.
const READ: [&str; 11] = [
    "app_id",
    "gmt_payment",
    "gmt_refund",
    "out_biz_no",
    "out_trade_no",
    "passback_params",
    "refund_fee",
    "seller_id",
    "total_amount",
    "trade_no",
    "trade_status",
];
/// The only currency of these notifications.
const CURRENCY: &str = "CNY";
/// Digits of yuan before the decimal point: a trade has at most nine.
const YUAN_DIGITS_MAX: usize = 12;
/// Alipay writes times of this zone.
const ZONE: tz::Offset = tz::offset(8);

/// Adapter of one application.
pub(super) struct AlipayAdapter {
    pub(super) app_id: String,
    /// Alipay's number of the seller; `None` for any.
    pub(super) seller_id: Option<String>,
    /// Keys of Alipay: one or two.
    pub(super) verifiers: Vec<RsaVerifier>,
}

/// Decoded parameters, sorted by name.
struct AlipayForm(Vec<(Vec<u8>, Vec<u8>)>);

impl AlipayForm {
    /// Parameters of a body. Names are unique.
    fn parse(body: &[u8]) -> Result<Self, NotificationFault> {
        let refused = NotificationFault::Unauthentic;
        let mut parameters = Vec::new();
        for pair in body.split(|byte| *byte == b'&').filter(|it| !it.is_empty()) {
            if parameters.len() == PARAMETERS_MAX {
                return Err(refused("the form has too many parameters"));
            }
            let at = pair.iter().position(|byte| *byte == b'=');
            let (name, value) = match at {
                Some(at) => (&pair[..at], &pair[at + 1..]),
                None => (pair, [].as_slice()),
            };
            let (name, value) = (decoded(name), decoded(value));
            if name.is_empty() || !name.iter().all(is_in_name) {
                return Err(refused("the form has a parameter without a name"));
            }
            parameters.push((name, value));
        }
        parameters.sort_unstable();
        let is_twice = parameters.windows(2).any(|two| two[0].0 == two[1].0);
        match is_twice {
            true => Err(refused("the form has a parameter twice")),
            false => Ok(Self(parameters)),
        }
    }

    /// Text that the signature covers.
    fn signed(&self) -> Vec<u8> {
        let unsigned: [&[u8]; 2] = [b"sign", b"sign_type"];
        let mut signed = Vec::new();
        let parameters = self.0.iter();
        for (name, value) in parameters.filter(|(name, _)| !unsigned.contains(&name.as_slice())) {
            if !signed.is_empty() {
                signed.push(b'&');
            }
            signed.extend_from_slice(name);
            signed.push(b'=');
            signed.extend_from_slice(value);
        }
        signed
    }

    /// Value of a parameter; `None` if it is missing, empty, or no UTF-8.
    fn get(&self, name: &str) -> Option<&str> {
        let at = self
            .0
            .binary_search_by(|(it, _)| it.as_slice().cmp(name.as_bytes()));
        let value = std::str::from_utf8(&self.0[at.ok()?].1).ok()?;
        (!value.is_empty()).then_some(value)
    }

    fn require(&self, name: &str) -> Result<&str, NotificationFault> {
        let missing = || NotificationFault::Invalid(format!("the notification has no {name}"));
        self.get(name).ok_or_else(missing)
    }
}

fn is_in_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

/// Whether a part of a value reads like a parameter that is used here. The signature is then also that of a form in
/// which it is one, or in which a parameter is a part of a value.
fn is_ambiguous(value: &[u8]) -> bool {
    value.split(|byte| *byte == b'&').skip(1).any(|part| {
        let end = part.iter().position(|byte| *byte == b'=');
        end.is_some_and(|end| READ.iter().any(|name| name.as_bytes() == &part[..end]))
    })
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let spaced = text.iter().map(|byte| match byte {
        b'+' => b' ',
        byte => *byte,
    });
    let spaced: Vec<u8> = spaced.collect();
    percent_decode(&spaced).collect()
}

impl ProviderAdapter for AlipayAdapter {
    fn read(
        &self,
        notification: &Notification<'_>,
    ) -> Result<NotificationContent, NotificationFault> {
        let form = AlipayForm::parse(notification.body)?;
        self.check_signature(&form)?;
        if form.0.iter().any(|(_, value)| is_ambiguous(value)) {
            let trade = form.get("trade_no").unwrap_or_default();
            let why = format!("a value of trade {trade:?} has the form of another parameter");
            return Err(NotificationFault::Invalid(why));
        }
        self.check_receiver(&form)?;
        let Some(status) = form.get("trade_status") else {
            return Ok(NotificationContent::Ignored(IgnoredNotification::OtherKind));
        };
        let refunded = form
            .get("refund_fee")
            .filter(|_| form.get("gmt_refund").is_some());
        match (status, refunded) {
            ("TRADE_SUCCESS" | "TRADE_FINISHED", _) | ("TRADE_CLOSED", Some(_)) => {
                let payment = payment_of(&form)?;
                let refund = refunded.map(|total| refund_of(&form, &payment, total));
                let mut reports = vec![ProviderReport::Payment(payment)];
                reports.extend(refund.transpose()?.map(ProviderReport::Refund));
                Ok(NotificationContent::Reports(reports))
            }
            ("WAIT_BUYER_PAY" | "TRADE_CLOSED", _) => {
                let nothing = IgnoredNotification::NothingPaid;
                Ok(NotificationContent::Ignored(nothing))
            }
            _ => Ok(NotificationContent::Ignored(IgnoredNotification::OtherKind)),
        }
    }
}

impl AlipayAdapter {
    fn check_signature(&self, form: &AlipayForm) -> Result<(), NotificationFault> {
        let refused = |why| Err(NotificationFault::Unauthentic(why));
        let Some(signature) = form.get("sign") else {
            return refused("a notification of Alipay has the parameter sign");
        };
        if form.get("sign_type").is_some_and(|kind| kind != "RSA2") {
            return refused("sign_type must be RSA2");
        }
        let signed = form.signed();
        match self
            .verifiers
            .iter()
            .any(|it| it.has_signed(&signed, signature))
        {
            true => Ok(()),
            false => refused("sign is not valid"),
        }
    }

    fn check_receiver(&self, form: &AlipayForm) -> Result<(), NotificationFault> {
        if form.require("app_id")? != self.app_id {
            let why = "app_id is another application's than the account's";
            return Err(NotificationFault::invalid(why));
        }
        match &self.seller_id {
            Some(seller_id) if form.require("seller_id")? != seller_id => Err(
                NotificationFault::invalid("seller_id is another seller's than the account's"),
            ),
            _ => Ok(()),
        }
    }
}

fn payment_of(form: &AlipayForm) -> Result<ProviderPayment, NotificationFault> {
    let paid_at = form.require("gmt_payment")?;
    let paid_at = DateTime::strptime("%Y-%m-%d %H:%M:%S", paid_at)
        .and_then(|time| ZONE.to_timestamp(time))
        .map_err(|_| NotificationFault::invalid("gmt_payment is no time"))?;
    let trade = form.require("trade_no")?;
    let amount = money("total_amount", form.require("total_amount")?)?;
    Ok(ProviderPayment {
        order: order_of(form).map_err(|fault| fault.of_payment(trade, amount))?,
        reference: parse_field("trade_no", trade)?,
        amount,
        paid_at: Timestamp::from_millis(paid_at.as_millisecond()),
    })
}

/// Order that `passback_params` names, or else `out_trade_no`, in which underscores replace dashes.
fn order_of(form: &AlipayForm) -> Result<OrderId, NotificationFault> {
    if let Some(order) = form.get("passback_params") {
        return parse_field("passback_params", order);
    }
    let number = form.require("out_trade_no")?;
    parse_field("out_trade_no", &number.replace('_', "-"))
}

/// The refund that a notification announces. It has the total of all refunds of the trade.
fn refund_of(
    form: &AlipayForm,
    payment: &ProviderPayment,
    total: &str,
) -> Result<ProviderRefund, NotificationFault> {
    let trade = &payment.reference;
    let request = form.get("out_biz_no").unwrap_or(trade.as_str());
    let reference: PaymentRef = parse_field("out_biz_no", &format!("{trade}/{request}"))?;
    Ok(ProviderRefund {
        payment: trade.clone(),
        reference,
        amount: RefundedMoney::Total(money("refund_fee", total)?),
        has_failed: false,
    })
}

/// Money of an amount in yuan with up to two decimal digits.
fn money(field: &str, text: &str) -> Result<Money, NotificationFault> {
    let wrong = || NotificationFault::Invalid(format!("{field} is no amount in yuan"));
    let (yuan, fen) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str, max: usize| {
        (1..=max).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(yuan, YUAN_DIGITS_MAX) || !is_number(fen, 2) {
        return Err(wrong());
    }
    let yuan: i64 = yuan.parse().map_err(|_| wrong())?;
    let fen: i64 = format!("{fen:0<2}").parse().map_err(|_| wrong())?;
    let currency = parse_field("the currency", CURRENCY)?;
    Ok(Money::new(yuan * 100 + fen, currency))
}

#[cfg(test)]
mod tests;
