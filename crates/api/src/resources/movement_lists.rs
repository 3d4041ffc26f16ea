//! Lists of deposits, withdrawals and refunds, newest first.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::{
    id::{PaymentRef, UserId},
    ports::{DepositRecord, Movement, MovementKind, MovementPlace, MovementQuery},
};
use qiang_wire::{
    answers::{self, Refund, Withdrawal},
    lists::{DepositList, RefundList, WithdrawalList},
    problem::Problem,
    words::ObjectKind,
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Params,
    http::{
        paging::{Cursor, Page, PagedList, created_range},
        problem::ApiProblem,
        wire::{Rfc3339, Text, ToWire as _},
    },
    resources::histories::deposit_body,
};

const DEPOSITS: PagedList = PagedList::new("deposits");
const WITHDRAWALS: PagedList = PagedList::new("withdrawals");
const REFUNDS: PagedList = PagedList::new("refunds");

/// Filter and page of deposits, withdrawals or refunds.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct MovementListQuery {
    /// Those of this user. Default: all that the caller sees.
    #[param(value_type = Option<String>)]
    user: Option<Text<UserId>>,
    /// Those with this reference of the payment service.
    #[param(value_type = Option<String>)]
    reference: Option<Text<PaymentRef>>,
    /// Those from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Rfc3339>,
    /// Those from before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Rfc3339>,
    /// Those after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A list of movements: its kind, its cursors, and the scope that sees those of all users.
struct MovementList {
    kind: MovementKind,
    pages: &'static PagedList,
    scope: Scope,
}

impl MovementList {
    /// Answers a page.
    async fn answer<W: Serialize>(
        &self,
        app: &App,
        (caller, uri): (&Caller, &Uri),
        list: MovementListQuery,
        body: fn(Movement) -> Option<W>,
    ) -> Result<Response, ApiProblem> {
        let (page, bodies, next) = self.read(app, caller, list, body).await?;
        Ok(page.answer(uri, bodies, next, None))
    }

    /// Reads a page.
    async fn read<W>(
        &self,
        app: &App,
        caller: &Caller,
        list: MovementListQuery,
        body: fn(Movement) -> Option<W>,
    ) -> Result<(Page<'static, MovementPlace>, Vec<W>, Option<MovementPlace>), ApiProblem> {
        let user = caller.lists_user(list.user, self.scope)?;
        let page = self.pages.page(list.after.as_ref(), list.limit)?;
        let query = MovementQuery {
            kind: self.kind,
            user,
            reference: list.reference.map(|it| it.0),
            created: created_range(list.created_after, list.created_before)?,
            after: page.after,
            limit: page.reads(),
        };
        let mut found = app.ports.ledger.movements(&query).await?;
        let next: Option<MovementPlace> = page.cut(&mut found, |it| it.place);
        let bodies: Option<Vec<_>> = found.into_iter().map(body).collect();
        let incomplete =
            || ApiProblem::internal("a row of the ledger has no reference or no order");
        Ok((page, bodies.ok_or_else(incomplete)?, next))
    }
}

/// Deposits, newest first.
///
/// Users see their own. With the scope `deposit` or `read:any` the list has those of all users.
#[utoipa::path(get, path = "/v1/deposits", tag = "accounts", params(MovementListQuery),
    operation_id = "listDeposits", security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["deposit"])),
    responses((status = 200, body = DepositList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: no time is in the range", body = Problem)))]
pub(crate) async fn deposits(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<MovementListQuery>,
) -> Result<Response, ApiProblem> {
    let deposits = MovementList {
        kind: MovementKind::Deposit,
        pages: &DEPOSITS,
        scope: Scope::Deposit,
    };
    let body = |it: Movement| {
        let id = it.deposit?;
        let deposit = DepositRecord {
            user: it.user,
            amount: it.amount,
            at: it.place.at,
            reference: it.reference,
            reversed_minor: it.reversed_minor,
        };
        Some((id, deposit_body(id, &deposit)))
    };
    let (page, found, next) = deposits.read(&app, &caller, list, body).await?;
    let (ids, mut bodies): (Vec<Uuid>, Vec<answers::Deposit>) = found.into_iter().unzip();
    if caller.may(Scope::Deposit) || caller.may(Scope::ReadAny) {
        let metadata = app.deposit_metadata(&ids).await?;
        for (body, metadata) in bodies.iter_mut().zip(metadata) {
            body.metadata = metadata;
        }
    }
    Ok(page.answer(&uri, bodies, next, None))
}

/// Withdrawals, newest first.
///
/// Users see their own. With the scope `withdraw` or `read:any` the list has those of all users.
#[utoipa::path(get, path = "/v1/withdrawals", tag = "accounts", params(MovementListQuery),
    operation_id = "listWithdrawals",
    security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["withdraw"])),
    responses((status = 200, body = WithdrawalList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: no time is in the range", body = Problem)))]
pub(crate) async fn withdrawals(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<MovementListQuery>,
) -> Result<Response, ApiProblem> {
    let withdrawals = MovementList {
        kind: MovementKind::Withdrawal,
        pages: &WITHDRAWALS,
        scope: Scope::Withdraw,
    };
    let body = |it: Movement| {
        Some(Withdrawal {
            reference: it.reference?.to_string(),
            object: ObjectKind::Withdrawal,
            user: it.user.to_wire(),
            amount: it.amount.to_wire(),
            created_at: it.place.at.to_wire(),
        })
    };
    withdrawals.answer(&app, (&caller, &uri), list, body).await
}

/// Refunds that were paid, newest first.
///
/// Buyers see their own. With the scope `pay` or `read:any` the list has those of all users.
#[utoipa::path(get, path = "/v1/refunds", tag = "orders", params(MovementListQuery),
    operation_id = "listRefunds", security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["pay"])),
    responses((status = 200, body = RefundList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: no time is in the range", body = Problem)))]
pub(crate) async fn refunds(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<MovementListQuery>,
) -> Result<Response, ApiProblem> {
    let refunds = MovementList {
        kind: MovementKind::Refund,
        pages: &REFUNDS,
        scope: Scope::Pay,
    };
    let body = |it: Movement| {
        Some(Refund {
            reference: it.reference?.to_string(),
            object: ObjectKind::Refund,
            order: it.order?.to_wire(),
            user: it.user.to_wire(),
            amount: it.amount.to_wire(),
            created_at: it.place.at.to_wire(),
            reversed: it.reversed_minor > 0,
        })
    };
    refunds.answer(&app, (&caller, &uri), list, body).await
}
