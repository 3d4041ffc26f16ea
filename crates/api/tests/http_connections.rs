//! Connections that are slow, idle or too many.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Service, read_to_end};
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
    // A byte now and then does not help.
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

#[tokio::test]
async fn idle_connections_are_closed_and_busy_ones_kept() {
    let service = Service::start_with(|config, _| {
        config.server.header_timeout_ms = 300;
        config.server.idle_timeout_ms = 1_200;
    })
    .await;
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let mut buf = [0; 1_024];
    // Twice with a pause in between that is longer than a head may take.
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
    // A head that has not ended with as much as a head may have. All of it is read, so that nothing is reset.
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

#[tokio::test]
async fn connections_past_the_limit_wait() {
    let service = Service::start_with(|config, _| config.server.connections_max = 2).await;
    let first = TcpStream::connect(service.addr).await.unwrap();
    let mut second = TcpStream::connect(service.addr).await.unwrap();
    second.write_all(HEALTH).await.unwrap();
    let mut buf = [0; 64];
    assert!(second.read(&mut buf).await.unwrap() > 0);
    let mut third = TcpStream::connect(service.addr).await.unwrap();
    third.write_all(HEALTH).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(300), third.read(&mut buf)).await;
    assert!(waiting.is_err(), "a third connection was served");
    drop(first);
    let served = tokio::time::timeout(Duration::from_secs(5), third.read(&mut buf)).await;
    assert!(served.unwrap().unwrap() > 0);
    drop((second, third));
    service.stop().await;
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
