//! Answer to a request whose handler panics: 500, with the panic in the log. The connection stays open.

use std::{any::Any, convert::Infallible, panic::AssertUnwindSafe};

use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;

use crate::http::problem::ApiProblem;

/// The answer, or the problem `internal` after a panic. Handlers use `parking_lot` locks, which a panic releases.
pub(super) async fn caught(
    answer: impl Future<Output = Result<Response, Infallible>>,
) -> Result<Response, Infallible> {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(answered) => answered,
        Err(panic) => {
            let cause = format!("a handler panicked: {}", text(&*panic));
            Ok(ApiProblem::internal(cause).into_response())
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    let formatted = || panic.downcast_ref::<String>().map(String::as_str);
    literal.or_else(formatted).unwrap_or("no text")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::{Router, routing::get};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::super::{Listening, PublicListener};
    use crate::{observe::metrics::Metrics, router::operation_document};

    async fn panics() -> &'static str {
        panic!("on purpose: {}", "a test")
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_the_connection_stays() {
        let router = Router::new()
            .route("/panics", get(panics))
            .route("/well", get(|| async { "well" }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metrics = Arc::new(Metrics::new(&operation_document()));
        let config = serde_json::from_value(serde_json::json!({
            "listen": "127.0.0.1:0", "connections_max": 10, "watchers_max": 10, "trusted_proxies": "",
            "forwarded_header": "x-forwarded-for", "header_timeout_ms": 5_000, "idle_timeout_ms": 5_000,
            "request_timeout_ms": 5_000, "drain_delay_ms": 0, "drain_timeout_ms": 1_000, "body_bytes_max": 1_000,
            "tls_certificate_file": "", "tls_key_file": "", "hsts_max_age_s": 0, "cors_origins": "",
            "noop_route": false, "docs": false,
        }))
        .unwrap();
        let listening =
            Listening::start(config, metrics, PublicListener::default(), router, listener).unwrap();
        let mut stream = TcpStream::connect(listening.addr).await.unwrap();
        stream
            .write_all(b"GET /panics HTTP/1.1\r\nHost: test\r\n\r\n")
            .await
            .unwrap();
        let mut first = String::new();
        while !first.ends_with('}') {
            let mut buffer = [0; 4_096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "{first}");
            first.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        assert!(first.starts_with("HTTP/1.1 500 "), "{first:?}");
        assert!(first.contains("/problems/internal"), "{first}");
        assert!(!first.contains("on purpose"), "{first}");
        stream
            .write_all(b"GET /well HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut second = String::new();
        stream.read_to_string(&mut second).await.unwrap();
        assert!(second.ends_with("well"), "{second}");
    }
}
