//! Signed texts that a user carries from one request to the next, so that nodes store nothing: tickets, and
//! challenges to solve. Each node with the same key accepts them.
//!
//! A text is `PAYLOAD.SIGNATURE`, both base64url: JSON, and HMAC-SHA256 over `PAYLOAD`.

use std::borrow::Cow;

use anyhow::Context as _;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use qiang_core::{
    id::{CampaignId, UserId},
    split,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{
    config::{AuthConfig, Secret, check_secret, secret_of},
    http::wire::Text,
};

/// Maximum length of a sealed text.
const BYTES_MAX: usize = 1_024;
/// Context strings that separate the derived keys from other uses of the secret.
const DERIVATION: &[u8] = b"qiang: grab tickets and challenges, version 1";
const SERVER_SEEDS: &[u8] = b"qiang: secrets of red packets, version 1";

/// Purpose of a sealed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SealPurpose {
    /// Permits a claim.
    Ticket,
    /// Must be solved first.
    Challenge,
}

/// User and campaign of a sealed text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer<'a> {
    pub(crate) campaign: CampaignId,
    pub(crate) user: &'a UserId,
}

/// Reason to refuse a sealed text, in the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealFault {
    /// It was not made here, or not for this purpose.
    Invalid,
    /// It is another user's.
    OtherUser,
    /// It is for another campaign.
    OtherCampaign,
    /// It has expired.
    Expired,
}

#[derive(Serialize, Deserialize)]
struct Payload<'a> {
    r#for: SealPurpose,
    campaign: Text<CampaignId>,
    #[serde(borrow)]
    user: Cow<'a, str>,
    /// Expiry in milliseconds.
    exp: i64,
}

/// Seals texts, and verifies them.
pub(crate) struct Sealer {
    texts: hmac::Key,
    server_seeds: hmac::Key,
}

impl Sealer {
    /// Sealer of the configured secret, or of one derived from the secret of bearer tokens; `None` if neither is set.
    ///
    /// # Errors
    /// [`crate::UsageError`] for a secret that can be guessed, or for two secrets; other errors if a file cannot be
    /// read.
    pub(crate) fn new(config: &AuthConfig) -> anyhow::Result<Option<Self>> {
        let own = (&config.ticket_secret, &config.ticket_secret_file);
        let secret = match secret_of(own.0, own.1, "auth.ticket_secret")? {
            Some(secret) => Some(secret),
            None => secret_of(
                &config.hs256_secret,
                &config.hs256_secret_file,
                "auth.hs256_secret",
            )?,
        };
        secret.as_ref().map(Self::derived_from).transpose()
    }

    fn derived_from(secret: &Secret) -> anyhow::Result<Self> {
        let secret = secret.expose().as_bytes();
        check_secret("auth.ticket_secret", secret)?;
        let secret = hmac::Key::new(HMAC_SHA256, secret);
        let key = |purpose| hmac::Key::new(HMAC_SHA256, hmac::sign(&secret, purpose).as_ref());
        Ok(Self {
            texts: key(DERIVATION),
            server_seeds: key(SERVER_SEEDS),
        })
    }

    /// Server seed of a packet. It is derived from the id, so that nodes need not store it.
    pub(crate) fn server_seed_of(&self, packet: CampaignId) -> split::ServerSeed {
        let signed = hmac::sign(&self.server_seeds, packet.uuid().as_bytes());
        let mut seed = [0; 32];
        seed.copy_from_slice(signed.as_ref()); // SHA-256 has 32 bytes
        split::ServerSeed::from_bytes(seed)
    }

    /// Text for that bearer, valid until `exp`.
    pub(crate) fn seal(
        &self,
        purpose: SealPurpose,
        bearer: Bearer<'_>,
        exp: Timestamp,
    ) -> anyhow::Result<String> {
        let payload = Payload {
            r#for: purpose,
            campaign: Text(bearer.campaign),
            user: bearer.user.as_str().into(),
            exp: exp.as_millis(),
        };
        let payload = serde_json::to_vec(&payload).context("write what is sealed")?;
        let mut text = BASE64.encode(payload);
        let signature = hmac::sign(&self.texts, text.as_bytes());
        text.push('.');
        BASE64.encode_string(signature, &mut text);
        Ok(text)
    }

    /// Checks a text of that bearer, and returns its expiry. Signatures are compared in constant time.
    pub(crate) fn check(
        &self,
        purpose: SealPurpose,
        text: &str,
        bearer: Bearer<'_>,
        now: Timestamp,
    ) -> Result<Timestamp, SealFault> {
        let invalid = SealFault::Invalid;
        let (payload, signature) = text
            .rsplit_once('.')
            .filter(|_| text.len() <= BYTES_MAX)
            .ok_or(invalid)?;
        let signature = BASE64.decode(signature).map_err(|_| invalid)?;
        hmac::verify(&self.texts, payload.as_bytes(), &signature).map_err(|_| invalid)?;
        let payload = BASE64.decode(payload).map_err(|_| invalid)?;
        let payload: Payload<'_> = serde_json::from_slice(&payload).map_err(|_| invalid)?;
        if payload.r#for != purpose {
            Err(invalid)
        } else if payload.user != bearer.user.as_str() {
            Err(SealFault::OtherUser)
        } else if payload.campaign.0 != bearer.campaign {
            Err(SealFault::OtherCampaign)
        } else if payload.exp <= now.as_millis() {
            Err(SealFault::Expired)
        } else {
            Ok(Timestamp::from_millis(payload.exp))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn sealer(secret: &str) -> Sealer {
        let config = AuthConfig {
            hs256_secret: Secret::new(secret),
            ..AuthConfig::default()
        };
        Sealer::new(&config).unwrap().unwrap()
    }

    fn campaign(n: u8) -> CampaignId {
        let id = format!("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f8{n}");
        id.parse().unwrap()
    }

    #[test]
    fn a_text_is_good_for_one_user_one_campaign_one_purpose_and_a_while() {
        let (here, there) = (sealer(&"s".repeat(32)), sealer(&"s".repeat(32)));
        let (ann, eve) = (UserId::new("ann").unwrap(), UserId::new("eve").unwrap());
        let bearer = |user, n| Bearer {
            campaign: campaign(n),
            user,
        };
        let exp = NOW.plus_millis(10);
        let text = here
            .seal(SealPurpose::Ticket, bearer(&ann, 1), exp)
            .unwrap();
        let check = |text: &str, purpose, bearer, after_ms, expected: Result<(), SealFault>| {
            let found = there.check(purpose, text, bearer, NOW.plus_millis(after_ms));
            assert_eq!(found, expected.map(|()| exp), "{text}");
        };
        use SealFault::{Expired, Invalid, OtherCampaign, OtherUser};
        use SealPurpose::{Challenge, Ticket};
        check(&text, Ticket, bearer(&ann, 1), 9, Ok(()));
        check(&text, Ticket, bearer(&ann, 1), 10, Err(Expired));
        check(&text, Challenge, bearer(&ann, 1), 0, Err(Invalid));
        check(&text, Ticket, bearer(&eve, 1), 0, Err(OtherUser));
        check(&text, Ticket, bearer(&ann, 2), 0, Err(OtherCampaign));
        for (n, c) in text.char_indices() {
            let other = if c == 'A' { 'B' } else { 'A' };
            let mut forged = text.clone();
            forged.replace_range(n..=n, &other.to_string());
            check(&forged, Ticket, bearer(&ann, 1), 0, Err(Invalid));
        }
        for forged in ["", ".", "e30.", &text[..text.len() - 1], &"a".repeat(5_000)] {
            check(forged, Ticket, bearer(&ann, 1), 0, Err(Invalid));
        }
        let other = sealer(&"t".repeat(32));
        let text = other.seal(Ticket, bearer(&ann, 1), exp).unwrap();
        check(&text, Ticket, bearer(&ann, 1), 0, Err(Invalid));
    }

    #[test]
    fn the_key_comes_from_the_configuration() {
        let config = AuthConfig::default();
        assert!(Sealer::new(&config).unwrap().is_none());
        let short = AuthConfig {
            ticket_secret: Secret::new("short"),
            ..AuthConfig::default()
        };
        assert!(Sealer::new(&short).is_err());
        let own = |hs256: &str| AuthConfig {
            hs256_secret: Secret::new(hs256),
            ticket_secret: Secret::new("t".repeat(32)),
            ..AuthConfig::default()
        };
        let (a, b) = (own(&"a".repeat(32)), own(&"b".repeat(32)));
        let (a, b) = (Sealer::new(&a).unwrap(), Sealer::new(&b).unwrap());
        let ann = UserId::new("ann").unwrap();
        let bearer = Bearer {
            campaign: campaign(1),
            user: &ann,
        };
        let exp = NOW.plus_millis(1);
        let text = a.unwrap().seal(SealPurpose::Ticket, bearer, exp).unwrap();
        let taken = b.unwrap().check(SealPurpose::Ticket, &text, bearer, NOW);
        assert_eq!(taken, Ok(exp));
    }
}
