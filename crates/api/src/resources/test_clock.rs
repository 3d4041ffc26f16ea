//! The clock of a service for development, which moves forward on request.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use qiang_wire::{
    answers,
    problem::{Problem, ProblemKind},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{self, RequestKey},
    http::{
        problem::{ApiProblem, NoAnswer},
        wire::ToWire as _,
    },
    idempotency::fingerprint::key_use,
    resources::stored_answer::CommandTry,
};

/// Longest step: 30 days.
const SECONDS_MAX: u32 = 30 * 86_400;

/// A step of the clock.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ClockStep)]
pub(crate) struct ClockStep {
    /// Seconds by which the clock moves forward.
    #[schema(minimum = 1, maximum = 2_592_000, example = 3_600)]
    advance_seconds: u32,
}

/// Moves the clock of a service for development forward.
///
/// Holds, windows and retention follow within a second, as if the time had passed. The clock never moves back; a
/// restart with `--dev` keeps it. Tokens expire by it, too. Only `qiang serve --dev` on the embedded engine has such a
/// clock.
#[utoipa::path(post, path = "/v1/test-clock/advance", tag = "operation", request_body = ClockStep,
    operation_id = "advanceTestClock", security(("bearer" = ["admin"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: it moves once")),
    responses((status = 200, body = answers::ClockReading), (status = 403, body = Problem),
        (status = 409, description = "`development-only`; `key-pending`: an earlier request with this key broke off, \
            and 100 other moves followed", body = Problem),
        (status = 422, body = Problem), NoAnswer))]
pub(crate) async fn advance(
    State(app): State<Arc<App>>,
    caller: Caller,
    RequestKey(key): RequestKey,
    extract::Json(step): extract::Json<ClockStep>,
) -> Result<Response, ApiProblem> {
    caller.require(Scope::Admin)?;
    let clock = app.ports.test_clock.clone();
    let clock = clock.ok_or(ProblemKind::DevelopmentOnly)?;
    if !(1..=SECONDS_MAX).contains(&step.advance_seconds) {
        let detail = format!("the clock moves by 1 to {SECONDS_MAX} seconds");
        return Err(ApiProblem::invalid_at("#/advance_seconds", detail));
    }
    let route = "POST /v1/test-clock/advance";
    let used = key.map(|key| key_use(&caller.user, route, &key, "", &step));
    let advance = move |begun: CommandTry| async move {
        if begun.is_retry && !clock.keeps_steps_since(begun.id) {
            return Err(ProblemKind::KeyPending.into());
        }
        let step_ms = i64::from(step.advance_seconds) * 1_000;
        // A step is made once per id.
        let advance = move || clock.advance(begun.id, step_ms);
        let advanced = tokio::task::spawn_blocking(advance).await;
        let advanced = advanced.map_err(|error| ApiProblem::internal(error.to_string()))?;
        let reading = advanced.map_err(ApiProblem::internal)?;
        tracing::warn!(
            advance_seconds = step.advance_seconds,
            "the clock of this service for development was moved"
        );
        Ok(answers::ClockReading {
            now: reading.now.to_wire(),
            advanced_seconds: reading.advanced_ms.unsigned_abs() / 1_000,
        })
    };
    app.once_by_id(used, advance).await
}
