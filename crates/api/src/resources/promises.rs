//! Promises of the service about the seed of a red packet, made before the sender adds entropy.
//!
//! The service's part of the seed is derived from the packet's id and a secret of all nodes. So promises need no
//! storage. They hold as long as that secret, and as long as an id is accepted.

use std::sync::Arc;

use axum::{Json, extract::State};
use qiang_core::{
    id::CampaignId,
    split::{self, Entropy, Parts, Promise, Secret},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    http::{
        problem::{Problem, ProblemBody},
        wire::Text,
    },
};

/// Promise of the service about a red packet that will be sent.
#[derive(Serialize, ToSchema)]
#[schema(as = Promise)]
pub(crate) struct PromiseBody {
    /// Value of `id` to send the packet with, within a day.
    #[schema(value_type = String, format = Uuid)]
    id: Text<CampaignId>,
    /// SHA-256 over the id and the service's part of the seed, which is shown with the seed.
    promise: String,
}

/// Commits the service to its part of the seed of a red packet, before the sender adds entropy.
#[utoipa::path(post, path = "/v1/red-packets/promises", tag = "red packets",
    operation_id = "promiseRedPacket", security(("bearer" = ["send"])),
    responses((status = 200, body = PromiseBody),
        (status = 503, description = "`unavailable`: this service has no secret for promises",
            body = ProblemBody)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<PromiseBody>, Problem> {
    caller.require(Scope::Send)?;
    let made = CampaignId::new(app.fresh_id());
    let id = made.map_err(|error| Problem::internal(error.to_string()))?;
    let promise = split::promise(id, &secret_of(&app, id)?).to_string();
    Ok(Json(PromiseBody {
        id: Text(id),
        promise,
    }))
}

fn secret_of(app: &App, id: CampaignId) -> Result<Secret, Problem> {
    let verifier = app.verifier.load();
    let none = || Problem::unavailable("promises need a secret, but auth.ticket_secret is not set");
    Ok(verifier.sealer.as_ref().ok_or_else(none)?.secret_of(id))
}

/// Parts of service and sender in the seed; `None` if the sender adds nothing.
pub(crate) fn parts_of(
    app: &App,
    id: Option<CampaignId>,
    promise: Option<Promise>,
    entropy: Option<Entropy>,
) -> Result<Option<Parts>, Problem> {
    let (promise, entropy) = match (promise, entropy) {
        (None, None) => return Ok(None),
        (Some(promise), Some(entropy)) => (promise, entropy),
        (None, Some(_)) => {
            let detail = "entropy needs a promise: POST /v1/red-packets/promises";
            return Err(Problem::invalid_at("#/promise", detail));
        }
        (Some(_), None) => {
            let detail = "a promise needs entropy: 32 random bytes, as 64 hexadecimal digits";
            return Err(Problem::invalid_at("#/entropy", detail));
        }
    };
    let Some(id) = id else {
        let detail = "a promise needs the id that came with it";
        return Err(Problem::invalid_at("#/id", detail));
    };
    let secret = secret_of(app, id)?;
    if split::promise(id, &secret) != promise {
        let detail =
            "this is not a promise of the service for this id, or no longer: request another";
        return Err(Problem::invalid_at("#/promise", detail));
    }
    Ok(Some(Parts { secret, entropy }))
}
