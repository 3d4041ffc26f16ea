//! Commands under idempotency keys: each is carried out at most once, and a retry gets the first answer.
//!
//! The key is bound before the engine is asked, and the answer is kept with it afterwards. If the node dies in between,
//! the key is pending: then only commands act again that have the same effect however often they are made.

use axum::{
    Json,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::ports::{KeyState, KeyUse};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    app::App,
    problem::{PROBLEM_JSON, Problem, ProblemKind},
    request_id::RequestId,
};

/// How a command is treated whose key is bound and has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// It acts: made twice, it has the effect of once, and nothing undoes that effect.
    Acts,
    /// It is refused: a later change might be undone by it.
    Refused,
}

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    status: u16,
    body: Value,
}

impl App {
    /// Carries out a command under its key, and keeps the answer. A key that has an answer gets it again.
    pub(crate) async fn once<B: Serialize>(
        &self,
        used: Option<KeyUse>,
        pending: Pending,
        act: impl Future<Output = Result<B, Problem>> + Send,
    ) -> Result<Response, Problem> {
        let Some(used) = used else {
            return act.await.map(|body| Json(body).into_response());
        };
        let (ledger, id) = (&self.ports.ledger, self.fresh_id());
        match ledger.begin_key(&used, id).await? {
            KeyState::Fresh => {}
            KeyState::Answered(kept) => {
                RequestId::mark_replay();
                return replay(&kept);
            }
            KeyState::Pending(_) if pending == Pending::Refused => {
                return Err(ProblemKind::KeyPending.into());
            }
            KeyState::Pending(_) => RequestId::mark_replay(),
        }
        let (kept, answer) = match act.await {
            Ok(body) => {
                let body = serde_json::to_value(body)
                    .map_err(|error| Problem::internal(error.to_string()))?;
                let kept = Kept {
                    status: StatusCode::OK.as_u16(),
                    body: body.clone(),
                };
                (kept, Ok(Json(body).into_response()))
            }
            Err(problem) if problem.kind_status().is_client_error() => {
                let kept = Kept {
                    status: problem.kind_status().as_u16(),
                    body: problem.to_keep(),
                };
                (kept, Err(problem))
            }
            Err(problem) => {
                if problem.has_changed_nothing()
                    && let Err(error) = ledger.release_key(&used, id).await
                {
                    tracing::warn!(%error, "cannot release an idempotency key, its retry is refused");
                }
                return Err(problem);
            }
        };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        // The command has been decided: its answer is true, kept or not.
        if let Err(error) = ledger.answer_key(&used, id, &text).await {
            tracing::warn!(%error, "cannot keep an answer with its idempotency key");
        }
        answer
    }
}

/// An answer that was kept, as a response.
fn replay(kept: &str) -> Result<Response, Problem> {
    let damaged = |why: String| Problem::internal(format!("a kept answer cannot be read: {why}"));
    let Kept { status, mut body } =
        serde_json::from_str(kept).map_err(|error| damaged(error.to_string()))?;
    let status = StatusCode::from_u16(status).map_err(|error| damaged(error.to_string()))?;
    if status.is_success() {
        return Ok((status, Json(body)).into_response());
    }
    if let Some(id) = RequestId::current() {
        body["request_id"] = id.as_str().into();
    }
    let content_type = [(header::CONTENT_TYPE, PROBLEM_JSON)];
    Ok((status, content_type, Body::from(body.to_string())).into_response())
}
