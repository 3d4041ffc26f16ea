//! Authentication and authorisation of callers: bearer tokens (JWT).
//!
//! `sub` is the user, `exp` is required, `scope` is a list of words separated by spaces. Each key has one algorithm,
//! which checks the signature. A token chooses only a key, by its `kid`.

pub(crate) mod callbacks;
mod current;
mod fetched_keys;
mod jwks_url;
mod jwt_claims;
mod keys;
mod revoked_tokens;
pub(crate) mod seal;
pub(crate) mod session;
mod signature;
pub(crate) mod token;

use std::sync::Arc;

use qiang_core::{id::UserId, time::Timestamp};

pub(crate) use self::current::CurrentVerifier;
use self::{
    jwt_claims::{JwtClaimRules, JwtClaims, Scopes},
    keys::VerificationKeys,
    revoked_tokens::RevokedTokens,
};
use crate::{
    auth::seal::Sealer,
    config::AuthConfig,
    http::{auth_failure::AuthFailure, problem::ApiProblem},
};

/// A permission of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Claim shares and units.
    Claim = 1,
    /// Send red packets from the user's own account, and operate them.
    Send = 2,
    /// Record deposits, and reverse them.
    Deposit = 4,
    /// Report payments that arrived, and refunds that were paid.
    Pay = 8,
    /// Open the user's own sales, and operate them.
    CampaignsWrite = 16,
    /// Open sales for other users, and operate all campaigns.
    CampaignsWriteAny = 32,
    /// Read all users' orders, accounts, lists and draws.
    ReadAny = 64,
    /// All scopes except `claim` and `send`, and the operations of operators.
    Admin = 128,
    /// Record withdrawals.
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

    /// Name of the scope in a token.
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

    /// Scope with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == word)
    }

    /// Bits of the scopes that it includes.
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

/// Scopes of services, which act for many users.
const OF_SERVICES: u16 = Scope::Deposit as u16
    | Scope::Withdraw as u16
    | Scope::Pay as u16
    | Scope::CampaignsWriteAny as u16
    | Scope::ReadAny as u16
    | Scope::Admin as u16;

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    /// Time until which the token is valid.
    pub(crate) expires_at: Timestamp,
    scopes: Scopes,
}

impl Caller {
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.0 & scope as u16 != 0
    }

    /// Its scopes, as bits of [`Scope`].
    pub(crate) fn scope_bits(&self) -> u16 {
        self.scopes.0
    }

    /// Whether the caller is a service, which acts for many users.
    pub(crate) fn is_service(&self) -> bool {
        self.scopes.0 & OF_SERVICES != 0
    }

    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiProblem> {
        if self.may(scope) {
            Ok(())
        } else {
            Err(ApiProblem::missing_scope(scope.name()))
        }
    }
}

/// Reason to refuse a token. It never contains any part of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenFault(pub(crate) AuthFailure, pub(crate) &'static str);

/// Checks tokens with the configured keys.
#[derive(Clone)]
pub(crate) struct Verifier {
    keys: Arc<VerificationKeys>,
    rules: Arc<JwtClaimRules>,
    revoked: Arc<RevokedTokens>,
    /// Seals and checks grab tickets; `None` if no secret is configured for it.
    pub(crate) sealer: Option<Arc<Sealer>>,
}

impl Verifier {
    fn new(config: &AuthConfig, keys: VerificationKeys) -> anyhow::Result<Self> {
        Ok(Self {
            keys: Arc::new(keys),
            rules: Arc::new(JwtClaimRules::new(config)),
            revoked: Arc::new(RevokedTokens::read(&config.revoked_file)?),
            sealer: Sealer::new(config)?.map(Arc::new),
        })
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Caller, TokenFault> {
        let payload = self.keys.payload(token)?;
        let claims = JwtClaims::from_payload(&payload)?;
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

    /// Logs which keys and revocations are in use, without secrets.
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
/// [`UsageError`] if it has none, several or a weak one; other errors if a file cannot be read. No URL is fetched.
///
/// [`UsageError`]: crate::UsageError
pub fn check_key(config: &AuthConfig) -> anyhow::Result<()> {
    Verifier::new(config, VerificationKeys::new(config)?).map(drop)
}
