//! Requests without a valid token: counted by the reason, and limited per address.

use crate::node::http::common::{START_MS, Service, call, sign, sign_with};
use serde_json::{Value, json};

const PATH: &str = "/v1/accounts/ann";
const EXP: i64 = START_MS / 1_000 + 3_600;

#[tokio::test]
async fn failures_are_counted_by_their_reason() {
    let service = Service::start_with(|config, _| {
        config.auth.issuer = "us".to_owned();
        config.auth.audience = "qiang".to_owned();
        config.auth.lifetime_s_max = 7_200;
    })
    .await;
    let good = json!({ "sub": "ann", "exp": EXP, "iss": "us", "aud": "qiang" });
    let with = |field: &str, value: Value| {
        let mut claims = good.clone();
        claims[field] = value;
        sign(&claims)
    };
    let crit = {
        let header = jsonwebtoken::Header {
            crit: Some(vec!["b64".to_owned()]),
            ..Default::default()
        };
        let key =
            jsonwebtoken::EncodingKey::from_secret(crate::node::http::common::SECRET.as_bytes());
        jsonwebtoken::encode(&header, &good, &key).unwrap()
    };
    let tokens = [
        ("missing", None),
        ("malformed", Some("x.y".to_owned())),
        ("malformed", Some(with("sub", json!(7)))),
        ("header", Some(crit)),
        ("signature", Some(sign_with(&"x".repeat(32), &good))),
        ("expired", Some(with("exp", json!(EXP - 9_000)))),
        ("early", Some(with("nbf", json!(EXP)))),
        ("lifetime", Some(with("exp", json!(EXP + 9_000)))),
        ("issuer", Some(with("iss", json!("them")))),
        ("audience", Some(with("aud", json!("other")))),
    ];
    let mut expected = std::collections::BTreeMap::from([("revoked", 0)]);
    for (reason, token) in &tokens {
        let reply = call(service.addr, "GET", PATH, token.as_deref(), &[], None).await;
        reply.assert_problem(401, "unauthenticated");
        *expected.entry(*reason).or_default() += 1;
    }
    assert_eq!(service.get(PATH, &sign(&good)).await.status, 200);
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for (reason, count) in expected {
        let line = format!("qiang_auth_failures_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} {metrics}");
    }
    service.stop().await;
}

/// A page is answered even for an invalid session. The attempt counts.
#[tokio::test]
async fn sessions_that_do_not_hold_are_counted_on_pages_too() {
    let service = Service::start_with(|config, _| {
        config.limits.unauthenticated_per_address_per_minute = 3;
    })
    .await;
    let page = async |cookie: Option<&str>| {
        let headers = cookie.map(|cookie| ("cookie", cookie));
        call(
            service.addr,
            "GET",
            "/sign-in",
            None,
            headers.as_slice(),
            None,
        )
        .await
    };
    // A request without a session is no attempt.
    for _ in 0..9 {
        assert_eq!(page(None).await.status, 200);
    }
    for _ in 0..3 {
        assert_eq!(page(Some("qiang=x.y.z")).await.status, 200);
    }
    let fourth = page(Some("qiang=x.y.z")).await;
    fourth.assert_problem(429, "address-throttled");
    let holds = format!("qiang={}", service.token("ann", ""));
    assert_eq!(page(Some(&holds)).await.status, 200);
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = "qiang_auth_failures_total{reason=\"malformed\"} 4\n";
    assert!(metrics.contains(line), "{metrics}");
    service.stop().await;
}

#[tokio::test]
async fn an_address_may_fail_so_often_and_tokens_that_hold_are_taken_all_the_same() {
    let service = Service::start_with(|config, _| {
        config.limits.unauthenticated_per_address_per_minute = 3;
    })
    .await;
    let id = service.red_packet(9, |_| ()).await;
    let claims = format!("/v1/red-packets/{id}/claims");
    let ask = async |method: &str, path: &str, token: Option<&str>| {
        call(service.addr, method, path, token, &[], None).await
    };
    let forged = sign_with(&"x".repeat(32), &json!({ "sub": "ann", "exp": EXP }));
    assert_eq!(ask("GET", PATH, None).await.status, 401);
    assert_eq!(ask("GET", PATH, Some(&forged)).await.status, 401);
    assert_eq!(ask("POST", &claims, Some(&forged)).await.status, 401);
    for (method, path) in [("GET", PATH), ("POST", &*claims)] {
        let fourth = ask(method, path, Some(&forged)).await;
        fourth.assert_problem(429, "address-throttled");
        let policy = "\"unauthenticated-of-address\";q=3;w=60";
        assert_eq!(fourth.header("ratelimit-policy"), policy);
        assert!(
            !fourth.headers.contains_key("www-authenticate"),
            "{fourth:?}"
        );
    }
    let token = service.token("ann", "claim");
    assert_eq!(ask("GET", PATH, Some(&token)).await.status, 200);
    assert_eq!(ask("POST", &claims, Some(&token)).await.status, 201);
    // A missing scope does not count.
    let nothing = service.token("ann", "");
    assert_eq!(ask("POST", &claims, Some(&nothing)).await.status, 403);
    service.stop().await;
}
