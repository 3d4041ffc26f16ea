//! Sandbox for development: plays the payment service that reports payments, and the bank behind deposits.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    PageState,
    views::{escape, plain, text},
};

#[derive(Deserialize)]
pub(crate) struct SandboxPayment {
    order: String,
}

/// Reports that the visitor's order was paid.
pub(crate) async fn pay(
    State(pages): State<PageState>,
    headers: HeaderMap,
    Json(payment): Json<SandboxPayment>,
) -> Response {
    let id = plain(&payment.order);
    // The API shows an order only to users who may see it.
    let order = pages.api.get(&format!("/v1/orders/{id}"), &headers).await;
    if !order.status.is_success() {
        return (order.status, Json(order.body)).into_response();
    }
    let body = json!({ "reference": format!("sandbox-{id}"), "amount": order.body["amount"] });
    let path = format!("/v1/orders/{id}/payment");
    pages.as_the_world(&path, "pay", &headers, &body).await
}

#[derive(Deserialize)]
pub(crate) struct SandboxDeposit {
    amount: i64,
    currency: String,
}

/// Deposits money into the visitor's account. A page of another site cannot make a browser send JSON here.
pub(crate) async fn deposit(
    State(pages): State<PageState>,
    headers: HeaderMap,
    Json(deposit): Json<SandboxDeposit>,
) -> Response {
    let session = pages.api.get("/v1/session", &headers).await;
    if !session.status.is_success() {
        return (session.status, Json(session.body)).into_response();
    }
    let path = format!(
        "/v1/accounts/{}/deposits",
        escape(text(&session.body, "user"))
    );
    // The page sends a key, so that a repeated deposit is one.
    let key = headers.get("idempotency-key");
    let Some(key) = key.and_then(|key| key.to_str().ok()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let key = key.trim_matches('"');
    let body = json!({ "reference": format!("sandbox-{key}"), "amount": deposit.amount,
        "currency": deposit.currency });
    pages.as_the_world(&path, "deposit", &headers, &body).await
}

impl PageState {
    /// Sends a request with a token of the sandbox, which has one scope.
    async fn as_the_world(
        &self,
        path: &str,
        scope: &str,
        headers: &HeaderMap,
        body: &Value,
    ) -> Response {
        let token = self.options.development.as_ref();
        let token = token.and_then(|development| development.token("sandbox", scope).ok());
        let Some(token) = token else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let answer = self.api.post(path, &token, headers, Some(body)).await;
        (answer.status, Json(answer.body)).into_response()
    }
}
