//! Who asks, and what they may do: bearer tokens (JWT).
//!
//! `sub` is the user, `exp` is required, `scope` is a list of words separated by blanks. The signature is checked by
//! one algorithm, the one that belongs to the key: a token chooses a key by its `kid` at most.

pub(crate) mod callbacks;
mod claims;
mod current;
mod fetched;
mod jwks_url;
mod keys;
mod revoked;
pub(crate) mod seal;
pub(crate) mod session;
mod signature;
pub(crate) mod token;

use std::sync::Arc;

use qiang_core::{id::UserId, time::Timestamp};

pub(crate) use self::current::CurrentVerifier;
use self::{
    claims::{Claims, Rules, Scopes},
    keys::Keys,
    revoked::Revoked,
};
use crate::{
    auth::seal::Sealer,
    config::AuthConfig,
    http::{auth_failure::AuthFailure, problem::Problem},
};

/// A permission that a token carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Claim shares and units.
    Claim = 1,
    /// Send red packets from the own account, and lead them.
    Send = 2,
    /// Put money from outside into accounts, and take such a deposit back.
    Deposit = 4,
    /// Say that payments have arrived, and were paid back.
    Pay = 8,
    /// Open sales of one's own, and lead them.
    CampaignsWrite = 16,
    /// Open sales for others, and lead everybody's campaigns.
    CampaignsWriteAny = 32,
    /// See everybody's orders, accounts, lists and draws.
    ReadAny = 64,
    /// All of these but `claim` and `send`, and what is left.
    Admin = 128,
    /// Pay users out.
    Withdraw = 256,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Send,
        Self::Deposit,
        Self::Withdraw,
        Self::Pay,
        Self::CampaignsWrite,
        Self::CampaignsWriteAny,
        Self::ReadAny,
        Self::Admin,
    ];

    /// Its name in a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Send => "send",
            Self::Deposit => "deposit",
            Self::Withdraw => "withdraw",
            Self::Pay => "pay",
            Self::CampaignsWrite => "campaigns:write",
            Self::CampaignsWriteAny => "campaigns:write:any",
            Self::ReadAny => "read:any",
            Self::Admin => "admin",
        }
    }

    /// The scope that a word of a token stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == word)
    }

    /// The bits of what it allows.
    const fn grants(self) -> u16 {
        use Scope as S;
        match self {
            S::CampaignsWriteAny => S::CampaignsWrite as u16 | self as u16,
            S::Admin => {
                let money = S::Deposit as u16 | S::Withdraw as u16 | S::Pay as u16;
                money | S::CampaignsWriteAny.grants() | S::ReadAny as u16 | self as u16
            }
            _ => self as u16,
        }
    }
}

/// What programs have, which act for many.
const OF_SERVICES: u16 = Scope::Deposit as u16
    | Scope::Withdraw as u16
    | Scope::Pay as u16
    | Scope::CampaignsWriteAny as u16
    | Scope::ReadAny as u16
    | Scope::Admin as u16;

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    /// Until when the token is good.
    pub(crate) expires_at: Timestamp,
    scopes: Scopes,
}

impl Caller {
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.0 & scope as u16 != 0
    }

    /// Whether it is a program, which acts for many.
    pub(crate) fn is_service(&self) -> bool {
        self.scopes.0 & OF_SERVICES != 0
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
pub(crate) struct TokenFault(pub(crate) AuthFailure, pub(crate) &'static str);

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
    fn new(config: &AuthConfig, keys: Keys) -> anyhow::Result<Self> {
        Ok(Self {
            keys: Arc::new(keys),
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
            return Err(TokenFault(AuthFailure::Revoked, "the token was revoked"));
        }
        Ok(Caller {
            expires_at: claims.expires_at(),
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
/// [`UsageError`] when it has none, or more than one, or a weak one; others when a file cannot be read. Nothing is
/// fetched from a URL.
///
/// [`UsageError`]: crate::UsageError
pub fn check_key(config: &AuthConfig) -> anyhow::Result<()> {
    Verifier::new(config, Keys::new(config)?).map(drop)
}
