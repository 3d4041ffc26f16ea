//! Every error that the API can answer, as RFC 9457 problem details. No other file chooses a status for an error.

mod challenge;
mod fields;
mod limited;

use std::borrow::Cow;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use qiang_core::{
    book::Refusal,
    campaign::{AckLevel, CampaignError},
    error::chain,
    id::CampaignId,
    outcome::Outcome,
    ports::{EngineError, LedgerError},
};
use qiang_wire::problem::{Problem, ProblemKind};
use utoipa::IntoResponses;

pub(crate) use self::limited::{Exceeded, LimitHeaders, Policy, RATE_LIMIT};
use crate::http::{
    auth_failure::AuthFailure, request_id::RequestId, request_log::Cause, wire::ToWire as _,
};

/// Seconds after which a client may retry a 503.
const RETRY_AFTER_S: u32 = 1;

/// Status of a type of problem.
pub(crate) trait KindStatus {
    fn status_code(self) -> StatusCode;
}

impl KindStatus for ProblemKind {
    fn status_code(self) -> StatusCode {
        StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Adds the id of the current request.
fn for_request(mut problem: Problem) -> Problem {
    problem.request_id = RequestId::current().map(|id| id.as_str().to_owned());
    problem
}

/// no answer of the engine or the ledger, or `ledger-incomplete`
#[derive(IntoResponses)]
#[response(status = 503)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
pub(crate) struct NoAnswer(Problem);

/// An error that becomes an answer.
#[derive(Debug)]
pub(crate) struct ApiProblem(Box<ProblemContent>);

#[derive(Debug)]
struct ProblemContent {
    body: Problem,
    /// Headers in addition to the content type.
    headers: HeaderMap,
    /// Cause, for the log only.
    cause: Option<String>,
    /// Reason why the caller is unknown.
    auth_failure: Option<AuthFailure>,
}

impl ApiProblem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        let detail = detail.into();
        let body = Problem {
            problem_type: kind.path().to_owned(),
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: (!detail.is_empty()).then(|| detail.into_owned()),
            ..Problem::default()
        };
        let problem = Self(Box::new(ProblemContent {
            body,
            headers: HeaderMap::new(),
            cause: None,
            auth_failure: None,
        }));
        match kind.status_code() {
            StatusCode::SERVICE_UNAVAILABLE => problem.retry_after(RETRY_AFTER_S),
            _ => problem,
        }
    }

    /// Problem of a server error. `cause` is for the log.
    pub(crate) fn internal(cause: impl Into<String>) -> Self {
        Self::from(ProblemKind::Internal).caused_by(cause)
    }

    /// The engine has a campaign that the ledger lacks: the ledger was restored to an earlier moment, or is another
    /// one.
    pub(crate) fn ledger_incomplete(campaign: CampaignId) -> Self {
        let detail =
            "each grant stays granted; repeat the request once the ledger has the campaign again";
        Self::new(ProblemKind::LedgerIncomplete, detail).caused_by(format!(
            "the engine has campaign {campaign}, and the ledger does not"
        ))
    }

    /// A component that a claim needs does not answer, or is not configured. `cause` is for the log.
    pub(crate) fn unavailable(cause: impl Into<String>) -> Self {
        Self::from(ProblemKind::Unavailable).caused_by(cause)
    }

    /// The shop's order check gave no answer. Its state is in the metrics; changes of it are in the log.
    pub(crate) fn order_check_unavailable() -> Self {
        ProblemKind::OrderCheckUnavailable.into()
    }

    /// The service waits for a component that it needs to start.
    pub(crate) fn starting() -> Self {
        let detail = "the service has not started yet";
        Self::new(ProblemKind::Unavailable, detail)
    }

    /// The engine answered a command with the reply to another one.
    pub(crate) fn unexpected_reply() -> Self {
        Self::internal("the engine replied to another command")
    }

    /// Adds a cause for the log.
    pub(crate) fn caused_by(mut self, cause: impl Into<String>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Problem of a malformed request.
    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::BadRequest, detail)
    }

    /// Problem of a request with impossible values.
    pub(crate) fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemKind::Invalid, detail)
    }

    /// Problem of a full queue.
    pub(crate) fn line_full() -> Self {
        Self::from(ProblemKind::QueueFull).retry_after(RETRY_AFTER_S)
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        let headers = &mut self.0.headers;
        headers.insert(header::RETRY_AFTER, seconds.into());
        self
    }

    pub(crate) fn ack_unavailable(asked: AckLevel, offered: &[AckLevel]) -> Self {
        let names: Vec<_> = offered.iter().map(|level| level.name()).collect();
        let detail = format!(
            "`{asked}` is not offered here; choose one of {}",
            names.join(", ")
        );
        let mut problem = Self::new(ProblemKind::AckUnavailable, detail);
        problem.0.body.offered = offered.iter().map(|level| level.to_wire()).collect();
        problem
    }

    /// JSON of the body only.
    pub(crate) fn into_json(self) -> Vec<u8> {
        // A struct of strings and numbers always serialises.
        serde_json::to_vec(&for_request(self.0.body)).unwrap_or_default()
    }

    /// Body as part of a larger answer, and the cause for the log.
    pub(crate) fn into_part(self) -> (Problem, Option<String>) {
        (for_request(self.0.body), self.0.cause)
    }

    /// Body as stored with an idempotency key: without the id of this request.
    pub(crate) fn to_keep(&self) -> serde_json::Value {
        // A struct of texts and numbers always serialises.
        serde_json::to_value(&self.0.body).unwrap_or_default()
    }

    /// Replaces the problem by `uncertain`, for failures after a command may have been carried out.
    pub(crate) fn after_the_command(self) -> Self {
        let cause = self.0.cause.unwrap_or(self.0.body.title);
        Self::from(ProblemKind::Uncertain).caused_by(cause)
    }

    /// Whether nothing was decided, so that the same request may be tried as if it were new.
    pub(crate) fn has_changed_nothing(&self) -> bool {
        [
            ProblemKind::Overloaded,
            ProblemKind::Unavailable,
            ProblemKind::Stopping,
            ProblemKind::NotAdmitted,
        ]
        .into_iter()
        .any(|kind| self.is(kind))
    }

    /// Last word of its type.
    pub(crate) fn slug(&self) -> &str {
        self.0.body.kind()
    }

    pub(crate) fn is(&self, kind: ProblemKind) -> bool {
        self.0.body.problem_type == kind.path()
    }

    pub(crate) fn kind_status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.body.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// Answer to a claim that was not granted. `ms_to_start` is the time until the start, for `not_started`.
pub(crate) fn outcome(outcome: &Outcome, ms_to_start: i64) -> Response {
    let mut problem = match outcome {
        Outcome::SoldOut { remaining: 0 } => return sold_out(),
        Outcome::UnknownCampaign => ProblemKind::UnknownCampaign.into(),
        Outcome::Paused => ProblemKind::Paused.into(),
        Outcome::NotStarted { .. } => {
            let seconds = ms_to_start.max(0).div_euclid(1_000) + 1;
            ApiProblem::from(ProblemKind::NotStarted)
                .retry_after(u32::try_from(seconds).unwrap_or(u32::MAX))
        }
        Outcome::Ended => ProblemKind::Ended.into(),
        Outcome::LimitReached { limit, held } => {
            let detail = format!("a user may have {limit} here, and this one has {held}");
            ApiProblem::new(ProblemKind::LimitReached, detail)
        }
        Outcome::SoldOut { .. } => {
            let detail = "fewer units are left than were claimed";
            ApiProblem::new(ProblemKind::SoldOut, detail)
        }
        Outcome::AlreadyGranted(_) | Outcome::Granted(_) => {
            ApiProblem::internal("a grant was taken for a refusal")
        }
    };
    let body = &mut problem.0.body;
    body.outcome = Some(outcome.name().to_owned());
    match *outcome {
        Outcome::NotStarted { starts_at } => body.starts_at = Some(starts_at.to_wire()),
        Outcome::LimitReached { limit, held } => {
            (body.limit, body.held) = (Some(limit), Some(held))
        }
        Outcome::SoldOut { remaining } => body.remaining = Some(remaining),
        _ => {}
    }
    problem.into_response()
}

/// The most frequent answer under peak load, so it is built from constant text.
fn sold_out() -> Response {
    const FIELDS: &str = concat!(
        r#"{"type":"/problems/sold-out","title":"Sold out","status":409,"#,
        r#""outcome":"sold_out","remaining":0"#,
    );
    let body = match RequestId::current() {
        // An id needs no escapes in JSON.
        Some(id) => [FIELDS, r#","request_id":""#, id.as_str(), r#""}"#].concat(),
        None => [FIELDS, "}"].concat(),
    };
    let content_type = [(header::CONTENT_TYPE, PROBLEM_JSON)];
    (StatusCode::CONFLICT, content_type, Body::from(body)).into_response()
}

pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let status = self.kind_status();
        let ProblemContent {
            body,
            headers,
            cause,
            auth_failure,
        } = *self.0;
        let body = serde_json::to_vec(&for_request(body)).unwrap_or_default();
        let content_type = [(header::CONTENT_TYPE, PROBLEM_JSON)];
        let mut response = (status, content_type, headers, Body::from(body)).into_response();
        if let Some(cause) = cause {
            response.extensions_mut().insert(Cause(cause));
        }
        if let Some(why) = auth_failure {
            RequestId::mark_auth_failure(why);
            response.extensions_mut().insert(why);
        }
        response
    }
}

impl From<ProblemKind> for ApiProblem {
    fn from(kind: ProblemKind) -> Self {
        Self::new(kind, "")
    }
}

impl From<EngineError> for ApiProblem {
    fn from(error: EngineError) -> Self {
        let problem = |kind| Self::new(kind, "");
        // The reason is for operators: the log and /readyz have it.
        match &error {
            EngineError::Overloaded => problem(ProblemKind::Overloaded),
            EngineError::LedgerShareFull => Self::new(
                ProblemKind::Overloaded,
                "too many requests of this campaign or its owner wait for the ledger; nothing was decided, retry",
            ),
            EngineError::ReloadBudgetUsed => Self::new(
                ProblemKind::Overloaded,
                "this campaign is closed and not in memory, and other campaigns that were reloaded in the last \
                 minutes use all memory for that; nothing was decided, retry in some minutes",
            ),
            EngineError::Unavailable { .. } => {
                problem(ProblemKind::Unavailable).caused_by(chain(&error))
            }
            EngineError::Uncertain { .. } => {
                problem(ProblemKind::Uncertain).caused_by(chain(&error))
            }
            EngineError::Stopping => problem(ProblemKind::Stopping),
            EngineError::Refused(refusal) => (*refusal).into(),
            EngineError::NotAdmitted => {
                let detail =
                    "pending claims already cover the remaining stock; nothing was decided, retry";
                Self::new(ProblemKind::NotAdmitted, detail).retry_after(RETRY_AFTER_S)
            }
        }
    }
}

impl From<Refusal> for ApiProblem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::UnknownCampaign => ProblemKind::UnknownCampaign,
            Refusal::UnknownOrder => ProblemKind::NotFound,
            Refusal::NothingAsked => ProblemKind::Invalid,
            Refusal::KeyReused => ProblemKind::KeyReused,
            Refusal::WaitsWithAnother => ProblemKind::AlreadyWaiting,
            Refusal::Phase(_) | Refusal::Rules(CampaignError::HasOpened) => {
                ProblemKind::PhaseConflict
            }
            Refusal::Changed => ProblemKind::PreconditionFailed,
            Refusal::Order(_) | Refusal::TooManyPayments => ProblemKind::OrderConflict,
            // The report is compared with the order's price again.
            Refusal::OrderChanged => ProblemKind::OrderChanged,
            Refusal::TooManyReturns => ProblemKind::TooManyReturns,
            Refusal::AlreadyExtended { .. } => ProblemKind::HoldExtended,
            Refusal::HoldOver => ProblemKind::HoldOver,
            Refusal::ExtensionOutOfRange { .. } => ProblemKind::Invalid,
            Refusal::TooManyExtensions => ProblemKind::TooManyExtensions,
            Refusal::ReturnTooLarge { .. } => ProblemKind::ReturnExceedsOrder,
            Refusal::CancelTooLarge { .. } => ProblemKind::CancellationExceedsOrder,
            Refusal::StockGranted { .. } => ProblemKind::StockGranted,
            Refusal::Rules(_) => ProblemKind::Invalid,
        };
        let problem = Self::new(kind, refusal.to_string());
        match kind {
            ProblemKind::OrderChanged => problem.retry_after(RETRY_AFTER_S),
            _ => problem,
        }
    }
}

impl From<LedgerError> for ApiProblem {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::InsufficientFunds { .. } => {
                Self::new(ProblemKind::InsufficientFunds, error.to_string())
            }
            LedgerError::KeyReused => Self::new(ProblemKind::KeyReused, ""),
            LedgerError::IdUsed => Self::new(ProblemKind::IdUsed, ""),
            LedgerError::ReferenceTaken { ref by } => {
                let mut problem = Self::new(ProblemKind::ReferenceTaken, error.to_string());
                problem.0.body.existing_id = Some(by.clone());
                problem
            }
            LedgerError::ReferenceUsed => Self::new(ProblemKind::ReferenceUsed, ""),
            LedgerError::RefundExceedsDue { .. } => {
                Self::new(ProblemKind::RefundExceedsDue, error.to_string())
            }
            LedgerError::DepositExceeded { .. } => {
                Self::new(ProblemKind::ReversalExceedsDeposit, error.to_string())
            }
            LedgerError::SameUser => Self::invalid_at("#/to", error.to_string()),
            LedgerError::UnknownDeposit | LedgerError::UnknownRefund => {
                Self::new(ProblemKind::NotFound, error.to_string())
            }
            LedgerError::Overflow | LedgerError::AmountOutOfRange => {
                Self::new(ProblemKind::Invalid, error.to_string())
            }
            LedgerError::Unavailable { .. }
            | LedgerError::LogLost { .. }
            | LedgerError::LogGone { .. }
            | LedgerError::StaleRepairAttempt { .. } => {
                Self::new(ProblemKind::Unavailable, "").caused_by(chain(&error))
            }
            LedgerError::Uncertain { .. } => {
                Self::new(ProblemKind::Uncertain, "").caused_by(chain(&error))
            }
            LedgerError::Damaged { .. } => Self::internal(chain(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_distinct() {
        let mut paths: Vec<_> = ProblemKind::ALL.iter().map(|kind| kind.path()).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), ProblemKind::ALL.len());
    }

    #[test]
    fn reasons_for_operators_stay_inside() {
        let reason = "disk /dev/x is full".to_owned();
        for error in [
            EngineError::Unavailable {
                reason: reason.clone(),
            },
            EngineError::Uncertain { reason },
        ] {
            let problem = ApiProblem::from(error);
            assert_eq!(problem.kind_status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(
                !serde_json::to_string(&problem.0.body)
                    .unwrap()
                    .contains("disk")
            );
        }
    }
}
