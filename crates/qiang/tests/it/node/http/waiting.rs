//! Waiting rooms over HTTP: queue entries, polls, streams.

use std::time::{Duration, Instant};

use crate::node::http::common::{Reply, Service, call, read_to_end};
use qiang::config::ChallengeKind;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A sale with a waiting room.
struct Line {
    service: Service,
    id: String,
    orders: String,
    place: String,
}

impl Line {
    async fn start(service: Service, stock: u32) -> Self {
        Self::with(service, stock, |_| ()).await
    }

    async fn with(service: Service, stock: u32, adjust: impl FnOnce(&mut Value)) -> Self {
        let has_line = |sale: &mut Value| {
            sale["waiting_room"] = json!(true);
            adjust(sale);
        };
        let id = service.sale(stock, has_line).await;
        Self {
            service,
            orders: format!("/v1/sales/{id}/orders"),
            place: format!("/v1/campaigns/{id}/queue-entry"),
            id,
        }
    }

    fn token(&self, user: &str) -> String {
        self.service.token(user, "claim")
    }

    async fn order(&self, user: &str) -> Reply {
        self.service.act(&self.orders, &self.token(user)).await
    }

    async fn look(&self, user: &str) -> Reply {
        self.service.get(&self.place, &self.token(user)).await
    }

    async fn act(&self, action: &str) {
        let path = format!("/v1/campaigns/{}/{action}", self.id);
        let reply = self.service.act(&path, &self.service.operator()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// Polls until a user's queue entry is decided.
    async fn decided(&self, user: &str) -> Reply {
        let began = Instant::now();
        loop {
            let reply = self.look(user).await;
            if reply.status != 200 || reply.json()["state"] != "waiting" {
                return reply;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{reply:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens a stream of a user's queue entry.
    async fn stream(&self, user: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.service.addr).await.unwrap();
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\
             Connection: close\r\n\r\n",
            self.place,
            self.token(user)
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

/// Reads until a text arrives. Returns all text so far.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&all).contains(text) {
            let mut buffer = [0; 4_096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&buffer[..count]);
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(10), reading).await;
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(in_time.is_ok(), "{text}");
    text
}

#[tokio::test]
async fn a_claim_takes_a_place_and_is_decided() {
    let line = Line::start(Service::start().await, 1).await;
    let sale = format!("/v1/sales/{}", line.id);
    let seen = line.service.get(&sale, &line.token("ann")).await;
    assert_eq!(seen.json()["waiting_room"], json!(true));
    line.look("ann").await.assert_problem(404, "no-queue-entry");
    line.act("pause").await;
    for (at, user) in ["ann", "bob", "cid", "bob"].into_iter().enumerate() {
        let entered = line.order(user).await;
        let (place, ahead) = [(1, 0), (2, 1), (3, 2), (2, 1)][at];
        let body = json!({ "state": "waiting", "place": place, "ahead": ahead });
        assert_eq!((entered.status, entered.json()), (202, body.clone()));
        assert_eq!(entered.header("location"), line.place);
        assert_eq!(entered.header("retry-after"), "1");
        let seen = line.look(user).await;
        assert_eq!((seen.status, seen.json()), (200, body));
        assert_eq!(seen.header("cache-control"), "no-store");
    }
    // Another user has no entry to read, and a token without the scope reads none.
    line.look("eve").await.assert_problem(404, "no-queue-entry");
    let bare = line.service.token("ann", "");
    let refused = line.service.get(&line.place, &bare).await;
    refused.assert_problem(403, "forbidden");
    line.act("resume").await;
    let ann = line.decided("ann").await.json();
    assert_eq!(
        (&ann["state"], &ann["order"]["number"]),
        (&json!("granted"), &json!(1))
    );
    assert_eq!(ann["order"]["ack"], json!("fsync"));
    line.decided("bob").await.assert_problem(409, "sold-out");
    line.decided("cid").await.assert_problem(409, "sold-out");
    // A decided order is replayed without the queue. After the stock is sold out, claims do not queue.
    let again = line.order("ann").await;
    assert_eq!((again.status, again.json()), (200, ann["order"].clone()));
    line.order("dan").await.assert_problem(409, "sold-out");
    line.look("dan").await.assert_problem(404, "no-queue-entry");
    // A restocked unit opens the queue again.
    let order = ann["order"]["id"].as_str().unwrap();
    let cancel = format!("/v1/orders/{order}/cancellation");
    let cancelled = line.service.act(&cancel, &line.token("ann")).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!(line.order("bob").await.status, 202);
    let bob = line.decided("bob").await.json();
    assert_eq!(bob["state"], json!("granted"));
    let metrics = line.service.get("/metrics", "").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for wanted in [
        "qiang_queue_decided_total{outcome=\"granted\"} 2",
        "qiang_queue_decided_total{outcome=\"sold_out\"} 2",
        "qiang_claims_total{outcome=\"waiting\"} 5",
        "qiang_queue_entries 0",
        "qiang_queue_leases_lost_total 0",
    ] {
        assert!(metrics.contains(wanted), "{wanted}: {metrics}");
    }
    line.service.stop().await;
}

/// A granted order is replayed under its key while another order of the same user waits, at each level.
#[tokio::test]
async fn a_granted_order_is_replayed_beside_another_in_line() {
    for ack in ["fsync", "ledger"] {
        let two_each = |sale: &mut Value| {
            sale["per_user_limit"] = json!(2);
            sale["ack"] = json!(ack);
        };
        let line = Line::with(Service::start().await, 9, two_each).await;
        let token = line.token("ann");
        let order = async |key: &str| {
            let (service, body) = (&line.service, json!({ "quantity": 1 }));
            service.post_key(&line.orders, &token, key, body).await
        };
        assert_eq!(order("k1").await.status, 202, "{ack}");
        let granted = line.decided("ann").await.json()["order"].clone();
        line.act("pause").await;
        assert_eq!(order("k2").await.status, 202, "{ack}");
        let again = order("k1").await;
        assert_eq!(again.status, 200, "{ack} {again:?}");
        assert_eq!(again.json()["id"], granted["id"], "{ack}");
        order("k3").await.assert_problem(409, "already-waiting");
        line.service.stop().await;
    }
}

/// The queue does not bypass the requirements of its campaign.
#[tokio::test]
async fn a_place_needs_what_a_claim_needs() {
    let service =
        Service::start_with(|config, _| config.tickets.challenge = ChallengeKind::None).await;
    let asking = |sale: &mut Value| {
        sale["waiting_room"] = json!(true);
        sale["requirements"] = json!(["ticket"]);
        sale["audience"] = json!({ "users": ["ann", "bob"] });
    };
    let id = service.sale(9, asking).await;
    let (orders, tickets) = (
        format!("/v1/sales/{id}/orders"),
        format!("/v1/sales/{id}/tickets"),
    );
    let token = |user: &str| service.token(user, "claim");
    let ticket = async |user: &str| {
        let made = service.act(&tickets, &token(user)).await;
        assert_eq!(made.status, 201, "{made:?}");
        made.text("ticket")
    };
    let enter = async |user: &str, ticket: Option<&str>| {
        let header = ticket.map(|ticket| ("grab-ticket", ticket));
        let (token, header) = (token(user), header.as_slice());
        call(service.addr, "POST", &orders, Some(&token), header, None).await
    };
    let anns = ticket("ann").await;
    let eves = ticket("eve").await;
    enter("ann", None)
        .await
        .assert_problem(403, "ticket-missing");
    enter("bob", Some(&anns))
        .await
        .assert_problem(403, "ticket-of-another-user");
    enter("eve", Some(&eves))
        .await
        .assert_problem(403, "not-in-audience");
    let place = format!("/v1/campaigns/{id}/queue-entry");
    for user in ["ann", "bob", "eve"] {
        let reply = service.get(&place, &token(user)).await;
        reply.assert_problem(404, "no-queue-entry");
    }
    assert_eq!(enter("ann", Some(&anns)).await.status, 202);
    service.stop().await;
}

#[tokio::test]
async fn a_packet_has_a_line_too_and_a_restart_keeps_it() {
    let service = Service::start().await;
    let id = service
        .red_packet(2, |packet| packet["waiting_room"] = json!(true))
        .await;
    let operator = service.operator();
    let campaign = format!("/v1/campaigns/{id}");
    service.act(&format!("{campaign}/pause"), &operator).await;
    let claims = format!("/v1/red-packets/{id}/claims");
    for user in ["ann", "bob", "cid"] {
        let reply = service.act(&claims, &service.token(user, "claim")).await;
        assert_eq!(reply.status, 202, "{reply:?}");
    }
    // A claim of the other kind finds no such campaign, with or without a queue.
    let orders = format!("/v1/sales/{id}/orders");
    let wrong = service.act(&orders, &service.token("ann", "claim")).await;
    wrong.assert_problem(404, "unknown-campaign");
    let service = service.restart().await;
    let again = service.act(&claims, &service.token("cid", "claim")).await;
    assert_eq!((again.status, &again.json()["ahead"]), (202, &json!(2)));
    service.act(&format!("{campaign}/resume"), &operator).await;
    let mut total = 0;
    for (user, granted) in [("ann", true), ("bob", true), ("cid", false)] {
        let began = Instant::now();
        let reply = loop {
            let place = format!("{campaign}/queue-entry");
            let reply = service.get(&place, &service.token(user, "claim")).await;
            if reply.status != 200 || reply.json()["state"] != "waiting" {
                break reply;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{reply:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(reply.status == 200, granted, "{user}: {reply:?}");
        total += reply.json()["claim"]["amount"]["amount"]
            .as_i64()
            .unwrap_or(0);
    }
    assert_eq!(total, 10_000);
    service.stop().await;
}

/// Users queue while the campaign is paused, if they have the ticket that the campaign requires.
#[tokio::test]
async fn a_paused_line_takes_who_has_a_ticket() {
    let service = Service::start_with(|config, _| {
        config.tickets.challenge = ChallengeKind::None;
    });
    let needs_ticket = |sale: &mut Value| sale["requirements"] = json!(["ticket"]);
    let line = Line::with(service.await, 1, needs_ticket).await;
    line.act("pause").await;
    line.order("ann")
        .await
        .assert_problem(403, "ticket-missing");
    let tickets = format!("/v1/sales/{}/tickets", line.id);
    let (service, ann) = (&line.service, line.token("ann"));
    let ticket = service.act(&tickets, &ann).await;
    assert_eq!(ticket.status, 201, "{ticket:?}");
    let ticket = ticket.text("ticket");
    let header = [("grab-ticket", ticket.as_str())];
    let entered = call(
        service.addr,
        "POST",
        &line.orders,
        Some(&ann),
        &header,
        None,
    )
    .await;
    assert_eq!(entered.status, 202, "{entered:?}");
    line.act("resume").await;
    assert_eq!(line.decided("ann").await.json()["state"], json!("granted"));
    // A paused campaign without a queue issues no tickets.
    let id = service.sale(1, needs_ticket).await;
    let pause = format!("/v1/campaigns/{id}/pause");
    assert_eq!(service.act(&pause, &service.operator()).await.status, 200);
    let refused = service.act(&format!("/v1/sales/{id}/tickets"), &ann).await;
    refused.assert_problem(503, "paused");
    line.service.stop().await;
}

#[tokio::test]
async fn a_full_line_turns_away_until_somebody_is_decided() {
    let service = Service::start_with(|config, _| config.queue.entries_max = 2).await;
    let line = Line::start(service, 9).await;
    line.act("pause").await;
    assert_eq!(line.order("ann").await.status, 202);
    assert_eq!(line.order("bob").await.status, 202);
    let refused = line.order("cid").await;
    refused.assert_problem(503, "queue-full");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(line.order("ann").await.status, 202);
    line.act("resume").await;
    line.decided("bob").await;
    assert_eq!(line.order("cid").await.status, 202);
    assert_eq!(line.decided("cid").await.json()["state"], json!("granted"));
    line.service.stop().await;
}

#[tokio::test]
async fn a_stream_tells_the_place_and_the_result() {
    let line = Line::start(Service::start().await, 1).await;
    line.act("pause").await;
    for user in ["ann", "bob"] {
        assert_eq!(line.order(user).await.status, 202);
    }
    let (mut ann, mut bob) = (line.stream("ann").await, line.stream("bob").await);
    let head = read_until(&mut ann, "event: place").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("text/event-stream"), "{head}");
    // Bob reads nothing until all is over, and still misses nothing.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    line.act("resume").await;
    let (ann, closed) = read_to_end(&mut ann, Duration::from_secs(10)).await;
    assert!(closed && ann.contains("event: result"), "{ann}");
    let data = ann
        .lines()
        .find_map(|line| line.strip_prefix("data: {\"state\":\"g"));
    let data = data.unwrap_or_else(|| panic!("{ann}"));
    let result: Value = serde_json::from_str(&format!("{{\"state\":\"g{data}")).unwrap();
    assert_eq!(result["state"], json!("granted"));
    assert_eq!(result["order"], line.order("ann").await.json());
    let (bob, closed) = read_to_end(&mut bob, Duration::from_secs(10)).await;
    assert!(closed, "{bob}");
    let place = bob.find("\"ahead\":1").unwrap_or_else(|| panic!("{bob}"));
    let result = bob.find("{\"state\":\"sold_out\",\"place\":2}");
    assert!(result.unwrap_or_else(|| panic!("{bob}")) > place);
    // A new connection gets the result again.
    let (again, closed) = read_to_end(&mut line.stream("bob").await, Duration::from_secs(10)).await;
    assert!(closed && again.contains("sold_out"), "{again}");
    line.service.stop().await;
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_the_service() {
    let service = Service::start_with(|config, _| {
        config.queue.streams_max = 1;
        config.queue.stream_ms = 1_500;
    });
    let line = Line::start(service.await, 1).await;
    line.act("pause").await;
    assert_eq!(line.order("ann").await.status, 202);
    let mut first = line.stream("ann").await;
    read_until(&mut first, "event: place").await;
    let accept = [("Accept", "text/event-stream")];
    let token = line.token("ann");
    let second = call(
        line.service.addr,
        "GET",
        &line.place,
        Some(&token),
        &accept,
        None,
    )
    .await;
    second.assert_problem(503, "overloaded");
    // The stream ends after `queue.stream_ms`.
    let (_, closed) = read_to_end(&mut first, Duration::from_secs(5)).await;
    assert!(closed);
    let mut third = line.stream("ann").await;
    read_until(&mut third, "event: place").await;
    let began = Instant::now();
    line.service.stop().await;
    assert!(began.elapsed() < Duration::from_millis(1_400));
    let (_, closed) = read_to_end(&mut third, Duration::from_secs(1)).await;
    assert!(closed);
}
