//! Campaigns that require grab tickets: no ticket before the start, and no ticket of another user.

use std::sync::Arc;

use crate::node::http::common::{Reply, START_MS, Service, call};
use async_trait::async_trait;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use qiang::config::{ChallengeKind, Secret};
use qiang_api::{ChallengeError, TicketChallenge};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

const LASTS_MS: i64 = 120_000;

fn needs_ticket(body: &mut Value) {
    body["requirements"] = json!(["ticket"]);
}

async fn without_challenge() -> Service {
    Service::start_with(|config, _| config.tickets.challenge = ChallengeKind::None).await
}

/// Requests a ticket of a sale.
async fn ask(service: &Service, sale: &str, user: &str) -> Reply {
    let path = format!("/v1/sales/{sale}/tickets");
    service.act(&path, &service.token(user, "claim")).await
}

/// Gets a ticket of a sale.
async fn ticket(service: &Service, sale: &str, user: &str) -> String {
    let answer = ask(service, sale, user).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.text("ticket")
}

/// Orders a unit with a ticket.
async fn order(service: &Service, sale: &str, user: &str, ticket: Option<&str>) -> Reply {
    let path = format!("/v1/sales/{sale}/orders");
    let token = service.token(user, "claim");
    let header = ticket.map(|ticket| ("grab-ticket", ticket));
    call(
        service.addr,
        "POST",
        &path,
        Some(&token),
        header.as_slice(),
        None,
    )
    .await
}

#[tokio::test]
async fn a_claim_needs_the_users_own_ticket_in_time() {
    let service = without_challenge().await;
    let held_long = |body: &mut Value| {
        needs_ticket(body);
        body["hold_seconds"] = json!(3_600);
    };
    let sale = service.sale(9, held_long).await;
    let other = service.sale(9, needs_ticket).await;
    let good = ticket(&service, &sale, "ann").await;
    let of_other = ticket(&service, &other, "ann").await;
    let seen = service
        .get(&format!("/v1/sales/{sale}"), &service.operator())
        .await;
    assert_eq!(seen.json()["requirements"], json!(["ticket"]));

    let refused = async |user: &str, ticket: Option<&str>, kind: &str| {
        order(&service, &sale, user, ticket)
            .await
            .assert_problem(403, kind);
    };
    refused("ann", None, "ticket-missing").await;
    refused("ann", Some(""), "ticket-invalid").await;
    refused("ann", Some("x.y"), "ticket-invalid").await;
    refused("ann", Some(&good[1..]), "ticket-invalid").await;
    refused("eve", Some(&good), "ticket-of-another-user").await;
    refused("ann", Some(&of_other), "ticket-of-another-campaign").await;
    // A bearer token is signed with the secret from which the tickets' key is derived. It is still no ticket.
    refused(
        "ann",
        Some(&service.token("ann", "claim")),
        "ticket-invalid",
    )
    .await;
    service.clock.advance_ms(LASTS_MS - 1);
    let granted = order(&service, &sale, "ann", Some(&good)).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    let bobs = ticket(&service, &sale, "bob").await;
    service.clock.advance_ms(LASTS_MS);
    refused("bob", Some(&bobs), "ticket-expired").await;

    // A user with a known grant gets it again, without a ticket or with an old one.
    for old in [None, Some(&*good)] {
        let again = order(&service, &sale, "ann", old).await;
        assert_eq!((again.status, again.body), (200, granted.body.clone()));
    }
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    let unmet = "qiang_claims_total{outcome=\"unmet\"} 8";
    assert!(metrics.contains(unmet), "{metrics}");
    service.stop().await;
}

#[tokio::test]
async fn there_is_no_ticket_before_the_start() {
    let service = without_challenge().await;
    let later = |body: &mut Value| {
        needs_ticket(body);
        body["starts_at"] = json!("2026-11-21T12:00:10Z");
        body["ends_at"] = json!("2026-11-21T12:01:00Z");
    };
    let sale = service.sale(1, later).await;
    assert_eq!(START_MS, 1_795_262_400_000);
    let early = ask(&service, &sale, "ann").await;
    early.assert_problem(409, "not-started");
    assert_eq!(early.header("retry-after"), "11");
    assert_eq!(early.json()["starts_at"], "2026-11-21T12:00:10.000Z");
    service.clock.advance_ms(9_999);
    let early = ask(&service, &sale, "ann").await;
    early.assert_problem(409, "not-started");
    service.clock.advance_ms(1);
    let (ann, bob) = (
        ticket(&service, &sale, "ann").await,
        ticket(&service, &sale, "bob").await,
    );
    // The clock was set back. The engine decides, regardless of the ticket's time.
    service.clock.advance_ms(-1);
    let early = order(&service, &sale, "ann", Some(&ann)).await;
    early.assert_problem(409, "not-started");
    service.clock.advance_ms(1);
    assert_eq!(order(&service, &sale, "ann", Some(&ann)).await.status, 201);
    order(&service, &sale, "bob", Some(&bob))
        .await
        .assert_problem(409, "sold-out");
    // A user gets no challenge whose ticket would be useless.
    ask(&service, &sale, "bob")
        .await
        .assert_problem(409, "sold-out");
    service.clock.advance_ms(60_000);
    ask(&service, &sale, "bob")
        .await
        .assert_problem(410, "ended");
    service.stop().await;
}

#[tokio::test]
async fn the_challenge_comes_first() {
    let service = Service::start_with(|config, _| config.tickets.difficulty = 8).await;
    service.deposit("sam", 10_000).await;
    let packet = service.red_packet(9, needs_ticket).await;
    let path = format!("/v1/red-packets/{packet}/tickets");
    let ann = service.token("ann", "claim");
    let pose = async |token: &str| {
        let posed = service.act(&path, token).await;
        assert_eq!(posed.status, 200, "{posed:?}");
        let challenge = &posed.json()["challenge"];
        assert_eq!(
            (&challenge["kind"], &challenge["difficulty"]),
            (&json!("proof-of-work"), &json!(8))
        );
        challenge["nonce"].as_str().unwrap().to_owned()
    };
    let send = async |token: &str, nonce: &str, solution: &str| {
        let body = json!({ "nonce": nonce, "solution": solution });
        service.post(&path, token, body).await
    };
    let nonce = pose(&ann).await;
    let tried = |is_solution: bool| {
        let found = (0..).map(|n: u32| n.to_string()).find(|n| {
            let hash = Sha256::digest(format!("{nonce}:{n}"));
            (hash[0] == 0) == is_solution
        });
        found.unwrap()
    };
    let (right, wrong) = (tried(true), tried(false));
    send(&ann, &nonce, &wrong)
        .await
        .assert_problem(403, "challenge-failed");
    send(&ann, "x", &right)
        .await
        .assert_problem(403, "challenge-failed");
    // A solution counts only for the user of its challenge.
    let eve = service.token("eve", "claim");
    send(&eve, &nonce, &right)
        .await
        .assert_problem(403, "challenge-failed");
    // A challenge is not accepted as a ticket, nor a ticket as a challenge.
    let claim = format!("/v1/red-packets/{packet}/claims");
    let as_ticket = [("grab-ticket", nonce.as_str())];
    let refused = call(service.addr, "POST", &claim, Some(&ann), &as_ticket, None).await;
    refused.assert_problem(403, "ticket-invalid");
    let got = send(&ann, &nonce, &right).await;
    assert_eq!(got.status, 201, "{got:?}");
    let ticket = got.text("ticket");
    // A challenge gives one ticket, at any time and for any of its solutions.
    service.clock.advance_ms(1);
    let again = send(&ann, &nonce, &right).await;
    assert_eq!((again.status, again.json()), (201, got.json()));
    let other = (0..).map(|n: u32| format!("x{n}")).find(|n| {
        let hash = Sha256::digest(format!("{nonce}:{n}"));
        hash[0] == 0
    });
    let again = send(&ann, &nonce, &other.unwrap()).await;
    assert_eq!((again.status, again.json()), (201, got.json()));
    send(&ann, &ticket, "0")
        .await
        .assert_problem(403, "challenge-failed");
    let header = [("grab-ticket", ticket.as_str())];
    let granted = call(service.addr, "POST", &claim, Some(&ann), &header, None).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    service.clock.advance_ms(LASTS_MS);
    let late = send(&service.token("ann", "claim"), &nonce, &right).await;
    late.assert_problem(403, "challenge-failed");
    let unknown = json!({ "nonce": nonce, "answer": right });
    service
        .post(&path, &ann, unknown)
        .await
        .assert_problem(422, "invalid");
    service.stop().await;
}

/// A challenge for a word, for example one in a picture.
#[derive(Debug)]
struct Word;

#[async_trait]
impl TicketChallenge for Word {
    fn kind(&self) -> &'static str {
        "word"
    }
    fn parameters(&self) -> Map<String, Value> {
        Map::from_iter([("picture".to_owned(), json!("/pictures/1.png"))])
    }
    async fn is_solved(&self, _: &str, solution: &str) -> Result<bool, ChallengeError> {
        match solution {
            "down" => Err(ChallengeError("the provider does not answer".to_owned())),
            word => Ok(word == "sesame"),
        }
    }
}

#[tokio::test]
async fn an_installation_may_have_a_challenge_of_its_own() {
    let service = Service::start_with(|_, backend| {
        backend.ports.challenge = Some(Arc::new(Word));
    })
    .await;
    let sale = service.sale(9, needs_ticket).await;
    let posed = ask(&service, &sale, "ann").await.json();
    let challenge = &posed["challenge"];
    assert_eq!(
        (&challenge["kind"], &challenge["picture"]),
        (&json!("word"), &json!("/pictures/1.png"))
    );
    let send = async |solution: &str| {
        let body = json!({ "nonce": challenge["nonce"], "solution": solution });
        let path = format!("/v1/sales/{sale}/tickets");
        service
            .post(&path, &service.token("ann", "claim"), body)
            .await
    };
    send("open").await.assert_problem(403, "challenge-failed");
    send("down").await.assert_problem(503, "unavailable");
    assert_eq!(send("sesame").await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn who_gets_no_ticket() {
    let service = without_challenge().await;
    let (asking, free) = (
        service.sale(9, needs_ticket).await,
        service.sale(9, |_| ()).await,
    );
    ask(&service, &free, "ann")
        .await
        .assert_problem(409, "ticket-not-needed");
    assert_eq!(order(&service, &free, "ann", None).await.status, 201);
    let unknown = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    ask(&service, unknown, "ann")
        .await
        .assert_problem(404, "unknown-campaign");
    order(&service, unknown, "ann", None)
        .await
        .assert_problem(404, "unknown-campaign");
    let as_packet = format!("/v1/red-packets/{asking}/tickets");
    let (ann, sam) = (service.token("ann", "claim"), service.token("sam", "send"));
    service
        .act(&as_packet, &ann)
        .await
        .assert_problem(404, "unknown-campaign");
    let path = format!("/v1/sales/{asking}/tickets");
    service
        .act(&path, &sam)
        .await
        .assert_problem(403, "forbidden");
    let paused = format!("/v1/campaigns/{asking}/pause");
    assert_eq!(service.act(&paused, &service.operator()).await.status, 200);
    ask(&service, &asking, "ann")
        .await
        .assert_problem(503, "paused");
    let mut body = crate::node::http::common::sale(1);
    body["requirements"] = json!(["ticket", "luck"]);
    let refused = service.post("/v1/sales", &service.operator(), body).await;
    refused.assert_problem(422, "invalid");
    service.stop().await;
}

#[tokio::test]
async fn nodes_with_one_key_take_each_others_tickets() {
    let one = without_challenge().await;
    let sale = one.sale(9, needs_ticket).await;
    one.clock.advance_ms(10_000);
    let (ann, bob) = (
        ticket(&one, &sale, "ann").await,
        ticket(&one, &sale, "bob").await,
    );
    // Another process on the same file. Its clock is a little behind, and it did not create the campaign.
    one.clock.advance_ms(-5_000);
    let two = one.restart().await;
    assert_eq!(order(&two, &sale, "ann", Some(&ann)).await.status, 201);
    order(&two, &sale, "bob", None)
        .await
        .assert_problem(403, "ticket-missing");
    // A ticket secret is independent of the bearer tokens' secret.
    let own = |config: &mut qiang::config::NodeConfig| {
        config.auth.ticket_secret = Secret::new("t".repeat(32));
    };
    let three = two.restart_with(|config, _| own(config)).await;
    order(&three, &sale, "bob", Some(&bob))
        .await
        .assert_problem(403, "ticket-invalid");
    three.stop().await;
}

/// The public key in the format of `auth.public_key_file`.
fn public_pem(pair: &Ed25519KeyPair) -> String {
    // RFC 8410, 10.1: the prefix of the 32 bytes of an Ed25519 key.
    let prefix = [48, 42, 48, 5, 6, 3, 43, 101, 112, 3, 33, 0];
    let der = [&prefix, pair.public_key().as_ref()].concat();
    let der = BASE64_STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
}

#[tokio::test]
async fn without_a_secret_no_campaign_asks_for_tickets() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("key.pem");
    std::fs::write(&pem, public_pem(&pair)).unwrap();
    let service = Service::start_with(|config, _| {
        config.auth.hs256_secret = Secret::default();
        config.auth.public_key_file = pem;
    })
    .await;
    let claims = json!({ "sub": "olga", "scope": "admin", "exp": START_MS / 1_000 + 60 });
    let parts = [json!({ "alg": "EdDSA", "typ": "JWT" }), claims];
    let message = parts
        .map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()))
        .join(".");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes()));
    let token = format!("{message}.{signature}");
    let mut body = crate::node::http::common::sale(1);
    assert_eq!(
        service.post("/v1/sales", &token, body.clone()).await.status,
        201
    );
    needs_ticket(&mut body);
    let refused = service.post("/v1/sales", &token, body).await;
    refused.assert_problem(422, "invalid");
    assert!(refused.text("detail").contains("auth.ticket_secret"));
    service.stop().await;
}
