//! Answers to refused claims and ticket requests.

use axum::response::Response;
use qiang_core::{campaign::CampaignKind, id::CampaignId, outcome::Outcome};

use crate::{
    app::App,
    http::problem::{self, ApiProblem},
};

/// Answer to a refusal. A campaign that the engine does not know may still exist.
pub(crate) async fn refuse(
    app: &App,
    id: CampaignId,
    kind: CampaignKind,
    outcome: &Outcome,
) -> Result<Response, ApiProblem> {
    if let Outcome::UnknownCampaign = outcome {
        let outcome = app.unknown_to_engine(id, kind).await?;
        return Ok(refused(app, &outcome));
    }
    Ok(refused(app, outcome))
}

/// Answer to an outcome that is not a grant.
pub(crate) fn refused(app: &App, outcome: &Outcome) -> Response {
    let ms_to_start = match outcome {
        Outcome::NotStarted { starts_at } => starts_at.millis_since(app.ports.engine_clock.now()),
        _ => 0,
    };
    problem::outcome(outcome, ms_to_start)
}
