//! Request ids: from the client, or a new one, in the response and in problem details.

use crate::node::http::common::{Reply, Service, call};

async fn ask(service: &Service, id: Option<&str>, path: &str, token: Option<&str>) -> Reply {
    let headers = id.map(|id| ("X-Request-Id", id));
    let headers: Vec<_> = headers.into_iter().collect();
    call(service.addr, "POST", path, token, &headers, None).await
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let service = Service::start().await;
    let sale = service.sale(1, |_| ()).await;
    let path = format!("/v1/sales/{sale}/orders");
    let (ann, bob) = (service.token("ann", "claim"), service.token("bob", "claim"));
    let cases = [
        (path.as_str(), Some(ann.as_str()), 201),
        (path.as_str(), Some(bob.as_str()), 409), // sold out: the answer that is written once
        (path.as_str(), None, 401),
        ("/v1/sales/x/orders", Some(ann.as_str()), 400),
        ("/nowhere", None, 404),
        ("/healthz", None, 405),
    ];
    for (path, token, status) in cases {
        let reply = ask(&service, Some("edge-1:a/b+c=@_."), path, token).await;
        // The first claim is granted once. A retry gets the same grant.
        assert!([status, 200].contains(&reply.status), "{path} {reply:?}");
        assert_eq!(reply.header("x-request-id"), "edge-1:a/b+c=@_.");
        let fresh = ask(&service, None, path, token).await;
        let id = fresh.header("x-request-id").to_owned();
        assert_eq!(id.len(), 32, "{fresh:?}");
        if status >= 400 {
            assert_eq!(reply.text("request_id"), "edge-1:a/b+c=@_.");
            assert_eq!(fresh.text("request_id"), id);
        }
        assert_ne!(
            ask(&service, None, path, token)
                .await
                .header("x-request-id"),
            id
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn an_id_that_would_need_escapes_or_much_room_is_replaced() {
    let service = Service::start().await;
    let long = "x".repeat(129);
    for bad in ["", "a b", "a\"b", "a\\b", "<a>", &long] {
        let reply = ask(&service, Some(bad), "/nowhere", None).await;
        reply.assert_problem(404, "not-found");
        let id = reply.header("x-request-id");
        assert!(id != bad && id.len() == 32, "{reply:?}");
        assert_eq!(reply.text("request_id"), id);
    }
    service.stop().await;
}
