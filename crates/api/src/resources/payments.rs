//! Reports of payment services for any order, with a token or a signature.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts as _, Request, State},
    response::Response,
};
use qiang_core::id::{OrderId, PaymentRef, UserId};
use qiang_wire::{answers, problem::Problem};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope, callbacks::Callbacks},
    extract::{self, RequestKey},
    http::{
        auth_failure::AuthFailure,
        problem::{ApiProblem, NoAnswer},
        wire::{MoneyBody, Rfc3339, Text},
    },
    idempotency::fingerprint::key_use,
    resources::payment_reports::PaidReport,
};

/// Actor of a signed report, in the operation log.
const SIGNED: &str = "signed:payments";

/// A payment that arrived for an order.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PaymentReport)]
pub(crate) struct PaymentReport {
    /// Order that it pays.
    #[schema(value_type = String)]
    order: Text<OrderId>,
    /// The payment service's reference of the payment. A report with the same reference is a replay: the money of the
    /// first report counts, and other money is not recorded. A further payment of the order is refunded. A reference
    /// pays one order: for another order it is refused.
    #[schema(value_type = String)]
    reference: Text<PaymentRef>,
    /// Paid amount, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
    /// `payment_policy` accepts, pay the order. Another amount or currency is refunded, and the order does not
    /// change.
    amount: MoneyBody,
    /// Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
    /// reported a little later. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    paid_at: Option<Rfc3339>,
    /// User who paid. If the order is another user's, the report is refused and nothing is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    user: Option<Text<UserId>>,
}

/// Records a payment that arrived: with a token, or signed as Standard Webhooks specifies.
///
/// The order's price, and an amount that the sale's `payment_policy` accepts, pay the order. Another amount or
/// currency is answered `refund_due`: it is refunded, and the order does not change.
///
/// The money of a refused report is not recorded. The service logs and counts the report, and lists it in the operation
/// log and under its reference. It refuses an unknown order, and an order of another user than `user`. It refuses a
/// reference that was reported for another order. It refuses an amount below 1 or above 2^53-1 minor units, an
/// invalid currency, and a
/// `paid_at` in the future or before the order. It refuses money that it would refund if the order has reached its
/// limit of payments with a refund due.
///
/// The signature covers `webhook-id`, `webhook-timestamp` (seconds) and the body, joined by dots. It is HMAC-SHA256
/// with a secret that the installation and the payment service share. A signature that is too old is refused.
#[utoipa::path(post, path = "/v1/payments", tag = "orders", request_body = PaymentReport,
    operation_id = "reportPayment", security(("bearer" = ["pay"]), ("signature" = [])),
    params(("webhook-id" = Option<String>, Header, description = "With a signature: id of the report"),
        ("webhook-timestamp" = Option<i64>, Header, description = "With a signature: its time, in seconds since 1970")),
    responses((status = 200, body = answers::Payment), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`payment-used`: it was reported for another order before; `user-mismatch`: the \
         order is not of the user who paid; `order-conflict`: a refund would be due, and the order has reached its \
         limit of these",
            body = Problem),
        (status = 422, description = "`invalid`: no money, more than 2^53-1 minor units, an invalid currency or \
         `paid_at`, or the account cannot hold that much",
            body = Problem), NoAnswer))]
pub(crate) async fn report(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let (mut parts, body) = request.into_parts();
    let is_signed = Callbacks::is_signed(&parts.headers);
    let actor = match is_signed {
        true => UserId::new(SIGNED).map_err(|error| ApiProblem::internal(error.to_string()))?,
        false => {
            let caller = Caller::from_request_parts(&mut parts, &app).await?;
            caller.require(Scope::Pay)?;
            caller.user
        }
    };
    let RequestKey(key) = RequestKey::from_request_parts(&mut parts, &app).await?;
    let (headers, now) = (parts.headers.clone(), app.ports.clock.now());
    let body = extract::json_body(Request::from_parts(parts, body), &app).await?;
    if is_signed {
        let checked = app.callbacks.check(&headers, &body, now);
        checked.map_err(|fault| ApiProblem::unauthenticated(AuthFailure::Signature, fault))?;
    }
    let report: PaymentReport = app.parse_report(&actor, &body, None).await?;
    let used = key.map(|key| key_use(&actor, "POST /v1/payments", &key, "", &report));
    let paid = PaidReport {
        reference: report.reference.0,
        amount: report.amount,
        paid_at: report.paid_at,
        user: report.user.map(|user| user.0),
        sellers: None,
    };
    app.take_payment(actor, (report.order.0, paid), used).await
}
