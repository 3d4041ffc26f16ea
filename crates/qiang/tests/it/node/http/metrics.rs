//! Metrics of the process in `/metrics`.

use std::time::Duration;

use crate::node::http::common::{Service, call, read_to_end};
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

#[tokio::test]
async fn the_process_says_what_it_is_and_what_it_uses() {
    let service = Service::start().await;
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None)
        .await
        .body;
    let metrics = String::from_utf8_lossy(&metrics);
    let of_process = |name: &str| {
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
        let values: Vec<f64> = lines
            .filter_map(|value| value.trim().parse().ok())
            .collect();
        assert_eq!(values.len(), 1, "{name}");
        values[0]
    };
    assert!(of_process("process_resident_memory_bytes ") > 1e6);
    assert!(of_process("process_open_fds ") > 3.0);
    assert!(of_process("process_start_time_seconds ") > 1.7e9);
    assert!(of_process("process_threads ") >= 1.0);
    let build = format!(
        "qiang_build_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(metrics.contains(&build), "{build}");
    service.stop().await;
}

#[tokio::test]
async fn what_a_node_does_is_told_second_by_second() {
    let service = Service::start().await;
    let id = service.sale(1, |_| ()).await;
    let support = service.token("support", "read:any");
    let begun = call(service.addr, "GET", "/v1/stats", Some(&support), &[], None);
    let begun = begun.await.json()["stats"].as_array().unwrap().len();
    let orders = format!("/v1/sales/{id}/orders");
    for (user, status) in [("ann", 201), ("bob", 409)] {
        let answer = service.act(&orders, &service.token(user, "claim")).await;
        assert_eq!(answer.status, status);
    }
    let stats = async || {
        let answer = service.get("/v1/stats", &support).await.json();
        answer["stats"].as_array().unwrap().clone()
    };
    let sum = |stats: &[Value], end: &str| {
        let rates = stats.iter().map(|it| it["outcomes_per_s"][end].as_f64());
        rates.flatten().sum::<f64>()
    };
    let told = loop {
        let told = stats().await;
        if sum(&told, "sold_out") > 0.0 && told.len() > begun + 1 {
            break told;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(sum(&told, "granted") > 0.0, "{told:?}");
    let busy = told.iter().find(|it| it["claims_per_s"] != 0.0).unwrap();
    assert!(busy["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "{busy}");
    let numbers: Vec<_> = told
        .iter()
        .map(|it| it["number"].as_u64().unwrap())
        .collect();
    assert!(numbers.is_sorted_by(|a, b| *b == a + 1), "{numbers:?}");
    // A caller with some stats gets the later ones, and a stream continues with the next.
    let last = numbers[numbers.len() - 1];
    let path = format!("/v1/stats?after={}", last - 1);
    let rest = service.get(&path, &support).await.json();
    assert_eq!(rest["stats"][0]["number"], last);
    // The number of an earlier process returns all stats.
    let all = service.get("/v1/stats?after=4000000000", &support).await;
    assert_eq!(all.json()["stats"][0]["number"], numbers[0]);
    assert_eq!(all.json()["process"], rest["process"]);
    let mut stream = TcpStream::connect(service.addr).await.unwrap();
    let request = format!(
        "GET /v1/stats HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {support}\r\n\
         Accept: text/event-stream\r\nLast-Event-ID: {last}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let foreign = request.replace(&format!("-ID: {last}"), "-ID: 4000000000");
    let mut restarted = TcpStream::connect(service.addr).await.unwrap();
    restarted.write_all(foreign.as_bytes()).await.unwrap();
    // A position must be a number.
    let request = request.replace(&format!("-ID: {last}"), "-ID: x");
    let mut other = TcpStream::connect(service.addr).await.unwrap();
    other.write_all(request.as_bytes()).await.unwrap();
    let (text, _) = read_to_end(&mut other, Duration::from_secs(10)).await;
    assert!(
        text.starts_with("HTTP/1.1 400 ") && text.contains("Last-Event-ID"),
        "{text}"
    );
    while stats().await.len() < told.len() + 3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    service.stop().await;
    let (text, closed) = read_to_end(&mut stream, Duration::from_secs(10)).await;
    assert!(closed && text.contains("text/event-stream"), "{text}");
    let ids = |text: &str| {
        let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
        ids.map(|id| id.parse().unwrap()).collect::<Vec<u64>>()
    };
    let known = ids(&text);
    assert!(
        known.len() >= 2 && known[0] > last && known.is_sorted(),
        "{known:?}"
    );
    let (text, _) = read_to_end(&mut restarted, Duration::from_secs(10)).await;
    let all = ids(&text);
    assert!(
        all.len() > known.len() && all.is_sorted_by(|a, b| a < b),
        "{all:?}"
    );
    assert!(
        text.contains(&format!("\"number\":{},", numbers[0])),
        "{text}"
    );
}
