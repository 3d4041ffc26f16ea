//! Money that leaves: refunds of orders, withdrawals and reversals of deposits.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, Uri},
    response::Response,
};
use qiang_core::{
    campaign::CampaignKind,
    id::{OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    ports::{
        Action, ActionKind, KeyUse, LedgerError, MovementKind, MovementQuery, Payout,
        PayoutReceipt, RefundBalance, RefundBalanceQuery, RefundDueOrder, ReversalPart, TimeRange,
    },
};
use qiang_wire::{
    answers::{self, OwedMoney, OwedOrder},
    lists::OwedOrderList,
    problem::{Problem, ProblemKind},
    words::ObjectKind,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{self, ObjectRequest, OptionalJson, Param, Params, RequestKey, TwoParams},
    http::{
        paging::{Cursor, Page, PagedList},
        problem::{ApiProblem, NoAnswer},
        wire::{self, Id, Location, MoneyBody, Text, ToWire as _},
    },
    idempotency::fingerprint::{effect_key, key_use},
    resources::{accounts::account_path, lists, operation_log},
};

/// A refund that was paid to the buyer of an order.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRefund)]
pub(crate) struct RefundRequest {
    /// The payment service's reference of the refund. The same refund with it is a replay; another refund with it is
    /// refused.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// Amount: at least 1 minor unit, at most what is still due for the order in this currency.
    amount: MoneyBody,
}

fn owed_money(owed: &RefundBalance) -> OwedMoney {
    OwedMoney {
        due: owed.due.to_wire(),
        refunded: Money::new(owed.refunded_minor, owed.due.currency).to_wire(),
    }
}

/// Filter and page of orders with a refund due.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RefundsDueQuery {
    /// Orders of sales of this seller. Default: the caller; another seller needs the scope `read:any`.
    #[param(value_type = Option<String>)]
    owner: Option<Text<UserId>>,
    /// Orders of all sellers' sales; needs the scope `read:any`.
    #[serde(default)]
    all: bool,
    /// Orders after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many orders, each with all its currencies; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

const OWED_ORDERS: PagedList = PagedList::new("refunds_due");

fn owed_order(RefundDueOrder { order, owed }: RefundDueOrder) -> OwedOrder {
    OwedOrder {
        order: order.to_wire(),
        user: owed.user.to_wire(),
        due: owed.due.to_wire(),
        refunded: Money::new(owed.refunded_minor, owed.due.currency).to_wire(),
        outstanding: owed.outstanding().to_wire(),
    }
}

/// A withdrawal from a user's account.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWithdrawal)]
pub(crate) struct WithdrawalRequest {
    /// The payment service's reference of the withdrawal. The same withdrawal with it is a replay; another one with
    /// it is refused.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// Whole minor units, at least 1, at most the user's available balance.
    #[schema(minimum = 1)]
    amount: i64,
    /// ISO 4217 code.
    #[schema(value_type = String, example = "CNY")]
    currency: Text<Currency>,
}

/// Amount of a deposit to reverse.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewReversal)]
pub(crate) struct ReversalRequest {
    /// At least 1 minor unit, at most what is not reversed yet, in the deposit's currency. Default: all of that. A
    /// request with an amount needs an `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    amount: Option<MoneyBody>,
}

impl App {
    /// Refuses the reference of a reversed refund: under it, no other refund is ever recorded. A fresh one is not
    /// reversed.
    pub(crate) async fn refuse_reversed_refund(
        &self,
        reference: &PaymentRef,
        is_fresh: bool,
    ) -> Result<(), ApiProblem> {
        if is_fresh {
            return Ok(());
        }
        let query = MovementQuery {
            kind: MovementKind::Refund,
            user: None,
            reference: Some(reference.clone()),
            created: TimeRange::default(),
            after: None,
            limit: 1,
        };
        let found = self.ports.ledger.movements(&query).await?;
        if found.iter().all(|refund| refund.reversed_minor == 0) {
            return Ok(());
        }
        let detail = "the refund with this reference was reversed: record the new one under another reference";
        Err(ApiProblem::new(ProblemKind::ReferenceUsed, detail))
    }

    /// Posts a payout. If the ledger refuses it, waits for settlement and retries once: the money may come from a
    /// recent decision.
    pub(crate) async fn pay_out(
        &self,
        used: Option<KeyUse>,
        payout: Payout,
        actor: &UserId,
    ) -> Result<PayoutReceipt, ApiProblem> {
        let action = self.action_of(&payout, actor);
        let post = async || {
            let (ledger, by) = (&self.ports.ledger, Some(&action));
            match &used {
                Some(used) => {
                    let id = self.fresh_id();
                    ledger.pay_out_under(used, id, &payout, by).await
                }
                None => ledger.pay_out_by(&payout, by).await,
            }
        };
        let paid_out = match post().await {
            Err(LedgerError::RefundExceedsDue { .. } | LedgerError::InsufficientFunds { .. }) => {
                self.settled().await?;
                post().await?
            }
            answered => answered?,
        };
        operation_log::log(&action);
        Ok(paid_out)
    }

    fn action_of(&self, payout: &Payout, actor: &UserId) -> Action {
        let (kind, subject, amount) = match payout {
            Payout::Refund { order, amount, .. } => {
                (ActionKind::Refund, order.to_string(), *amount)
            }
            Payout::Withdrawal { user, amount, .. } => {
                (ActionKind::Withdraw, user.to_string(), *amount)
            }
            Payout::Transfer {
                user, to, amount, ..
            } => {
                let detail = json!({
                    "to": to.as_str(), "reference": payout.reference(), "amount": amount.minor,
                    "currency": amount.currency.code(),
                });
                return self.action(actor, ActionKind::Transfer, user, &detail);
            }
            Payout::RefundReversal { order, reference } => {
                let detail = json!({ "reference": reference.as_str() });
                return self.action(actor, ActionKind::Reverse, order, &detail);
            }
            Payout::Reversal {
                user,
                deposit,
                part,
            } => {
                let mut detail = json!({ "deposit": deposit.to_string() });
                if let Some(ReversalPart { amount, .. }) = part {
                    detail["amount"] = amount.minor.into();
                    detail["currency"] = amount.currency.code().into();
                }
                return self.action(actor, ActionKind::Reverse, user, &detail);
            }
        };
        let currency = amount.currency.to_string();
        let detail = json!({
            "reference": payout.reference(), "amount": amount.minor, "currency": currency,
        });
        self.action(actor, kind, subject, &detail)
    }
}

/// Records that a refund due for an order was paid to its buyer, in whole or in part.
///
/// Refunds are due for payments that did not pay the order, as they arrived, and for what paid units that were
/// returned. The caller posts a refund after the money was paid back outside. The reference makes repetition safe.
#[utoipa::path(post, path = "/v1/orders/{id}/refunds", tag = "orders", request_body = RefundRequest,
    operation_id = "refundOrder", security(("bearer" = ["pay"])),
    params(("id" = String, Path, description = "The order's id")),
    responses((status = 201, body = answers::Refund),
        (status = 200, description = "Posted before", body = answers::Refund),
        (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "`refund-exceeds-due`: less is due; `reference-used`: another refund has it, \
            or its refund was reversed",
            body = Problem),
        (status = 422, body = Problem), NoAnswer))]
pub(crate) async fn refund(
    call: ObjectRequest<OrderId>,
    extract::Json(request): extract::Json<RefundRequest>,
) -> Result<(StatusCode, Location, Json<answers::Refund>), ApiProblem> {
    call.caller.require(Scope::Pay)?;
    let (app, order) = (&call.app, call.id);
    check_amount(request.amount.amount, "#/amount/amount")?;
    let mut owed = app.ports.ledger.owed(order).await?;
    if owed.is_empty() {
        app.settled().await?;
        owed = app.ports.ledger.owed(order).await?;
    }
    let buyer = owed.first().ok_or_else(no_order)?.user.to_wire();
    let used = call.key_use("POST /v1/orders/{id}/refunds", &request);
    let reference = request.reference;
    let refund = Payout::Refund {
        order,
        reference: reference.0.clone(),
        amount: request.amount.money(),
    };
    let paid_out = app.pay_out(used, refund, &call.caller.user).await?;
    app.refuse_reversed_refund(&reference.0, paid_out.fresh)
        .await?;
    let status = wire::created(paid_out.fresh);
    let body = answers::Refund {
        reference: reference.0.to_string(),
        object: ObjectKind::Refund,
        order: order.to_wire(),
        user: buyer,
        amount: paid_out.amount.to_wire(),
        created_at: paid_out.at.to_wire(),
        reversed: false,
    };
    let location = wire::location(status, || format!("/v1/orders/{order}/refunds"));
    Ok((status, location, Json(body)))
}

/// Reverses a recorded refund: its money is due to the buyer again.
///
/// For a refund that the payment service did not carry out or returned, or that was recorded by mistake. The whole
/// refund is reversed, once, and it stays in the lists with `reversed`. A further refund of the order needs another
/// reference: the reference of a reversed refund still names that one. The buyer sees the refund due again.
#[utoipa::path(post, path = "/v1/orders/{id}/refunds/{reference}/reversal", tag = "orders",
    operation_id = "reverseRefund", security(("bearer" = ["pay"])),
    params(("id" = String, Path, description = "The order's id"),
        ("reference" = String, Path, description = "The payment service's reference of the refund")),
    responses((status = 201, body = answers::RefundReversal),
        (status = 200, description = "Reversed before", body = answers::RefundReversal),
        (status = 403, body = Problem),
        (status = 404, description = "`not-found`: the order has no refund with this reference", body = Problem),
        (status = 422, description = "`invalid`: an account cannot hold that much; `key-reused`", body = Problem),
        NoAnswer))]
pub(crate) async fn reverse_refund(
    State(app): State<Arc<App>>,
    caller: Caller,
    TwoParams(order, reference): TwoParams<OrderId, PaymentRef>,
    RequestKey(key): RequestKey,
) -> Result<(StatusCode, Location, Json<answers::RefundReversal>), ApiProblem> {
    caller.require(Scope::Pay)?;
    let owed = app.ports.ledger.owed(order).await?;
    let buyer = owed.first().ok_or_else(no_order)?.user.to_wire();
    let route = "POST /v1/orders/{id}/refunds/{reference}/reversal";
    let subject = format!("{order} {reference}");
    let used = key.map(|key| key_use(&caller.user, route, &key, &subject, &()));
    let payout = Payout::RefundReversal {
        order,
        reference: reference.clone(),
    };
    let paid_out = app.pay_out(used, payout, &caller.user).await?;
    let status = wire::created(paid_out.fresh);
    let location = wire::location(status, || format!("/v1/orders/{order}/refunds"));
    let body = answers::RefundReversal {
        reference: reference.to_string(),
        object: ObjectKind::RefundReversal,
        order: order.to_wire(),
        user: buyer,
        amount: paid_out.amount.to_wire(),
        created_at: paid_out.at.to_wire(),
    };
    Ok((status, location, Json(body)))
}

/// Refunds due to the buyer of an order, and refunds paid.
///
/// Buyers see their own, and sellers those of their sales. Other users need the scope `read:any`.
#[utoipa::path(get, path = "/v1/orders/{id}/refunds", tag = "orders",
    operation_id = "getRefunds", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The order's id")),
    responses((status = 200, body = answers::Refunds), (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn refunds(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(order): Param<OrderId>,
) -> Result<Json<answers::Refunds>, ApiProblem> {
    let settled = app.settled().await?;
    let owed = app.ports.ledger.owed(order).await?;
    let (owed, others) = owed.split_first().ok_or_else(no_order)?;
    if owed.user != caller.user && !caller.may(Scope::ReadAny) {
        let sale = app.meta(order.campaign).await?;
        let sells = sale.is_some_and(|sale| sale.owner == caller.user);
        sells.then_some(()).ok_or_else(no_order)?;
    }
    Ok(Json(answers::Refunds {
        order: order.to_wire(),
        due: owed.due.to_wire(),
        refunded: Money::new(owed.refunded_minor, owed.due.currency).to_wire(),
        other_currencies: others.iter().map(owed_money).collect(),
        settled,
    }))
}

/// Orders with a refund due, ordered by sale.
///
/// Callers see those of their own sales. Those of other sellers need the scope `read:any`.
#[utoipa::path(get, path = "/v1/refunds-due", tag = "orders", params(RefundsDueQuery),
    operation_id = "listOwedOrders", security(("bearer" = []), ("bearer" = ["read:any"])),
    responses((status = 200, body = OwedOrderList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: filters that exclude each other", body = Problem), NoAnswer))]
pub(crate) async fn owed(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<RefundsDueQuery>,
) -> Result<Response, ApiProblem> {
    let page = OWED_ORDERS.page::<OrderId>(list.after.as_ref(), list.limit)?;
    let query = RefundBalanceQuery {
        owner: caller.lists(list.owner, list.all)?,
        after: page.after,
        limit: page.reads(),
    };
    let sale = query.after.map(|order| order.campaign);
    lists::check_place(&app, sale, CampaignKind::Sale, query.owner.as_ref()).await?;
    let settled = app.settled().await?;
    let mut orders = app.ports.ledger.owed_orders(&query).await?;
    let next = cut_orders(&page, &mut orders);
    let orders: Vec<_> = orders.into_iter().map(owed_order).collect();
    Ok(page.answer(&uri, orders, next, Some(settled)))
}

/// Records a withdrawal. The account's balance must cover it.
///
/// Post the withdrawal first, and pay the money out once it is posted. The reference makes repetition safe.
#[utoipa::path(post, path = "/v1/accounts/{user}/withdrawals", tag = "accounts", request_body = WithdrawalRequest,
    operation_id = "makeWithdrawal", security(("bearer" = ["withdraw"])),
    params(("user" = String, Path, description = "The owner of the account")),
    responses((status = 201, body = answers::Withdrawal),
        (status = 200, description = "Posted before", body = answers::Withdrawal), (status = 403, body = Problem),
        (status = 409, description = "`insufficient-funds`: the account holds less; `reference-used`: another \
         withdrawal has it", body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn withdraw(
    call: ObjectRequest<UserId>,
    extract::Json(request): extract::Json<WithdrawalRequest>,
) -> Result<(StatusCode, Location, Json<answers::Withdrawal>), ApiProblem> {
    call.caller.require(Scope::Withdraw)?;
    check_amount(request.amount, "#/amount")?;
    let used = call.key_use("POST /v1/accounts/{user}/withdrawals", &request);
    let (app, user) = (&call.app, &call.id);
    let reference = request.reference;
    let withdrawal = Payout::Withdrawal {
        user: user.clone(),
        reference: reference.0.clone(),
        amount: Money::new(request.amount, request.currency.0),
    };
    let paid_out = app.pay_out(used, withdrawal, &call.caller.user).await?;
    let status = wire::created(paid_out.fresh);
    let location = wire::location(status, || account_path(user));
    let body = answers::Withdrawal {
        reference: reference.0.to_string(),
        object: ObjectKind::Withdrawal,
        user: user.to_wire(),
        amount: paid_out.amount.to_wire(),
        created_at: paid_out.at.to_wire(),
    };
    Ok((status, location, Json(body)))
}

/// Reverses a deposit out of the user's account, which must hold the money: an amount, or all that is left of it.
///
/// A request without an amount reverses what is left, and a repetition changes nothing. One with an amount needs an
/// `Idempotency-Key`: the same key again changes nothing, and another key reverses the amount once more.
#[utoipa::path(post, path = "/v1/accounts/{user}/deposits/{id}/reversal", tag = "accounts",
    request_body = Option<ReversalRequest>, operation_id = "reverseDeposit", security(("bearer" = ["deposit"])),
    params(("user" = String, Path, description = "The owner of the account"),
        ("id" = String, Path, description = "The deposit's id")),
    responses((status = 201, body = answers::Reversal),
        (status = 200, description = "Reversed before", body = answers::Reversal),
        (status = 400, description = "`bad-request`: an amount without an `Idempotency-Key`", body = Problem),
        (status = 403, body = Problem),
        (status = 404, description = "`not-found`: the user has no such deposit", body = Problem),
        (status = 409, description = "`insufficient-funds`: the account holds less; `reversal-exceeds-deposit`: less \
            of the deposit is left; `reference-used`: the key took another amount", body = Problem),
        (status = 422, description = "`invalid`: less than 1 minor unit; `key-reused`", body = Problem)))]
pub(crate) async fn reverse(
    State(app): State<Arc<App>>,
    caller: Caller,
    TwoParams(user, Id(deposit)): TwoParams<UserId, Id>,
    RequestKey(key): RequestKey,
    OptionalJson(request): OptionalJson<ReversalRequest>,
) -> Result<(StatusCode, Location, Json<answers::Reversal>), ApiProblem> {
    caller.require(Scope::Deposit)?;
    if let Some(amount) = &request.amount {
        check_amount(amount.amount, "#/amount/amount")?;
    }
    let route = "POST /v1/accounts/{user}/deposits/{id}/reversal";
    let subject = format!("{user} {deposit}");
    // Without an amount, the fingerprint equals that of earlier versions, so their keys are replayed.
    let used = key.map(|key| match &request.amount {
        None => key_use(&caller.user, route, &key, &subject, &()),
        Some(_) => key_use(&caller.user, route, &key, &subject, &request),
    });
    let part = match request.amount {
        Some(amount) => Some(ReversalPart {
            key: effect_key(used.as_ref())?,
            amount: amount.money(),
        }),
        None => None,
    };
    let payout = Payout::Reversal {
        user: user.clone(),
        deposit,
        part,
    };
    let paid_out = app.pay_out(used, payout, &caller.user).await?;
    let status = wire::created(paid_out.fresh);
    let location = wire::location(status, || account_path(&user));
    let body = answers::Reversal {
        deposit: deposit.to_wire(),
        object: ObjectKind::Reversal,
        user: user.to_wire(),
        amount: paid_out.amount.to_wire(),
        created_at: paid_out.at.to_wire(),
    };
    Ok((status, location, Json(body)))
}

/// Refuses an amount below 1 minor unit.
pub(crate) fn check_amount(minor: i64, pointer: &'static str) -> Result<(), ApiProblem> {
    let too_small = || ApiProblem::invalid_at(pointer, "a payment is at least 1 minor unit");
    (minor >= 1).then_some(()).ok_or_else(too_small)
}

/// Truncates to the rows of the page's orders. Returns the last order if there are more. Rows of one order are
/// adjacent.
fn cut_orders(page: &Page<'_, OrderId>, rows: &mut Vec<RefundDueOrder>) -> Option<OrderId> {
    let mut ids: Vec<OrderId> = rows.iter().map(|row| row.order).collect();
    ids.dedup();
    let next = page.cut(&mut ids, |last| *last);
    if let Some(last) = next {
        let end = rows.iter().rposition(|row| row.order == last);
        rows.truncate(end.map_or(0, |end| end + 1));
    }
    next
}

fn no_order() -> ApiProblem {
    ApiProblem::new(ProblemKind::NotFound, "there is no such order")
}
