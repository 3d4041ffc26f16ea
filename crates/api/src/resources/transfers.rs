//! Money that an operator moves from one user's account to another's.

use axum::{Json, http::StatusCode};
use qiang_core::{
    id::{PaymentRef, UserId},
    money::{Currency, Money},
    ports::Payout,
};
use qiang_wire::{answers, problem::Problem, words::ObjectKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    auth::Scope,
    extract::{self, ObjectRequest},
    http::{
        problem::ApiProblem,
        wire::{self, Location, Text, ToWire as _},
    },
    resources::{accounts::account_path, refunds::check_amount},
};

/// Money to move to another user.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewTransfer)]
pub(crate) struct TransferRequest {
    /// Your reference of the transfer. The same transfer with it is a replay; another one with it is refused.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// The user who gets the money.
    #[schema(value_type = String)]
    to: Text<UserId>,
    /// Whole minor units, at least 1, at most the user's available balance.
    #[schema(minimum = 1)]
    amount: i64,
    /// ISO 4217 code.
    #[schema(value_type = String, example = "CNY")]
    currency: Text<Currency>,
}

/// Moves available money from one user's account to another's, such as that of a seller who has left.
///
/// Both users see the posting `transfer` in their accounts. Refunds that are due do not move. Later payments and
/// returns of the first user's campaigns still change the first account, and returns may overdraw it. The reference
/// makes repetition safe.
#[utoipa::path(post, path = "/v1/accounts/{user}/transfers", tag = "accounts", request_body = TransferRequest,
    operation_id = "makeTransfer", security(("bearer" = ["admin"])),
    params(("user" = String, Path, description = "The user who has the money")),
    responses((status = 201, body = answers::Transfer),
        (status = 200, description = "Posted before", body = answers::Transfer), (status = 403, body = Problem),
        (status = 409, description = "`insufficient-funds`: the account holds less; `reference-used`: another \
         transfer has it", body = Problem),
        (status = 422, description = "`invalid`: no money, or to the same user; `key-reused`", body = Problem)))]
pub(crate) async fn make(
    call: ObjectRequest<UserId>,
    extract::Json(request): extract::Json<TransferRequest>,
) -> Result<(StatusCode, Location, Json<answers::Transfer>), ApiProblem> {
    call.caller.require(Scope::Admin)?;
    check_amount(request.amount, "#/amount")?;
    let used = call.key_use("POST /v1/accounts/{user}/transfers", &request);
    let (app, user, to) = (&call.app, &call.id, request.to.0);
    let reference = request.reference.0;
    let transfer = Payout::Transfer {
        user: user.clone(),
        to: to.clone(),
        reference: reference.clone(),
        amount: Money::new(request.amount, request.currency.0),
    };
    let posted = app.pay_out(used, transfer, &call.caller.user).await?;
    let status = wire::created(posted.fresh);
    let location = wire::location(status, || account_path(user));
    let body = answers::Transfer {
        reference: reference.to_string(),
        object: ObjectKind::Transfer,
        user: user.to_wire(),
        to: to.to_wire(),
        amount: posted.amount.to_wire(),
        created_at: posted.at.to_wire(),
    };
    Ok((status, location, Json(body)))
}
