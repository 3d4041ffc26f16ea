//! Verification of webhooks, as Standard Webhooks specifies.

use std::time::{Duration, SystemTime};

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::{answers::RecordedEvent, error::Error};

/// Time by which a signature may differ from the given one.
const TOLERANCE: Duration = Duration::from_secs(300);
/// Maximum number of signatures to compare. The service sends one per valid secret.
const SIGNATURES_MAX: usize = 16;

/// Error of a webhook that is not signed with the secret, or not at this time. Answer it with status 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid webhook: {0}")]
pub struct InvalidSignature(&'static str);

/// Verifier of webhooks for one secret, or for several during a rotation.
#[derive(Debug, Clone)]
pub struct WebhookVerifier {
    keys: Vec<hmac::Key>,
    tolerance: Duration,
}

impl WebhookVerifier {
    /// Verifier for these secrets.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none, or one is not `whsec_` and base64.
    pub fn new(secrets: &[impl AsRef<str>]) -> Result<Self, Error> {
        let keys = secrets.iter().map(|secret| {
            let text = secret.as_ref().trim_start_matches("whsec_");
            let bytes = BASE64_STANDARD.decode(text).ok();
            let bytes = bytes.filter(|bytes| !bytes.is_empty());
            bytes.map(|bytes| hmac::Key::new(HMAC_SHA256, &bytes))
        });
        match keys.collect::<Option<Vec<_>>>() {
            Some(keys) if !keys.is_empty() => Ok(Self {
                keys,
                tolerance: TOLERANCE,
            }),
            _ => Err(Error::usage(
                "the secret of a webhook is `whsec_` and base64",
            )),
        }
    }

    /// Sets the time by which a signature may differ from the time of its verification; default 5 minutes.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Verifies a webhook over its raw body, and reads it. `header` returns a header by its name in lower case.
    ///
    /// Store the event's id, and ignore an id that you have stored.
    ///
    /// # Errors
    /// Unless a signature matches a secret and its time is within the tolerance of `now`.
    pub fn verify<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
        now: SystemTime,
    ) -> Result<RecordedEvent, InvalidSignature> {
        let needed = |name| header(name).ok_or(InvalidSignature("a header is missing"));
        let (id, sent_at) = (needed("webhook-id")?, needed("webhook-timestamp")?);
        let signatures = needed("webhook-signature")?;
        let is_number = !sent_at.is_empty() && sent_at.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = sent_at.parse().ok().filter(|_| is_number);
        let seconds = seconds.ok_or(InvalidSignature("webhook-timestamp is no number"))?;
        let sent = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let is_near = sent.is_some_and(|sent| distance(sent, now) <= self.tolerance);
        if !is_near {
            return Err(InvalidSignature("the signature is too old or too new"));
        }
        let signed = [id.as_bytes(), b".", sent_at.as_bytes(), b".", body].concat();
        let given = signatures.split(' ').take(SIGNATURES_MAX);
        let given: Vec<_> = given
            .filter_map(|one| BASE64_STANDARD.decode(one.strip_prefix("v1,")?).ok())
            .collect();
        // All pairs are compared, so that the time does not tell which one matched.
        let mut is_right = false;
        for key in &self.keys {
            for signature in &given {
                is_right |= hmac::verify(key, &signed, signature).is_ok();
            }
        }
        if !is_right {
            return Err(InvalidSignature("no signature matches"));
        }
        event(id, body).ok_or(InvalidSignature("the body is no event"))
    }
}

fn distance(left: SystemTime, right: SystemTime) -> Duration {
    let since = left.duration_since(right);
    since.unwrap_or_else(|before| before.duration())
}

/// Event of a body, which has all of its fields but the id.
fn event(id: &str, body: &[u8]) -> Option<RecordedEvent> {
    let mut event: serde_json::Value = serde_json::from_slice(body).ok()?;
    event.as_object_mut()?.insert("id".to_owned(), id.into());
    serde_json::from_value(event).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn webhooks_of_the_contract_are_accepted_or_refused() {
        let table = include_str!("../../../clients/contract/signatures.json");
        let table: Value = serde_json::from_str(table).unwrap();
        let now = Duration::from_secs(table["now"].as_u64().unwrap());
        for case in table["cases"].as_array().unwrap() {
            let secrets: Vec<String> = serde_json::from_value(case["secrets"].clone()).unwrap();
            let verifier = WebhookVerifier::new(&secrets).unwrap();
            let header = |name: &str| case["headers"][name].as_str();
            let body = case["body"].as_str().unwrap().as_bytes();
            let event = verifier.verify(header, body, SystemTime::UNIX_EPOCH + now);
            assert_eq!(event.is_ok(), case["accepted"] == true, "{}", case["name"]);
        }
    }

    #[test]
    fn a_secret_is_base64() {
        for secrets in [vec![], vec![""], vec!["whsec_"], vec!["whsec_%"]] {
            assert!(WebhookVerifier::new(&secrets).is_err(), "{secrets:?}");
        }
    }
}
