//! Notifications of payment services, which sign them instead of sending a token. Each is answered as its service
//! expects: acknowledged once its reports are recorded, and refused otherwise, so that the service repeats it.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use qiang_wire::{
    answers::NotificationReceipt,
    problem::{Problem, ProblemKind},
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    app::App,
    extract::{self, Param},
    http::{
        auth_failure::AuthFailure,
        problem::{ApiProblem, NoAnswer},
        request_id::RequestId,
    },
    observe::metrics::NotificationResult,
    providers::{
        AccountName, IgnoredNotification, Notification, NotificationContent, NotificationFault,
        PaymentAccount, PaymentProvider,
    },
};

/// Snapshot event of Stripe. Further fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
pub(crate) struct StripeWebhookEvent {
    /// Kind of the event. Others than payments and refunds are acknowledged.
    #[serde(rename = "type")]
    #[schema(example = "payment_intent.succeeded")]
    kind: String,
    /// Seconds since 1970.
    #[schema(example = 1_795_262_400)]
    created: i64,
    /// Whether it is of the live mode.
    livemode: bool,
    /// The object in `object`. Its `metadata.qiang-order` is the id of the order.
    #[schema(value_type = Object)]
    data: Value,
}

/// Notification of WeChat Pay. Further fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
pub(crate) struct WechatPayNotification {
    /// Kind of the notification. Others than payments and refunds are acknowledged.
    #[schema(example = "TRANSACTION.SUCCESS")]
    event_type: String,
    /// The encrypted transaction or refund. `attach` of a transaction is the id of the order.
    #[schema(value_type = Object)]
    resource: Value,
}

/// Notification of Alipay. Further parameters are signed, and ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
pub(crate) struct AlipayNotification {
    /// Id of the application.
    #[schema(example = "2021001146601279")]
    app_id: String,
    /// State of the trade.
    #[schema(example = "TRADE_SUCCESS")]
    trade_status: String,
    /// Alipay's number of the trade.
    #[schema(example = "2026112122001468450512505578")]
    trade_no: String,
    /// Amount of the order, in yuan.
    #[schema(example = "100.00")]
    total_amount: String,
    /// Id of the order.
    #[schema(example = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3")]
    passback_params: String,
    /// The signature.
    #[schema(example = "QfTb8tqE1BMhS5qAnXtvsF3")]
    sign: String,
}

/// Records payments and refunds that an event of Stripe reports.
///
/// The signature is the authentication: HMAC-SHA256 with a secret of the account's webhook endpoint. Another signature
/// is refused with 401, and so is an unknown account. An event is acknowledged once its reports are recorded. It is
/// refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. Stripe then repeats it.
#[utoipa::path(post, path = "/v1/providers/stripe/{account}/notifications", tag = "orders",
    request_body = StripeWebhookEvent, operation_id = "receiveStripeEvent", security(("stripe" = [])),
    params(("account" = String, Path, description = "Name of the account in the accounts file")),
    responses((status = 200, body = NotificationReceipt),
        (status = 404, description = "`not-found`: no such order, or no such payment of a refund", body = Problem),
        (status = 409, description = "`seller-mismatch`: the account may not report payments of the order's seller; \
         `payment-used`, `order-conflict`: the payment cannot be one of the order; `refund-exceeds-due`, \
         `reference-used`: the refund cannot be one of the order", body = Problem), NoAnswer))]
pub(crate) async fn stripe(
    State(app): State<Arc<App>>,
    Param(name): Param<AccountName>,
    request: Request,
) -> Result<Json<NotificationReceipt>, ApiProblem> {
    let headers = request.headers().clone();
    let body = extract::json_body(request, &app);
    let received = app.receive(PaymentProvider::Stripe, &name, &headers, body);
    received.await.map(Json)
}

/// Records payments and refunds that a notification of WeChat Pay reports.
///
/// The signature is the authentication: RSA-SHA256 by a configured certificate or public key of the platform. Another
/// signature is refused with 401, and so is an unknown account. A notification is acknowledged with 204 once its
/// reports are recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. The
/// problem then also has `code` and `message`, and WeChat Pay repeats the notification.
#[utoipa::path(post, path = "/v1/providers/wechat/{account}/notifications", tag = "orders",
    request_body = WechatPayNotification, operation_id = "receiveWechatNotification",
    security(("wechat" = [])),
    params(("account" = String, Path, description = "Name of the account in the accounts file")),
    responses((status = 204, description = "It is recorded, or reports nothing"),
        (status = 404, description = "`not-found`: no such order, or no such payment of a refund", body = Problem),
        (status = 409, description = "`seller-mismatch`: the account may not report payments of the order's seller; \
         `payment-used`, `order-conflict`: the payment cannot be one of the order; `refund-exceeds-due`, \
         `reference-used`: the refund cannot be one of the order", body = Problem), NoAnswer))]
pub(crate) async fn wechat(
    State(app): State<Arc<App>>,
    name: Result<Param<AccountName>, ApiProblem>,
    request: Request,
) -> Response {
    let receive = async {
        let Param(name) = name?;
        let headers = request.headers().clone();
        let body = extract::json_body(request, &app);
        let received = app.receive(PaymentProvider::WechatPay, &name, &headers, body);
        received.await
    };
    match receive.await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => wechat_failure(problem),
    }
}

/// Records payments and refunds that an asynchronous notification of Alipay reports.
///
/// The signature is the authentication: RSA2 by a configured public key of Alipay. Another signature is refused with
/// 401, and so is an unknown account. A notification is acknowledged with the text `success` once its reports are
/// recorded. It is refused if a report is refused, as `reportPayment` and `refundOrder` refuse it. Alipay then repeats
/// it.
#[utoipa::path(post, path = "/v1/providers/alipay/{account}/notifications", tag = "orders",
    request_body(content = AlipayNotification, content_type = "application/x-www-form-urlencoded"),
    operation_id = "receiveAlipayNotification", security(("alipay" = [])),
    params(("account" = String, Path, description = "Name of the account in the accounts file")),
    responses((status = 200, description = "It is recorded, or reports nothing", body = String,
            content_type = "text/plain"),
        (status = 404, description = "`not-found`: no such order, or no such payment of a refund", body = Problem),
        (status = 409, description = "`seller-mismatch`: the account may not report payments of the order's seller; \
         `payment-used`, `order-conflict`: the payment cannot be one of the order; `refund-exceeds-due`, \
         `reference-used`: the refund cannot be one of the order", body = Problem), NoAnswer))]
pub(crate) async fn alipay(
    State(app): State<Arc<App>>,
    Param(name): Param<AccountName>,
    request: Request,
) -> Result<&'static str, ApiProblem> {
    let headers = request.headers().clone();
    let body = extract::form_body(request, &app);
    let received = app.receive(PaymentProvider::Alipay, &name, &headers, body);
    received.await.map(|_| "success")
}

/// A problem with the fields that WeChat Pay reads of a failure.
fn wechat_failure(problem: ApiProblem) -> Response {
    let mut body = problem.to_keep();
    body["code"] = json!("FAIL");
    body["message"] = match &body["detail"] {
        Value::String(detail) => json!(detail),
        _ => body["title"].clone(),
    };
    if let Some(id) = RequestId::current() {
        body["request_id"] = id.as_str().into();
    }
    let (mut parts, _) = problem.into_response().into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body.to_string()))
}

impl App {
    /// Reads a notification, and records its reports. Counts the result.
    async fn receive(
        self: &Arc<Self>,
        provider: PaymentProvider,
        name: &AccountName,
        headers: &HeaderMap,
        body: impl Future<Output = Result<Bytes, ApiProblem>>,
    ) -> Result<NotificationReceipt, ApiProblem> {
        // A body of another type or beyond the limit counts too: its money is not recorded.
        let read = body
            .await
            .and_then(|body| self.read_notification(provider, name, headers, &body));
        let received = match read {
            Ok((account, NotificationContent::Reports(reports))) => {
                let mut recorded = 0;
                let mut received = Ok(false);
                for report in reports {
                    received = self.take_report(&account, report).await;
                    let Ok(is_recorded) = received else {
                        break;
                    };
                    recorded += u32::from(is_recorded);
                }
                received.map(|_| NotificationReceipt {
                    recorded,
                    ignored: None,
                })
            }
            Ok((account, NotificationContent::Ignored(why))) => {
                log_ignored(&account, why);
                self.metrics
                    .notification_received(provider, NotificationResult::Ignored);
                return Ok(NotificationReceipt {
                    recorded: 0,
                    ignored: Some(why.text().to_owned()),
                });
            }
            Err(problem) => Err(problem),
        };
        let result = match &received {
            Ok(_) => NotificationResult::Recorded,
            Err(problem) => match problem.kind_status() {
                StatusCode::UNAUTHORIZED => NotificationResult::Rejected,
                status if status.is_client_error() => NotificationResult::Refused,
                _ => NotificationResult::Failed,
            },
        };
        self.metrics.notification_received(provider, result);
        received
    }

    /// Account of a notification, and its content.
    fn read_notification(
        &self,
        provider: PaymentProvider,
        name: &AccountName,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<(Arc<PaymentAccount>, NotificationContent), ApiProblem> {
        let unauthentic = |why: &'static str| {
            let cause = format!("{} account {name}: {why}", provider.name());
            ApiProblem::unauthenticated(AuthFailure::Signature, why).caused_by(cause)
        };
        let account = self.payment_accounts.find(provider, name);
        let account = account.ok_or_else(|| unauthentic("there is no account with this name"))?;
        let notification = Notification {
            headers,
            body,
            now: self.ports.clock.now(),
            tolerance_ms: i64::from(self.config.payments.tolerance_ms),
        };
        match account.adapter.read(&notification) {
            Ok(content) => Ok((account, content)),
            Err(NotificationFault::Unauthentic(why)) => Err(unauthentic(why)),
            Err(NotificationFault::Invalid(why)) => {
                tracing::warn!(
                    provider = provider.name(),
                    account = %name,
                    reason = why,
                    "a notification of a payment service was refused, its money is not recorded"
                );
                self.metrics.report_refused(ProblemKind::Invalid.slug());
                Err(ApiProblem::invalid(why))
            }
        }
    }
}

fn log_ignored(account: &PaymentAccount, why: IgnoredNotification) {
    if why == IgnoredNotification::NoRefundIds {
        tracing::warn!(
            provider = account.provider.name(),
            account = %account.name,
            "an event lists no refunds; refund.created and refund.updated report them"
        );
    }
}
