//! Payments of all orders, newest first.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::{
    id::{PaymentRef, UserId},
    payment::PaymentOutcome,
    ports::{PaymentPlace, PaymentQuery},
};
use qiang_wire::{lists::PaymentRecordList, problem::Problem};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Params,
    http::{
        paging::{Cursor, PagedList, created_range},
        problem::{ApiProblem, NoAnswer},
        wire::{Rfc3339, Text},
    },
    resources::{histories::payment_record, order_list::READS_MAX},
};

const PAYMENTS: PagedList = PagedList::new("payments").with_gaps();

/// Outcome that payments are filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordedOutcome {
    /// It paid the order.
    Paid,
    /// It paid an order that had expired.
    Reinstated,
    /// A refund of it became due.
    RefundDue,
}

/// Filter and page of payments.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PaymentListQuery {
    /// Payments for orders of this buyer. Default: all that the caller sees.
    #[param(value_type = Option<String>)]
    user: Option<Text<UserId>>,
    /// Payments with this outcome.
    #[param(inline)]
    outcome: Option<RecordedOutcome>,
    /// Payments with this reference of the payment service.
    #[param(value_type = Option<String>)]
    reference: Option<Text<PaymentRef>>,
    /// Payments from this time on.
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Rfc3339>,
    /// Payments from before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Rfc3339>,
    /// Payments after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Recorded payments, newest first.
///
/// Users see payments for their own orders. With the scope `pay` or `read:any` the list has those of all users. Refused
/// reports are in the operation log.
///
/// With `outcome` and neither `user` nor `reference`, a page may have fewer payments than `limit`, or none, and still a
/// `next`.
#[utoipa::path(get, path = "/v1/payments", tag = "orders", params(PaymentListQuery),
    operation_id = "listPayments", security(("bearer" = []), ("bearer" = ["read:any"]), ("bearer" = ["pay"])),
    responses((status = 200, body = PaymentRecordList), (status = 403, body = Problem),
        (status = 422, description = "`invalid`: no time is in the range", body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<PaymentListQuery>,
) -> Result<Response, ApiProblem> {
    let user = caller.lists_user(list.user, Scope::Pay)?;
    let page = PAYMENTS.page::<PaymentPlace>(list.after.as_ref(), list.limit)?;
    let query = PaymentQuery {
        user,
        outcome: list.outcome.map(|outcome| match outcome {
            RecordedOutcome::Paid => PaymentOutcome::Paid,
            RecordedOutcome::Reinstated => PaymentOutcome::Reinstated,
            RecordedOutcome::RefundDue => PaymentOutcome::RefundDue,
        }),
        reference: list.reference.map(|it| it.0),
        created: created_range(list.created_after, list.created_before)?,
        after: page.after.clone(),
        limit: page.reads(),
        reads_max: READS_MAX,
    };
    let settled = app.settled().await?;
    let found = app.ports.ledger.payments(&query).await?;
    let mut payments = found.items;
    let early = found.read_from.map(|at| PaymentPlace { at, payment: None });
    let next = page.cut(&mut payments, |payment| payment.place()).or(early);
    let payments: Vec<_> = payments.into_iter().map(payment_record).collect();
    Ok(page.answer(&uri, payments, next, Some(settled)))
}
