//! Campaigns for some users: by name, invitation or passphrase. Also the visibility of a packet's draws.

use std::time::Instant;

use crate::node::http::common::{Reply, Service};
use serde_json::{Value, json};

/// Claims a share of a packet for `user`, with this proof in the body.
pub(crate) async fn claim(service: &Service, id: &str, user: &str, shown: Value) -> Reply {
    let path = format!("/v1/red-packets/{id}/claims");
    let token = service.token(user, "claim");
    service.post(&path, &token, shown).await
}

#[tokio::test]
async fn named_users_take_part_and_no_others() {
    let service = Service::start().await;
    let named = |body: &mut Value| body["audience"] = json!({ "users": ["ann", "bob"] });
    let id = service.red_packet(2, named).await;
    assert_eq!(claim(&service, &id, "ann", json!({})).await.status, 201);
    claim(&service, &id, "eve", json!({}))
        .await
        .assert_problem(403, "not-in-audience");
    let sale = service.sale(9, named).await;
    let orders = format!("/v1/sales/{sale}/orders");
    service
        .act(&orders, &service.token("eve", "claim"))
        .await
        .assert_problem(403, "not-in-audience");
    let token = service.token("bob", "claim");
    assert_eq!(service.act(&orders, &token).await.status, 201);
    let seen = service.get(&format!("/v1/sales/{sale}"), &token).await;
    assert_eq!(seen.json()["audience"], json!("users"));

    // Retries are checked like first claims.
    let again = claim(&service, &id, "ann", json!({})).await;
    assert_eq!(again.status, 200);

    // The ledger keeps the audience, so another process checks the same.
    let service = service.restart().await;
    claim(&service, &id, "eve", json!({}))
        .await
        .assert_problem(403, "not-in-audience");
    assert_eq!(claim(&service, &id, "bob", json!({})).await.status, 201);
    let tally = service
        .get(&format!("/v1/campaigns/{id}/state"), &token)
        .await;
    assert_eq!(tally.json()["granted"], json!(2));
    service.stop().await;
}

#[tokio::test]
async fn a_passphrase_lets_in_who_says_it() {
    let service = Service::start().await;
    let secret = "恭喜发财 2026";
    let id = service
        .red_packet(9, |body| body["audience"] = json!({ "passphrase": secret }))
        .await;
    for wrong in [
        json!({}),
        json!({ "passphrase": "" }),
        json!({ "passphrase": "恭喜发财" }),
        json!({ "passphrase": secret.repeat(100) }),
        json!({ "invitation": secret }),
    ] {
        claim(&service, &id, "ann", wrong)
            .await
            .assert_problem(403, "passphrase-wrong");
    }
    let said = json!({ "passphrase": format!(" {secret} ") });
    assert_eq!(claim(&service, &id, "ann", said.clone()).await.status, 201);
    assert_eq!(claim(&service, &id, "bob", said.clone()).await.status, 201);
    for n in 0..6 {
        let wrong = claim(&service, &id, "eve", json!({ "passphrase": n.to_string() })).await;
        match n {
            5 => wrong.assert_problem(429, "throttled"),
            _ => wrong.assert_problem(403, "passphrase-wrong"),
        }
    }
    // Eve has no guess left. A passphrase that is known to be right is no guess.
    assert_eq!(claim(&service, &id, "eve", said.clone()).await.status, 201);
    // The files do not contain the passphrase.
    let service = service.restart().await;
    assert_eq!(claim(&service, &id, "cid", said).await.status, 201);
    let folder = std::fs::read_dir(service.folder.path()).unwrap();
    for file in folder {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let found = bytes
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!found, "the passphrase is in a file");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_known_passphrase_stays_known_when_the_sale_is_read_again() {
    let service = Service::start_with(|config, _| {
        config.tickets.challenge = qiang::config::ChallengeKind::None;
    })
    .await;
    let sale = service
        .sale(9, |body| {
            body["audience"] = json!({ "passphrase": "open sesame" });
            body["requirements"] = json!(["ticket"]);
        })
        .await;
    // The passphrase is checked before the ticket.
    let says = async |user: &str, passphrase: &str, status: u16, kind: &str| {
        let path = format!("/v1/sales/{sale}/orders");
        let body = json!({ "passphrase": passphrase });
        let token = service.token(user, "claim");
        let reply = service.post(&path, &token, body).await;
        reply.assert_problem(status, kind);
    };
    says("ann", "open sesame", 403, "ticket-missing").await;
    for _ in 0..5 {
        says("eve", "open barley", 403, "passphrase-wrong").await;
    }
    says("eve", "open barley", 429, "throttled").await;
    // The sale is read again at a ticket request a moment later, and after a change.
    service.clock.advance_ms(2_000);
    let path = format!("/v1/sales/{sale}/tickets");
    let ticket = service.act(&path, &service.token("eve", "claim")).await;
    assert_eq!(ticket.status, 201, "{ticket:?}");
    says("eve", "open sesame", 403, "ticket-missing").await;
    let change = json!({ "per_user_limit": 2 });
    let path = format!("/v1/sales/{sale}");
    let changed = service.patch(&path, &service.operator(), change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    says("eve", "open sesame", 403, "ticket-missing").await;
    service.stop().await;
}

#[tokio::test]
async fn a_key_is_for_one_passphrase() {
    let service = Service::start().await;
    service.deposit("sam", 20_000).await;
    let token = service.token("sam", "send");
    let send = async |passphrase: &str| {
        let mut body = crate::node::http::common::packet(10_000, 3);
        body["audience"] = json!({ "passphrase": passphrase });
        service.post_key("/v1/red-packets", &token, "k", body).await
    };
    let first = send("open sesame").await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = send("open sesame").await;
    assert_eq!((again.status, again.text("id")), (200, first.text("id")));
    send("open barley").await.assert_problem(422, "key-reused");
    // The key is checked before the minimum length.
    send("abc").await.assert_problem(422, "key-reused");
    send("").await.assert_problem(422, "invalid");
    assert_eq!(service.balance("sam").await, 10_000);
    let said = json!({ "passphrase": "open sesame" });
    let id = first.text("id");
    assert_eq!(claim(&service, &id, "ann", said).await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn an_invitation_is_for_one_campaign() {
    let service = Service::start().await;
    let invited = |body: &mut Value| body["audience"] = json!({ "invitation": true });
    let id = service.red_packet(9, invited).await;
    let other = service.red_packet(9, invited).await;
    let open = service.red_packet(9, |_| ()).await;
    let sender = service.token("sam", "send");
    let invite = async |id: &str| {
        let path = format!("/v1/campaigns/{id}/invitations");
        let reply = service.act(&path, &sender).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        json!({ "invitation": reply.text("invitation") })
    };
    let (one, two) = (invite(&id).await, invite(&other).await);
    service
        .act(
            &format!("/v1/campaigns/{id}/invitations"),
            &service.token("eve", ""),
        )
        .await
        .assert_problem(403, "forbidden");
    service
        .act(&format!("/v1/campaigns/{open}/invitations"), &sender)
        .await
        .assert_problem(409, "not-by-invitation");
    assert_eq!(claim(&service, &id, "ann", one.clone()).await.status, 201);
    assert_eq!(claim(&service, &id, "bob", one.clone()).await.status, 201);
    for bad in [json!({}), two, json!({ "invitation": "1.x" })] {
        for user in ["eve", "ann"] {
            claim(&service, &id, user, bad.clone())
                .await
                .assert_problem(403, "invitation-invalid");
        }
    }
    let path = format!("/v1/campaigns/{id}/invitations");
    let at = |time: &str| json!({ "expires_at": time });
    let past = service.post(&path, &sender, at("2026-11-21T12:00:00Z"));
    past.await.assert_problem(422, "invalid");
    let short = service
        .post(&path, &sender, at("2026-11-21T12:00:10Z"))
        .await;
    let short = json!({ "invitation": short.text("invitation") });
    service.clock.advance_ms(9_999);
    assert_eq!(claim(&service, &id, "cid", short.clone()).await.status, 201);
    service.clock.advance_ms(1);
    claim(&service, &id, "eve", short)
        .await
        .assert_problem(403, "invitation-invalid");

    // The invitation is valid until the end, also after a restart. After the end, grants are replayed, and no user gets
    // a new one.
    let service = service.restart().await;
    assert_eq!(claim(&service, &id, "dan", one.clone()).await.status, 201);
    service.clock.advance_ms(24 * 3_600_000);
    let again = claim(&service, &id, "dan", one.clone()).await;
    assert_eq!(again.status, 200, "{again:?}");
    let late = claim(&service, &id, "eve", one).await;
    late.assert_problem(410, "ended");
    service.stop().await;
}

#[tokio::test]
async fn draws_are_seen_by_those_who_may() {
    let service = Service::start().await;
    // A share of another packet does not show the draws.
    let other = service
        .red_packet(9, |body| body["draws"] = json!("grabbers"))
        .await;
    assert_eq!(claim(&service, &other, "eve", json!({})).await.status, 201);
    for (draws, grabber, stranger) in [
        ("everybody", 200, 200),
        ("grabbers", 200, 403),
        ("sender", 403, 403),
    ] {
        let id = service
            .red_packet(9, |body| body["draws"] = json!(draws))
            .await;
        assert_eq!(claim(&service, &id, "ann", json!({})).await.status, 201);
        let path = format!("/v1/red-packets/{id}/claims");
        let look = async |user: &str| {
            let reply = service.get(&path, &service.token(user, "")).await;
            if reply.status == 403 {
                reply.assert_problem(403, "draws-hidden");
            }
            reply.status
        };
        assert_eq!(look("sam").await, 200, "{draws}");
        assert_eq!(look("ann").await, grabber, "{draws}");
        assert_eq!(look("eve").await, stranger, "{draws}");
        let operator = service.get(&path, &service.operator()).await;
        assert_eq!(operator.status, 200);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_packet_ends_with_its_last_share() {
    let service = Service::start().await;
    let id = service
        .red_packet(3, |body| body["draws"] = json!("grabbers"))
        .await;
    let path = format!("/v1/red-packets/{id}");
    let seen = async |user: &str| service.get(&path, &service.token(user, "")).await.json();
    let mut amounts = Vec::new();
    for user in ["ann", "bob", "cid"] {
        let open = seen(user).await;
        assert_eq!(
            (&open["seed"], &open["state"]["phase"], open.get("luckiest")),
            (&Value::Null, &json!("live"), None)
        );
        let share = claim(&service, &id, user, json!({})).await;
        amounts.push((share.json()["amount"]["amount"].as_i64().unwrap(), user));
    }
    let over = seen("ann").await;
    let phase = over["state"]["phase"].as_str().unwrap();
    assert!(["ended", "closed"].contains(&phase), "{over}");
    assert!(over["seed"].is_string(), "{over}");
    let largest = amounts.iter().map(|(amount, _)| *amount).max().unwrap();
    let first = amounts.iter().find(|(amount, _)| *amount == largest);
    let luckiest = &over["luckiest"];
    assert_eq!(luckiest["amount"]["amount"], json!(largest));
    assert_eq!(luckiest["user"], json!(first.unwrap().1));
    assert_eq!(seen("eve").await.get("luckiest"), None);

    // The packet has no share left, so it closes before its window ends.
    let state = format!("/v1/campaigns/{id}/state");
    let begun = Instant::now();
    while service.get(&state, "").await.json()["phase"] != json!("closed") {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let closed = seen("ann").await;
    assert_eq!(closed["refunded"]["amount"], json!(0));
    assert_eq!(
        (&closed["seed"], &closed["luckiest"]),
        (&over["seed"], luckiest)
    );
    assert_eq!(claim(&service, &id, "bob", json!({})).await.status, 200);
    claim(&service, &id, "eve", json!({}))
        .await
        .assert_problem(410, "ended");
    service.stop().await;
}

#[tokio::test]
async fn an_audience_that_cannot_be_is_refused() {
    let service = Service::start().await;
    service.deposit("sam", 10_000).await;
    let token = service.token("sam", "send");
    for bad in [
        json!({ "users": [] }),
        json!({ "users": vec!["u"; 5_001] }),
        json!({ "passphrase": " " }),
        json!({ "passphrase": " abc " }),
        json!({ "passphrase": "88888" }),
        json!({ "passphrase": "x".repeat(129) }),
        json!({ "invitation": false }),
        json!({ "users": ["ann"], "invitation": true }),
        json!({ "friends": true }),
    ] {
        let mut body = crate::node::http::common::packet(10_000, 3);
        body["audience"] = bad;
        service
            .post("/v1/red-packets", &token, body)
            .await
            .assert_problem(422, "invalid");
    }
    service.stop().await;
}

/// More shares than named users would stay in the packet until its end, so they are refused.
#[tokio::test]
async fn a_packet_for_named_users_has_a_share_for_each_at_most() {
    let service = Service::start().await;
    service.deposit("sam", 40_000).await;
    let token = service.token("sam", "send");
    let packet = |shares: u32, users: &[&str]| {
        let mut body = crate::node::http::common::packet(10_000, shares);
        body["audience"] = json!({ "users": users });
        body
    };
    let path = "/v1/red-packets";
    // A name that occurs twice is one user.
    for users in [&["ann", "bob"][..], &["ann", "bob", "ann"]] {
        let refused = service.post(path, &token, packet(3, users)).await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], "#/shares");
    }
    let mut keyed = packet(3, &["ann"]);
    keyed["title"] = json!("in a batch");
    let batch = json!({ "red_packets": [
        { "idempotency_key": "a", "red_packet": keyed },
        { "idempotency_key": "b", "red_packet": packet(1, &["ann"]) },
    ]});
    let batch = service.post("/v1/red-packets/batch", &token, batch).await;
    if batch.status == 200 {
        let results = batch.json()["data"].clone();
        assert_eq!(results[0]["result"], "refused", "{results}");
    } else {
        batch.assert_problem(422, "invalid");
    }
    for (shares, users) in [(2, &["ann", "bob"][..]), (2, &["ann", "bob", "cid"])] {
        let made = service.post(path, &token, packet(shares, users)).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn the_owner_reads_whom_a_campaign_names() {
    let service = Service::start().await;
    let named = |body: &mut Value| body["audience"] = json!({ "users": ["cid", "ann", "bob"] });
    let packet = service.red_packet(2, named).await;
    let sale = service.sale(2, named).await;
    let open = service.sale(2, |_| ()).await;
    let secret = service
        .sale(2, |body| {
            body["audience"] = json!({ "passphrase": "open sesame" })
        })
        .await;
    let seen = async |id: &str, user: &str, scope: &str| {
        let path = format!("/v1/campaigns/{id}/audience");
        service.get(&path, &service.token(user, scope)).await
    };
    let users = json!({ "audience": "users", "users": ["ann", "bob", "cid"] });
    for (id, owner) in [(&packet, "sam"), (&sale, "olga")] {
        let own = seen(id, owner, "").await;
        assert_eq!((own.status, own.json()), (200, users.clone()));
        assert_eq!(seen(id, "support", "read:any").await.json(), users);
        seen(id, "ann", "claim")
            .await
            .assert_problem(403, "forbidden");
    }
    assert_eq!(seen(&open, "olga", "").await.json(), json!({}));
    let told = seen(&secret, "olga", "").await.json();
    assert_eq!(told, json!({ "audience": "passphrase" }));
    let absent = "01934f1e-0000-7000-8000-000000000000";
    seen(absent, "olga", "admin")
        .await
        .assert_problem(404, "unknown-campaign");
    service.stop().await;
}
