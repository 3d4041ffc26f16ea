//! Operation log: each change with its actor, recorded in the ledger and logged. Reading it needs the scope
//! `read:any`.

use std::{fmt::Display, sync::Arc};

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::{
    book::{Command, Reply},
    id::{CampaignId, OrderId, UserId},
    ports::{Action, ActionKind, ActionQuery, EngineError, Ledger},
};
use qiang_wire::{answers, lists::ActionList, problem::Problem};
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{ObjectRequest, Params},
    http::{
        paging::{Cursor, ListOrder, PagedList},
        problem::{ApiProblem, NoAnswer},
        request_id::{RequestId, current_trace},
        wire::{Id, Text, ToWire as _},
    },
    resources::{changes::BegunChange, stored_answer::CommandTry},
};

impl App {
    /// Action of a caller in the current request. `detail` is an object.
    pub(crate) fn action(
        &self,
        actor: &UserId,
        kind: ActionKind,
        subject: impl Display,
        detail: &Value,
    ) -> Action {
        let request_id = RequestId::current();
        Action {
            id: self.fresh_id(),
            at: self.ports.clock.now(),
            actor: actor.clone(),
            kind,
            subject: subject.to_string(),
            request_id: request_id.map_or_else(String::new, |id| id.as_str().to_owned()),
            detail: detail.to_string(),
        }
    }
}

impl App {
    /// The recorded action of a subject with this id, if there is one.
    pub(crate) async fn recorded_action(
        &self,
        subject: &str,
        id: Uuid,
    ) -> Result<Option<Action>, ApiProblem> {
        let before = Uuid::from_u128(id.as_u128().saturating_sub(1));
        let next = self.ports.ledger.actions(subject, Some(before), 1);
        Ok(next.await?.pop().filter(|action| action.id == id))
    }

    /// Submits a recorded action to the engine. If the engine refuses it or decides nothing, the record is removed.
    pub(crate) async fn submit_recorded(
        &self,
        action: &Action,
        command: Command,
    ) -> Result<Reply, ApiProblem> {
        let answered = self.ports.engine.submit(command).await;
        if answered
            .as_ref()
            .is_err_and(|error| !matches!(error, EngineError::Uncertain { .. }))
        {
            strike(&*self.ports.ledger, action.id).await;
        }
        Ok(answered?)
    }
}

impl<T: Display> ObjectRequest<T> {
    /// Action on the object of this call.
    pub(crate) fn action(&self, kind: ActionKind, detail: &Value) -> Action {
        self.app.action(&self.caller.user, kind, &self.id, detail)
    }

    /// Like [`action`](Self::action), for a change that has begun: the action has the change's id.
    pub(crate) fn action_begun(
        &self,
        begun: &BegunChange,
        kind: ActionKind,
        detail: &Value,
    ) -> Action {
        Action {
            id: begun.id,
            ..self.action(kind, detail)
        }
    }

    /// Like [`action`](Self::action), for one try of a command: all tries under a key are one action.
    pub(crate) fn action_tried(
        &self,
        begun: &CommandTry,
        kind: ActionKind,
        detail: &Value,
    ) -> Action {
        Action {
            id: begun.id,
            ..self.action(kind, detail)
        }
    }

    /// Action on the object of this call, recorded before the engine is called.
    pub(crate) async fn record(
        &self,
        kind: ActionKind,
        detail: &Value,
    ) -> Result<Action, ApiProblem> {
        let action = self.action(kind, detail);
        self.app.ports.ledger.record(&action).await?;
        Ok(action)
    }
}

/// Removes the record of an action that changed nothing.
pub(crate) async fn strike(ledger: &dyn Ledger, action: Uuid) {
    if let Err(error) = ledger.strike(action).await {
        tracing::warn!(%error, "cannot remove the record of a refused action; the list still has it");
    }
}

/// Logs an action with its actor.
pub(crate) fn log(action: &Action) {
    let trace = current_trace();
    tracing::info!(
        actor = %action.actor,
        action = action.kind.name(),
        subject = action.subject,
        request_id = action.request_id,
        trace_id = trace.map(tracing::field::display),
        "a change was made"
    );
}

/// Filter and page of actions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActionListQuery {
    /// Object of the change: the id of a campaign, order or webhook, or the user who owns the account. `the service`
    /// stands for partitions, quarantine and audits. Default: all objects.
    subject: Option<String>,
    /// Kind of the changes. Not together with `subject`.
    action: Option<String>,
    /// `refused`: payment reports that were refused. Not together with `subject`.
    #[param(inline)]
    outcome: Option<LoggedOutcome>,
    /// `oldest` (the default) or `newest` first. Not together with `subject`.
    #[param(inline)]
    order: Option<ListOrder>,
    /// Actions after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl ActionListQuery {
    /// Refuses filters beside a subject.
    fn check_filters(&self) -> Result<(), ApiProblem> {
        let filters = [
            ("action", self.action.is_some()),
            ("outcome", self.outcome.is_some()),
            ("order", self.order.is_some()),
        ];
        match filters.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                let detail = "it filters the changes of all subjects; give no `subject`";
                Err(ApiProblem::bad_request(detail).in_parameter(name))
            }
            None => Ok(()),
        }
    }

    fn kind(&self) -> Result<Option<ActionKind>, ApiProblem> {
        let unknown = || {
            let names: Vec<_> = ActionKind::ALL.iter().map(|kind| kind.name()).collect();
            let detail = format!("an action is one of {}", names.join(", "));
            ApiProblem::bad_request(detail).in_parameter("action")
        };
        let name = self.action.as_deref();
        name.map(|name| ActionKind::from_name(name).ok_or_else(unknown))
            .transpose()
    }
}

/// Outcome of an action, as a filter.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoggedOutcome {
    /// A refused payment report.
    Refused,
}

/// Field of a stored detail that has the values before a change.
pub(crate) const BEFORE: &str = "before";

const ACTIONS: PagedList = PagedList::new("actions");

fn action_body(action: Action) -> answers::Action {
    let mut detail: Value = serde_json::from_str(&action.detail).unwrap_or_default();
    let before = detail.as_object_mut().and_then(|it| it.remove(BEFORE));
    answers::Action {
        id: action.id.to_wire(),
        at: action.at.to_wire(),
        actor: action.actor.to_string(),
        action: action.kind.to_wire(),
        subject: action.subject,
        request_id: action.request_id,
        detail,
        before,
    }
}

/// Changes with their actors: of one subject, or of all.
#[utoipa::path(get, path = "/v1/operation-log", tag = "actions", params(ActionListQuery),
    operation_id = "listActions", security(("bearer" = ["read:any"])),
    responses((status = 200, body = ActionList), (status = 403, body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<ActionListQuery>,
) -> Result<Response, ApiProblem> {
    caller.require(Scope::ReadAny)?;
    let page = ACTIONS.page::<Id>(list.after.as_ref(), list.limit)?;
    let ledger = &app.ports.ledger;
    let after = page.after.map(|Id(after)| after);
    let mut actions = match &list.subject {
        Some(subject) => {
            list.check_filters()?;
            let mut actions = ledger.actions(subject, after, page.reads()).await?;
            if actions.is_empty()
                && let Some(subject) = as_printed(subject)
            {
                actions = ledger.actions(&subject, after, page.reads()).await?;
            }
            actions
        }
        None => {
            let query = ActionQuery {
                kind: list.kind()?,
                is_refused: list.outcome == Some(LoggedOutcome::Refused),
                newest_first: list.order == Some(ListOrder::Newest),
                after,
                limit: page.reads(),
            };
            ledger.action_log(&query).await?
        }
    };
    let next = page.cut(&mut actions, |action| Id(action.id));
    let actions: Vec<_> = actions.into_iter().map(action_body).collect();
    Ok(page.answer(&uri, actions, next, None))
}

/// Printed form of a campaign's, webhook's or order's id, if it differs from the text.
fn as_printed(subject: &str) -> Option<String> {
    let order = subject.parse::<OrderId>().map(|id| id.to_string());
    let id = order.or_else(|_| subject.parse::<CampaignId>().map(|id| id.to_string()));
    id.ok().filter(|id| id != subject)
}
