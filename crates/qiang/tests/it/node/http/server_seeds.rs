//! Seeds from service and sender: the hash, the time at which each part is shown, and refusals.

use crate::node::http::common::{Service, packet};
use qiang::config::{AuthConfig, Secret};
use qiang_core::{
    id::CampaignId,
    split::{
        ClientSeed, Commitment, Seed, SeedParts, ServerSeed, ServerSeedHash, Split, SplitRule,
        commit, server_seed_hash,
    },
};
use serde_json::{Value, json};

const SERVER_SEEDS: &str = "/v1/red-packets/server-seeds";
const CLIENT_SEED: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

/// The body of a packet of ¥10.00 in two shares with a client seed, and the hash of the server seed.
async fn promised(service: &Service) -> (Value, Value) {
    let answer = service
        .act(SERVER_SEEDS, &service.token("sam", "send"))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut body = packet(1_000, 2);
    for field in ["id", "server_seed_hash"] {
        body[field] = answer.json()[field].clone();
    }
    body["client_seed"] = json!(CLIENT_SEED);
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
    // The hash and the client seed are shown before the first claim. The server seed and the seed are not.
    for field in ["id", "server_seed_hash"] {
        assert_eq!(sent[field], promised[field]);
    }
    assert_eq!(sent["client_seed"], json!(CLIENT_SEED));
    assert_eq!(
        (&sent["seed"], sent.get("server_seed")),
        (&Value::Null, None)
    );

    let path = format!("/v1/red-packets/{}", sent["id"].as_str().unwrap());
    let mut amounts = Vec::new();
    for user in ["ann", "bob"] {
        // The seed is hidden while a share is left, even if all entries are settled.
        let draws = service.get(&format!("{path}/claims"), &sam).await.json();
        assert_eq!(draws["settled"], json!(true));
        let open = service.get(&path, &sam).await.json();
        assert_eq!(
            (&open["seed"], open.get("server_seed")),
            (&Value::Null, None)
        );
        let token = service.token(user, "claim");
        let granted = service.act(&format!("{path}/claims"), &token).await.json();
        amounts.push(granted["amount"]["amount"].as_i64().unwrap());
    }
    let draws = service.get(&format!("{path}/claims"), &sam).await.json();
    assert_eq!(draws["settled"], json!(true));
    let over = service.get(&path, &sam).await.json();
    assert_eq!(over["commitment"], sent["commitment"]);
    let id: CampaignId = parsed(&over, "id");
    let (server_seed, client_seed): (ServerSeed, ClientSeed) =
        (parsed(&over, "server_seed"), parsed(&over, "client_seed"));
    assert_eq!(
        server_seed_hash(id, &server_seed),
        parsed::<ServerSeedHash>(&promised, "server_seed_hash")
    );
    let seed: Seed = parsed(&over, "seed");
    assert_eq!(
        SeedParts {
            server_seed,
            client_seed
        }
        .seed(),
        seed
    );
    let split = Split::new(1_000, 2, SplitRule::DoubleAverage { min: 1 }).unwrap();
    let commitment: Commitment = parsed(&over, "commitment");
    assert_eq!(
        commit(id, "CNY".parse().unwrap(), &seed, &split),
        commitment
    );
    assert_eq!(split.shares(&seed), amounts);

    // Another packet has another server seed. A packet without a client seed has none.
    let other = service.act(SERVER_SEEDS, &sam).await;
    assert_ne!(
        other.text("server_seed_hash"),
        promised["server_seed_hash"].as_str().unwrap()
    );
    service.deposit("sam", 1_000).await;
    let alone = service
        .post("/v1/red-packets", &sam, packet(1_000, 2))
        .await
        .json();
    assert_eq!(
        (alone.get("server_seed_hash"), alone.get("client_seed")),
        (None, None)
    );
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

/// The server seed of one packet does not reveal that of another packet.
#[tokio::test]
async fn each_packet_has_its_own_server_seed() {
    let service = Service::start().await;
    service.deposit("sam", 2_000).await;
    let (sam, operator) = (service.token("sam", "send"), service.operator());
    let mut seeds: Vec<String> = Vec::new();
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
        seeds.push(over["server_seed"].as_str().unwrap().to_owned());
    }
    assert_ne!(seeds[0], seeds[1]);
    service.stop().await;
}

#[tokio::test]
async fn incomplete_or_foreign_seeds_are_refused() {
    let service = Service::start().await;
    service.deposit("sam", 1_000).await;
    let sam = service.token("sam", "send");
    let (body, _) = promised(&service).await;
    let other = service.act(SERVER_SEEDS, &sam).await.json();
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
        (without("server_seed_hash"), "#/server_seed_hash"),
        (without("client_seed"), "#/client_seed"),
        (without("id"), "#/id"),
        (
            with("server_seed_hash", &other["server_seed_hash"]),
            "#/server_seed_hash",
        ),
        (with("id", &other["id"]), "#/server_seed_hash"),
        (with("client_seed", &json!("00")), "#/client_seed"),
    ] {
        let refused = service.post("/v1/red-packets", &sam, wrong).await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], json!(pointer));
    }
    assert_eq!(service.balance("sam").await, 1_000);
    let bob = service.token("bob", "claim");
    service
        .act(SERVER_SEEDS, &bob)
        .await
        .assert_problem(403, "forbidden");
    service.stop().await;
}

#[tokio::test]
async fn a_server_seed_ends_with_the_secret_but_a_packet_keeps_it() {
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
    // A retry returns the packet with the hash of its creation.
    let again = service.post("/v1/red-packets", &sam, first).await;
    assert_eq!((again.status, again.text("id")), (200, sent.text("id")));
    assert_eq!(
        again.text("server_seed_hash"),
        sent.text("server_seed_hash")
    );
    // A server seed without a packet is void and must be requested again.
    let refused = service.post("/v1/red-packets", &sam, second).await;
    refused.assert_problem(422, "invalid");
    assert_eq!(service.balance("sam").await, 1_000);
    service.stop().await;
}
