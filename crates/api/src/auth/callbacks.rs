//! Requests of payment services, signed as Standard Webhooks specifies instead of a token.
//!
//! HMAC-SHA256 over `ID.TIMESTAMP.BODY`: `webhook-id`, `webhook-timestamp` (seconds) and the body as sent.
//! `webhook-signature` has one or more signatures separated by spaces, each `v1,` and base64. One valid signature by
//! either of the secrets is enough.

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use axum::http::{HeaderMap, header::AUTHORIZATION};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use qiang_core::time::Timestamp;

use crate::config::{PaymentsConfig, Secret, UsageError, secret_of};

/// Prefix of a secret.
pub(crate) const SECRET_PREFIX: &str = "whsec_";
/// Minimum length, because shorter secrets can be guessed; Standard Webhooks requires the same.
const SECRET_BYTES_MIN: usize = 24;
/// Maximum number of signatures of one request that are checked.
const SIGNATURES_MAX: usize = 8;

/// Key from a secret in the form of Standard Webhooks. `name` is its configuration key.
pub(crate) fn key_of(name: &str, secret: &Secret) -> Result<hmac::Key, UsageError> {
    let text = secret.expose().strip_prefix(SECRET_PREFIX);
    let bytes = text.and_then(|text| BASE64_STANDARD.decode(text).ok());
    let bytes = bytes.filter(|bytes| bytes.len() >= SECRET_BYTES_MIN);
    let key = bytes.map(|bytes| hmac::Key::new(HMAC_SHA256, &bytes));
    key.ok_or_else(|| {
        UsageError::new(format!(
            "{name} is `{SECRET_PREFIX}` and at least {SECRET_BYTES_MIN} bytes in base64: \
             echo {SECRET_PREFIX}$(openssl rand -base64 32)"
        ))
    })
}

/// Verifies signed requests.
pub(crate) struct Callbacks {
    /// Keys of the configured secrets: none, one or two.
    keys: Vec<hmac::Key>,
    /// Largest difference between the time of the signature and the time of arrival.
    tolerance_ms: i64,
}

impl Callbacks {
    /// Verifier with the secrets of the configuration.
    ///
    /// # Errors
    /// [`UsageError`] that names the key; other errors if a file cannot be read.
    pub(crate) fn new(config: &PaymentsConfig) -> anyhow::Result<Self> {
        let (one, other) = ("payments.secret", "payments.rotation_secret");
        let mut keys = Vec::new();
        for (name, secret, file) in [
            (one, &config.secret, &config.secret_file),
            (other, &config.rotation_secret, &config.rotation_secret_file),
        ] {
            let secret = secret_of(secret, file, name)?;
            keys.extend(secret.map(|secret| key_of(name, &secret)).transpose()?);
        }
        Ok(Self {
            keys,
            tolerance_ms: i64::from(config.tolerance_ms),
        })
    }

    /// Whether a request has a signature instead of a token, and so must be checked.
    pub(crate) fn is_signed(headers: &HeaderMap) -> bool {
        headers.contains_key("webhook-signature") && !headers.contains_key(AUTHORIZATION)
    }

    /// Refuses a request without a recent signature by one of the secrets. Signatures are compared in constant time.
    ///
    /// # Errors
    /// The fault, as a text for the sender.
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), &'static str> {
        if self.keys.is_empty() {
            return Err("signed requests are not configured here: send a token");
        }
        let one = |name| {
            let mut values = headers.get_all(name).iter();
            let value = values.next().and_then(|value| value.to_str().ok());
            value.filter(|_| values.next().is_none())
        };
        let (Some(id), Some(timestamp), Some(signatures)) = (
            one("webhook-id"),
            one("webhook-timestamp"),
            one("webhook-signature"),
        ) else {
            return Err("a signed request has one each of webhook-id, -timestamp and -signature");
        };
        // As seconds, that would be after the year 5138.
        if timestamp
            .parse::<i64>()
            .is_ok_and(|number| number >= 100_000_000_000)
        {
            return Err(
                "webhook-timestamp is seconds since the Unix epoch, and this looks like milliseconds",
            );
        }
        let signed_at = timestamp
            .parse::<i64>()
            .ok()
            .and_then(|seconds| seconds.checked_mul(1_000))
            .ok_or("webhook-timestamp is seconds since the Unix epoch")?;
        let away_ms = now.as_millis().checked_sub(signed_at);
        if away_ms.is_none_or(|ms| ms.saturating_abs() > self.tolerance_ms) {
            return Err("the request was signed too long ago, or the clocks differ");
        }
        let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        let mut signatures = signatures.split(' ').take(SIGNATURES_MAX);
        let holds = signatures.any(|signature| {
            let signature = signature.strip_prefix("v1,");
            let signature = signature.and_then(|text| BASE64_STANDARD.decode(text).ok());
            signature.is_some_and(|signature| {
                let mut keys = self.keys.iter();
                keys.any(|key| hmac::verify(key, &signed, &signature).is_ok())
            })
        });
        holds.then_some(()).ok_or("no signature is valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example from the tests of Standard Webhooks implementations.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNED_S: i64 = 1_614_265_330;
    const BODY: &str = r#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn callbacks(secret: &str, other: &str) -> Callbacks {
        Callbacks::new(&PaymentsConfig {
            secret: Secret::new(secret),
            rotation_secret: Secret::new(other),
            tolerance_ms: 300_000,
            ..PaymentsConfig::default()
        })
        .unwrap()
    }

    fn headers(signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            "webhook-id",
            "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap(),
        );
        headers.insert("webhook-timestamp", SIGNED_S.into());
        headers.insert("webhook-signature", signature.parse().unwrap());
        headers
    }

    #[track_caller]
    fn check(callbacks: &Callbacks, signature: &str, body: &str, away_s: i64, holds: bool) {
        let now = Timestamp::from_millis((SIGNED_S + away_s) * 1_000);
        let checked = callbacks.check(&headers(signature), body.as_bytes(), now);
        assert_eq!(checked.is_ok(), holds, "{checked:?}");
    }

    #[test]
    fn a_signature_holds_by_either_secret_and_for_a_while() {
        for both in [
            callbacks(SECRET, OTHER),
            callbacks(OTHER, SECRET),
            callbacks("", SECRET),
        ] {
            check(&both, SIGNATURE, BODY, 0, true);
            check(&both, &format!("v1a,x {SIGNATURE} v1,AAAA"), BODY, 0, true);
            for away_s in [-300, 300] {
                check(&both, SIGNATURE, BODY, away_s, true);
                check(&both, SIGNATURE, BODY, away_s + away_s.signum(), false);
            }
            check(&both, SIGNATURE, r#"{"test": 2432232315}"#, 0, false);
            check(&both, &SIGNATURE.replace("g0hM", "g0hN"), BODY, 0, false);
            check(&both, &SIGNATURE.replace("v1,", "v2,"), BODY, 0, false);
            check(&both, "", BODY, 0, false);
        }
        check(&callbacks(OTHER, ""), SIGNATURE, BODY, 0, false);
        check(&callbacks("", ""), SIGNATURE, BODY, 0, false);
    }

    #[test]
    fn a_header_that_is_there_twice_is_refused() {
        let mut twice = headers(SIGNATURE);
        twice.append("webhook-id", "other".parse().unwrap());
        let now = Timestamp::from_millis(SIGNED_S * 1_000);
        let checked = callbacks(SECRET, "").check(&twice, BODY.as_bytes(), now);
        assert!(checked.is_err());
    }

    #[test]
    fn secrets_that_can_be_guessed_are_refused() {
        for secret in [
            "whsec_",
            "whsec_AAAA",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_%",
        ] {
            assert!(
                key_of("payments.secret", &Secret::new(secret)).is_err(),
                "{secret}"
            );
        }
    }
}
