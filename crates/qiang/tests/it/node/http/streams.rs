//! Limits of live streams per client.

use std::time::{Duration, Instant};

use crate::node::http::common::{Reply, Service, call};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const STREAM: (&str, &str) = ("Accept", "text/event-stream");

/// Opens a stream with these headers, and waits for its first event.
async fn open(service: &Service, path: &str, headers: &[(&str, &str)]) -> TcpStream {
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nAccept: text/event-stream\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&all).contains("event: ") {
            let mut buffer = [0; 4_096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&buffer[..count]);
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), reading).await;
    assert!(in_time.is_ok(), "{}", String::from_utf8_lossy(&all));
    stream
}

async fn ask(service: &Service, path: &str, headers: &[(&str, &str)]) -> Reply {
    let headers = [&[STREAM][..], headers].concat();
    call(service.addr, "GET", path, None, &headers, None).await
}

#[track_caller]
fn assert_refused(reply: &Reply, policy: &str, max: u32) {
    reply.assert_problem(429, "too-many-streams");
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(reply.header("ratelimit"), format!("\"{policy}\";r=0"));
    assert_eq!(
        reply.header("ratelimit-policy"),
        format!("\"{policy}\";q={max};qiang-unit=\"streams\"")
    );
    assert_eq!(reply.json()["violated-policies"], json!([policy]));
}

#[tokio::test]
async fn an_address_has_so_many_streams_of_all_kinds() {
    let service = Service::start_with(|config, _| {
        config.limits.streams_per_address_max = 3;
        config.server.trusted_proxies = "127.0.0.1".to_owned();
    })
    .await;
    let id = service
        .sale(9, |sale| sale["waiting_room"] = json!(true))
        .await;
    let pause = format!("/v1/campaigns/{id}/pause");
    assert_eq!(service.act(&pause, &service.operator()).await.status, 200);
    let ann = service.token("ann", "claim");
    let orders = format!("/v1/sales/{id}/orders");
    assert_eq!(service.act(&orders, &ann).await.status, 202);
    let events = format!("/v1/campaigns/{id}/events");
    let place = format!("/v1/campaigns/{id}/queue-entry");
    let (ann, olga) = (
        format!("Bearer {ann}"),
        format!("Bearer {}", service.operator()),
    );
    let from = ("X-Forwarded-For", "198.51.100.1");
    let (ann, olga) = (("Authorization", &*ann), ("Authorization", &*olga));
    let first = open(&service, &events, &[from]).await;
    let _place = open(&service, &place, &[from, ann]).await;
    let _figures = open(&service, "/v1/stats", &[from, olga]).await;
    for (path, headers) in [
        (&*events, &[from][..]),
        (&place, &[from, ann]),
        ("/v1/stats", &[from, olga]),
    ] {
        let refused = ask(&service, path, headers).await;
        assert_refused(&refused, "streams-of-address", 3);
    }
    // Other addresses have their own streams.
    drop(open(&service, &events, &[("X-Forwarded-For", "198.51.100.2")]).await);
    // A stream that ends makes room for another.
    drop(first);
    let begun = Instant::now();
    while now(&service, &events, &[from]).await.status == 429 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let metrics = service.get("/metrics", "").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = "qiang_rate_limited_total{limit=\"streams-of-address\"}";
    assert!(metrics.contains(line), "{metrics}");
    service.stop().await;
}

/// Requests a campaign's events without a stream. The answer ends at once.
async fn now(service: &Service, path: &str, headers: &[(&str, &str)]) -> Reply {
    call(service.addr, "GET", path, None, headers, None).await
}

#[tokio::test]
async fn a_user_has_so_many_streams_and_a_service_as_many_as_it_needs() {
    let service = Service::start_with(|config, _| config.limits.streams_per_user_max = 1).await;
    let id = service.sale(9, |_| ()).await;
    let events = format!("/v1/campaigns/{id}/events");
    let [ann, bob, olga] = [("ann", ""), ("bob", ""), ("olga", "read:any")]
        .map(|(user, scope)| format!("Bearer {}", service.token(user, scope)));
    let [ann, bob, olga] = [&ann, &bob, &olga].map(|token| ("Authorization", token.as_str()));
    let _ann = open(&service, &events, &[ann]).await;
    let refused = ask(&service, &events, &[ann]).await;
    assert_refused(&refused, "streams-of-user", 1);
    let _others = [
        open(&service, &events, &[bob]).await,
        open(&service, &events, &[]).await,
        open(&service, &events, &[]).await,
        open(&service, &events, &[olga]).await,
        open(&service, &events, &[olga]).await,
    ];
    service.stop().await;
}

/// Addresses without limits have no limit of streams.
#[tokio::test]
async fn own_addresses_have_as_many_streams_as_there_are() {
    let service = Service::start_with(|config, _| {
        config.limits.streams_per_address_max = 1;
        config.limits.streams_per_connection_max = 1;
        config.limits.unlimited_addresses = "127.0.0.1".to_owned();
    })
    .await;
    let id = service.sale(9, |_| ()).await;
    let events = format!("/v1/campaigns/{id}/events");
    let _both = [
        open(&service, &events, &[]).await,
        open(&service, &events, &[]).await,
    ];
    service.stop().await;
}
