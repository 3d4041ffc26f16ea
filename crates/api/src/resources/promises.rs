//! What a sender adds to the seed of a red packet, and what the service has promised before.
//!
//! The service's part of the seed follows from the packet's id and a secret that all nodes have: a promise needs no
//! place to be kept, and holds for as long as that secret and the time within which an id is taken.

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

/// What the service promises of a red packet that is to be sent.
#[derive(Serialize, ToSchema)]
#[schema(as = Promise)]
pub(crate) struct PromiseBody {
    /// The `id` to send the packet with, within a day.
    #[schema(value_type = String, format = Uuid)]
    id: Text<CampaignId>,
    /// The SHA-256 over the id and the service's part of the seed, which is shown with the seed.
    promise: String,
}

/// Binds the service to its part of the seed of a red packet, before the sender adds entropy of their own.
#[utoipa::path(post, path = "/v1/red-packets/promises", tag = "red packets",
    operation_id = "promiseRedPacket", security(("bearer" = ["send"])),
    responses((status = 200, body = PromiseBody),
        (status = 503, description = "`unavailable`: this service has no secret to make promises with",
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
    let none = || Problem::unavailable("promises need a secret, and auth.ticket_secret is not set");
    Ok(verifier.sealer.as_ref().ok_or_else(none)?.secret_of(id))
}

/// What service and sender add to the seed; none where the sender adds nothing.
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
            let detail = "entropy shows nothing without a promise: POST /v1/red-packets/promises";
            return Err(Problem::invalid_at("#/promise", detail));
        }
        (Some(_), None) => {
            let detail =
                "a promise is there for entropy: 32 random bytes, as 64 hexadecimal digits";
            return Err(Problem::invalid_at("#/entropy", detail));
        }
    };
    let Some(id) = id else {
        let detail = "a promise is for the id that came with it: send that too";
        return Err(Problem::invalid_at("#/id", detail));
    };
    let secret = secret_of(app, id)?;
    if split::promise(id, &secret) != promise {
        let detail =
            "this service does not make this promise for this id, or not any more: ask for another";
        return Err(Problem::invalid_at("#/promise", detail));
    }
    Ok(Some(Parts { secret, entropy }))
}
