//! Who may take part in a campaign, and who may see a packet's draws. It is decided before an engine is asked, in
//! `members.rs`.
//!
//! What is kept of it is a JSON text beside the campaign, which never changes: named users, or a secret that
//! invitations are signed with, or the hash of a passphrase.

pub(crate) mod passphrase;

use std::collections::HashSet;

use aws_lc_rs::hmac;
use qiang_core::{
    id::{CampaignId, UserId},
    ports::LedgerError,
};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::{
    audience::passphrase::{Hash, KeptPassphrase, Passphrase, decode, digest, encode},
    http::{problem::Problem, wire::Text},
};

/// Users that a campaign may name.
const USERS_MAX: usize = 5_000;
/// Bytes of the secret that a campaign's invitations are signed with.
const SECRET_BYTES: usize = 32;

/// Who may take part: exactly one of these.
#[derive(Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Audience)]
pub(crate) struct AudienceRequest {
    /// These users and nobody else; at most 5000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 5000)]
    users: Option<Vec<Text<UserId>>>,
    /// Whoever shows an invitation of `POST /v1/campaigns/{id}/invitations`.
    invitation: bool,
    /// Users who say this: 4 to 128 characters, at least 6 if all of them are digits. It is kept as a hash, and
    /// compares as people see it: width of characters, blanks at the ends, and composed accents make no difference.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "only_that_it_is_there"
    )]
    #[schema(min_length = 4, max_length = 128)]
    pub(crate) passphrase: Option<String>,
}

/// Requests are serialised for the fingerprint of their idempotency key, which is kept. A passphrase could be found by
/// trying what gives it.
fn only_that_it_is_there<S: Serializer>(_: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(true)
}

/// Who may see the draws of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Draws {
    /// Everybody with a token.
    #[default]
    Everybody,
    /// Those who have a share, and the sender.
    Grabbers,
    /// The sender.
    Sender,
}

impl Draws {
    pub(crate) fn is_everybody(&self) -> bool {
        *self == Self::Everybody
    }
}

/// What a claim shows of its right to take part.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Credentials)]
pub(crate) struct Credentials {
    /// For campaigns by invitation: the invitation.
    pub(crate) invitation: Option<String>,
    /// For campaigns by passphrase: the passphrase.
    pub(crate) passphrase: Option<String>,
}

/// What is kept in the ledger.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    users: Option<HashSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invitation_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passphrase: Option<KeptPassphrase>,
    draws: Draws,
}

/// The audience of a new campaign.
#[derive(Clone)]
pub(crate) struct NewAudience {
    /// What is kept in the ledger.
    pub(crate) text: String,
    /// By which its passphrase is known, if it has one.
    passphrase: Option<Hash>,
}

impl NewAudience {
    /// The audience, which knows its passphrase.
    pub(crate) fn ready(&self, id: CampaignId) -> Result<Audience, LedgerError> {
        let audience = Audience::of(id, &self.text)?;
        if let (Members::Told(passphrase), Some(digest)) = (&audience.members, self.passphrase) {
            passphrase.learn(digest);
        }
        Ok(audience)
    }
}

/// Who may take part in one campaign, ready to be asked.
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) members: Members,
    pub(crate) draws: Draws,
}

/// Who they are.
#[derive(Debug)]
pub(crate) enum Members {
    Everybody,
    Users(HashSet<String>),
    Invited(Box<hmac::Key>),
    Told(Passphrase),
}

impl AudienceRequest {
    /// How many users it names, each once; none where it names none.
    pub(crate) fn named(&self) -> Option<usize> {
        let users = self.users.as_ref()?;
        let users: HashSet<_> = users.iter().map(|user| user.0.as_str()).collect();
        Some(users.len())
    }

    /// Checks what only a new audience must fulfil: a repetition is answered before.
    pub(crate) fn check_new(request: Option<&Self>) -> Result<(), Problem> {
        let said = request.and_then(|request| request.passphrase.as_deref());
        said.map_or(Ok(()), passphrase::check_new)
    }

    /// The audience of a new campaign; none where it is for everybody, and everybody sees the draws.
    pub(crate) async fn keep(
        request: Option<&Self>,
        draws: Draws,
    ) -> Result<Option<NewAudience>, Problem> {
        let mut kept = Kept {
            draws,
            ..Kept::default()
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
                    return Err(Problem::invalid_at("#/audience/users", detail));
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
            }) => kept.passphrase = Some(KeptPassphrase::of(said).await?),
            Some(_) => {
                let advice = "an audience is one of `users`, `invitation` and `passphrase`";
                return Err(Problem::invalid_at("#/audience", advice));
            }
        }
        let text = serde_json::to_string(&kept);
        let text = text.map_err(|error| Problem::internal(error.to_string()))?;
        let said = request.and_then(|request| request.passphrase.as_deref());
        let passphrase = said.map(digest);
        Ok(Some(NewAudience { text, passphrase }))
    }
}

impl Audience {
    /// Reads what was kept of a campaign.
    pub(crate) fn of(id: CampaignId, text: &str) -> Result<Self, LedgerError> {
        let bad = || LedgerError::damaged(format!("the audience of {id} cannot be read"));
        let kept: Kept = serde_json::from_str(text).map_err(|_| bad())?;
        let members = match kept {
            Kept {
                users: Some(users), ..
            } => Members::Users(users),
            Kept {
                invitation_secret: Some(secret),
                ..
            } => {
                let secret = decode(&secret).ok_or_else(bad)?;
                Members::Invited(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
            }
            Kept {
                passphrase: Some(kept),
                ..
            } => Members::Told(Passphrase::of(&kept).ok_or_else(bad)?),
            _ => Members::Everybody,
        };
        let draws = kept.draws;
        Ok(Self { members, draws })
    }

    /// The words of [`kind`](Self::kind).
    pub(crate) const KINDS: [&str; 3] = ["users", "invitation", "passphrase"];

    /// The word for who may take part; none for everybody.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match self.members {
            Members::Everybody => None,
            Members::Users(_) => Some(Self::KINDS[0]),
            Members::Invited(_) => Some(Self::KINDS[1]),
            Members::Told(_) => Some(Self::KINDS[2]),
        }
    }

    /// How many users it names.
    pub(crate) fn named(&self) -> usize {
        match &self.members {
            Members::Users(users) => users.len(),
            _ => 0,
        }
    }

    /// What invitations are signed with, where there are any.
    pub(crate) fn invitation_key(&self) -> Option<&hmac::Key> {
        match &self.members {
            Members::Invited(key) => Some(key),
            _ => None,
        }
    }
}
