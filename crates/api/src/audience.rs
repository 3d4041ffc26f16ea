//! Audience of a campaign, and visibility of a packet's draws. `members.rs` checks the audience before a claim
//! reaches an engine.
//!
//! The ledger stores an audience as JSON text with the campaign. It never changes. It holds user ids, a secret that
//! signs invitations, or the hash of a passphrase.

pub(crate) mod passphrase;

use std::collections::HashSet;

use aws_lc_rs::hmac;
use qiang_core::{
    id::{CampaignId, UserId},
    ports::LedgerError,
};
use qiang_wire::words::AudienceKind;
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    audience::passphrase::{Hash, KeptPassphrase, Passphrase, decode, digest, encode},
    http::{
        problem::ApiProblem,
        wire::{Text, words_to_wire},
    },
};

/// Maximum number of users that an audience names.
const USERS_MAX: usize = 5_000;
/// Size in bytes of the secret that signs a campaign's invitations.
const SECRET_BYTES: usize = 32;

/// Audience: exactly one of these.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Audience)]
pub(crate) struct AudienceRequest {
    /// These users only; at most 5000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 5000)]
    users: Option<Vec<Text<UserId>>>,
    /// Users with an invitation of `POST /v1/campaigns/{id}/invitations`.
    invitation: bool,
    /// Users who send this passphrase: 4 to 128 characters, at least 6 if all of them are digits. It is stored as a
    /// hash. Width of characters, blanks at the ends and composed accents make no difference.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "only_that_it_is_there"
    )]
    #[schema(min_length = 4, max_length = 128)]
    pub(crate) passphrase: Option<String>,
}

/// Serialises only the presence of a passphrase. The serialised request enters the stored fingerprint of an idempotency
/// key, from which an attacker could find the passphrase by trial.
fn only_that_it_is_there<S: Serializer>(_: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(true)
}

/// Users who may see the draws of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Draws)]
pub(crate) enum DrawVisibility {
    /// All users with a token.
    #[default]
    Everybody,
    /// Users who have a share, and the sender.
    Grabbers,
    /// The sender.
    Sender,
}

words_to_wire! {
    DrawVisibility => Draws { Everybody, Grabbers, Sender }
}

impl DrawVisibility {
    pub(crate) fn is_everybody(&self) -> bool {
        *self == Self::Everybody
    }
}

/// Credentials of a claim for the audience.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Credentials)]
pub(crate) struct Credentials {
    /// Invitation, for campaigns by invitation.
    pub(crate) invitation: Option<String>,
    /// Passphrase, for campaigns by passphrase.
    pub(crate) passphrase: Option<String>,
}

/// JSON that the ledger stores.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAudience {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    users: Option<HashSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invitation_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passphrase: Option<KeptPassphrase>,
    draws: DrawVisibility,
}

/// Audience of a new campaign.
#[derive(Clone)]
pub(crate) struct NewAudience {
    /// JSON that the ledger stores.
    pub(crate) text: String,
    /// Digest of its passphrase, if it has one.
    passphrase: Option<Hash>,
}

impl NewAudience {
    /// Audience of campaign `id` that already has the digest of its passphrase.
    pub(crate) fn ready(&self, id: CampaignId) -> Result<Audience, LedgerError> {
        let audience = Audience::from_stored(id, &self.text)?;
        if let (Members::Told(passphrase), Some(digest)) = (&audience.members, self.passphrase) {
            passphrase.learn(digest);
        }
        Ok(audience)
    }
}

/// Audience of one campaign, ready for checks.
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) members: Members,
    pub(crate) draws: DrawVisibility,
}

/// Kind of the audience, with its data.
#[derive(Debug)]
pub(crate) enum Members {
    Everybody,
    Users(HashSet<String>),
    Invited(Box<hmac::Key>),
    Told(Passphrase),
}

impl AudienceRequest {
    /// Number of distinct users that it names; `None` if it names none.
    pub(crate) fn named(&self) -> Option<usize> {
        let users = self.users.as_ref()?;
        let users: HashSet<_> = users.iter().map(|user| user.0.as_str()).collect();
        Some(users.len())
    }

    /// Checks that apply to a new audience only. A repetition is answered before them.
    pub(crate) fn check_new(request: Option<&Self>) -> Result<(), ApiProblem> {
        let said = request.and_then(|request| request.passphrase.as_deref());
        said.map_or(Ok(()), passphrase::check_new)
    }

    /// Audience of a new campaign; `None` if all users may take part and see the draws.
    pub(crate) async fn keep(
        request: Option<&Self>,
        draws: DrawVisibility,
    ) -> Result<Option<NewAudience>, ApiProblem> {
        let mut kept = StoredAudience {
            draws,
            ..StoredAudience::default()
        };
        match request {
            None if draws.is_everybody() => return Ok(None),
            None => {}
            Some(Self {
                users: Some(users),
                invitation: false,
                passphrase: None,
            }) => {
                if users.is_empty() || users.len() > USERS_MAX {
                    let detail = "an audience names 1 to 5000 users";
                    return Err(ApiProblem::invalid_at("#/audience/users", detail));
                }
                kept.users = Some(users.iter().map(|user| user.0.to_string()).collect());
            }
            Some(Self {
                users: None,
                invitation: true,
                passphrase: None,
            }) => kept.invitation_secret = Some(encode(&rand::random::<[u8; SECRET_BYTES]>())),
            Some(Self {
                users: None,
                invitation: false,
                passphrase: Some(said),
            }) => kept.passphrase = Some(KeptPassphrase::from_input(said).await?),
            Some(_) => {
                let advice = "an audience is one of `users`, `invitation` and `passphrase`";
                return Err(ApiProblem::invalid_at("#/audience", advice));
            }
        }
        let text = serde_json::to_string(&kept);
        let text = text.map_err(|error| ApiProblem::internal(error.to_string()))?;
        let said = request.and_then(|request| request.passphrase.as_deref());
        let passphrase = said.map(digest);
        Ok(Some(NewAudience { text, passphrase }))
    }
}

impl Audience {
    /// Parses the stored audience of a campaign.
    pub(crate) fn from_stored(id: CampaignId, text: &str) -> Result<Self, LedgerError> {
        let bad = || LedgerError::damaged(format!("the audience of {id} cannot be read"));
        let kept: StoredAudience = serde_json::from_str(text).map_err(|_| bad())?;
        let members = match kept {
            StoredAudience {
                users: Some(users), ..
            } => Members::Users(users),
            StoredAudience {
                invitation_secret: Some(secret),
                ..
            } => {
                let secret = decode(&secret).ok_or_else(bad)?;
                Members::Invited(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
            }
            StoredAudience {
                passphrase: Some(kept),
                ..
            } => Members::Told(Passphrase::from_stored(&kept).ok_or_else(bad)?),
            _ => Members::Everybody,
        };
        let draws = kept.draws;
        Ok(Self { members, draws })
    }

    /// Values of [`kind`](Self::kind).
    /// Kind of the audience; `None` for all users.
    pub(crate) fn kind(&self) -> Option<AudienceKind> {
        match self.members {
            Members::Everybody => None,
            Members::Users(_) => Some(AudienceKind::Users),
            Members::Invited(_) => Some(AudienceKind::Invitation),
            Members::Told(_) => Some(AudienceKind::Passphrase),
        }
    }

    /// Number of users that it names.
    pub(crate) fn named(&self) -> usize {
        match &self.members {
            Members::Users(users) => users.len(),
            _ => 0,
        }
    }

    /// Key that signs invitations; `None` if there are none.
    pub(crate) fn invitation_key(&self) -> Option<&hmac::Key> {
        match &self.members {
            Members::Invited(key) => Some(key),
            _ => None,
        }
    }
}
