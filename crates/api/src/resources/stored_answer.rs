//! Commands under idempotency keys: each is carried out at most once, and a retry gets the first answer.
//!
//! The key is bound before the engine is called, and the answer is stored with it afterwards. Both happen apart from
//! the request, so a client that disconnects interrupts nothing. If the node dies in between, or the answer is
//! uncertain, the key is pending. A retry then acts again under the id of the first try. The second run has no further
//! effect, because the command's effect is permanent or is recorded under that id. A retry of a command on a partition
//! is refused instead.
//! [`crate::resources::changes`] has the commands that a later change may undo.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use qiang_core::ports::{KeyState, KeyUse};
use qiang_wire::problem::ProblemKind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    app::App,
    http::{
        problem::{ApiProblem, PROBLEM_JSON},
        request_id::{REPLAYED, RequestId},
    },
};

/// Stored form of an answer.
#[derive(Serialize, Deserialize)]
struct StoredAnswer {
    status: u16,
    body: Value,
}

/// One try to carry out a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandTry {
    /// Id that the key is bound to. All tries under a key have the same one.
    pub(crate) id: Uuid,
    /// Whether an earlier try may have carried out the command.
    pub(crate) is_retry: bool,
}

impl CommandTry {
    /// The first try of a command.
    pub(crate) fn first(id: Uuid) -> Self {
        Self {
            id,
            is_retry: false,
        }
    }
}

impl App {
    /// Carries out a command under its key, and stores the answer. A key with an answer gets it again. A second run
    /// of the command must have no further effect, and nothing may undo its effect.
    pub(crate) async fn once<B: Serialize + Send + 'static>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        act: impl Future<Output = Result<B, ApiProblem>> + Send + 'static,
    ) -> Result<Response, ApiProblem> {
        self.once_by_id(used, |_| act).await
    }

    /// Like [`once`](Self::once), for a command whose effect is recorded under the id of its try, or is repeated by it.
    /// So a retry finds whether an earlier try was carried out.
    pub(crate) async fn once_by_id<B, F>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        act: impl FnOnce(CommandTry) -> F + Send + 'static,
    ) -> Result<Response, ApiProblem>
    where
        B: Serialize + Send + 'static,
        F: Future<Output = Result<B, ApiProblem>> + Send + 'static,
    {
        let Some(used) = used else {
            let first = CommandTry::first(self.fresh_id());
            return act(first).await.map(answer);
        };
        let app = Arc::clone(self);
        let run = move |used: KeyUse| async move {
            let first = CommandTry::first(app.fresh_id());
            let begun = match app.ports.ledger.begin_key(&used, first.id).await? {
                KeyState::Fresh => first,
                KeyState::Answered(kept) => return replay(&kept),
                KeyState::Pending(id) => {
                    RequestId::mark_replay();
                    CommandTry { id, is_retry: true }
                }
            };
            // With its own id, a retry that fails does not release the key: the first try may have acted.
            app.keep(&used, first.id, act(begun).await).await
        };
        self.detached.run(used, run).await
    }

    /// Like [`once`](Self::once), for a command whose second run could change a later state, such as a later halt of a
    /// partition. A key without an answer is refused.
    pub(crate) async fn once_only<B: Serialize + Send + 'static>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        act: impl Future<Output = Result<B, ApiProblem>> + Send + 'static,
    ) -> Result<Response, ApiProblem> {
        let run = |begun: CommandTry| async move {
            match begun.is_retry {
                true => Err(ProblemKind::KeyPending.into()),
                false => act.await,
            }
        };
        self.once_by_id(used, run).await
    }

    /// Like [`once`](Self::once), for a command with a permanent effect. `so` is the answer if the effect already
    /// exists: then no key is bound, so that repetitions under new keys write nothing.
    pub(crate) async fn once_for_good<B: Serialize + Send + 'static>(
        self: &Arc<Self>,
        used: Option<KeyUse>,
        so: Option<B>,
        act: impl Future<Output = Result<B, ApiProblem>> + Send + 'static,
    ) -> Result<Response, ApiProblem> {
        let Some(so) = so else {
            return self.once(used, act).await;
        };
        // A decision at a lower acknowledgement level than the campaign's is made again.
        if !self.is_bound(used.as_ref()).await? && self.settled().await? {
            return Ok(answer(so));
        }
        self.once(used, act).await
    }

    /// Whether the request has a key that is bound.
    pub(crate) async fn is_bound(&self, used: Option<&KeyUse>) -> Result<bool, ApiProblem> {
        Ok(match used {
            Some(used) => self.ports.ledger.bound_key(used).await?.is_some(),
            None => false,
        })
    }

    /// Stores the answer to a command with its key, and releases the key of a command that changed nothing.
    pub(crate) async fn keep<B: Serialize>(
        &self,
        used: &KeyUse,
        id: Uuid,
        decided: Result<B, ApiProblem>,
    ) -> Result<Response, ApiProblem> {
        let ledger = &self.ports.ledger;
        let (kept, answer) = match decided {
            Ok(body) => {
                let body = serde_json::to_value(body)
                    .map_err(|error| ApiProblem::internal(error.to_string()))?;
                let kept = StoredAnswer {
                    status: StatusCode::OK.as_u16(),
                    body: body.clone(),
                };
                (kept, Ok(Json(body).into_response()))
            }
            // The next retry checks again.
            Err(problem) if problem.is(ProblemKind::KeyPending) => return Err(problem),
            Err(problem) if problem.kind_status().is_client_error() => {
                let kept = StoredAnswer {
                    status: problem.kind_status().as_u16(),
                    body: problem.to_keep(),
                };
                (kept, Err(problem))
            }
            Err(problem) => {
                if problem.has_changed_nothing()
                    && let Err(error) = ledger.release_key(used, id).await
                {
                    tracing::warn!(%error, "cannot release an idempotency key; its retry checks for the effect");
                }
                return Err(problem);
            }
        };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        // The command has been decided, so its answer is true even if it is not stored.
        if let Err(error) = ledger.answer_key(used, id, &text).await {
            tracing::warn!(%error, "cannot store an answer with its idempotency key");
        }
        answer
    }
}

/// Answer to a command that was carried out.
pub(crate) fn answer(body: impl Serialize) -> Response {
    Json(body).into_response()
}

/// Body of a stored success.
pub(crate) fn kept_body<B: DeserializeOwned>(kept: &str) -> Option<B> {
    let StoredAnswer { status, body } = serde_json::from_str(kept).ok()?;
    let is_success = status == StatusCode::OK.as_u16();
    is_success
        .then(|| serde_json::from_value(body).ok())
        .flatten()
}

/// Response from a stored answer, marked as a replay. A stored refusal is a replay too.
pub(crate) fn replay(kept: &str) -> Result<Response, ApiProblem> {
    let damaged = |why: String| ApiProblem::internal(format!("cannot read a stored answer: {why}"));
    let StoredAnswer { status, mut body } =
        serde_json::from_str(kept).map_err(|error| damaged(error.to_string()))?;
    let status = StatusCode::from_u16(status).map_err(|error| damaged(error.to_string()))?;
    let replayed = (REPLAYED, HeaderValue::from_static("true"));
    if status.is_success() {
        return Ok((status, [replayed], Json(body)).into_response());
    }
    if let Some(id) = RequestId::current() {
        body["request_id"] = id.as_str().into();
    }
    let headers = [(header::CONTENT_TYPE, PROBLEM_JSON), replayed];
    Ok((status, headers, Body::from(body.to_string())).into_response())
}
