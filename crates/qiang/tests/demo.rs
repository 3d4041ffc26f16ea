//! The demonstration that people watch: somebody with a browser joins the crowd, and the report tells them apart.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

mod common;

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
};

use common::{Reply, call, send};
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

/// What a browser sends along with a request of a page's own.
const SAME_SITE: (&str, &str) = ("sec-fetch-site", "same-origin");

/// The session of whoever signs in on the page for trying out.
async fn sign_in(addr: SocketAddr, user: &str) -> String {
    let form = format!("user={user}&then=%2F");
    let request = Request::post("/sign-in/as")
        .header("host", addr.to_string())
        .header("content-type", "application/x-www-form-urlencoded");
    let request = request.body(Full::new(form.into())).unwrap();
    let reply = send(addr, request).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    reply
        .header("set-cookie")
        .split(';')
        .next()
        .unwrap()
        .to_owned()
}

async fn press(addr: SocketAddr, cookie: &str, path: &str, body: Value) -> Reply {
    let headers = [SAME_SITE, ("cookie", cookie)];
    call(addr, "POST", path, None, &headers, Some(body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_joins_the_crowd_in_a_browser_is_counted_apart() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["--users", "60", "--connections", "10"];
    let args = [&["demo", "--over", "8", "--exit", "--json"], &few[..]].concat();
    let mut demo = common::qiang(folder.path(), &args, &[]).spawn().unwrap();
    let mut lines = BufReader::new(demo.stderr.take().unwrap()).lines();
    let mut link = |page: &str| {
        let mut printed = lines.by_ref().map(Result::unwrap);
        let line = printed.find(|line| line.contains(page)).unwrap();
        line.split_once("http://").unwrap().1.to_owned()
    };
    let (packet, sale) = (link("/p/"), link("/s/"));
    let (addr, packet) = packet.split_once("/p/").unwrap();
    let (_, sale) = sale.split_once("/s/").unwrap();
    let addr = addr.parse().unwrap();

    let cookie = sign_in(addr, "visitor").await;
    let page = call(
        addr,
        "GET",
        &format!("/p/{packet}"),
        None,
        &[("cookie", &cookie)],
        None,
    )
    .await;
    assert_eq!(page.status, 200, "{page:?}");
    let share = press(
        addr,
        &cookie,
        &format!("/v1/red-packets/{packet}/claims"),
        json!({}),
    )
    .await;
    assert_eq!(share.status, 201, "{share:?}");
    let path = format!("/v1/sales/{sale}/orders");
    let order = press(addr, &cookie, &path, json!({ "quantity": 1 })).await;
    assert_eq!(order.status, 201, "{order:?}");

    let ended = demo.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert!(ended.status.success(), "{report}");
    for kind in ["red_packet", "sale"] {
        let figures = [("granted", 60), ("granted_to_others", 1), ("oversold", 0)];
        for (figure, expected) in figures {
            assert_eq!(report[kind][figure], expected, "{kind} {figure}: {report}");
        }
    }
    assert_eq!(report["audit"]["ok"], true, "{report}");
}
