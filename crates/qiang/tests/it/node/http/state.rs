//! Conditional requests for the numbers of a campaign, as caches and browsers send them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::node::http::common::{Reply, Service, call};
use futures_util::future::join_all;
use parking_lot::Mutex;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply as Decided},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, PendingReply, ProbeResult, ReplySender},
};

async fn state(service: &Service, id: &str, tags: &[(&str, &str)]) -> Reply {
    let path = format!("/v1/campaigns/{id}/state");
    call(service.addr, "GET", &path, None, tags, None).await
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let first = state(&service, &id, &[]).await;
    let caching = "public, max-age=1, s-maxage=1";
    assert_eq!(first.header("cache-control"), caching);
    assert!(first.body.len() < 300, "{} bytes", first.body.len());
    assert!(first.json()["now"].is_string());
    let etag = first.header("etag").to_owned();
    for (tags, status) in [
        (etag.clone(), 304),
        (format!("\"other\", {}", etag.trim_start_matches("W/")), 304),
        ("*".to_owned(), 304),
        ("W/\"other\"".to_owned(), 200),
    ] {
        let again = state(&service, &id, &[("if-none-match", tags.as_str())]).await;
        assert_eq!(again.status, status, "{tags}");
        assert_eq!(again.header("etag"), etag);
        assert_eq!(again.header("cache-control"), caching);
        assert!(!again.header("date").is_empty());
        assert_eq!(again.body.is_empty(), status == 304);
    }

    // Time alone changes no tag. A grant does.
    service.clock.advance_ms(5_000);
    let later = state(&service, &id, &[]).await;
    assert_ne!(later.json()["now"], first.json()["now"]);
    assert_eq!(later.header("etag"), etag);
    let (path, token) = (
        format!("/v1/sales/{id}/orders"),
        service.token("ann", "claim"),
    );
    assert_eq!(service.act(&path, &token).await.status, 201);
    let changed = state(&service, &id, &[("if-none-match", etag.as_str())]).await;
    assert_eq!(changed.status, 200);
    assert_eq!(changed.json()["granted"], 1);
}

/// Repeats a request with the tag of an earlier answer.
async fn again(service: &Service, path: &str, user: &str, tag: &str) -> Reply {
    let (token, tags) = (service.token(user, "claim"), [("if-none-match", tag)]);
    call(service.addr, "GET", path, Some(&token), &tags, None).await
}

#[tokio::test]
async fn a_sale_that_has_not_changed_is_not_sent_again() {
    let service = Service::start().await;
    // A text of a user may look like the field that the tag ignores.
    let title = r#""now":"x","now":"y"#;
    let id = service.sale(5, |body| body["title"] = title.into()).await;
    let path = format!("/v1/sales/{id}");
    let first = again(&service, &path, "ann", "").await;
    assert_eq!((first.status, first.text("title").as_str()), (200, title));
    assert_eq!(first.header("content-type"), "application/json");
    let etag = first.header("etag").to_owned();
    service.clock.advance_ms(5_000);
    for (tag, status) in [(&*etag, 304), ("*", 304), ("W/\"other\"", 200)] {
        let reply = again(&service, &path, "bob", tag).await;
        assert_eq!(reply.status, status, "{tag}");
        assert_eq!(reply.header("etag"), etag);
        assert_eq!(reply.header("cache-control"), "private, no-cache");
        assert_eq!(reply.body.is_empty(), status == 304);
        assert_eq!(reply.header("content-type").is_empty(), status == 304);
    }
    // A change of numbers or texts is sent again.
    let ann = service.token("ann", "claim");
    assert_eq!(
        service.act(&format!("{path}/orders"), &ann).await.status,
        201
    );
    let granted = again(&service, &path, "ann", &etag).await;
    assert_eq!(
        (granted.status, &granted.json()["state"]["granted"]),
        (200, &1.into())
    );
    let other = r#""now":"z","now":"y"#;
    let change = serde_json::json!({ "title": other });
    assert_eq!(
        service
            .patch(&path, &service.operator(), change)
            .await
            .status,
        200
    );
    let changed = again(&service, &path, "ann", granted.header("etag")).await;
    assert_eq!(
        (changed.status, changed.text("title").as_str()),
        (200, other)
    );
    service.stop().await;
}

/// A tag covers only the fields that its caller was shown.
#[tokio::test]
async fn a_tag_of_a_packet_is_of_what_its_caller_sees() {
    let service = Service::start().await;
    let id = service
        .red_packet(1, |body| body["draws"] = "sender".into())
        .await;
    let path = format!("/v1/red-packets/{id}");
    let live = again(&service, &path, "eve", "").await;
    assert_eq!(live.header("cache-control"), "private, no-cache");
    let tag = live.header("etag");
    assert_eq!(again(&service, &path, "sam", tag).await.status, 304);
    let claims = format!("{path}/claims");
    assert_eq!(
        service
            .act(&claims, &service.token("ann", "claim"))
            .await
            .status,
        201
    );

    let seen = again(&service, &path, "eve", tag).await;
    assert_eq!(
        (seen.status, &seen.json()["state"]["granted"]),
        (200, &1.into())
    );
    assert!(seen.json()["luckiest"].is_null(), "{seen:?}");
    let senders = again(&service, &path, "sam", seen.header("etag")).await;
    assert_eq!(
        (senders.status, senders.json()["luckiest"]["user"].as_str()),
        (200, Some("ann"))
    );
    let strangers = again(&service, &path, "eve", senders.header("etag")).await;
    assert_eq!(strangers.status, 200);
    assert!(strangers.json()["luckiest"].is_null(), "{strangers:?}");
    service.stop().await;
}

/// A query of an engine, and the sender of its answer.
type Question = (CampaignId, ReplySender<Option<Tally>>);

/// An engine that holds queries of numbers until the test answers them.
struct Held(Arc<dyn Engine>, Arc<Mutex<Vec<Question>>>);

impl Engine for Held {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.0.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<Decided> {
        self.0.submit(command)
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.0.try_gate_outcome(claim)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        let (answer, ticket) = PendingReply::new();
        self.1.lock().push((campaign, answer));
        ticket
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.0.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.0.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.0.ack_levels()
    }
}

/// A read without an answer had no effect, so it is `overloaded`. A change without an answer may have had one.
#[tokio::test]
async fn a_read_that_takes_too_long_is_overloaded_and_a_change_uncertain() {
    let asked = Arc::<Mutex<Vec<Question>>>::default();
    let service = Service::start_with(|config, backend| {
        config.server.request_timeout_ms = 300;
        let engine = &mut backend.ports.engine;
        *engine = Arc::new(Held(Arc::clone(engine), Arc::clone(&asked)));
    })
    .await;
    let operator = service.operator();
    // The sale is created, and the answer waits for its numbers.
    let made = service
        .post("/v1/sales", &operator, crate::node::http::common::sale(5))
        .await;
    made.assert_problem(503, "uncertain");
    let id = asked.lock()[0].0;
    let paths = [
        format!("/v1/campaigns/{id}/state"),
        format!("/v1/sales/{id}"),
    ];
    for path in paths {
        let read = service.get(&path, &operator).await;
        read.assert_problem(503, "overloaded");
        assert_eq!(read.header("retry-after"), "1");
    }
    assert_eq!(made.header("retry-after"), "1");
    service.stop().await;
}

/// On Redis, each query is a script call on the primary, and any user may cause one.
#[tokio::test]
async fn a_crowd_of_readers_asks_the_engine_once_at_a_time() {
    const READERS: usize = 40;
    let (asked, engine) = (Arc::<Mutex<Vec<Question>>>::default(), Mutex::new(None));
    let service = Service::start_with(|_, backend| {
        let held = Held(backend.ports.engine.clone(), Arc::clone(&asked));
        *engine.lock() = Some(std::mem::replace(&mut backend.ports.engine, Arc::new(held)));
    })
    .await;
    let engine = engine.into_inner().unwrap();
    let times = AtomicUsize::new(0);
    let answers = async {
        loop {
            // The other readers send their requests during this pause.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let questions = std::mem::take(&mut *asked.lock());
            for (campaign, answer) in questions {
                times.fetch_add(1, Ordering::Relaxed);
                answer.send(engine.tally(campaign).await);
            }
        }
    };
    let crowd = async {
        let id = service.sale(5, |_| ()).await;
        times.store(0, Ordering::Relaxed);
        join_all((0..READERS).map(|_| state(&service, &id, &[]))).await
    };
    let replies = tokio::select! {
        replies = crowd => replies,
        () = answers => unreachable!("the loop does not end"),
    };
    for reply in replies {
        assert_eq!((reply.status, &reply.json()["remaining"]), (200, &5.into()));
    }
    let times = times.into_inner();
    assert!(
        (1..READERS).contains(&times),
        "{READERS} readers, {times} questions"
    );
}
