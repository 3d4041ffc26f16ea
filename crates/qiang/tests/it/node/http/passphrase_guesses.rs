//! Guesses of passphrases: counted by address, by campaign and by user.

use std::{collections::BTreeMap, time::Instant};

use crate::node::http::{
    audience::claim,
    common::{Service, call},
};
use serde_json::{Value, json};

/// Claims with `count` new words, each as another user. Counts the answers by the policy that refused; "" counts
/// guesses that were checked.
async fn guess(
    service: &Service,
    id: &str,
    count: usize,
    address: impl Fn(usize) -> String,
) -> BTreeMap<String, usize> {
    let mut guesses = tokio::task::JoinSet::new();
    for n in 0..count {
        let (addr, path) = (service.addr, format!("/v1/red-packets/{id}/claims"));
        let (from, token) = (
            address(n),
            service.token(&format!("{}-{n}", address(n)), "claim"),
        );
        let body = json!({ "passphrase": format!("guess {from} {n}") });
        guesses.spawn(async move {
            let from = [("X-Forwarded-For", from.as_str())];
            call(addr, "POST", &path, Some(&token), &from, Some(body)).await
        });
    }
    let mut counts = BTreeMap::new();
    for reply in guesses.join_all().await {
        let policy = match reply.status {
            403 => String::new(),
            429 => reply.json()["violated-policies"][0]
                .as_str()
                .unwrap()
                .to_owned(),
            _ => panic!("{reply:?}"),
        };
        *counts.entry(policy).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn guesses_are_counted_by_address_and_by_campaign() {
    let service = Service::start_with(|config, _| {
        config.server.trusted_proxies = "127.0.0.1".to_owned();
    })
    .await;
    let begun = Instant::now();
    let by_passphrase = |body: &mut Value| body["audience"] = json!({ "passphrase": "sesame" });
    let (one, other) = (
        service.red_packet(9, by_passphrase).await,
        service.red_packet(9, by_passphrase).await,
    );
    // The creator's claim makes the passphrase known. Later claims with it are no guesses, and wrong ones wait for no
    // hash.
    let said = json!({ "passphrase": "sesame" });
    for id in [&one, &other] {
        assert_eq!(claim(&service, id, "ann", said.clone()).await.status, 201);
    }
    // Allowances refill while the test runs.
    let later = || usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    // Many users at one address share the guesses of the address.
    let counts = guess(&service, &one, 60, |_| "198.51.100.1".to_owned()).await;
    let judged = counts[""];
    assert!((30..=30 + later()).contains(&judged), "{counts:?}");
    assert_eq!(counts["passphrases-of-address"], 60 - judged, "{counts:?}");
    let path = format!("/v1/red-packets/{one}/claims");
    let (bob, from) = (
        service.token("bob", "claim"),
        [("X-Forwarded-For", "198.51.100.1")],
    );
    let right = call(service.addr, "POST", &path, Some(&bob), &from, Some(said)).await;
    assert_eq!(right.status, 201, "{right:?}");
    // Many addresses share the guesses of the campaign.
    let counts = guess(&service, &one, 240, |n| format!("203.0.113.{n}")).await;
    let judged = judged + counts[""];
    assert!((120..=120 + later()).contains(&judged), "{counts:?}");
    assert!(counts["passphrases-of-campaign"] > 0, "{counts:?}");
    assert_eq!(counts.len(), 2, "{counts:?}");
    // Another campaign has its own guesses.
    let counts = guess(&service, &other, 20, |n| format!("203.0.113.{n}")).await;
    assert_eq!(counts, BTreeMap::from([(String::new(), 20)]));
    service.stop().await;
}

#[tokio::test]
async fn creating_is_no_guess() {
    let service = Service::start().await;
    service.deposit("sam", 120_000).await;
    let token = service.token("sam", "send");
    let body = |n: u32| {
        let mut body = crate::node::http::common::packet(10_000, 3);
        body["audience"] = json!({ "passphrase": format!("word {n}") });
        body
    };
    // More campaigns than guesses of one burst.
    for n in 0..6 {
        let reply = service.post("/v1/red-packets", &token, body(n)).await;
        assert_eq!(reply.status, 201, "{n} {reply:?}");
    }
    let send = async |service: &Service, n: u32| {
        let (path, key) = ("/v1/red-packets", format!("packet-{n}"));
        let reply = service.post_key(path, &token, &key, body(n)).await;
        (reply.status, reply.text("id"))
    };
    let mut sent = Vec::new();
    for n in 0..6 {
        let (status, id) = send(&service, n).await;
        assert_eq!(status, 201, "{n}");
        sent.push(id);
    }
    assert_eq!(service.balance("sam").await, 0);
    // A retry is no guess either, even if the passphrase is not known yet.
    let service = service.restart().await;
    for (n, id) in (0..).zip(sent) {
        assert_eq!(send(&service, n).await, (200, id), "{n}");
    }
    assert_eq!(service.balance("sam").await, 0);
    service.stop().await;
}
