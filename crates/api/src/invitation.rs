//! Invitations: signed texts that let whoever holds one take part in one campaign until an instant.
//!
//! `expiry.signature`: milliseconds since the Unix epoch, and HMAC-SHA256 over the campaign and the expiry in base64url,
//! by the campaign's own secret.

use std::sync::Arc;

use aws_lc_rs::hmac;
use axum::{Json, extract::State, http::StatusCode};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use qiang_core::{id::CampaignId, time::Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Param,
    problem::{Problem, ProblemBody, ProblemKind},
    wire::When,
};

/// Longer texts are no invitations.
const TEXT_BYTES_MAX: usize = 128;

/// An invitation to a campaign.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Invitation)]
pub(crate) struct InvitationBody {
    /// What a claim shows. Whoever holds it may take part.
    invitation: String,
    /// The first instant at which it is not valid any more: the end of the campaign.
    #[schema(value_type = String, format = DateTime)]
    expires_at: When,
}

/// Signs an invitation. The campaign's owner and operators may. Every invitation lets as many in as hold it.
#[utoipa::path(post, path = "/v1/campaigns/{id}/invitations", tag = "campaigns",
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 201, body = InvitationBody), (status = 403, body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 409, description = "`not-by-invitation`", body = ProblemBody),
        (status = 503, description = "no answer of the engine or the ledger, or `ledger-incomplete`",
            body = ProblemBody)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
) -> Result<(StatusCode, Json<InvitationBody>), Problem> {
    let Some(record) = app.ports.ledger.campaign(id).await? else {
        return Err(app.missing(id).await);
    };
    if record.campaign.owner != caller.user {
        caller.require(Scope::Operate)?;
    }
    let meta = app.meta(id).await?.ok_or(ProblemKind::UnknownCampaign)?;
    let secret = meta.audience.as_deref();
    let secret = secret.and_then(|audience| audience.invitation_secret());
    let secret = secret.ok_or(ProblemKind::NotByInvitation)?;
    let expires_at = meta.window.ends_at();
    let body = InvitationBody {
        invitation: sign(secret, id, expires_at),
        expires_at: When(expires_at),
    };
    Ok((StatusCode::CREATED, Json(body)))
}

pub(crate) fn sign(secret: &[u8], campaign: CampaignId, expires_at: Timestamp) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let expiry = expires_at.as_millis();
    let signature = hmac::sign(&key, signed(campaign, expiry).as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
    format!("{expiry}.{signature}")
}

/// Whether a text is an invitation to this campaign that is valid now. The signature is compared in constant time.
pub(crate) fn verify(secret: &[u8], campaign: CampaignId, text: &str, now: Timestamp) -> bool {
    let parts = (text.len() <= TEXT_BYTES_MAX)
        .then(|| text.split_once('.'))
        .flatten();
    let Some((expiry, signature)) = parts else {
        return false;
    };
    let (Ok(expiry), Ok(signature)) = (
        expiry.parse::<i64>(),
        BASE64_URL_SAFE_NO_PAD.decode(signature),
    ) else {
        return false;
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    now.as_millis() < expiry
        && hmac::verify(&key, signed(campaign, expiry).as_bytes(), &signature).is_ok()
}

fn signed(campaign: CampaignId, expiry: i64) -> String {
    format!("qiang invitation {campaign} {expiry}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_for_its_campaign_and_its_time() {
        let id = |last: u8| {
            let id = format!("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f{last:02x}");
            id.parse::<CampaignId>().unwrap()
        };
        let at = Timestamp::from_millis;
        let secret = [7; 32];
        let good = sign(&secret, id(1), at(1_000));
        let check = |secret: &[u8], campaign, text: &str, now, valid: bool| {
            assert_eq!(verify(secret, campaign, text, at(now)), valid, "{text}");
        };
        check(&secret, id(1), &good, 999, true);
        check(&secret, id(1), &good, 1_000, false);
        check(&secret, id(2), &good, 999, false);
        check(&[8; 32], id(1), &good, 999, false);
        let later = good.replacen("1000", "2000", 1);
        check(&secret, id(1), &later, 999, false);
        for bad in ["", ".", "1000.", "1000", "x.y", &good[..good.len() - 1]] {
            check(&secret, id(1), bad, 999, false);
        }
        check(
            &secret,
            id(1),
            &format!("{good}{}", "A".repeat(200)),
            999,
            false,
        );
    }
}
