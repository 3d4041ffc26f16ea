//! CPU profile of the process, from samples of its threads' stacks.

use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};
use qiang_wire::problem::ProblemKind;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::{extract::Params, http::problem::ApiProblem};

#[cfg(feature = "profiles")]
mod stacks;

#[cfg(not(feature = "profiles"))]
mod stacks {
    use super::{ApiProblem, ProblemKind};

    pub(crate) async fn sample(_seconds: u64) -> Result<String, ApiProblem> {
        let detail = "this program was built without profiles: build it with `--features profiles`";
        Err(ApiProblem::new(ProblemKind::NotFound, detail))
    }
}

const SECONDS: u64 = 10;
const SECONDS_MAX: u64 = 60;
/// Longest duration of a profile: sampling, and resolving symbols.
pub(crate) const TAKES_MS_MAX: u64 = (SECONDS_MAX + 30) * 1_000;

/// A process has one timer for samples.
static TURN: Semaphore = Semaphore::const_new(1);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileQuery {
    seconds: Option<u64>,
}

/// Samples the process for `seconds` (1 to 60; default 10). Each line has one stack: the thread and its functions
/// from the outermost inwards, separated by `;`, a space, and the number of samples.
pub(crate) async fn take(Params(query): Params<ProfileQuery>) -> Result<Response, ApiProblem> {
    let seconds = query.seconds.unwrap_or(SECONDS);
    if !(1..=SECONDS_MAX).contains(&seconds) {
        let detail = format!("`seconds` must be 1 to {SECONDS_MAX}");
        return Err(ApiProblem::new(ProblemKind::BadRequest, detail));
    }
    let Ok(_turn) = TURN.try_acquire() else {
        let detail = "another profile is running";
        return Err(ApiProblem::new(ProblemKind::Overloaded, detail));
    };
    let text = stacks::sample(seconds).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}
