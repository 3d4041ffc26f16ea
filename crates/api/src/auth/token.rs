//! Issuer of bearer tokens that the API accepts.

use anyhow::Context as _;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use qiang_core::{id::UserId, time::Timestamp};
use serde::Serialize;

use crate::config::{UsageError, check_secret};

/// Signs tokens with one key.
#[derive(Clone)]
pub struct TokenIssuer {
    key: EncodingKey,
    algorithm: Algorithm,
    kid: Option<String>,
    issuer: Option<String>,
    audience: Option<String>,
    jti: Option<String>,
}

#[derive(Serialize)]
struct IssuedClaims<'a> {
    sub: &'a str,
    scope: &'a str,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jti: Option<&'a str>,
}

impl TokenIssuer {
    /// Issuer with a shared secret, for HS256.
    ///
    /// # Errors
    /// If the secret is short enough to be guessed.
    pub fn from_secret(secret: &[u8]) -> Result<Self, UsageError> {
        check_secret("an HS256 secret", secret)?;
        Ok(Self::new(
            EncodingKey::from_secret(secret),
            Algorithm::HS256,
        ))
    }

    /// Issuer with a private key in PEM: Ed25519, or RSA with RS256.
    ///
    /// # Errors
    /// If it is neither.
    pub fn from_private_key(pem: &[u8]) -> Result<Self, UsageError> {
        let ed25519 = EncodingKey::from_ed_pem(pem).map(|key| Self::new(key, Algorithm::EdDSA));
        ed25519
            .or_else(|_| EncodingKey::from_rsa_pem(pem).map(|key| Self::new(key, Algorithm::RS256)))
            .map_err(|_| UsageError::new("--key must be an Ed25519 or RSA private key in PEM"))
    }

    fn new(key: EncodingKey, algorithm: Algorithm) -> Self {
        Self {
            key,
            algorithm,
            kid: None,
            issuer: None,
            audience: None,
            jti: None,
        }
    }

    /// Sets issuer (`iss`) and audience (`aud`) of the tokens, if given.
    #[must_use]
    pub fn naming(self, issuer: Option<String>, audience: Option<String>) -> Self {
        Self {
            issuer,
            audience,
            ..self
        }
    }

    /// Sets, if given, the key's id (`kid`), which a set of keys requires, and the token's id (`jti`), which allows
    /// to revoke it.
    #[must_use]
    pub fn identifying(self, kid: Option<String>, jti: Option<String>) -> Self {
        Self { kid, jti, ..self }
    }

    /// Token for `user`, valid for `ttl_s` seconds from `now`. `scope` is a list of scope names, separated by spaces.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn issue(
        &self,
        user: &UserId,
        scope: &str,
        now: Timestamp,
        ttl_s: i64,
    ) -> anyhow::Result<String> {
        let iat = now.as_millis() / 1_000;
        let claims = IssuedClaims {
            sub: user.as_str(),
            scope,
            iat,
            exp: iat.saturating_add(ttl_s),
            iss: self.issuer.as_deref(),
            aud: self.audience.as_deref(),
            jti: self.jti.as_deref(),
        };
        let header = Header {
            kid: self.kid.clone(),
            ..Header::new(self.algorithm)
        };
        jsonwebtoken::encode(&header, &claims, &self.key).context("sign the token")
    }
}
