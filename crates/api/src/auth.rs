//! Who asks, and what they may do: bearer tokens (JWT).
//!
//! `sub` is the user, `exp` is required, `scope` is a list of words separated by blanks. The signature is checked by
//! one algorithm, the one that belongs to the key: a token chooses a key by its `kid` at most.

mod claims;
mod current;
mod keys;
mod revoked;

use std::sync::Arc;

use qiang_core::{id::UserId, time::Timestamp};

pub(crate) use self::current::CurrentVerifier;
use self::{
    claims::{Claims, Rules, Scopes},
    keys::Keys,
    revoked::Revoked,
};
use crate::{config::AuthConfig, problem::Problem, seal::Sealer};

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

/// Checks tokens against the configured keys.
#[derive(Clone)]
pub(crate) struct Verifier {
    keys: Arc<Keys>,
    rules: Arc<Rules>,
    revoked: Arc<Revoked>,
    /// Makes grab tickets and checks them; none where there is no secret for it.
    pub(crate) sealer: Option<Arc<Sealer>>,
}

impl Verifier {
    pub(crate) fn new(config: &AuthConfig) -> anyhow::Result<Self> {
        Ok(Self {
            keys: Arc::new(Keys::new(config)?),
            rules: Arc::new(Rules::new(config)),
            revoked: Arc::new(Revoked::read(&config.revoked_file)?),
            sealer: Sealer::new(config)?.map(Arc::new),
        })
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Caller, TokenFault> {
        let payload = self.keys.payload(token)?;
        let claims = Claims::of(&payload)?;
        self.rules.check(&claims, now)?;
        if self.revoked.has(&claims.sub.0, claims.jti.as_deref()) {
            return Err(TokenFault("the token was revoked"));
        }
        Ok(Caller {
            user: claims.sub.0,
            scopes: claims.scope,
        })
    }

    /// Says in the log what tokens are checked by, as far as it is no secret.
    fn log(&self) {
        let (kids, revoked) = (self.keys.kids(), self.revoked.len());
        tracing::info!(
            kids,
            revoked,
            "tokens are checked by these keys and this list"
        );
    }
}

/// Checks that the configuration has a key to check tokens with, before anything is opened.
///
/// # Errors
/// [`UsageError`] when it has none, or more than one, or a weak one; others when a file cannot be read.
///
/// [`UsageError`]: crate::UsageError
pub fn check_key(config: &AuthConfig) -> anyhow::Result<()> {
    Verifier::new(config).map(drop)
}
