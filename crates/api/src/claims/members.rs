//! Checks whether a user may take part in a campaign, and may see the draws of a packet.

use std::{collections::BTreeSet, sync::Arc};

use axum::{Json, extract::State};
use qiang_core::{
    book::Claim,
    id::{CampaignId, UserId},
};
use qiang_wire::{
    answers::CampaignAudience,
    problem::{Problem, ProblemKind},
};

use crate::{
    app::App,
    audience::{
        Audience, AudienceRequest, Credentials, DrawVisibility, Members, passphrase::Guesser,
    },
    auth::{Caller, Scope},
    cache::campaigns::AnswerFields,
    claims::invitation,
    extract::Param,
    http::{
        client_address::AddressKey,
        problem::{ApiProblem, NoAnswer},
    },
};

/// Audience of a campaign, with the names of users.
///
/// Owners see those of their own campaigns. Other campaigns need the scope `read:any`.
#[utoipa::path(get, path = "/v1/campaigns/{id}/audience", tag = "campaigns",
    operation_id = "getAudience", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = CampaignAudience), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn audience(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
) -> Result<Json<CampaignAudience>, ApiProblem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    if caller.user != meta.owner {
        caller.require(Scope::ReadAny)?;
    }
    let audience = meta.audience.as_deref();
    let users = audience.and_then(|audience| match &audience.members {
        Members::Users(users) => Some(BTreeSet::from_iter(users.iter().cloned())),
        Members::Everybody | Members::Invited(_) | Members::Told(_) => None,
    });
    Ok(Json(CampaignAudience {
        audience: audience.and_then(Audience::kind),
        users: users.map(Vec::from_iter),
    }))
}

impl App {
    /// Refuses a claim of a user outside the audience. Returns the campaign, unless neither the ledger nor the engine
    /// has it. If the audience is unknown, the claim is refused. A replay belongs to a grant that the user has.
    pub(crate) async fn admit(
        &self,
        claim: &Claim,
        shown: &Credentials,
        address: Option<AddressKey>,
        is_replay: bool,
    ) -> Result<Option<Arc<AnswerFields>>, ApiProblem> {
        let (id, user) = (claim.campaign, &claim.user);
        let Some(meta) = self.meta(id).await? else {
            // The audience of a campaign that only the engine has is unknown.
            return match self.engine_has(id).await? {
                false => Ok(None),
                true => Err(ApiProblem::ledger_incomplete(id)),
            };
        };
        let audience = meta.audience.as_deref();
        let Some(audience) = audience.filter(|_| meta.kind == claim.kind) else {
            return Ok(Some(meta));
        };
        let (admitted, refusal) = match &audience.members {
            Members::Everybody => (true, ProblemKind::Forbidden),
            Members::Users(users) => (users.contains(user.as_str()), ProblemKind::NotInAudience),
            Members::Invited(key) => {
                let now = self.ports.clock.now();
                let invitation = shown.invitation.as_deref();
                let is_valid =
                    |at| invitation.is_some_and(|it| invitation::verify(key, id, it, at));
                let valid = is_valid(now) || {
                    // After the end the campaign grants nothing, and users with a grant may still replay it.
                    let window = self.with_window(id, Arc::clone(&meta)).await.window;
                    is_valid(now.min(window.ends_at().plus_millis(-1)))
                };
                (valid, ProblemKind::InvitationInvalid)
            }
            Members::Told(passphrase) => {
                let said = shown.passphrase.as_deref().unwrap_or_default();
                let guesser = Guesser {
                    guesses: &self.guesses,
                    user,
                    address,
                    campaign: id,
                    owner: &meta.owner,
                    is_replay,
                };
                // Boxed, because few claims await it.
                let right = Box::pin(passphrase.is(said, Some(guesser))).await?;
                (right, ProblemKind::PassphraseWrong)
            }
        };
        match admitted {
            true => Ok(Some(meta)),
            false => Err(refusal.into()),
        }
    }

    /// Refuses the repetition of a request under its idempotency key with another passphrase, which the fingerprint
    /// does not cover. It counts as no guess, because the key's owner has chosen the passphrase.
    pub(crate) async fn check_repeated(
        &self,
        id: CampaignId,
        request: Option<&AudienceRequest>,
    ) -> Result<(), ApiProblem> {
        let said = request.and_then(|request| request.passphrase.as_deref());
        let meta = self.meta(id).await?;
        let audience = meta.as_ref().and_then(|meta| meta.audience.as_deref());
        let (Some(said), Some(Members::Told(passphrase))) =
            (said, audience.map(|kept| &kept.members))
        else {
            return Ok(());
        };
        match passphrase.is(said, None).await? {
            true => Ok(()),
            false => Err(ProblemKind::KeyReused.into()),
        }
    }

    /// Whether a caller may see the draws of a packet of this owner.
    pub(crate) async fn may_see_draws(
        &self,
        id: CampaignId,
        owner: &UserId,
        draws: DrawVisibility,
        caller: &Caller,
    ) -> Result<bool, ApiProblem> {
        Ok(match draws {
            DrawVisibility::Everybody => true,
            _ if caller.user == *owner || caller.may(Scope::ReadAny) => true,
            DrawVisibility::Grabbers => self.ports.ledger.has_share(id, &caller.user).await?,
            DrawVisibility::Sender => false,
        })
    }
}
