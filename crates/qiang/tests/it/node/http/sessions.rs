//! Browser sessions: a token in a cookie.

use crate::node::http::common::{Reply, Service, call, packet, sign};
use qiang_core::ports::Clock as _;
use serde_json::json;

const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

/// The cookie that a reply sets, as browsers send it back, and its attributes.
fn cookie(reply: &Reply) -> (String, String) {
    let set = reply.header("set-cookie");
    let (pair, attributes) = set.split_once("; ").unwrap_or_else(|| panic!("{reply:?}"));
    (pair.to_owned(), attributes.to_owned())
}

async fn begin(service: &Service, token: &str, headers: &[(&str, &str)]) -> Reply {
    let path = "/v1/session";
    call(service.addr, "POST", path, Some(token), headers, None).await
}

#[tokio::test]
async fn a_token_becomes_a_cookie_and_the_cookie_stands_for_it() {
    let service = Service::start().await;
    let token = service.token("sam", "send claim");
    let begun = begin(&service, &token, &[]).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let body = json!({
        "user": "sam",
        "scopes": ["claim", "send"],
        "expires_at": "2026-11-21T13:00:00.000Z",
    });
    assert_eq!(begun.json(), body);
    let (cookie, attributes) = cookie(&begun);
    assert_eq!(cookie, format!("qiang={token}"));
    assert_eq!(attributes, "Path=/; Max-Age=3600; HttpOnly; SameSite=Lax");
    assert_eq!(begun.header("cache-control"), "no-store");

    let cookies = format!("other=1; {cookie}; more=2");
    let with = [("Cookie", cookies.as_str()), SAME];
    let seen = call(service.addr, "GET", "/v1/session", None, &with, None).await;
    assert_eq!((seen.status, seen.json()), (200, body));
    assert_eq!(seen.header("cache-control"), "no-store");
    service.deposit("sam", 10_000).await;
    let sent = call(
        service.addr,
        "POST",
        "/v1/red-packets",
        None,
        &with,
        Some(packet(10_000, 2)),
    );
    let sent = sent.await;
    assert_eq!(sent.status, 201, "{sent:?}");
    assert_eq!(sent.text("sender"), "sam");

    // A bearer token takes precedence over the cookie.
    let other = service.token("tim", "");
    let seen = call(
        service.addr,
        "GET",
        "/v1/session",
        Some(&other),
        &with,
        None,
    )
    .await;
    assert_eq!(seen.text("user"), "tim");

    let ended = call(service.addr, "DELETE", "/v1/session", None, &with, None).await;
    assert_eq!(ended.status, 204, "{ended:?}");
    assert_eq!(
        ended.header("set-cookie"),
        "qiang=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
    );
    // The session ends with its token.
    service.clock.advance_ms(3_700_000);
    let late = call(service.addr, "GET", "/v1/session", None, &with, None).await;
    late.assert_problem(401, "unauthenticated");
    service.stop().await;
}

#[tokio::test]
async fn what_other_sites_have_a_browser_send_is_refused() {
    let service = Service::start().await;
    let id = service.red_packet(2, |_| ()).await;
    let claims = format!("/v1/red-packets/{id}/claims");
    let cookie = format!("qiang={}", service.token("ann", "claim"));
    let from = |headers: &[(&'static str, &'static str)]| {
        let mut all = vec![("Cookie", cookie.as_str())];
        all.extend_from_slice(headers);
        let (addr, claims) = (service.addr, claims.as_str());
        async move { call(addr, "POST", claims, None, &all, None).await }
    };
    let refused: [&[_]; 5] = [
        &[],
        &[("Sec-Fetch-Site", "cross-site")],
        &[
            ("Sec-Fetch-Site", "same-site"),
            ("Origin", "http://localhost"),
        ],
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
    ];
    for headers in refused {
        from(headers).await.assert_problem(403, "cross-site");
    }
    let foreign = [("Cookie", cookie.as_str())];
    let end = call(service.addr, "DELETE", "/v1/session", None, &foreign, None).await;
    end.assert_problem(403, "cross-site");
    let remaining = service
        .get(&format!("/v1/campaigns/{id}/state"), &service.operator())
        .await;
    assert_eq!(remaining.json()["remaining"], json!(2));
    for headers in [SAME, ("Origin", "http://localhost")] {
        let granted = from(&[headers]).await;
        assert!([200, 201].contains(&granted.status), "{granted:?}");
    }
    // A read has no effect, so it is allowed.
    let path = format!("/v1/red-packets/{id}");
    let cross = [
        ("Cookie", cookie.as_str()),
        ("Sec-Fetch-Site", "cross-site"),
    ];
    let seen = call(service.addr, "GET", &path, None, &cross, None).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    service.stop().await;
}

#[tokio::test]
async fn over_tls_the_cookie_is_for_this_host_alone() {
    let service = Service::start().await;
    let token = service.token("ann", "claim");
    let tls = ("X-Forwarded-Proto", "https");
    let (secure, attributes) = cookie(&begin(&service, &token, &[tls]).await);
    assert_eq!(secure, format!("__Host-qiang={token}"));
    assert_eq!(
        attributes,
        "Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"
    );
    let seen = [tls, ("Cookie", secure.as_str())];
    let seen = call(service.addr, "GET", "/v1/session", None, &seen, None).await;
    assert_eq!(seen.text("user"), "ann");
    // Another host of the same site can set a cookie of this name.
    let planted = format!("qiang={token}");
    let planted = [tls, ("Cookie", planted.as_str())];
    let planted = call(service.addr, "GET", "/v1/session", None, &planted, None).await;
    planted.assert_problem(401, "unauthenticated");
    service.stop().await;
}

#[tokio::test]
async fn a_session_begins_with_a_token_that_fits_into_a_cookie() {
    let service = Service::start().await;
    let exp = service.clock.now().as_millis() / 1_000 + 60;
    let long =
        sign(&json!({ "sub": "ann", "scope": "claim", "exp": exp, "more": "x".repeat(3_000) }));
    begin(&service, &long, &[])
        .await
        .assert_problem(422, "invalid");
    let cookie = format!("qiang={}", service.token("ann", "claim"));
    let with = [("Cookie", cookie.as_str()), SAME];
    let again = call(service.addr, "POST", "/v1/session", None, &with, None).await;
    again.assert_problem(400, "bad-request");
    begin(&service, "nonsense", &[])
        .await
        .assert_problem(401, "unauthenticated");
    service.stop().await;
}

/// Without a limit of lifetimes, a token may have any time as its end.
#[tokio::test]
async fn a_session_that_ends_beyond_the_calendar_is_shown() {
    let service = Service::start_with(|config, _| config.auth.lifetime_s_max = 0).await;
    for exp in [1e300, 1e13, 4e11] {
        let token = sign(&json!({ "sub": "sam", "exp": exp, "scope": "claim" }));
        let begun = begin(&service, &token, &[]).await;
        assert_eq!(begun.status, 201, "{begun:?}");
        assert_eq!(begun.text("expires_at"), "9999-12-30T22:00:00.999Z");
        let seen = service.get("/v1/session", &token).await;
        assert_eq!(seen.status, 200, "{seen:?}");
    }
    service.stop().await;
}
