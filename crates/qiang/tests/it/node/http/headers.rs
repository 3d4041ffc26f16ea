//! Headers of all answers, and the location of created objects.

use crate::node::http::common::{Reply, Service, call, packet, sale};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

async fn ask(service: &Service, path: &str, token: Option<&str>, proto: &str) -> Reply {
    let headers = [("x-forwarded-proto", proto)];
    call(service.addr, "GET", path, token, &headers, None).await
}

#[tokio::test]
async fn browsers_are_told_not_to_guess_and_not_to_tell() {
    let service = Service::start().await;
    for path in [
        "/healthz",
        "/v1/sales",
        "/nowhere",
        "/docs/",
        "/problems/ended",
        "/openapi.json",
    ] {
        let reply = ask(&service, path, None, "").await;
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("referrer-policy"), "no-referrer", "{path}");
    }
    // A head that the parser refuses reaches no handler.
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    stream.write_all(b"GET\r\n\r\n").await.unwrap();
    let (text, _) =
        crate::node::http::common::read_to_end(&mut stream, std::time::Duration::from_secs(5))
            .await;
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    for header in [
        "x-content-type-options: nosniff\r\n",
        "referrer-policy: no-referrer\r\n",
    ] {
        assert!(text.contains(header), "{text}");
    }
    service.stop().await;
}

#[tokio::test]
async fn pages_of_the_service_have_a_policy() {
    let service = Service::start().await;
    let policy = async |path: &str| {
        let reply = ask(&service, path, None, "").await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.header("content-type").starts_with("text/html"),
            "{path}"
        );
        reply.header("content-security-policy").to_owned()
    };
    for path in ["/problems", "/problems/ended", "/docs/", "/sign-in"] {
        let policy = policy(path).await;
        for part in [
            "default-src 'none'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("script-src 'unsafe"), "{path}: {policy}");
    }
    assert!(policy("/docs/").await.contains("script-src 'self'"));
    assert!(!policy("/problems").await.contains("script-src"));
    service.stop().await;
}

#[tokio::test]
async fn caches_keep_nothing_that_was_asked_for_with_a_token() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let token = service.token("ann", "claim");
    let caching = async |path: &str, token: Option<&str>| {
        let reply = ask(&service, path, token, "").await;
        reply.header("cache-control").to_owned()
    };
    let order = format!("/v1/sales/{id}/orders");
    let claimed = service.act(&order, &token).await;
    assert_eq!(
        (claimed.status, claimed.header("cache-control")),
        (201, "no-store")
    );
    let own = format!("/v1/orders/{}", claimed.text("id"));
    for path in ["/v1/accounts/ann", "/v1/accounts/bob", &own, "/v1/nowhere"] {
        assert_eq!(caching(path, Some(&token)).await, "no-store", "{path}");
    }
    // The problem of a refusal is private to its caller.
    let replay = service.act(&order, &service.token("bob", "")).await;
    assert_eq!(
        (replay.status, replay.header("cache-control")),
        (403, "no-store")
    );
    // Public answers may be cached, also for a caller with a token.
    let state = format!("/v1/campaigns/{id}/state");
    for token in [None, Some(token.as_str())] {
        assert_eq!(
            caching(&state, token).await,
            "public, max-age=1, s-maxage=1"
        );
        assert_eq!(caching("/problems", token).await, "public, max-age=3600");
    }
    // deploy/nginx.conf caches this answer for a second: it forwards the request without a token.
    let unknown = state.replace(&id, "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80");
    assert_eq!(caching(&unknown, None).await, "");
    service.stop().await;
}

#[tokio::test]
async fn transport_security_is_asked_for_behind_tls_alone() {
    let check = async |service: &Service, proto: &str, expected: &str| {
        let reply = ask(service, "/healthz", None, proto).await;
        let found = reply.header("strict-transport-security");
        assert_eq!(found, expected, "{proto}");
    };
    let usual = Service::start().await;
    check(&usual, "https", "").await;
    usual.stop().await;
    let behind = Service::start_with(|config, _| config.server.hsts_max_age_s = 86_400).await;
    check(&behind, "", "").await;
    check(&behind, "http", "").await;
    check(&behind, "http, https", "").await;
    check(&behind, "https", "max-age=86400").await;
    check(&behind, "HTTPS, http", "max-age=86400").await;
    behind.stop().await;
}

#[tokio::test]
async fn what_was_created_says_where_it_is() {
    let service = Service::start().await;
    service.deposit("sam", 20_000).await;
    let (sam, olga) = (service.token("sam", "send claim"), service.operator());
    let packet = packet(10_000, 5);
    let deposit = crate::node::http::common::deposit(5);
    for (path, token, body, field, created) in [
        ("/v1/red-packets", &sam, packet, "id", "/v1/red-packets/"),
        ("/v1/sales", &olga, sale(5), "id", "/v1/sales/"),
        (
            "/v1/accounts/sam/deposits",
            &olga,
            deposit,
            "id",
            "/v1/accounts/sam/deposits/",
        ),
    ] {
        let made = service.post_key(path, token, "k", body.clone()).await;
        assert_eq!(made.status, 201, "{made:?}");
        let location = format!("{created}{}", made.text(field));
        assert_eq!(made.header("location"), location);
        assert_eq!(service.get(&location, &sam).await.status, 200, "{location}");
        // The retry created nothing.
        let again = service.post_key(path, token, "k", body).await;
        assert_eq!((again.status, again.header("location")), (200, ""));
    }
    let sale = service.sale(5, |_| ()).await;
    let order = service.act(&format!("/v1/sales/{sale}/orders"), &sam).await;
    let location = format!("/v1/orders/{}", order.text("id"));
    assert_eq!(
        (order.status, order.header("location")),
        (201, location.as_str())
    );
    assert_eq!(service.get(&location, &sam).await.status, 200);
    let packet = service.red_packet(5, |_| ()).await;
    let claims = format!("/v1/red-packets/{packet}/claims");
    let share = service.act(&claims, &sam).await;
    assert_eq!(
        (share.status, share.header("location")),
        (201, claims.as_str())
    );
    assert_eq!(service.get(&claims, &sam).await.status, 200);
    service.stop().await;
}
