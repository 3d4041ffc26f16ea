//! Commands under idempotency keys: each is carried out at most once, and a retry gets the first answer.
//!
//! The key is bound before the engine is asked, and the answer is kept with it afterwards. Both happen apart from the
//! request: a client that disconnects cuts nothing off. If the node dies in between, or the answer is uncertain, the
//! key is pending. A retry then acts again where that has the effect of once;
//! [`crate::resources::changes`] has the commands where it does not.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::ports::{KeyState, KeyUse};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    app::App,
    http::{
        problem::{PROBLEM_JSON, Problem},
        request_id::RequestId,
    },
};

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    status: u16,
    body: Value,
}

impl App {
    /// Carries out a command under its key, and keeps the answer. A key that has an answer gets it again. Made twice,
    /// the command must have the effect of once, and nothing may undo that effect.
    pub(crate) async fn once<B: Serialize + Send + 'static>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        act: impl Future<Output = Result<B, Problem>> + Send + 'static,
    ) -> Result<Response, Problem> {
        let Some(used) = used else {
            return act.await.map(answer);
        };
        let app = Arc::clone(self);
        let run = move |used: KeyUse| async move {
            let id = app.fresh_id();
            match app.ports.ledger.begin_key(&used, id).await? {
                KeyState::Fresh => {}
                KeyState::Answered(kept) => return replay(&kept),
                KeyState::Pending(_) => RequestId::mark_replay(),
            }
            app.keep(&used, id, act.await).await
        };
        self.detached.run(used, run).await
    }

    /// The same for a command whose effect stays for good. `so` is the answer if it has the effect already: then no key
    /// is bound, so that repetition under new keys writes nothing.
    pub(crate) async fn once_for_good<B: Serialize + Send + 'static>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        so: Option<B>,
        act: impl Future<Output = Result<B, Problem>> + Send + 'static,
    ) -> Result<Response, Problem> {
        let Some(so) = so else {
            return self.once(used, act).await;
        };
        let bound = match &used {
            Some(used) => self.ports.ledger.bound_key(used).await?,
            None => None,
        };
        // What was decided at a lower level than the campaign asks for is decided again.
        if bound.is_none() && self.settled().await? {
            return Ok(answer(so));
        }
        self.once(used, act).await
    }

    /// Keeps the answer to a command with its key, and frees the key of one that has changed nothing.
    pub(crate) async fn keep<B: Serialize>(
        &self,
        used: &KeyUse,
        id: Uuid,
        decided: Result<B, Problem>,
    ) -> Result<Response, Problem> {
        let ledger = &self.ports.ledger;
        let (kept, answer) = match decided {
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
                    && let Err(error) = ledger.release_key(used, id).await
                {
                    tracing::warn!(%error, "cannot release an idempotency key, its retry looks for the effect");
                }
                return Err(problem);
            }
        };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        // The command has been decided: its answer is true, kept or not.
        if let Err(error) = ledger.answer_key(used, id, &text).await {
            tracing::warn!(%error, "cannot keep an answer with its idempotency key");
        }
        answer
    }
}

/// The answer to a command that was carried out.
pub(crate) fn answer(body: impl Serialize) -> Response {
    Json(body).into_response()
}

/// An answer that was kept, as a response that says that it is a replay.
pub(crate) fn replay(kept: &str) -> Result<Response, Problem> {
    RequestId::mark_replay();
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
