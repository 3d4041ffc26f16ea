//! Server seeds of red packets. The service shows the hash of its seed before the sender sends a client seed.
//!
//! A server seed is derived from the packet's id and a secret of all nodes, so it needs no storage. It is valid while
//! that secret is, and while an id is accepted.

use std::sync::Arc;

use axum::{Json, extract::State};
use qiang_core::{
    id::CampaignId,
    split::{self, ClientSeed, SeedParts, ServerSeed, ServerSeedHash},
};
use qiang_wire::{answers, problem::Problem};

use crate::{
    app::App,
    auth::{Caller, Scope},
    http::{problem::ApiProblem, wire::ToWire as _},
};

/// Commits the service to a server seed of a red packet, before it knows the client seed.
#[utoipa::path(post, path = "/v1/red-packets/server-seeds", tag = "red packets",
    operation_id = "createServerSeed", security(("bearer" = ["send"])),
    responses((status = 200, body = answers::ServerSeed),
        (status = 503, description = "`unavailable`: this service has no secret for server seeds",
            body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<answers::ServerSeed>, ApiProblem> {
    caller.require(Scope::Send)?;
    let made = CampaignId::new(app.fresh_id());
    let id = made.map_err(|error| ApiProblem::internal(error.to_string()))?;
    let server_seed_hash = split::server_seed_hash(id, &server_seed_of(&app, id)?).to_string();
    Ok(Json(answers::ServerSeed {
        id: id.to_wire(),
        server_seed_hash,
    }))
}

fn server_seed_of(app: &App, id: CampaignId) -> Result<ServerSeed, ApiProblem> {
    let verifier = app.verifier.load();
    let none =
        || ApiProblem::unavailable("server seeds need a secret, but auth.ticket_secret is not set");
    Ok(verifier
        .sealer
        .as_ref()
        .ok_or_else(none)?
        .server_seed_of(id))
}

/// Parts of service and sender in the seed; `None` if the sender adds nothing.
pub(crate) fn parts_of(
    app: &App,
    id: Option<CampaignId>,
    hash: Option<ServerSeedHash>,
    client_seed: Option<ClientSeed>,
) -> Result<Option<SeedParts>, ApiProblem> {
    let (hash, client_seed) = match (hash, client_seed) {
        (None, None) => return Ok(None),
        (Some(hash), Some(client_seed)) => (hash, client_seed),
        (None, Some(_)) => {
            let detail = "client_seed needs server_seed_hash: POST /v1/red-packets/server-seeds";
            return Err(ApiProblem::invalid_at("#/server_seed_hash", detail));
        }
        (Some(_), None) => {
            let detail =
                "server_seed_hash needs client_seed: 32 random bytes, as 64 hexadecimal digits";
            return Err(ApiProblem::invalid_at("#/client_seed", detail));
        }
    };
    let Some(id) = id else {
        let detail = "server_seed_hash needs the id that came with it";
        return Err(ApiProblem::invalid_at("#/id", detail));
    };
    let server_seed = server_seed_of(app, id)?;
    if split::server_seed_hash(id, &server_seed) != hash {
        let detail =
            "this is not the hash of a server seed for this id, or no longer: request another";
        return Err(ApiProblem::invalid_at("#/server_seed_hash", detail));
    }
    Ok(Some(SeedParts {
        server_seed,
        client_seed,
    }))
}
