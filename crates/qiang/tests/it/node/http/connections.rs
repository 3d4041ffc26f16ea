//! Connections that are slow, idle or too many.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Version, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;

use crate::node::http::common::{Service, read_to_end};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n";

#[tokio::test]
async fn slow_heads_are_cut_off() {
    let service = Service::start_with(|config, _| config.server.header_timeout_ms = 400).await;
    let started = Instant::now();
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\n")
        .await
        .unwrap();
    // Single bytes do not extend the limit.
    while started.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if stream.write_all(b"x").await.is_err() {
            break;
        }
    }
    let cut_off_after = started.elapsed();
    assert!(
        (400..2_000).contains(&cut_off_after.as_millis()),
        "{cut_off_after:?}"
    );
    service.stop().await;
}

/// A client that connected just before the service stops is answered, if its request comes soon.
#[tokio::test]
async fn a_new_connection_is_heard_while_the_service_stops() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await; // until it is accepted
    let ask = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        stream.write_all(HEALTH).await.unwrap();
        let mut buf = [0; 1_024];
        stream.read(&mut buf).await.unwrap()
    };
    let (answered, ()) = tokio::join!(ask, service.stop());
    assert!(answered > 0, "the connection was closed");
}

#[tokio::test]
async fn idle_connections_are_closed_and_busy_ones_kept() {
    let service = Service::start_with(|config, _| {
        config.server.header_timeout_ms = 300;
        config.server.idle_timeout_ms = 1_200;
    })
    .await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let mut buf = [0; 1_024];
    // Two requests, with a pause longer than the time limit of a head.
    for _ in 0..2 {
        stream.write_all(HEALTH).await.unwrap();
        assert!(stream.read(&mut buf).await.unwrap() > 0);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    assert_eq!(
        read_to_end(&mut stream, Duration::from_secs(5)).await,
        (String::new(), true)
    );
    service.stop().await;
}

#[tokio::test]
async fn slow_bodies_are_cut_off() {
    let service = Service::start_with(|config, _| config.server.request_timeout_ms = 300).await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let head = format!(
        "POST /v1/accounts/sam/deposits HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 20\r\n\r\n{{",
        service.operator()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("/problems/body-timeout"),
        "{answer}"
    );
    assert!(closed);
    service.stop().await;
}

#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_refused_at_once() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let head = format!(
        "POST /v1/accounts/sam/deposits HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 10000000000\r\n\r\n{{",
        service.operator()
    );
    let started = Instant::now();
    stream.write_all(head.as_bytes()).await.unwrap();
    let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(closed && started.elapsed() < Duration::from_secs(4));
    service.stop().await;
}

#[tokio::test]
async fn heads_that_the_parser_refuses_are_answered_with_problems() {
    let service = Service::start().await;
    // An unfinished head of the greatest allowed size. The service reads all of it, so the connection is not reset.
    let mut long = "GET / HTTP/1.1\r\na: ".to_owned();
    long.push_str(&"x".repeat(32 * 1024 - long.len()));
    for (head, status, kind) in [
        ("nonsense\r\n\r\n".to_owned(), 400, "bad-request"),
        (
            "GET / HTTP/1.1\r\na b: c\r\n\r\n".to_owned(),
            400,
            "bad-request",
        ),
        (
            "GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n".to_owned(),
            400,
            "bad-request",
        ),
        (long, 431, "head-too-large"),
    ] {
        let mut stream = TcpStream::connect(service.addr).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(
            answer.contains("content-type: application/problem+json\r\n"),
            "{answer}"
        );
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len())),
            "{answer}"
        );
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["type"], format!("/problems/{kind}"));
        let id = body["request_id"].as_str().unwrap();
        assert!(head.contains(&format!("x-request-id: {id}")), "{answer}");
        assert!(closed);
    }
    service.stop().await;
}

/// A request that two readers may understand in two ways is refused.
#[tokio::test]
async fn a_request_has_one_host_and_one_of_each_header_that_means_something() {
    let service = Service::start().await;
    let id = service.sale(9, |_| ()).await;
    let state = format!("/v1/campaigns/{id}/state");
    let check_path = async |path: &str, version: &str, headers: &str, status: u16| {
        let mut stream = TcpStream::connect(service.addr).await.unwrap();
        let head = format!("GET {path} HTTP/{version}\r\n{headers}connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
        assert!(closed, "{answer}");
        let expected = format!("HTTP/{version} {status} ");
        assert!(answer.starts_with(&expected), "{headers:?}: {answer}");
        if status == 400 {
            assert!(answer.contains("/problems/bad-request"), "{answer}");
        }
    };
    let check = async |version: &str, headers: &str, status: u16| {
        check_path(&state, version, headers, status).await;
    };
    check("1.1", "host: a\r\n", 200).await;
    check("1.0", "", 200).await;
    check("1.1", "", 400).await;
    check("1.1", "host: a\r\nhost: b\r\n", 400).await;
    check("1.1", "host: a\r\nHost: a\r\n", 400).await;
    check("1.0", "host: a\r\nhost: a\r\n", 400).await;
    for name in ["authorization", "grab-ticket", "last-event-id"] {
        let double = format!("host: a\r\n{name}: x\r\n{name}: y\r\n");
        check("1.1", &double, 400).await;
    }
    // Load balancers send no host.
    for path in ["/healthz", "/metrics"] {
        check_path(path, "1.1", "", 200).await;
        check_path(path, "1.1", "host: a\r\nhost: b\r\n", 400).await;
    }
    service.stop().await;
}

#[tokio::test]
async fn a_bad_head_counts_against_its_address() {
    let service = Service::start_with(|config, _| {
        config.limits.reads_per_address_per_second = 1;
        config.limits.reads_per_address_burst = 1;
        config.limits.unlimited_addresses = String::new();
    })
    .await;
    let ask = async || {
        let mut stream = TcpStream::connect(service.addr).await.unwrap();
        let head = b"GET /v1/currencies HTTP/1.1\r\nconnection: close\r\n\r\n";
        stream.write_all(head).await.unwrap();
        read_to_end(&mut stream, Duration::from_secs(5)).await.0
    };
    assert!(ask().await.starts_with("HTTP/1.1 400 "));
    let answer = ask().await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    service.stop().await;
}

/// Sends a request on a new connection. Returns the answer, and whether the connection was closed.
async fn hear(service: &Service, path: &str) -> (String, bool) {
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    read_to_end(&mut stream, Duration::from_secs(3)).await
}

/// Opens this number of idle connections.
async fn idle(service: &Service, connections: usize) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(service.addr).await.unwrap();
        stream.write_all(HEALTH).await.unwrap();
        assert!(stream.read(&mut [0; 1_024]).await.unwrap() > 0);
        idle.push(stream);
    }
    idle
}

#[tokio::test]
async fn connections_past_the_limit_are_told_so_and_health_is_not_held_out() {
    let service = Service::start_with(|config, _| config.server.connections_max = 20).await;
    let idle = idle(&service, 20).await;
    for _ in 0..3 {
        let (answer, closed) = hear(&service, "/v1/sales").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("/problems/overloaded"), "{answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(closed);
        for path in ["/healthz", "/readyz", "/metrics"] {
            let (answer, closed) = hear(&service, path).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK") && closed, "{answer}");
        }
    }
    // A client that sends nothing is disconnected.
    let mut silent = TcpStream::connect(service.addr).await.unwrap();
    let (answer, closed) = read_to_end(&mut silent, Duration::from_secs(3)).await;
    assert_eq!((answer.as_str(), closed), ("", true));
    let (metrics, _) = hear(&service, "/metrics").await;
    assert!(metrics.contains("qiang_rate_limited_total{limit=\"connections\"}"));
    drop(idle);
    let begun = Instant::now();
    while hear(&service, "/problems")
        .await
        .0
        .starts_with("HTTP/1.1 503 ")
    {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    service.stop().await;
}

#[tokio::test]
async fn who_comes_in_great_numbers_is_closed_without_a_word() {
    let service = Service::start_with(|config, _| config.server.connections_max = 1).await;
    let _idle = idle(&service, 1).await;
    let mut silent = Vec::new();
    for _ in 0..65 {
        silent.push(TcpStream::connect(service.addr).await.unwrap());
    }
    let begun = Instant::now();
    let (answer, closed) = read_to_end(&mut silent[64], Duration::from_secs(3)).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && closed, "{answer}");
    assert!(begun.elapsed() < Duration::from_millis(800));
    service.stop().await;
}

#[tokio::test]
async fn an_address_has_so_many_connections() {
    let adjusted = |trusted: &'static str, unlimited: &'static str| {
        Service::start_with(move |config, _| {
            config.limits.connections_per_address_max = 3;
            config.limits.unlimited_addresses = unlimited.to_owned();
            config.server.trusted_proxies = trusted.to_owned();
        })
    };
    let service = adjusted("", "").await;
    let mut idle_ones = idle(&service, 3).await;
    let (answer, closed) = hear(&service, "/problems").await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && closed, "{answer}");
    for part in [
        "/problems/too-many-connections",
        "retry-after: 1\r\n",
        "ratelimit: \"connections-of-address\";r=0\r\n",
        "ratelimit-policy: \"connections-of-address\";q=3;qiang-unit=\"connections\"\r\n",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(
        hear(&service, "/healthz")
            .await
            .0
            .starts_with("HTTP/1.1 200 ")
    );
    // A connection that ends makes room for another.
    idle_ones.pop();
    let begun = Instant::now();
    while hear(&service, "/problems")
        .await
        .0
        .starts_with("HTTP/1.1 429 ")
    {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    service.stop().await;
    // Trusted proxies and unlimited addresses have no limit.
    for (trusted, unlimited) in [("127.0.0.1", ""), ("", "127.0.0.1")] {
        let service = adjusted(trusted, unlimited).await;
        let _many = idle(&service, 9).await;
        service.stop().await;
    }
}

#[tokio::test]
async fn requests_on_one_connection_may_be_pipelined() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let close = b"GET /healthz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    stream
        .write_all(&[HEALTH, HEALTH, close].concat())
        .await
        .unwrap();
    let (answers, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
    assert_eq!(
        (answers.matches("HTTP/1.1 200 OK").count(), closed),
        (3, true),
        "{answers}"
    );
    service.stop().await;
}

/// A client that is still sending when its head is refused can read the answer.
#[tokio::test]
async fn a_refusal_reaches_who_is_still_sending() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let mut head = b"GET /healthz HTTP/1.1\r\nhost: test\r\nx-long: ".to_vec();
    head.resize(48 * 1_024, b'x');
    stream.write_all(&head).await.unwrap();
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(200)).await; // by now it is refused
        stream.write_all(&[b'x'; 8 * 1_024]).await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(answer.contains("/problems/head-too-large"), "{answer}");
    service.stop().await;
}

/// A client that knows that the service speaks HTTP/2 needs no TLS for it. Others still get HTTP/1.1.
#[tokio::test]
async fn http2_is_spoken_in_clear_text_to_a_client_that_begins_with_it() {
    let service = Service::start().await;
    let sale = service.sale(50, |_| ()).await;
    let stream = TcpStream::connect(service.addr).await.unwrap();
    let io = TokioIo::new(stream);
    let (send, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let claims = (0..40).map(|n| {
        let request = Request::post(format!("http://localhost/v1/sales/{sale}/orders"));
        let token = service.token(&format!("user-{n}"), "claim");
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let mut send = send.clone();
        async move {
            send.ready().await.unwrap();
            let answer = send.send_request(request).await.unwrap();
            assert_eq!(answer.version(), Version::HTTP_2);
            assert_eq!(answer.status(), 201, "{answer:?}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let order: serde_json::Value = serde_json::from_slice(&body).unwrap();
            order["number"].as_u64().unwrap()
        }
    });
    let mut numbers = futures_util::future::join_all(claims).await;
    numbers.sort_unstable();
    assert_eq!(json!(numbers), json!((1..=40).collect::<Vec<u64>>()));
    connection.abort();

    // A request of HTTP/1.1 whose method begins in the same way, a byte at a time.
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    for byte in b"PROPFIND /v1/sales HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
    assert!(answer.starts_with("HTTP/1.1 405 ") && closed, "{answer}");
    // The service stops while a client has said nothing.
    let silent = TcpStream::connect(service.addr).await.unwrap();
    service.stop().await;
    drop(silent);
}

#[tokio::test]
async fn a_slow_preface_is_cut_off() {
    let service = Service::start_with(|config, _| config.server.header_timeout_ms = 400).await;
    let started = Instant::now();
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let (answer, closed) = read_to_end(&mut stream, Duration::from_secs(5)).await;
    assert!(closed && answer.is_empty(), "{answer}");
    let cut_off_after = started.elapsed().as_millis();
    assert!((400..2_000).contains(&cut_off_after), "{cut_off_after} ms");
    service.stop().await;
}
