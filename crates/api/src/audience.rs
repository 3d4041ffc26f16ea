//! Who may take part in a campaign, and who may see a packet's draws. It is decided here, before an engine is asked.
//!
//! What is kept of it is a JSON text beside the campaign, which never changes: named users, or a secret that
//! invitations are signed with, or the hash of a passphrase.

use std::{
    collections::HashSet,
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, pbkdf2};
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use qiang_core::{
    campaign::CampaignKind,
    id::{CampaignId, UserId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::{
    app::App,
    invitation,
    problem::{Problem, ProblemKind},
    wire::Text,
};

/// Users that a campaign may name.
const USERS_MAX: usize = 5_000;
/// Characters of a passphrase.
const PASSPHRASE_CHARS_MAX: usize = 128;
/// Rounds of PBKDF2: what a guess costs whoever has read the ledger.
const PASSPHRASE_ROUNDS: NonZeroU32 = NonZeroU32::new(50_000).expect("above 0");
/// Guesses that are hashed at a time; others wait.
const GUESSES_MAX: usize = 2;
const SECRET_BYTES: usize = 32;

/// Who may take part: exactly one of these.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Audience)]
pub(crate) struct AudienceRequest {
    /// These users and nobody else; at most 5000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    users: Option<Vec<Text<UserId>>>,
    /// Whoever shows an invitation of `POST /v1/campaigns/{id}/invitations`.
    invitation: bool,
    /// Whoever says this, of at most 128 characters. It is kept as a hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    passphrase: Option<String>,
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
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = Credentials)]
pub(crate) struct Credentials {
    /// For campaigns by invitation: the invitation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invitation: Option<String>,
    /// For campaigns by passphrase: the passphrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passphrase: Option<String>,
}

/// What is kept in the ledger.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    users: Option<HashSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invitation_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    passphrase: Option<KeptPassphrase>,
    #[serde(default)]
    draws: Draws,
}

/// PBKDF2 with HMAC-SHA256.
#[derive(Debug, Serialize, Deserialize)]
struct KeptPassphrase {
    salt: String,
    rounds: NonZeroU32,
    hash: String,
}

/// Who may take part in one campaign, ready to be asked.
#[derive(Debug)]
pub(crate) struct Audience {
    admission: Admission,
    pub(crate) draws: Draws,
}

#[derive(Debug)]
enum Admission {
    Everybody,
    Users(HashSet<String>),
    Invitation(Vec<u8>),
    Passphrase {
        salt: Vec<u8>,
        rounds: NonZeroU32,
        hash: Vec<u8>,
        /// SHA-256 of the passphrase once somebody has said it: the others who say it cost no rounds.
        known: OnceLock<[u8; 32]>,
    },
}

impl AudienceRequest {
    /// The text that is kept for a new campaign; none where it is for everybody, and everybody sees the draws.
    pub(crate) async fn keep(
        request: Option<&Self>,
        draws: Draws,
    ) -> Result<Option<String>, Problem> {
        let mut kept = Kept {
            users: None,
            invitation_secret: None,
            passphrase: None,
            draws,
        };
        match request {
            None if draws == Draws::Everybody => return Ok(None),
            None => {}
            Some(Self {
                users: Some(users),
                invitation: false,
                passphrase: None,
            }) => {
                if users.is_empty() || users.len() > USERS_MAX {
                    return Err(Problem::invalid("an audience names 1 to 5000 users"));
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
            }) => kept.passphrase = Some(keep_passphrase(said).await?),
            Some(_) => {
                let advice = "an audience is one of `users`, `invitation` and `passphrase`";
                return Err(Problem::invalid(advice));
            }
        }
        let text = serde_json::to_string(&kept);
        text.map(Some)
            .map_err(|error| Problem::internal(error.to_string()))
    }
}

async fn keep_passphrase(said: &str) -> Result<KeptPassphrase, Problem> {
    let said = plain(said).to_owned();
    if said.is_empty() || said.chars().count() > PASSPHRASE_CHARS_MAX {
        return Err(Problem::invalid("a passphrase has 1 to 128 characters"));
    }
    let salt: [u8; 16] = rand::random();
    let hash = blocking(move || {
        let mut hash = [0; 32];
        let rounds = PASSPHRASE_ROUNDS;
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds,
            &salt,
            said.as_bytes(),
            &mut hash,
        );
        hash
    });
    Ok(KeptPassphrase {
        salt: encode(&salt),
        rounds: PASSPHRASE_ROUNDS,
        hash: encode(&hash.await?),
    })
}

impl Audience {
    /// Reads what was kept.
    pub(crate) fn of(text: &str) -> Result<Self, Problem> {
        let bad = || Problem::internal("what the ledger keeps of an audience cannot be read");
        let kept: Kept = serde_json::from_str(text).map_err(|_| bad())?;
        let decoded = |text: &str| BASE64_STANDARD_NO_PAD.decode(text).map_err(|_| bad());
        let admission = match kept {
            Kept {
                users: Some(users), ..
            } => Admission::Users(users),
            Kept {
                invitation_secret: Some(secret),
                ..
            } => Admission::Invitation(decoded(&secret)?),
            Kept {
                passphrase: Some(kept),
                ..
            } => Admission::Passphrase {
                salt: decoded(&kept.salt)?,
                rounds: kept.rounds,
                hash: decoded(&kept.hash)?,
                known: OnceLock::new(),
            },
            _ => Admission::Everybody,
        };
        Ok(Self {
            admission,
            draws: kept.draws,
        })
    }

    /// The word for who may take part; none for everybody.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match self.admission {
            Admission::Everybody => None,
            Admission::Users(_) => Some("users"),
            Admission::Invitation(_) => Some("invitation"),
            Admission::Passphrase { .. } => Some("passphrase"),
        }
    }

    /// What invitations are signed with, where there are any.
    pub(crate) fn invitation_secret(&self) -> Option<&[u8]> {
        match &self.admission {
            Admission::Invitation(secret) => Some(secret),
            _ => None,
        }
    }

    /// Refuses who may not take part.
    pub(crate) async fn check(
        self: &Arc<Self>,
        campaign: CampaignId,
        user: &UserId,
        shown: &Credentials,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let (admitted, refusal) = match &self.admission {
            Admission::Everybody => (true, ProblemKind::Forbidden),
            Admission::Users(users) => (users.contains(user.as_str()), ProblemKind::NotNamed),
            Admission::Invitation(secret) => {
                let invitation = shown.invitation.as_deref();
                let valid = |text| invitation::verify(secret, campaign, text, now);
                (
                    invitation.is_some_and(valid),
                    ProblemKind::InvitationInvalid,
                )
            }
            Admission::Passphrase { .. } => {
                let said = shown.passphrase.as_deref().map(plain);
                let said = said.filter(|said| said.chars().count() <= PASSPHRASE_CHARS_MAX);
                let right = match said {
                    Some(said) => self.is_passphrase(said).await?,
                    None => false,
                };
                (right, ProblemKind::PassphraseWrong)
            }
        };
        match admitted {
            true => Ok(()),
            false => Err(refusal.into()),
        }
    }

    async fn is_passphrase(self: &Arc<Self>, said: &str) -> Result<bool, Problem> {
        static GUESSES: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(GUESSES_MAX);
        let digest: [u8; 32] = Sha256::digest(said).into();
        if self.is_known(&digest) {
            return Ok(true);
        }
        let turn = GUESSES.acquire().await;
        let _turn = turn.map_err(|error| Problem::internal(error.to_string()))?;
        if self.is_known(&digest) {
            return Ok(true); // somebody before it in the line has said it
        }
        let (audience, said) = (Arc::clone(self), said.to_owned());
        blocking(move || {
            let Admission::Passphrase {
                salt,
                rounds,
                hash,
                known,
            } = &audience.admission
            else {
                return false;
            };
            let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
            let right = pbkdf2::verify(algorithm, *rounds, salt, said.as_bytes(), hash).is_ok();
            if right {
                known.get_or_init(|| digest);
            }
            right
        })
        .await
    }

    fn is_known(&self, digest: &[u8; 32]) -> bool {
        match &self.admission {
            Admission::Passphrase { known, .. } => known
                .get()
                .is_some_and(|known| verify_slices_are_equal(known, digest).is_ok()),
            _ => false,
        }
    }
}

impl App {
    /// Refuses a claim of somebody whom the campaign is not for. Where nobody can tell, nobody takes part.
    pub(crate) async fn check_audience(
        &self,
        id: CampaignId,
        user: &UserId,
        shown: &Credentials,
    ) -> Result<Known, Problem> {
        let Some(meta) = self.meta(id).await? else {
            // A campaign that an engine has and the ledger does not may be for others.
            return match self.ports.engine.tally(id).await? {
                None => Ok(Known::No),
                Some(_) => Err(Problem::ledger_incomplete(id)),
            };
        };
        if let Some(audience) = &meta.audience {
            let now = self.ports.clock.now();
            audience.check(id, user, shown, now).await?;
        }
        Ok(Known::Yes)
    }

    /// Refuses who may not see a packet's draws.
    pub(crate) async fn may_see_draws(
        &self,
        id: CampaignId,
        user: &UserId,
        operates: bool,
    ) -> Result<bool, Problem> {
        let Some(meta) = self.meta(id).await? else {
            return Err(self.missing(id).await);
        };
        if meta.kind != CampaignKind::RedPacket {
            return Err(ProblemKind::UnknownCampaign.into());
        }
        let draws = meta.audience.map_or(Draws::Everybody, |kept| kept.draws);
        if draws == Draws::Everybody || operates {
            return Ok(true);
        }
        let record = self.ports.ledger.campaign(id).await?;
        if record.is_some_and(|record| record.campaign.owner == *user) {
            return Ok(true);
        }
        Ok(draws == Draws::Grabbers && self.ports.ledger.has_share(id, user).await?)
    }
}

/// Whether the ledger has a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Yes,
    No,
}

/// A passphrase without the blanks at its ends, which people do not see.
fn plain(said: &str) -> &str {
    said.trim()
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD_NO_PAD.encode(bytes)
}

/// Work that takes milliseconds, off the threads that serve others.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(error.to_string()))
}
