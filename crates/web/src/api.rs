//! Client of the API in this process, with the visitor's credentials.

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
    response::Response,
};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

/// Headers that identify the visitor and the connection for the API.
const PASSED_ON: [&str; 3] = ["cookie", "x-forwarded-proto", "host"];

#[derive(Clone)]
pub(crate) struct Api(Router);

/// Answer of the API.
pub(crate) struct ApiAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Null if it is not JSON.
    pub(crate) body: Value,
}

impl ApiAnswer {
    /// Body of a success.
    pub(crate) fn ok(self) -> Option<Value> {
        self.status.is_success().then_some(self.body)
    }

    /// Takes the objects out of the body, which is a list. Another body has no objects.
    pub(crate) fn take_data(&mut self) -> Vec<Value> {
        take_data(&mut self.body)
    }
}

/// Takes the objects out of a list. Another body has no objects.
pub(crate) fn take_data(list: &mut Value) -> Vec<Value> {
    let data = list.get_mut("data").and_then(Value::as_array_mut);
    data.map(std::mem::take).unwrap_or_default()
}

impl Api {
    pub(crate) fn new(router: Router) -> Self {
        Self(router)
    }

    /// Sends a GET request with the credentials in `visitor`, the headers of a page's request.
    pub(crate) async fn get(&self, path: &str, visitor: &HeaderMap) -> ApiAnswer {
        let mut request = Request::get(path);
        for name in PASSED_ON {
            for value in visitor.get_all(name) {
                request = request.header(name, value);
            }
        }
        self.call(request.body(Body::empty())).await
    }

    /// Sends a POST request with a token.
    pub(crate) async fn post(
        &self,
        path: &str,
        token: &str,
        visitor: &HeaderMap,
        body: Option<&Value>,
    ) -> ApiAnswer {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {token}"));
        // The browser's idempotency key is passed on, so its retry is a retry for the API.
        for name in ["x-forwarded-proto", "idempotency-key"] {
            if let Some(value) = visitor.get(name) {
                request = request.header(name, value);
            }
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        self.call(request.body(body)).await
    }

    /// Lets the API answer a request that no page handles.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response {
        let Ok(response) = self.0.clone().oneshot(request).await;
        response
    }

    async fn call(&self, request: Result<Request<Body>, axum::http::Error>) -> ApiAnswer {
        let failed = |status| ApiAnswer {
            status,
            headers: HeaderMap::new(),
            body: Value::Null,
        };
        let Ok(request) = request else {
            return failed(StatusCode::BAD_REQUEST);
        };
        // The router answers every request: its error is `Infallible`.
        let Ok(response) = self.0.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await else {
            return failed(StatusCode::BAD_GATEWAY);
        };
        ApiAnswer {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
        }
    }
}
