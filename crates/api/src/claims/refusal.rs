//! The answer to a claim that was refused, and to whoever asks for a ticket in vain.

use axum::response::Response;
use qiang_core::{campaign::CampaignKind, id::CampaignId, outcome::Outcome};

use crate::{
    app::App,
    http::problem::{self, Problem},
};

/// A refusal. What the engine does not know may exist all the same.
pub(crate) async fn refuse(
    app: &App,
    id: CampaignId,
    kind: CampaignKind,
    outcome: &Outcome,
) -> Result<Response, Problem> {
    if let Outcome::UnknownCampaign = outcome {
        let outcome = app.unknown_to_engine(id, kind).await?;
        return Ok(refused(app, &outcome));
    }
    Ok(refused(app, outcome))
}

/// The answer to an outcome that is no grant.
pub(crate) fn refused(app: &App, outcome: &Outcome) -> Response {
    let ms_to_start = match outcome {
        Outcome::NotStarted { starts_at } => starts_at.millis_since(app.ports.engine_clock.now()),
        _ => 0,
    };
    problem::outcome(outcome, ms_to_start)
}
