//! Who asks, and what they may do: bearer tokens (JWT).
//!
//! `sub` is the user, `exp` is required, `scope` is a list of words separated by blanks. The signature is checked by
//! one algorithm, the one that belongs to the configured key: a token cannot choose.

use std::{borrow::Cow, sync::Arc};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use qiang_core::{id::UserId, time::Timestamp};
use serde::{Deserialize, Deserializer};

use crate::{
    config::{AuthConfig, SECRET_BYTES_MIN, Secret, UsageError, secret_of},
    problem::Problem,
    seal::Sealer,
    wire::Text,
};

/// A permission that a token carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Claim shares and units.
    Claim = 1,
    /// Send red packets from the own account.
    Send = 2,
    /// Everything else, and everybody's orders and accounts.
    Operate = 4,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Claim, Self::Send, Self::Operate];

    /// Its name in a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Send => "send",
            Self::Operate => "operate",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    scopes: Scopes,
}

impl Caller {
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.0 & scope as u8 != 0
    }

    pub(crate) fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.may(scope) {
            Ok(())
        } else {
            Err(Problem::missing_scope(scope.name()))
        }
    }
}

/// Why a token is refused. Never contains any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenFault(pub(crate) &'static str);

/// Checks tokens against the configured key.
pub(crate) struct Verifier {
    key: DecodingKey,
    algorithm: Algorithm,
    issuer: String,
    audience: String,
    leeway_s: f64,
    /// Makes grab tickets and checks them; none where there is no secret for it.
    pub(crate) sealer: Option<Sealer>,
    /// The last header that was read and found good: issuers write the same one into all their tokens.
    known_header: ArcSwap<String>,
}

impl Verifier {
    pub(crate) fn new(config: &AuthConfig) -> anyhow::Result<Self> {
        let (key, algorithm) = key_of(config)?;
        Ok(Self {
            key,
            algorithm,
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            leeway_s: f64::from(config.leeway_s),
            sealer: Sealer::new(config)?,
            known_header: ArcSwap::default(),
        })
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Caller, TokenFault> {
        const SHAPE: TokenFault = TokenFault("the token is not a JWT");
        let (message, signature) = token.rsplit_once('.').ok_or(SHAPE)?;
        let (header, payload) = message.split_once('.').ok_or(SHAPE)?;
        self.check_header(header, token)?;
        match crypto::verify(signature, message.as_bytes(), &self.key, self.algorithm) {
            Ok(true) => {}
            _ => return Err(TokenFault("the token's signature does not hold")),
        }
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).map_err(|_| SHAPE)?;
        let claims: Claims<'_> = serde_json::from_slice(&payload).map_err(|_| {
            TokenFault("the token needs `sub` (a user id) and `exp`, and `scope` as one text")
        })?;
        self.check_claims(&claims, now)?;
        Ok(Caller {
            user: claims.sub.0,
            scopes: claims.scope,
        })
    }

    fn check_header(&self, encoded: &str, token: &str) -> Result<(), TokenFault> {
        if self.known_header.load().as_str() == encoded {
            return Ok(());
        }
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| TokenFault("the token's header is not readable"))?;
        if header.alg != self.algorithm {
            return Err(TokenFault(
                "the token is signed by another algorithm than the configured key's",
            ));
        }
        self.known_header.store(Arc::new(encoded.to_owned()));
        Ok(())
    }

    fn check_claims(&self, claims: &Claims<'_>, now: Timestamp) -> Result<(), TokenFault> {
        let now_s = now.as_millis() as f64 / 1_000.0;
        if claims.exp + self.leeway_s <= now_s {
            return Err(TokenFault("the token has expired"));
        }
        if claims.nbf.is_some_and(|nbf| nbf - self.leeway_s > now_s) {
            return Err(TokenFault("the token is not valid yet"));
        }
        if !self.issuer.is_empty() && claims.iss.as_deref() != Some(&self.issuer) {
            return Err(TokenFault("the token was issued by somebody else"));
        }
        let meant = match (&claims.aud, self.audience.as_str()) {
            (None, own) => own.is_empty(),
            // RFC 7519, 4.1.3: a token that names its audience is refused by everybody else.
            (Some(_), "") => false,
            (Some(audience), own) => audience.contains(own),
        };
        if !meant {
            return Err(TokenFault("the token is made out to another audience"));
        }
        Ok(())
    }
}

/// Checks that the configuration has a key to check tokens with, before anything is opened.
///
/// # Errors
/// [`UsageError`] when it has none, or more than one; others when a file cannot be read.
pub fn check_key(config: &AuthConfig) -> anyhow::Result<()> {
    Verifier::new(config).map(drop)
}

fn key_of(config: &AuthConfig) -> anyhow::Result<(DecodingKey, Algorithm)> {
    let secret_file = !config.hs256_secret_file.as_os_str().is_empty();
    let public_key = !config.public_key_file.as_os_str().is_empty();
    match (!config.hs256_secret.is_empty(), secret_file, public_key) {
        (true, false, false) => secret_key(config.hs256_secret.expose()),
        (false, true, false) => {
            let none = Secret::default();
            let secret = secret_of(&none, &config.hs256_secret_file, "auth.hs256_secret")?;
            secret_key(secret.unwrap_or_default().expose())
        }
        (false, false, true) => {
            let pem = std::fs::read(&config.public_key_file)
                .with_context(|| format!("auth.public_key_file: read {}", config.public_key_file.display()))?;
            let ed = DecodingKey::from_ed_pem(&pem).map(|key| (key, Algorithm::EdDSA));
            let any = ed.or_else(|_| DecodingKey::from_rsa_pem(&pem).map(|key| (key, Algorithm::RS256)));
            any.map_err(|_| UsageError::new("auth.public_key_file holds no Ed25519 or RSA public key in PEM").into())
        }
        (false, false, false) => Err(UsageError::new(
            "no key to check tokens with: set auth.hs256_secret_file (or hs256_secret, or public_key_file), or try \
             `qiang serve --dev`",
        )
        .into()),
        _ => Err(UsageError::new("set only one of auth.hs256_secret, hs256_secret_file and public_key_file").into()),
    }
}

fn secret_key(secret: &str) -> anyhow::Result<(DecodingKey, Algorithm)> {
    if secret.len() < SECRET_BYTES_MIN {
        let advice = "make one with `openssl rand -hex 32`";
        let text = format!("an HS256 secret has at least {SECRET_BYTES_MIN} bytes: {advice}");
        return Err(UsageError::new(text).into());
    }
    let key = DecodingKey::from_secret(secret.as_bytes());
    Ok((key, Algorithm::HS256))
}

#[derive(Deserialize)]
struct Claims<'a> {
    sub: Text<UserId>,
    exp: f64,
    nbf: Option<f64>,
    #[serde(default)]
    scope: Scopes,
    #[serde(borrow)]
    iss: Option<Cow<'a, str>>,
    aud: Option<Audience>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Scopes(u8);

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let words = text.split_ascii_whitespace();
        let known = words.filter_map(|word| Scope::ALL.iter().find(|scope| scope.name() == word));
        Ok(Self(known.fold(0, |bits, scope| bits | *scope as u8)))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn contains(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}
