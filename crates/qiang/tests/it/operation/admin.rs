//! A process's listener for operators.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use qiang_testkit::servers::Port;
use serde_json::{Value, json};

use crate::common::{Reply, call};
use crate::operation::program::{Program, token};

async fn admin_addr(node: &Program) -> SocketAddr {
    let line = node.line("serving operators").await;
    line["addr"].as_str().unwrap().parse().unwrap()
}

async fn get(addr: SocketAddr, path: &str) -> Reply {
    call(addr, "GET", path, None, &[], None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_have_a_listener_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Program::serve(folder.path(), &[("admin.listen", "127.0.0.1:0")]);
    let (public, admin) = (node.addr().await, admin_addr(&node).await);
    assert_ne!(public, admin);
    for path in ["/readyz", "/metrics"] {
        assert_eq!(get(public, path).await.status, 404, "{path}");
        assert_eq!(get(admin, path).await.status, 200, "{path}");
    }
    // The metric has the commit that the program reports.
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_qiang"));
    let version = program.arg("-V").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let (number, build) = version.trim().split_once(" (").unwrap();
    let (commit, date) = build.trim_end_matches(')').split_once(", ").unwrap();
    let number = number.trim_start_matches("qiang ");
    let info =
        format!("qiang_build_info{{version=\"{number}\",commit=\"{commit}\",date=\"{date}\"}} 1\n");
    let metrics = get(admin, "/metrics").await.body;
    let metrics = String::from_utf8_lossy(&metrics);
    assert!(metrics.contains(&info), "{info}");
    // The error of another node on the same machine is one line that names the key to set.
    let taken = admin.to_string();
    let keys = [("admin.listen", taken.as_str()), ("engine.data", "b.db")];
    let mut second = Program::serve(folder.path(), &keys);
    assert_eq!(second.ended().await, Some(1));
    let said = second.lines();
    let said: Vec<_> = said
        .iter()
        .filter_map(|line| line["text"].as_str())
        .collect();
    assert_eq!(said.len(), 1, "{said:?}");
    for part in [
        &taken,
        "admin.listen",
        "Address already in use",
        "address of its own",
    ] {
        assert!(said[0].contains(part), "{said:?}");
    }
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_why_a_node_has_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Port::free();
    let url = format!("postgres://qiang@{}/qiang", nobody.addr());
    let keys = [
        ("ledger.url", url.as_str()),
        ("ledger.acquire_timeout_ms", "500"),
        ("admin.listen", "127.0.0.1:0"),
    ];
    let mut node = Program::on_redis(folder.path(), "serve", "apart", &keys);
    let (public, admin) = (node.addr().await, admin_addr(&node).await);
    let why = get(admin, "/readyz").await;
    assert_eq!(why.status, 503);
    assert!(why.text("reason").contains("ledger"), "{why:?}");
    // The public listener reports only that the node is starting.
    assert_eq!(get(public, "/healthz").await.status, 200);
    get(public, "/readyz")
        .await
        .assert_problem(503, "unavailable");
    get(public, "/metrics")
        .await
        .assert_problem(503, "unavailable");
    node.signal("-TERM");
    assert_eq!(node.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_name_the_trace_that_a_request_belongs_to() {
    let folder = tempfile::tempdir().unwrap();
    let node = Program::serve(folder.path(), &[]);
    let (addr, span) = (node.addr().await, "b7ad6b7169203331");
    let ask = async |trace: &[&str], user: &str| {
        let parents: Vec<_> = trace
            .iter()
            .map(|trace| format!("00-{trace}-{span}-01"))
            .collect();
        let headers: Vec<_> = parents
            .iter()
            .map(|it| ("traceparent", it.as_str()))
            .collect();
        let path = format!("/v1/accounts/{user}/deposits");
        let body = crate::common::deposit(1);
        let token = token("olga");
        let reply = call(addr, "POST", &path, Some(&token), &headers, Some(body)).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    };
    let (trace, other) = (
        "0af7651916cd43dd8448eb211c80319c",
        "1af7651916cd43dd8448eb211c80319c",
    );
    ask(&[trace], "ann").await;
    ask(&[&"0".repeat(32)], "bob").await;
    ask(&[trace, other], "cleo").await;
    ask(&[], "dan").await;
    let of = |user: &str| {
        let lines = node
            .lines()
            .into_iter()
            .map(|mut line| line["fields"].take());
        let change =
            |line: &Value| line["message"] == "a change was made" && line["subject"] == user;
        lines
            .filter(change)
            .map(|line| line["trace_id"].clone())
            .collect::<Vec<_>>()
    };
    // A thread of its own writes the log, in the order of the changes.
    let until = Instant::now() + Duration::from_secs(30);
    while of("dan").is_empty() {
        assert!(Instant::now() < until, "the last change is not logged");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(of("ann"), [json!(trace)]);
    for user in ["bob", "cleo", "dan"] {
        assert_eq!(of(user), [Value::Null], "{user}");
    }
}
