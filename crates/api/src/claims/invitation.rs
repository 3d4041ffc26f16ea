//! Invitations: signed texts that let their holders take part in one campaign until a given time.
//!
//! `expiry.signature`: milliseconds since the Unix epoch, and HMAC-SHA256 over the campaign and the expiry in
//! base64url, by the campaign's own secret.

use std::sync::Arc;

use aws_lc_rs::hmac;
use axum::{Json, http::StatusCode};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use qiang_core::{id::CampaignId, time::Timestamp};
use qiang_wire::{
    answers::Invitation,
    problem::{Problem, ProblemKind},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    audience::Audience,
    extract::{ObjectRequest, OptionalJson},
    http::{
        problem::{ApiProblem, NoAnswer},
        wire::{Rfc3339, ToWire as _},
    },
};

/// Maximum length of an invitation.
const TEXT_BYTES_MAX: usize = 128;

/// An invitation to sign.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = NewInvitation)]
pub(crate) struct InvitationRequest {
    /// Time from which it is not valid; default: the end of the campaign.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Rfc3339>,
}

/// Signs an invitation.
///
/// An invitation is valid for any number of users, and for this campaign only.
#[utoipa::path(post, path = "/v1/campaigns/{id}/invitations", tag = "campaigns",
    operation_id = "signInvitation", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    request_body = Option<InvitationRequest>,
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 201, body = Invitation), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, description = "`not-by-invitation`", body = Problem),
        (status = 422, description = "It would have expired already", body = Problem), NoAnswer))]
pub(crate) async fn create(
    call: ObjectRequest<CampaignId>,
    OptionalJson(request): OptionalJson<InvitationRequest>,
) -> Result<(StatusCode, Json<Invitation>), ApiProblem> {
    let ObjectRequest {
        app, caller, id, ..
    } = call;
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    app.check_leads(&caller, id).await?;
    let audience = meta.audience.as_deref();
    let key = audience.and_then(Audience::invitation_key);
    let key = key.ok_or(ProblemKind::NotByInvitation)?;
    let expires_at = match request.expires_at {
        Some(expires_at) => expires_at,
        None => Rfc3339(
            app.with_window(id, Arc::clone(&meta))
                .await
                .window
                .ends_at(),
        ),
    };
    if expires_at.0 <= app.ports.clock.now() {
        let detail = "an invitation must expire in the future";
        return Err(ApiProblem::invalid_at("#/expires_at", detail));
    }
    let body = Invitation {
        invitation: sign(key, id, expires_at.0),
        expires_at: expires_at.0.to_wire(),
    };
    Ok((StatusCode::CREATED, Json(body)))
}

fn sign(key: &hmac::Key, campaign: CampaignId, expires_at: Timestamp) -> String {
    let expiry = expires_at.as_millis();
    let signature = hmac::sign(key, signed(campaign, expiry).as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
    format!("{expiry}.{signature}")
}

/// Whether a text is an invitation to this campaign that is valid at `now`. The signature is compared in constant
/// time.
pub(crate) fn verify(key: &hmac::Key, campaign: CampaignId, text: &str, now: Timestamp) -> bool {
    if text.len() > TEXT_BYTES_MAX {
        return false;
    }
    let Some((expiry, signature)) = text.split_once('.') else {
        return false;
    };
    let (Ok(expiry), Ok(signature)) = (
        expiry.parse::<i64>(),
        BASE64_URL_SAFE_NO_PAD.decode(signature),
    ) else {
        return false;
    };
    now.as_millis() < expiry
        && hmac::verify(key, signed(campaign, expiry).as_bytes(), &signature).is_ok()
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
        let key = |byte| hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32]);
        let secret = key(7);
        let good = sign(&secret, id(1), at(1_000));
        let check = |key: &hmac::Key, campaign, text: &str, now, valid: bool| {
            assert_eq!(verify(key, campaign, text, at(now)), valid, "{text}");
        };
        check(&secret, id(1), &good, 999, true);
        check(&secret, id(1), &good, 1_000, false);
        check(&secret, id(2), &good, 999, false);
        check(&key(8), id(1), &good, 999, false);
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
