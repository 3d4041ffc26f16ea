//! What `/metrics` tells of the process.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use common::{Service, call};

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
