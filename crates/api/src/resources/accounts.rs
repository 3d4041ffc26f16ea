//! Accounts: deposits and balances.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use qiang_core::{
    id::{PaymentRef, UserId},
    metadata::MetadataSubject,
    money::{Currency, Money},
    ports::ActionKind,
};
use qiang_wire::{
    answers::{Account, Balance, Deposit},
    paths::encoded,
    problem::Problem,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{self, ObjectRequest, Param},
    http::{
        metadata_bodies::{self, NewMetadata},
        problem::ApiProblem,
        wire::{self, Location, Text, ToWire as _},
    },
    resources::{histories::deposit_body, new_money, operation_log},
};

/// Money from outside.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDeposit)]
pub(crate) struct DepositRequest {
    /// Whole minor units, at least 1.
    #[schema(minimum = 1)]
    amount: i64,
    /// ISO 4217 code.
    #[schema(value_type = String, example = "CNY")]
    currency: Text<Currency>,
    /// The payment service's reference of the deposit, kept forever. The same deposit with it is a replay, at any
    /// time and from any caller; another deposit with it is refused. If two services may use the same references,
    /// prefix them.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// Up to 20 texts of the shop by name. The user does not see them.
    #[serde(default, skip_serializing_if = "NewMetadata::is_empty")]
    #[schema(schema_with = metadata_bodies::new_metadata)]
    metadata: NewMetadata,
}

/// Path of a user's account.
pub(crate) fn account_path(user: &UserId) -> String {
    format!("/v1/accounts/{}", encoded(user.as_str()))
}

/// Records a deposit: money from outside for a user's account.
#[utoipa::path(post, path = "/v1/accounts/{user}/deposits", tag = "accounts", request_body = DepositRequest,
    operation_id = "makeDeposit", security(("bearer" = ["deposit"])),
    params(("user" = String, Path, description = "The owner of the account"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe")),
    responses((status = 201, body = Deposit), (status = 200, description = "Created before", body = Deposit),
        (status = 403, body = Problem),
        (status = 409, description = "`reference-used`: another deposit has it", body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn deposit(
    call: ObjectRequest<UserId>,
    extract::Json(request): extract::Json<DepositRequest>,
) -> Result<(StatusCode, Location, Json<Deposit>), ApiProblem> {
    call.caller.require(Scope::Deposit)?;
    if request.amount < 1 {
        return Err(ApiProblem::invalid_at(
            "#/amount",
            "a deposit is at least 1 minor unit",
        ));
    }
    new_money::check(request.currency.0, "#/currency")?;
    let amount = Money::new(request.amount, request.currency.0);
    let route = "POST /v1/accounts/{user}/deposits";
    let (ledger, id) = (&call.app.ports.ledger, call.app.fresh_id());
    let detail = json!({ "id": id.to_string(), "amount": request.amount, "currency": request.currency,
        "reference": request.reference });
    let action = call.action(ActionKind::Deposit, &detail);
    let (to, by) = ((&call.id, amount), Some(&action));
    let used = call.key_use(route, &request);
    let Text(name) = &request.reference;
    let binding = ledger
        .deposit_named(used.as_ref(), id, to, name, by)
        .await?;
    if binding.fresh {
        operation_log::log(&action);
    }
    let metadata = request.metadata.of(None);
    call.app
        .add_metadata(MetadataSubject::Deposit(binding.id), &call.id, &metadata)
        .await?;
    let made = ledger.deposit_of(binding.id).await?;
    let made =
        made.ok_or_else(|| ApiProblem::internal("the ledger lacks a deposit that it made"))?;
    let body = deposit_body(binding.id, &made);
    let body = call.app.with_deposit_metadata(body, binding.id).await?;
    let status = wire::created(binding.fresh);
    let location = wire::location(status, || {
        format!("{}/deposits/{}", account_path(&call.id), binding.id)
    });
    Ok((status, location, Json(body)))
}

/// Balances of a user.
///
/// Users see their own account. Other accounts need the scope `read:any`.
#[utoipa::path(get, path = "/v1/accounts/{user}", tag = "accounts",
    operation_id = "getAccount", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("user" = String, Path, description = "The owner of the account")),
    responses((status = 200, body = Account), (status = 401, body = Problem),
        (status = 403, body = Problem)))]
pub(crate) async fn account(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(user): Param<UserId>,
) -> Result<Json<Account>, ApiProblem> {
    if caller.user != user {
        caller.require(Scope::ReadAny)?;
    }
    let settled = app.settled().await?;
    let balances = app.ports.ledger.balances(&user).await?;
    let balances = balances.into_iter().map(|balance| Balance {
        available: balance.available.to_wire(),
        refunds_due: Money::new(balance.refunds_due_minor, balance.available.currency).to_wire(),
    });
    Ok(Json(Account {
        user: user.to_wire(),
        balances: balances.collect(),
        settled,
    }))
}
