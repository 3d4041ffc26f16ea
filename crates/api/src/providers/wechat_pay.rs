//! Notifications of WeChat Pay, API v3.
//!
//! The signature is RSA-SHA256 over time, nonce and body, each with a line feed after it, by the platform's certificate
//! or public key that `Wechatpay-Serial` names. The resource is encrypted by AES-256-GCM with the merchant's APIv3 key
//! (pay.weixin.qq.com/doc/v3/merchant/4012071382).

use std::collections::BTreeMap;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::fmt::temporal::DateTimeParser;
use qiang_core::{money::Money, time::Timestamp};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    IgnoredNotification, Notification, NotificationContent, NotificationFault, ProviderAdapter,
    ProviderPayment, ProviderRefund, ProviderReport, RefundedMoney, parse_field,
    rsa_verifier::{RsaVerifier, serial_of},
};

/// Begin of the wrong signatures by which WeChat Pay tests that a merchant checks them. They must be refused.
const PROBE: &str = "WECHATPAY/SIGNTEST/";
/// The only algorithm of resources.
const ALGORITHM: &str = "AEAD_AES_256_GCM";
/// The currency of a transaction that names none.
const CURRENCY: &str = "CNY";

static TIME_PARSER: DateTimeParser = DateTimeParser::new();

/// Adapter of one merchant.
pub(super) struct WechatAdapter {
    /// Number of the merchant, or of the service provider that acts for it.
    pub(super) mchid: String,
    /// Number of the sub-merchant of a service provider.
    pub(super) sub_mchid: Option<String>,
    /// Whether all sub-merchants are taken if none is given.
    pub(super) takes_all: bool,
    /// Keys of the platform by the serial number of their certificate, or by the id of the public key.
    pub(super) verifiers: BTreeMap<String, RsaVerifier>,
    /// One key per APIv3 key of the merchant: one or two.
    pub(super) ciphers: Vec<LessSafeKey>,
}

#[derive(Deserialize)]
struct WechatNotification {
    event_type: String,
    resource: WechatResource,
}

#[derive(Deserialize)]
struct WechatResource {
    algorithm: String,
    ciphertext: String,
    #[serde(default)]
    associated_data: String,
    nonce: String,
}

/// A merchant, or a service provider and its sub-merchant.
#[derive(Deserialize)]
struct WechatMerchant {
    mchid: Option<String>,
    sp_mchid: Option<String>,
    sub_mchid: Option<String>,
}

#[derive(Deserialize)]
struct WechatTransaction {
    #[serde(flatten)]
    merchant: WechatMerchant,
    transaction_id: String,
    trade_state: String,
    /// The order's id.
    #[serde(default)]
    attach: String,
    success_time: String,
    amount: WechatAmount,
}

/// Amount in fen. `payer_total` is the part that the buyer paid; coupons paid the rest.
#[derive(Deserialize)]
struct WechatAmount {
    total: i64,
    currency: Option<String>,
}

#[derive(Deserialize)]
struct WechatRefund {
    #[serde(flatten)]
    merchant: WechatMerchant,
    transaction_id: String,
    refund_id: String,
    refund_status: String,
    amount: WechatRefundAmount,
}

#[derive(Deserialize)]
struct WechatRefundAmount {
    refund: i64,
}

impl ProviderAdapter for WechatAdapter {
    fn read(
        &self,
        notification: &Notification<'_>,
    ) -> Result<NotificationContent, NotificationFault> {
        self.check_signature(notification)?;
        let WechatNotification {
            event_type,
            resource,
        } = parse("the body", notification.body)?;
        match event_type.as_str() {
            "TRANSACTION.SUCCESS" => self.payment(&self.resource(&resource)?),
            "REFUND.SUCCESS" | "REFUND.ABNORMAL" | "REFUND.CLOSED" => {
                self.refund(&self.resource(&resource)?)
            }
            _ => Ok(NotificationContent::Ignored(IgnoredNotification::OtherKind)),
        }
    }
}

impl WechatAdapter {
    fn check_signature(&self, notification: &Notification<'_>) -> Result<(), NotificationFault> {
        let missing =
            "a notification has one each of Wechatpay-Timestamp, -Nonce, -Serial and -Signature";
        let header = |name| notification.header(name, missing);
        let (time, nonce) = (header("wechatpay-timestamp")?, header("wechatpay-nonce")?);
        let (serial, signature) = (header("wechatpay-serial")?, header("wechatpay-signature")?);
        if signature.starts_with(PROBE) {
            return Err(NotificationFault::Unauthentic(
                "a probe of WeChat Pay with a wrong signature",
            ));
        }
        notification.check_time(time)?;
        let verifier = self.verifiers.get(&serial_of(serial));
        let verifier = verifier.ok_or(NotificationFault::Unauthentic(
            "Wechatpay-Serial names no configured certificate or public key of the platform",
        ))?;
        let head = format!("{time}\n{nonce}\n");
        let signed = [head.as_bytes(), notification.body, b"\n"].concat();
        match verifier.has_signed(&signed, signature) {
            true => Ok(()),
            false => Err(NotificationFault::Unauthentic(
                "Wechatpay-Signature is not valid",
            )),
        }
    }

    /// The decrypted resource.
    fn resource<T: DeserializeOwned>(
        &self,
        resource: &WechatResource,
    ) -> Result<T, NotificationFault> {
        if resource.algorithm != ALGORITHM {
            let why = format!("resource.algorithm must be {ALGORITHM}");
            return Err(NotificationFault::Invalid(why));
        }
        let decrypted = self.ciphers.iter().find_map(|key| decrypt(key, resource));
        let decrypted = decrypted.ok_or_else(|| {
            NotificationFault::invalid("the resource cannot be decrypted with the APIv3 key")
        })?;
        parse("the resource", &decrypted)
    }

    fn payment(
        &self,
        transaction: &WechatTransaction,
    ) -> Result<NotificationContent, NotificationFault> {
        self.check_merchant(&transaction.merchant)?;
        if transaction.trade_state != "SUCCESS" {
            let nothing = IgnoredNotification::NothingPaid;
            return Ok(NotificationContent::Ignored(nothing));
        }
        let paid_at = TIME_PARSER.parse_timestamp(&transaction.success_time);
        let paid_at = paid_at.map_err(|_| NotificationFault::invalid("success_time is no time"))?;
        let currency = transaction.amount.currency.as_deref().unwrap_or(CURRENCY);
        let currency = parse_field("amount.currency", currency)?;
        let amount = Money::new(transaction.amount.total, currency);
        let order = parse_field("attach", &transaction.attach);
        let report = ProviderReport::Payment(ProviderPayment {
            order: order.map_err(|fault| fault.of_payment(&transaction.transaction_id, amount))?,
            reference: parse_field("transaction_id", &transaction.transaction_id)?,
            amount,
            paid_at: Timestamp::from_millis(paid_at.as_millisecond()),
        });
        Ok(NotificationContent::Reports(vec![report]))
    }

    fn refund(&self, refund: &WechatRefund) -> Result<NotificationContent, NotificationFault> {
        self.check_merchant(&refund.merchant)?;
        let report = ProviderReport::Refund(ProviderRefund {
            payment: parse_field("transaction_id", &refund.transaction_id)?,
            reference: parse_field("refund_id", &refund.refund_id)?,
            amount: RefundedMoney::OfPayment(refund.amount.refund),
            has_failed: refund.refund_status != "SUCCESS",
        });
        Ok(NotificationContent::Reports(vec![report]))
    }

    fn check_merchant(&self, merchant: &WechatMerchant) -> Result<(), NotificationFault> {
        let number = merchant.mchid.as_ref().or(merchant.sp_mchid.as_ref());
        if number != Some(&self.mchid) {
            let why = "mchid is another merchant's than the account's";
            return Err(NotificationFault::invalid(why));
        }
        let is_own = match &self.sub_mchid {
            None => self.takes_all || merchant.sub_mchid.is_none(),
            own => *own == merchant.sub_mchid,
        };
        is_own.then_some(()).ok_or_else(|| {
            NotificationFault::invalid("sub_mchid is another merchant's than the account's")
        })
    }
}

fn parse<T: DeserializeOwned>(what: &str, json: &[u8]) -> Result<T, NotificationFault> {
    serde_json::from_slice(json).map_err(|error| {
        NotificationFault::Invalid(format!("{what} is no notification of WeChat Pay: {error}"))
    })
}

fn decrypt(key: &LessSafeKey, resource: &WechatResource) -> Option<Vec<u8>> {
    let nonce = Nonce::try_assume_unique_for_key(resource.nonce.as_bytes()).ok()?;
    let mut text = BASE64_STANDARD.decode(&resource.ciphertext).ok()?;
    let aad = Aad::from(resource.associated_data.as_bytes());
    let length = key.open_in_place(nonce, aad, &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

#[cfg(test)]
mod tests;
