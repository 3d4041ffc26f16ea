//! Features that depend on a sale's window and limit follow their changes: tickets, invitations, queues.

use std::time::{Duration, Instant};

use crate::node::http::common::{Reply, Service};
use qiang::config::ChallengeKind;
use serde_json::{Value, json};

/// The service's clock starts at 12:00.
const SOON: &str = "2026-11-21T12:00:30Z";
const LATER: &str = "2026-11-21T13:00:00Z";

async fn change(service: &Service, sale: &str, terms: Value) {
    let path = format!("/v1/sales/{sale}");
    let changed = service.patch(&path, &service.operator(), terms).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    // The ledger has the change. An earlier read counts for one more second.
    let listed = service.get("/v1/sales?all=true", &service.operator()).await;
    assert_eq!(listed.json()["settled"], json!(true), "{listed:?}");
    service.clock.advance_ms(1_000);
}

async fn ask(service: &Service, sale: &str, what: &str, user: &str, body: Value) -> Reply {
    let path = format!("/v1/sales/{sale}/{what}");
    service
        .post(&path, &service.token(user, "claim"), body)
        .await
}

#[tokio::test]
async fn tickets_are_made_from_the_present_start_on() {
    let service =
        Service::start_with(|config, _| config.tickets.challenge = ChallengeKind::None).await;
    let later = |body: &mut Value| {
        body["requirements"] = json!(["ticket"]);
        body["starts_at"] = json!(LATER);
        body["ends_at"] = json!("2026-11-21T18:00:00Z");
    };
    let sale = service.sale(5, later).await;
    let ticket = async |user: &str| ask(&service, &sale, "tickets", user, json!({})).await;
    ticket("ann").await.assert_problem(409, "not-started");
    change(&service, &sale, json!({ "starts_at": SOON })).await;
    ticket("ann").await.assert_problem(409, "not-started");
    service.clock.advance_ms(30_000);
    assert_eq!(ticket("ann").await.status, 201);

    // The start may also move to a later time.
    let sale = service.sale(5, later).await;
    let ticket = async |user: &str| ask(&service, &sale, "tickets", user, json!({})).await;
    ticket("ann").await.assert_problem(409, "not-started");
    let off = json!({ "starts_at": "2026-11-21T14:00:00Z" });
    change(&service, &sale, off).await;
    service.clock.advance_ms(3_600_000);
    ticket("ann").await.assert_problem(409, "not-started");
    service.clock.advance_ms(3_600_000);
    assert_eq!(ticket("ann").await.status, 201);
    service.stop().await;
}

#[tokio::test]
async fn invitations_last_until_the_present_end() {
    let service = Service::start().await;
    let invited = |body: &mut Value| {
        body["audience"] = json!({ "invitation": true });
        body["hold_seconds"] = json!(7_200);
        body["ends_at"] = json!(LATER);
    };
    let sale = service.sale(5, invited).await;
    let path = format!("/v1/campaigns/{sale}/invitations");
    let invite = async || service.act(&path, &service.operator()).await.json();
    let before = invite().await;
    assert_eq!(before["expires_at"], json!("2026-11-21T13:00:00.000Z"));
    let order = async |user: &str, invitation: &Value| {
        let shown = json!({ "invitation": invitation["invitation"] });
        ask(&service, &sale, "orders", user, shown).await
    };
    assert_eq!(order("ann", &before).await.status, 201);
    let ends_at = json!({ "ends_at": "2026-11-21T14:00:00Z" });
    change(&service, &sale, ends_at).await;
    let after = invite().await;
    assert_eq!(after["expires_at"], json!("2026-11-21T14:00:00.000Z"));
    // The first invitations expire at their own time, although the sale continues.
    service.clock.advance_ms(3_600_000);
    order("bob", &before)
        .await
        .assert_problem(403, "invitation-invalid");
    assert_eq!(order("bob", &after).await.status, 201);
    service.clock.advance_ms(3_600_000);
    // A user with a grant gets it again after the end.
    assert_eq!(order("bob", &after).await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn a_line_goes_by_the_present_window_limit_and_price() {
    let service = Service::start().await;
    let sale = service
        .sale(5, |body| body["waiting_room"] = json!(true))
        .await;
    let place = format!("/v1/campaigns/{sale}/queue-entry");
    let decided = async |user: &str| {
        let began = Instant::now();
        loop {
            let place = service.get(&place, &service.token(user, "claim")).await;
            if place.status != 200 || place.json()["state"] != "waiting" {
                return place;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{place:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let act = async |action: &str| {
        let path = format!("/v1/campaigns/{sale}/{action}");
        assert_eq!(service.act(&path, &service.operator()).await.status, 200);
    };
    let enter = async |user: &str, quantity: u32| {
        let wish = json!({ "quantity": quantity });
        let entered = ask(&service, &sale, "orders", user, wish).await;
        assert_eq!(entered.status, 202, "{entered:?}");
    };
    act("pause").await;
    enter("ann", 2).await;
    enter("bob", 3).await;
    let price = json!({ "amount": 700, "currency": "CNY" });
    let terms = json!({ "per_user_limit": 2, "unit_price": price });
    change(&service, &sale, terms).await;
    act("resume").await;
    let granted = decided("ann").await.json();
    assert_eq!(
        granted["order"]["amount"]["amount"],
        json!(1_400),
        "{granted}"
    );
    decided("bob").await.assert_problem(409, "limit-reached");

    act("pause").await;
    enter("cid", 1).await;
    let ends_at = json!({ "ends_at": "2026-11-21T12:10:00Z" });
    change(&service, &sale, ends_at).await;
    service.clock.advance_ms(600_000);
    decided("cid").await.assert_problem(410, "ended");
    service.stop().await;
}
