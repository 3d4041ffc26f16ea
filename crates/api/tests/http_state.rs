//! The numbers of a campaign as caches and browsers ask for them.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use common::{Reply, Service, call};

async fn state(service: &Service, id: &str, tags: &[(&str, &str)]) -> Reply {
    let path = format!("/v1/campaigns/{id}/state");
    call(service.addr, "GET", &path, None, tags, None).await
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let first = state(&service, &id, &[]).await;
    let caching = "public, max-age=1, s-maxage=1";
    assert_eq!(first.header("cache-control"), caching);
    assert!(first.body.len() < 300, "{} bytes", first.body.len());
    assert!(first.json()["now"].is_string());
    let etag = first.header("etag").to_owned();
    for (tags, status) in [
        (etag.clone(), 304),
        (format!("\"other\", {}", etag.trim_start_matches("W/")), 304),
        ("*".to_owned(), 304),
        ("W/\"other\"".to_owned(), 200),
    ] {
        let again = state(&service, &id, &[("if-none-match", tags.as_str())]).await;
        assert_eq!(again.status, status, "{tags}");
        assert_eq!(again.header("etag"), etag);
        assert_eq!(again.header("cache-control"), caching);
        assert!(!again.header("date").is_empty());
        assert_eq!(again.body.is_empty(), status == 304);
    }

    // The time alone changes no tag; a grant does.
    service.clock.advance_ms(5_000);
    let later = state(&service, &id, &[]).await;
    assert_ne!(later.json()["now"], first.json()["now"]);
    assert_eq!(later.header("etag"), etag);
    let (path, token) = (
        format!("/v1/sales/{id}/orders"),
        service.token("ann", "claim"),
    );
    assert_eq!(service.act(&path, &token).await.status, 201);
    let changed = state(&service, &id, &[("if-none-match", etag.as_str())]).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["granted"], 1);
}
