//! Seeds from service and sender: the promise, the time at which each part is shown, and refusals.

use crate::node::http::common::{Service, packet};
use qiang::config::{AuthConfig, Secret};
use qiang_core::{
    id::CampaignId,
    split::{
        Commitment, Entropy, Parts, Promise, Secret as ServiceSecret, Seed, Split, SplitRule,
        commit, promise,
    },
};
use serde_json::{Value, json};

const PROMISES: &str = "/v1/red-packets/promises";
const ENTROPY: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

/// The body of a packet of ¥10.00 in two shares with entropy of its sender, and the promise of the service.
async fn promised(service: &Service) -> (Value, Value) {
    let answer = service.act(PROMISES, &service.token("sam", "send")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut body = packet(1_000, 2);
    for field in ["id", "promise"] {
        body[field] = answer.json()[field].clone();
    }
    body["entropy"] = json!(ENTROPY);
    (body, answer.json())
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(body: &Value, field: &str) -> T {
    body[field].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn neither_service_nor_sender_chooses_the_seed() {
    let service = Service::start().await;
    service.deposit("sam", 1_000).await;
    let sam = service.token("sam", "send");
    let (body, promised) = promised(&service).await;
    let sent = service.post("/v1/red-packets", &sam, body.clone()).await;
    assert_eq!(sent.status, 201, "{sent:?}");
    let sent = sent.json();
    // The promise and the entropy are shown before the first claim. The secret and the seed are not.
    for field in ["id", "promise"] {
        assert_eq!(sent[field], promised[field]);
    }
    assert_eq!(sent["entropy"], json!(ENTROPY));
    assert_eq!((&sent["seed"], sent.get("secret")), (&Value::Null, None));

    let path = format!("/v1/red-packets/{}", sent["id"].as_str().unwrap());
    let mut amounts = Vec::new();
    for user in ["ann", "bob"] {
        // The seed is hidden while a share is left, even if all entries are settled.
        let draws = service.get(&format!("{path}/claims"), &sam).await.json();
        assert_eq!(draws["settled"], json!(true));
        let open = service.get(&path, &sam).await.json();
        assert_eq!((&open["seed"], open.get("secret")), (&Value::Null, None));
        let token = service.token(user, "claim");
        let granted = service.act(&format!("{path}/claims"), &token).await.json();
        amounts.push(granted["amount"]["amount"].as_i64().unwrap());
    }
    let draws = service.get(&format!("{path}/claims"), &sam).await.json();
    assert_eq!(draws["settled"], json!(true));
    let over = service.get(&path, &sam).await.json();
    assert_eq!(over["commitment"], sent["commitment"]);
    let id: CampaignId = parsed(&over, "id");
    let (secret, entropy): (ServiceSecret, Entropy) =
        (parsed(&over, "secret"), parsed(&over, "entropy"));
    assert_eq!(
        promise(id, &secret),
        parsed::<Promise>(&promised, "promise")
    );
    let seed: Seed = parsed(&over, "seed");
    assert_eq!(Parts { secret, entropy }.seed(), seed);
    let split = Split::new(1_000, 2, SplitRule::DoubleAverage { min: 1 }).unwrap();
    let commitment: Commitment = parsed(&over, "commitment");
    assert_eq!(
        commit(id, "CNY".parse().unwrap(), &seed, &split),
        commitment
    );
    assert_eq!(split.shares(&seed), amounts);

    // Another packet has another secret. A packet without entropy of its sender has no promise.
    let other = service.act(PROMISES, &sam).await;
    assert_ne!(other.text("promise"), promised["promise"].as_str().unwrap());
    service.deposit("sam", 1_000).await;
    let alone = service
        .post("/v1/red-packets", &sam, packet(1_000, 2))
        .await
        .json();
    assert_eq!((alone.get("promise"), alone.get("entropy")), (None, None));
    service.stop().await;
}

/// All users see the commitment of a later packet before its first claim.
#[tokio::test]
async fn a_commitment_is_shown_before_claims_open() {
    let service = Service::start().await;
    service.deposit("sam", 1_000).await;
    let mut body = packet(1_000, 2);
    body["starts_at"] = json!("2026-11-21T20:00:10+08:00");
    let sam = service.token("sam", "send");
    let sent = service.post("/v1/red-packets", &sam, body).await;
    let path = format!("/v1/red-packets/{}", sent.text("id"));
    let (ann, claims) = (service.token("ann", "claim"), format!("{path}/claims"));
    let early = service.act(&claims, &ann).await;
    let of_kind = (early.status, early.text("type"));
    assert_eq!(of_kind, (409, "/problems/not-started".to_owned()));
    let before = service.get(&path, &ann).await.json();
    let bound: Commitment = parsed(&before, "commitment");
    assert_eq!(before["seed"], Value::Null);

    service.clock.advance_ms(10_000);
    let mut amounts = Vec::new();
    for user in ["ann", "bob"] {
        let granted = service.act(&claims, &service.token(user, "claim")).await;
        amounts.push(granted.json()["amount"]["amount"].as_i64().unwrap());
    }
    let draws = service.get(&claims, &sam).await.json();
    assert_eq!(draws["settled"], json!(true));
    let over = service.get(&path, &sam).await.json();
    let (id, seed): (CampaignId, Seed) = (parsed(&over, "id"), parsed(&over, "seed"));
    let split = Split::new(1_000, 2, SplitRule::DoubleAverage { min: 1 }).unwrap();
    assert_eq!(commit(id, "CNY".parse().unwrap(), &seed, &split), bound);
    assert_eq!(split.shares(&seed), amounts);
    service.stop().await;
}

/// The secret of one packet does not reveal another packet's secret.
#[tokio::test]
async fn each_packet_has_a_secret_of_its_own() {
    let service = Service::start().await;
    service.deposit("sam", 2_000).await;
    let (sam, operator) = (service.token("sam", "send"), service.operator());
    let mut secrets: Vec<String> = Vec::new();
    for _ in 0..2 {
        let (body, _) = promised(&service).await;
        let sent = service.post("/v1/red-packets", &sam, body).await;
        let id = sent.text("id");
        let close = format!("/v1/campaigns/{id}/close");
        assert_eq!(service.act(&close, &operator).await.status, 200);
        let path = format!("/v1/red-packets/{id}");
        let draws = service.get(&format!("{path}/claims"), &sam).await.json();
        assert_eq!(draws["settled"], json!(true));
        let over = service.get(&path, &sam).await.json();
        secrets.push(over["secret"].as_str().unwrap().to_owned());
    }
    assert_ne!(secrets[0], secrets[1]);
    service.stop().await;
}

#[tokio::test]
async fn half_of_it_and_what_was_not_promised_are_refused() {
    let service = Service::start().await;
    service.deposit("sam", 1_000).await;
    let sam = service.token("sam", "send");
    let (body, _) = promised(&service).await;
    let other = service.act(PROMISES, &sam).await.json();
    let without = |field: &str| {
        let mut body = body.clone();
        body.as_object_mut().unwrap().remove(field);
        body
    };
    let with = |field: &str, value: &Value| {
        let mut body = body.clone();
        body[field] = value.clone();
        body
    };
    for (wrong, pointer) in [
        (without("promise"), "#/promise"),
        (without("entropy"), "#/entropy"),
        (without("id"), "#/id"),
        (with("promise", &other["promise"]), "#/promise"),
        (with("id", &other["id"]), "#/promise"),
        (with("entropy", &json!("00")), "#/entropy"),
    ] {
        let refused = service.post("/v1/red-packets", &sam, wrong).await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], json!(pointer));
    }
    assert_eq!(service.balance("sam").await, 1_000);
    let bob = service.token("bob", "claim");
    service
        .act(PROMISES, &bob)
        .await
        .assert_problem(403, "forbidden");
    service.stop().await;
}

#[tokio::test]
async fn a_promise_holds_as_long_as_the_secret_and_a_packet_longer() {
    let mut auth = AuthConfig::default();
    let service = Service::start_with(|config, _| auth = config.auth.clone()).await;
    auth.ticket_secret = Secret::new("another secret, of 32 bytes at least");
    service.deposit("sam", 2_000).await;
    let sam = service.token("sam", "send");
    let (first, _) = promised(&service).await;
    let (second, _) = promised(&service).await;
    let sent = service.post("/v1/red-packets", &sam, first.clone()).await;
    assert_eq!(sent.status, 201);
    service.reload_auth(&auth);
    // A retry returns the packet with the promise of its creation.
    let again = service.post("/v1/red-packets", &sam, first).await;
    assert_eq!((again.status, again.text("id")), (200, sent.text("id")));
    assert_eq!(again.text("promise"), sent.text("promise"));
    // A promise without a packet is void and must be requested again.
    let refused = service.post("/v1/red-packets", &sam, second).await;
    refused.assert_problem(422, "invalid");
    assert_eq!(service.balance("sam").await, 1_000);
    service.stop().await;
}
