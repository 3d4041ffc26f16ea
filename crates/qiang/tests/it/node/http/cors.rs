//! Browser pages of other origins.

use crate::node::http::common::{Reply, Service, call};

const SHOP: &str = "https://shop.example";

async fn preflight(service: &Service, origin: &str, method: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        (
            "access-control-request-headers",
            "authorization,idempotency-key",
        ),
    ];
    call(service.addr, "OPTIONS", "/v1/sales", None, &headers, None).await
}

#[tokio::test]
async fn pages_of_the_named_origins_may_call_and_no_others() {
    let service = Service::start_with(|config, _| {
        config.server.cors_origins = format!("{SHOP}, http://localhost:5173");
    })
    .await;
    let asked = preflight(&service, SHOP, "POST").await;
    assert_eq!(asked.status, 200);
    assert_eq!(asked.header("access-control-allow-origin"), SHOP);
    assert_eq!(asked.header("access-control-max-age"), "600");
    for name in [
        "authorization",
        "idempotency-key",
        "grab-ticket",
        "content-type",
        "if-match",
        "if-none-match",
        "traceparent",
        "tracestate",
    ] {
        let allowed = asked.header("access-control-allow-headers");
        assert!(allowed.contains(name), "{allowed}");
    }
    for method in ["GET", "POST", "PATCH", "DELETE"] {
        let allowed = asked.header("access-control-allow-methods");
        assert!(allowed.contains(method), "{allowed}");
    }
    assert_eq!(asked.header("access-control-allow-credentials"), "");

    // An answer and a refusal: the page may read both.
    let id = service.sale(5, |_| ()).await;
    for (path, status) in [
        (format!("/v1/campaigns/{id}/state"), 200),
        ("/v1/sales".to_owned(), 401),
        ("/nowhere".to_owned(), 404),
    ] {
        let origin = [("origin", "http://localhost:5173")];
        let reply = call(service.addr, "GET", &path, None, &origin, None).await;
        assert_eq!(reply.status, status, "{path}");
        assert_eq!(
            reply.header("access-control-allow-origin"),
            "http://localhost:5173"
        );
        let exposed = reply.header("access-control-expose-headers");
        for name in [
            "etag",
            "retry-after",
            "x-request-id",
            "ratelimit",
            "idempotency-replayed",
            "www-authenticate",
        ] {
            assert!(exposed.contains(name), "{exposed}");
        }
        // Caches must keep answers by origin.
        assert!(reply.header("vary").contains("origin"), "{path}");
    }
    for other in [
        "https://evil.example",
        "null",
        "https://shop.example.evil.example",
    ] {
        let asked = preflight(&service, other, "POST").await;
        assert_eq!(asked.header("access-control-allow-origin"), "", "{other}");
    }
    service.stop().await;
}

#[tokio::test]
async fn nobody_may_where_no_origin_is_named() {
    let service = Service::start().await;
    let asked = preflight(&service, SHOP, "POST").await;
    assert_eq!(asked.status, 405);
    assert_eq!(asked.header("access-control-allow-origin"), "");
    service.stop().await;
}
