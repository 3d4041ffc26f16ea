//! A development node (`--dev`): users of this machine may sign in as any user, and other sites may not.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use crate::node::http::common::{Reply, Service, send};

const LOCAL: &str = "127.0.0.1:8080";

async fn start() -> Service {
    Service::start_with(|config, _| config.pages.development = true).await
}

async fn get(service: &Service, host: &str, path: &str) -> Reply {
    let request = Request::get(path).header("host", host);
    send(service.addr, request.body(Full::default()).unwrap()).await
}

async fn sign_in(service: &Service, headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::post("/sign-in/as")
        .header("host", LOCAL)
        .header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let form = Bytes::from_static(b"user=mallory&role=user&then=%2F");
    send(service.addr, request.body(Full::new(form)).unwrap()).await
}

/// A host name of an attacker may resolve to this machine.
#[tokio::test]
async fn it_is_there_for_hosts_of_this_machine_alone() {
    let service = start().await;
    for path in [
        "/",
        "/sign-in",
        "/v1/session",
        "/docs/",
        "/v1/sales",
        "/healthz",
    ] {
        for host in [LOCAL, "localhost:8080", "[::1]:8080"] {
            let seen = get(&service, host, path).await;
            assert_ne!(seen.status, 421, "{host} {path}");
        }
        for host in ["rebound.example:8080", "test", "127.0.0.1.example"] {
            let refused = get(&service, host, path).await;
            assert_eq!(refused.status, 421, "{host} {path} {refused:?}");
            assert!(!refused.headers.contains_key("set-cookie"));
        }
    }
    service.stop().await;
    // Any other node accepts every host name.
    let service = Service::start().await;
    assert_eq!(get(&service, "shop.example", "/sign-in").await.status, 200);
    service.stop().await;
}

/// A form of another site cannot sign a user in.
#[tokio::test]
async fn pages_of_other_sites_sign_nobody_in() {
    let service = start().await;
    for own in [
        &[][..],
        &[("sec-fetch-site", "same-origin")],
        &[("origin", "http://127.0.0.1:8080")],
    ] {
        let signed_in = sign_in(&service, own).await;
        assert_eq!(signed_in.status, 303, "{own:?}");
        assert!(signed_in.header("set-cookie").starts_with("qiang="));
    }
    for other in [
        &[("sec-fetch-site", "cross-site")][..],
        &[
            ("sec-fetch-site", "same-site"),
            ("origin", "http://127.0.0.1:9090"),
        ],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
    ] {
        let refused = sign_in(&service, other).await;
        assert_eq!(refused.status, 403, "{other:?}");
        assert!(!refused.headers.contains_key("set-cookie"));
    }
    service.stop().await;
}

/// The clock moves in development only, and for operators only.
#[tokio::test]
async fn any_other_service_has_no_clock_that_moves() {
    let service = Service::start().await;
    let body = serde_json::json!({ "advance_seconds": 60 });
    let path = "/v1/test-clock/advance";
    let refused = service.post(path, &service.operator(), body.clone()).await;
    refused.assert_problem(409, "development-only");
    let token = service.token("shop", "campaigns:write pay");
    service
        .post(path, &token, body)
        .await
        .assert_problem(403, "forbidden");
    service.stop().await;
}
