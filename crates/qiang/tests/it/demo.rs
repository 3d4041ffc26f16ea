//! The watched demonstration: a user with a browser joins the crowd, and the report tells them apart.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::Child,
};

use crate::common::{Reply, call, send};
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

/// Header of a browser's same-origin request.
const SAME_SITE: (&str, &str) = ("sec-fetch-site", "same-origin");

/// Session of a user who signs in on the page for development.
async fn sign_in(addr: SocketAddr, user: &str, role: &str) -> String {
    let form = format!("user={user}&role={role}&then=%2F");
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
    let few = [
        "--users",
        "60",
        "--connections",
        "10",
        "--shares",
        "100",
        "--stock",
        "100",
    ];
    let args = [&["demo", "--over", "8", "--exit", "--json"], &few[..]].concat();
    let mut demo = crate::common::qiang(folder.path(), &args, &[])
        .spawn()
        .unwrap();
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

    let cookie = sign_in(addr, "visitor", "user").await;
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

/// Whether a page says that the visitor lacks a scope.
fn lacks(page: &Reply) -> bool {
    String::from_utf8_lossy(&page.body).contains("id=\"lacks\"")
}

/// A program that the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_printed_link_opens_for_whom_it_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["--users", "10", "--connections", "5"];
    let args = [&["demo"], &few[..]].concat();
    let demo = crate::common::qiang(folder.path(), &args, &[])
        .spawn()
        .unwrap();
    let mut demo = Ended(demo);
    let mut lines = BufReader::new(demo.0.stderr.take().unwrap()).lines();
    let mut printed = Vec::new();
    // Links are printed before the race, and the report after it.
    for line in lines.by_ref().map(Result::unwrap) {
        printed.push(line);
        if printed.last().unwrap().contains("Try: curl") {
            break;
        }
    }
    let place = |text: &str| {
        let found = printed.iter().position(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no {text} in {printed:?}"))
    };
    let anybody = place("as any user:");
    let operators = place("Signed in as an operator or an administrator:");
    let administrators = place("Signed in as an administrator:");
    let end = place("Serving until");
    assert!(anybody < operators && operators < administrators && administrators < end);
    let first = printed[anybody + 1].split_once("http://").unwrap().1;
    let addr: SocketAddr = first.split_once('/').unwrap().0.parse().unwrap();
    let mut opened = 0;
    for (roles, others, links) in [
        (&["user"][..], &[][..], anybody..operators),
        (
            &["operator", "admin"][..],
            &["user"][..],
            operators..administrators,
        ),
        (
            &["admin"][..],
            &["operator", "user"][..],
            administrators..end,
        ),
    ] {
        for line in &printed[links] {
            let Some((_, link)) = line.split_once("http://") else {
                continue;
            };
            let link = link.split(' ').next().unwrap();
            let path = &link[addr.to_string().len()..];
            opened += 1;
            let page = async |role: &str| {
                let cookie = sign_in(addr, role, role).await;
                let headers = [("cookie", cookie.as_str())];
                call(addr, "GET", path, None, &headers, None).await
            };
            for role in roles {
                let reply = page(role).await;
                assert_eq!(reply.status, 200, "{path} as {role}: {reply:?}");
                assert!(!lacks(&reply), "{path} as {role}");
            }
            for role in others {
                let reply = page(role).await;
                let is_refused = reply.status == 403 || lacks(&reply);
                assert!(is_refused, "{path} as {role}: {reply:?}");
            }
        }
    }
    assert_eq!(opened, 6);
}
