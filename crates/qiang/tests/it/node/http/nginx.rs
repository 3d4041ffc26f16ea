//! The shipped `deploy/nginx.conf` under attack: requests of one client do not change answers to another.

use crate::node::http::common::{Service, call, read_to_end};
use std::{collections::BTreeSet, time::Duration};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

#[path = "../../../../../bench/src/reads/nginx.rs"]
pub(crate) mod started;

/// Sends a path unchanged. A client library would normalise it.
async fn raw(nginx: &started::Nginx, target: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(nginx.addr).await.unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: test\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    read_to_end(&mut stream, Duration::from_secs(10)).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn another_spelling_of_a_path_poisons_no_state() {
    let service = Service::start().await;
    let to = service.addr;
    let nginx = tokio::task::block_in_place(|| started::Nginx::start(None, to)).unwrap();
    let mut wrong = Vec::new();
    for (number, spelling) in [
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
    ]
    .into_iter()
    .enumerate()
    {
        let id = service.sale(5, |_| ()).await;
        let attack = spelling.replace("{id}", &id);
        let header = match number % 2 {
            0 => "",
            _ => "If-None-Match: *\r\n",
        };
        let attacked = raw(&nginx, &attack, header).await;
        let path = format!("/v1/campaigns/{id}/state");
        let reply = call(nginx.addr, "GET", &path, None, &[], None).await;
        if reply.status != 200 || reply.json()["supply"] != 5 {
            wrong.push((attack, attacked, reply));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cache_keeps_that_there_is_no_campaign() {
    let service = Service::start().await;
    let to = service.addr;
    let nginx = tokio::task::block_in_place(|| started::Nginx::start(None, to)).unwrap();
    let path = format!(
        "/v1/campaigns/{}/state",
        uuid::Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001)
    );
    let mut requests = BTreeSet::new();
    for _ in 0..3 {
        let reply = call(nginx.addr, "GET", &path, None, &[], None).await;
        reply.assert_problem(404, "unknown-campaign");
        // A cached answer would repeat the id of an earlier request.
        assert!(requests.insert(reply.text("request_id")), "{reply:?}");
    }
    let id = service.sale(5, |_| ()).await;
    let path = format!("/v1/campaigns/{id}/state");
    for _ in 0..2 {
        let reply = call(nginx.addr, "GET", &path, None, &[], None).await;
        assert_eq!((reply.status, &reply.json()["supply"]), (200, &5.into()));
    }
    service.stop().await;
}
