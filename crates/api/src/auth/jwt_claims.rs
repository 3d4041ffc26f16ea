//! Claims of a token, and their checks.

use std::borrow::Cow;

use qiang_core::{id::UserId, time::Timestamp};
use serde::{Deserialize, Deserializer};

use super::{Scope, TokenFault};
use crate::{
    config::AuthConfig,
    http::{auth_failure::AuthFailure, wire::Text},
};

#[derive(Deserialize)]
pub(super) struct JwtClaims<'a> {
    pub(super) sub: Text<UserId>,
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    #[serde(default)]
    pub(super) scope: Scopes,
    #[serde(borrow)]
    iss: Option<Cow<'a, str>>,
    aud: Option<JwtAudience>,
    #[serde(borrow)]
    pub(super) jti: Option<Cow<'a, str>>,
}

impl<'a> JwtClaims<'a> {
    pub(super) fn from_payload(payload: &'a [u8]) -> Result<Self, TokenFault> {
        serde_json::from_slice(payload).map_err(|_| {
            TokenFault(
                AuthFailure::Malformed,
                "the token needs `sub` (a user id) and `exp`; times are numbers, `scope` and `jti` one text",
            )
        })
    }

    /// Time from which the token is no longer accepted.
    pub(super) fn expires_at(&self) -> Timestamp {
        // `as` saturates.
        Timestamp::from_millis((self.exp * 1_000.0) as i64)
    }
}

/// Rules for claims.
#[derive(Debug)]
pub(super) struct JwtClaimRules {
    issuer: String,
    audience: String,
    leeway_s: f64,
    require_iat: bool,
    /// `None` for no limit.
    lifetime_s_max: Option<f64>,
}

impl JwtClaimRules {
    pub(super) fn new(config: &AuthConfig) -> Self {
        let bound = Some(config.lifetime_s_max).filter(|bound| *bound > 0);
        Self {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            leeway_s: f64::from(config.leeway_s),
            require_iat: config.require_iat,
            lifetime_s_max: bound.map(f64::from),
        }
    }

    pub(super) fn check(&self, claims: &JwtClaims<'_>, now: Timestamp) -> Result<(), TokenFault> {
        let now_s = now.as_millis() as f64 / 1_000.0;
        let times = [Some(claims.exp), claims.nbf, claims.iat];
        if times
            .into_iter()
            .flatten()
            .any(|time| are_millis(time, now))
        {
            return Err(TokenFault(
                AuthFailure::Malformed,
                "`exp`, `nbf` and `iat` are seconds since 1970, and one of them looks like milliseconds",
            ));
        }
        if claims.exp + self.leeway_s <= now_s {
            return Err(TokenFault(AuthFailure::Expired, "the token has expired"));
        }
        if claims.nbf.is_some_and(|nbf| nbf - self.leeway_s > now_s) {
            return Err(TokenFault(AuthFailure::Early, "the token is not valid yet"));
        }
        self.check_lifetime(claims, now_s)?;
        if !self.issuer.is_empty() && claims.iss.as_deref() != Some(&self.issuer) {
            return Err(TokenFault(
                AuthFailure::Issuer,
                "the token was issued by another issuer",
            ));
        }
        let meant = match (&claims.aud, self.audience.as_str()) {
            (None, own) => own.is_empty(),
            // RFC 7519, 4.1.3: a service refuses a token whose audience does not name it.
            (Some(_), "") => false,
            (Some(audience), own) => audience.contains(own),
        };
        if !meant {
            return Err(TokenFault(
                AuthFailure::Audience,
                "the token is for another audience",
            ));
        }
        Ok(())
    }

    /// Checks issue time and lifetime. A token without `iat` counts as issued now.
    fn check_lifetime(&self, claims: &JwtClaims<'_>, now_s: f64) -> Result<(), TokenFault> {
        let latest = now_s + self.leeway_s;
        let issued = match claims.iat {
            Some(iat) if iat > latest => {
                return Err(TokenFault(
                    AuthFailure::Early,
                    "the token was issued in the future",
                ));
            }
            Some(iat) => iat,
            None if self.require_iat => {
                return Err(TokenFault(AuthFailure::Lifetime, "the token needs `iat`"));
            }
            None => latest,
        };
        match self.lifetime_s_max {
            Some(bound) if claims.exp - issued > bound => Err(TokenFault(
                AuthFailure::Lifetime,
                "the token lasts longer than is allowed here",
            )),
            _ => Ok(()),
        }
    }
}

/// Whether a value that should be in seconds looks like milliseconds within ten years of now.
fn are_millis(seconds: f64, now: Timestamp) -> bool {
    const TEN_YEARS_MS: f64 = 10.0 * 365.0 * 86_400_000.0;
    (seconds - now.as_millis() as f64).abs() < TEN_YEARS_MS
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scopes(pub(super) u16);

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let words = text.split_ascii_whitespace();
        let known = words.filter_map(Scope::from_word);
        Ok(Self(known.fold(0, |bits, scope| bits | scope.grants())))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JwtAudience {
    One(String),
    Many(Vec<String>),
}

impl JwtAudience {
    fn contains(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}
