//! The shipped `deploy/nginx.conf` under attack: requests of one client do not change answers to another.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    http::{StatusCode, Uri, header},
};
use parking_lot::Mutex;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};
use uuid::Uuid;

use crate::node::http::common::{Reply, Service, call, read_to_end};

#[path = "../../../../../bench/src/reads/nginx.rs"]
pub(crate) mod started;

/// Other spellings of the path of a campaign's state.
const SPELLINGS: [&str; 11] = [
    "/v1/x/../campaigns/{id}/state",
    "/v1//campaigns/{id}/state",
    "/v1/./campaigns/{id}/state",
    "/v1/x/%2e%2e/campaigns/{id}/state",
    "/v1/campaigns/x/..%2f{id}/state",
    "/v1/%63ampaigns/{id}/state",
    "//v1/campaigns/{id}/state",
    "/v1/campaigns/{id}/state?x=1",
    "/v1/campaigns/{id}/state%3Fx=1",
    "/v1/campaigns/{id}/state/.",
    "/v1/campaigns/{id}/state#x",
];

/// Sends a path unchanged. A client library would normalise it.
async fn raw(nginx: &started::Nginx, target: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(nginx.addr).await.unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: test\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    read_to_end(&mut stream, Duration::from_secs(10)).await.0
}

fn start_nginx(to: SocketAddr) -> started::Nginx {
    tokio::task::block_in_place(|| started::Nginx::start(None, to)).unwrap()
}

/// Id of a campaign that no service has.
fn unknown(number: usize) -> String {
    const FIRST: u128 = 0x0190_0000_0000_7000_8000_0000_0000_0001;
    Uuid::from_u128(FIRST + number as u128).to_string()
}

fn path_of(id: &str) -> String {
    format!("/v1/campaigns/{id}/state")
}

/// Requests a state by another spelling of its path, then by the path itself. Returns both answers if the second one is
/// wrong.
async fn attack(
    nginx: &started::Nginx,
    (number, spelling): (usize, &str),
    id: &str,
) -> Option<(String, String, Reply)> {
    let target = spelling.replace("{id}", id);
    let header = match number % 2 {
        0 => "",
        _ => "If-None-Match: *\r\n",
    };
    let attacked = raw(nginx, &target, header).await;
    let reply = call(nginx.addr, "GET", &path_of(id), None, &[], None).await;
    let is_right = reply.status == 200 && reply.json()["supply"] == 5;
    (!is_right).then_some((target, attacked, reply))
}

#[tokio::test(flavor = "multi_thread")]
async fn another_spelling_of_a_path_poisons_no_state() {
    let service = Service::start().await;
    let nginx = start_nginx(service.addr);
    let mut wrong = Vec::new();
    for spelling in SPELLINGS.into_iter().enumerate() {
        let id = service.sale(5, |_| ()).await;
        wrong.extend(attack(&nginx, spelling, &id).await);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    service.stop().await;
}

/// A server with the states of these campaigns. Caches may keep each of its answers for a minute, errors too.
async fn lax_server(known: Arc<Mutex<BTreeSet<String>>>) -> SocketAddr {
    let answer = move |uri: Uri| {
        let is_known = known.lock().contains(uri.path());
        let (status, body) = match is_known {
            true => (StatusCode::OK, r#"{"supply":5}"#),
            false => (StatusCode::NOT_FOUND, r#"{"supply":0}"#),
        };
        let kept = (header::CACHE_CONTROL, "public, max-age=60");
        let json = (header::CONTENT_TYPE, "application/json");
        async move { (status, [kept, json], body) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    addr
}

/// nginx does not rely on nodes: it keeps no 404, and nothing under the path of another request.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_errors_may_be_kept_poisons_no_state() {
    let known = Arc::default();
    let nginx = start_nginx(lax_server(Arc::clone(&known)).await);
    let mut wrong = Vec::new();
    for spelling in SPELLINGS.into_iter().enumerate() {
        let id = unknown(spelling.0);
        known.lock().insert(path_of(&id));
        wrong.extend(attack(&nginx, spelling, &id).await);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let path = path_of(&unknown(SPELLINGS.len()));
    let status = async || call(nginx.addr, "GET", &path, None, &[], None).await.status;
    assert_eq!(status().await, 404);
    known.lock().insert(path.clone());
    assert_eq!(status().await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_keeps_that_there_is_no_campaign() {
    let service = Service::start().await;
    let nginx = start_nginx(service.addr);
    let path = path_of(&unknown(0));
    let mut requests = BTreeSet::new();
    for _ in 0..3 {
        let reply = call(nginx.addr, "GET", &path, None, &[], None).await;
        reply.assert_problem(404, "unknown-campaign");
        // A cached answer would repeat the id of an earlier request.
        assert!(requests.insert(reply.text("request_id")), "{reply:?}");
    }
    let id = service.sale(5, |_| ()).await;
    let path = path_of(&id);
    for _ in 0..2 {
        let reply = call(nginx.addr, "GET", &path, None, &[], None).await;
        assert_eq!((reply.status, &reply.json()["supply"]), (200, &5.into()));
    }
    service.stop().await;
}
