//! Extension of an order's hold by its seller, while the payment service still decides.

use std::sync::Arc;

use axum::{extract::Request, response::Response};
use qiang_core::{
    book::{Command, Reply},
    id::OrderId,
    order::OrderStep,
    ports::ActionKind,
};
use qiang_wire::{answers, problem::Problem};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::{
    auth::Scope,
    extract::{self, ObjectRequest},
    http::{
        grant_bodies::order_body,
        problem::{ApiProblem, NoAnswer},
    },
    resources::{operation_log, orders::refusal},
};

/// Extension of the hold of an order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewHoldExtension)]
pub(crate) struct ExtensionRequest {
    /// Seconds after the present end of the hold: at least 1, and at most the `hold_seconds` of the sale.
    #[schema(minimum = 1)]
    seconds: u32,
}

/// Extends the hold of a held order, once.
///
/// Use it while a payment service still decides about a payment. The order keeps its units until the new `hold_until`,
/// and a payment until then pays it. The buyer sees the new end, and webhooks get `order.hold_extended`. The extension
/// is at most the hold of the sale. An extended order can be paid and cancelled like any other one. A sale that has
/// ended or closed keeps its held orders, and their holds can be extended too.
///
/// The same extension again changes nothing and is answered with the order, also once it is paid. Another extension of
/// the same order is refused.
///
/// Sellers extend holds of their own sales with the scope `campaigns:write`; other orders need `admin`.
#[utoipa::path(post, path = "/v1/orders/{id}/hold-extension", tag = "orders", request_body = ExtensionRequest,
    operation_id = "extendHold", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request")),
    responses((status = 200, body = answers::Order), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "`order-conflict`: the order is not held; `hold-extended`: its hold was extended \
            by another time; `hold-over`: its hold has ended; `too-many-extensions`: 1,000 holds of the sale are \
            extended", body = Problem),
        (status = 422, description = "`invalid`: less than a second, or more than the hold of the sale; `key-reused`",
            body = Problem), NoAnswer))]
pub(crate) async fn extend(
    call: ObjectRequest<OrderId>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let order = call.id;
    let (view, meta) = call
        .app
        .visible_order(&call.caller, order, Scope::ReadAny)
        .await?;
    call.caller.require(match meta.owner == call.caller.user {
        true => Scope::CampaignsWrite,
        false => Scope::Admin,
    })?;
    let body = extract::json_body(request, &call.app).await?;
    let request: ExtensionRequest = extract::parse(&body)?;
    let terms = view.grant.order.ok_or_else(ApiProblem::unexpected_reply)?;
    let hold_ms = terms.hold_until.millis_since(view.grant.granted_at) - terms.extension_ms;
    let extension_ms = i64::from(request.seconds) * 1_000;
    if !(1..=hold_ms).contains(&extension_ms) {
        let why = format!(
            "a hold of this sale is extended by 1 to {} seconds",
            hold_ms / 1_000
        );
        return Err(ApiProblem::invalid_at("#/seconds", why));
    }
    let used = call.key_use("POST /v1/orders/{id}/hold-extension", &request);
    let app = Arc::clone(&call.app);
    let is_extended = terms.extension_ms == extension_ms;
    let so = is_extended.then(|| order_body(&view, meta.currency).ok());
    let so = so.flatten();
    if so.is_none() {
        let refused = refusal(&view, OrderStep::ExtendHold);
        app.check_final(used.as_ref(), (order, None), refused, false)
            .await?;
    }
    let extend = async move {
        let detail = json!({ "seconds": request.seconds });
        let action = call.record(ActionKind::ExtendHold, &detail).await?;
        let command = Command::ExtendHold {
            order,
            extension_ms,
        };
        match call.app.submit_recorded(&action, command).await? {
            Reply::HoldExtended(view) => {
                operation_log::log(&action);
                order_body(&view, meta.currency)
            }
            _ => Err(ApiProblem::unexpected_reply()),
        }
    };
    app.once_for_good(used, so, extend).await
}
