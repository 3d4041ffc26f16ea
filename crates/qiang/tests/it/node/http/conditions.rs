//! Changes under `If-Match`: a change is made only to the object that its caller has read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply as EngineReply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, PendingReply, ProbeResult},
};
use serde_json::{Value, json};

use crate::node::http::common::{Reply, Service, call};

const WEAK: &str = "weak-entity-tag";
const CHANGED: &str = "precondition-failed";

/// An engine whose primaries do not answer, if a test says so. Its replicas do.
#[derive(Clone)]
struct Primaryless {
    engine: Arc<dyn Engine>,
    is_down: Arc<AtomicBool>,
}

impl Engine for Primaryless {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.engine.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<EngineReply> {
        self.engine.submit(command)
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.engine.try_gate_outcome(claim)
    }
    fn has_opened(&self, campaign: CampaignId) -> bool {
        self.engine.has_opened(campaign)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.engine.tally(campaign)
    }
    fn present_tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        match self.is_down.load(Ordering::Relaxed) {
            true => PendingReply::ready(Err(EngineError::unavailable("no primary"))),
            false => self.engine.present_tally(campaign),
        }
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.engine.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.engine.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.engine.ack_levels()
    }
}

/// A seller reads a sale as its buyers do while no primary answers. Only the tag for a change is missing.
#[tokio::test]
async fn a_seller_reads_a_sale_without_its_primary() {
    let is_down = Arc::new(AtomicBool::default());
    let down = Arc::clone(&is_down);
    let service = Service::start_with(|_, backend| {
        let engine = Arc::clone(&backend.ports.engine);
        backend.ports.engine = Arc::new(Primaryless {
            engine,
            is_down: down,
        });
    })
    .await;
    let id = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{id}");
    let tag = tag_of(&service, &path).await;
    is_down.store(true, Ordering::Relaxed);
    let read = service.get(&path, &service.operator()).await;
    assert_eq!((read.status, &read.json()["stock"]), (200, &json!(5)));
    assert!(read.header("etag").starts_with("W/"), "{read:?}");
    is_down.store(false, Ordering::Relaxed);
    assert_eq!(tag_of(&service, &path).await, tag);
    service.stop().await;
}

async fn patch_if(service: &Service, path: &str, tag: &str, body: Value) -> Reply {
    let token = service.operator();
    patch_as(service, (path, &token), &[("if-match", tag)], body).await
}

async fn patch_as(
    service: &Service,
    (path, token): (&str, &str),
    headers: &[(&str, &str)],
    body: Value,
) -> Reply {
    let body = Some(body);
    call(service.addr, "PATCH", path, Some(token), headers, body).await
}

fn price(amount: i64) -> Value {
    json!({ "unit_price": { "amount": amount, "currency": "CNY" } })
}

/// Strong tag of an object that the operator reads.
async fn tag_of(service: &Service, path: &str) -> String {
    let read = service.get(path, &service.operator()).await;
    assert_eq!(read.status, 200, "{read:?}");
    let tag = read.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    tag
}

#[tokio::test]
async fn a_sale_changes_only_if_it_is_as_it_was_read() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{id}");
    let first = tag_of(&service, &path).await;
    let changes = [
        json!({ "title": "lamps" }),
        json!({ "stock": 7 }),
        price(600),
        json!({ "ends_at": "2026-11-21T20:00:00Z" }),
        json!({ "gallery": ["https://shop.example/side.jpg"] }),
        json!({ "list_price": { "amount": 900, "currency": "CNY" } }),
    ];
    let mut tags = vec![first];
    for change in &changes {
        let tag = tags.last().unwrap();
        // The answer has the tag for the next change. That of a read has the same first part.
        let changed = patch_if(&service, &path, tag, change.clone()).await;
        assert_eq!(changed.status, 200, "{change}: {changed:?}");
        let next = changed.header("etag").to_owned();
        let read = tag_of(&service, &path).await;
        let values = |tag: &str| tag.split('.').next().unwrap().to_owned();
        assert_eq!(values(&next), values(&read), "{change}");
        assert!(
            tags.iter().all(|tag| values(tag) != values(&next)),
            "{change}: {tags:?}"
        );
        tags.push(next);
    }
    tags.pop();
    let last = tag_of(&service, &path).await;
    for (stale, change) in
        tags.iter()
            .zip([price(1), json!({ "stock": 1 }), json!({ "title": "x" })])
    {
        let refused = patch_if(&service, &path, stale, change).await;
        refused.assert_problem(412, CHANGED);
    }
    // Two steps could break off in between.
    for both in [
        json!({ "title": "both", "stock": 8 }),
        json!({ "stock": 8, "per_user_limit": 2 }),
    ] {
        let refused = patch_if(&service, &path, &last, both).await;
        refused.assert_problem(422, "invalid");
    }
    // A sold unit changes the tag of the representation, and refuses no change.
    let orders = format!("{path}/orders");
    let bought = service.act(&orders, &service.token("ann", "claim")).await;
    assert_eq!(bought.status, 201, "{bought:?}");
    assert_ne!(tag_of(&service, &path).await, last);
    let several = format!("{}, W/\"x\", \"y\",{last}", tags[0]);
    let changed = patch_if(&service, &path, &several, json!({ "stock": 9 })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    // `*` is any sale that exists, and other refusals come first.
    let any = patch_if(&service, &path, "*", json!({ "stock": 10 })).await;
    assert_eq!(any.status, 200, "{any:?}");
    let unknown = "/v1/sales/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    for tag in ["*", "\"x\"", "W/\"x\""] {
        let missing = patch_if(&service, unknown, tag, price(1)).await;
        missing.assert_problem(404, "unknown-campaign");
        let buyer = service.token("ann", "claim");
        let forbidden = patch_as(&service, (&path, &buyer), &[("if-match", tag)], price(1)).await;
        forbidden.assert_problem(403, "forbidden");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_weak_or_malformed_tag_is_refused() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{id}");
    // A buyer gets a weak tag, and so does a reader without a token.
    let buyer = service.get(&path, &service.token("ann", "claim")).await;
    let weak = buyer.header("etag").to_owned();
    assert!(weak.starts_with("W/\""), "{weak}");
    let tag = tag_of(&service, &path).await;
    for list in [weak.clone(), format!("W/{tag}, {weak}")] {
        let refused = patch_if(&service, &path, &list, price(1)).await;
        refused.assert_problem(412, WEAK);
    }
    for list in ["x", "\"x", "\"a\" \"b\"", "*, \"x\"", ","] {
        let refused = patch_if(&service, &path, list, price(1)).await;
        refused.assert_problem(400, "bad-request");
        assert_eq!(refused.json()["errors"][0]["parameter"], "If-Match");
    }
    let strong = service.get(&path, &service.operator()).await;
    let headers = [("if-none-match", &*tag)];
    let again = call(
        service.addr,
        "GET",
        &path,
        Some(&service.operator()),
        &headers,
        None,
    )
    .await;
    assert_eq!((again.status, strong.header("etag")), (304, &*tag));
    assert_eq!(again.header("etag"), tag);
    assert_eq!(
        service.get(&path, &service.operator()).await.json()["unit_price"]["amount"],
        500
    );
    service.stop().await;
}

/// Changes of different kinds under one tag at the same moment: one is made, and all others are refused.
#[tokio::test]
async fn of_changes_under_one_tag_exactly_one_is_made() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{id}");
    let metadata = format!("/v1/campaigns/{id}/metadata");
    for round in 0..12 {
        let tag = tag_of(&service, &path).await;
        let before = service.get(&path, &service.operator()).await.json();
        let changes = (0..8).map(|n| match n % 4 {
            0 => json!({ "title": format!("lamps {round}-{n}") }),
            1 => price(1_000 + round * 8 + n),
            2 => json!({ "stock": 100 + round * 8 + n }),
            _ => json!({ "admission_percent": 200 + round * 8 + n }),
        });
        let changes: Vec<Value> = changes.collect();
        let made = changes.iter().enumerate().map(async |(n, change)| {
            let key = format!("{round}-{n}");
            // One half has keys.
            let headers = [("if-match", &*tag), ("idempotency-key", &*key)];
            let (headers, token) = (&headers[..1 + n / 4], service.operator());
            patch_as(&service, (&path, &token), headers, change.clone()).await
        });
        let made = join_all(made).await;
        let won: Vec<_> = (0..made.len()).filter(|n| made[*n].status == 200).collect();
        for (n, reply) in made.iter().enumerate() {
            if !won.contains(&n) {
                reply.assert_problem(412, CHANGED);
            }
        }
        assert_eq!(won.len(), 1, "{round}: {made:?}");
        let after = service.get(&path, &service.operator()).await.json();
        for field in ["title", "unit_price", "stock", "admission_percent"] {
            let is_asked = changes[won[0]].get(field);
            let expected = is_asked.unwrap_or(&before[field]);
            assert_eq!(&after[field], expected, "{round}: {field}");
        }

        let tag = tag_of(&service, &metadata).await;
        let made = (0..6).map(async |n| {
            let change = json!({ "metadata": { "by": format!("{round}-{n}") } });
            patch_if(&service, &metadata, &tag, change).await
        });
        let made = join_all(made).await;
        let won = made.iter().filter(|reply| reply.status == 200).count();
        assert_eq!(won, 1, "{round}: {made:?}");
    }
    service.stop().await;
}

/// The keyed retry of a change that was made gets its answer, also after later changes and if the answer was lost with
/// the node. The retry of one that was refused is refused again.
#[tokio::test]
async fn a_keyed_retry_is_answered_and_not_refused() {
    let mut service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let (sale, metadata) = (
        format!("/v1/sales/{id}"),
        format!("/v1/campaigns/{id}/metadata"),
    );
    let mut requests = Vec::new();
    for (n, (path, change)) in [
        (&sale, price(600)),
        (&sale, json!({ "stock": 7 })),
        (&sale, json!({ "title": "lamps" })),
        (&metadata, json!({ "metadata": { "batch": "7" } })),
    ]
    .into_iter()
    .enumerate()
    {
        let (tag, key) = (tag_of(&service, path).await, format!("k{n}"));
        requests.push((path.clone(), tag, key, change));
        let (path, tag, key, change) = requests.last().unwrap();
        let token = service.operator();
        let of = (path.as_str(), token.as_str());
        let headers = [("if-match", &**tag), ("idempotency-key", &**key)];
        let made = patch_as(&service, of, &headers, change.clone()).await;
        assert_eq!(made.status, 200, "{made:?}");
        let again = patch_as(&service, of, &headers, change.clone()).await;
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert_eq!(
            (again.header("etag"), again.json()),
            (made.header("etag"), made.json())
        );
        // With another tag it is another request.
        let other = [("if-match", "\"x\""), headers[1]];
        let other = patch_as(&service, of, &other, change.clone()).await;
        other.assert_problem(422, "key-reused");
        let stale = [headers[0], ("idempotency-key", &*format!("stale-{n}"))];
        let other = json!({ "metadata": { "batch": "8" }, "reference": "PO-1" });
        let other = if path.ends_with("metadata") {
            other
        } else {
            price(9)
        };
        for _ in 0..2 {
            let refused = patch_as(&service, of, &stale, other.clone()).await;
            refused.assert_problem(412, CHANGED);
        }
    }
    for later in [
        price(601),
        json!({ "stock": 8 }),
        json!({ "title": "desks" }),
    ] {
        let changed = service.patch(&sale, &service.operator(), later).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }
    for is_lost in [false, true] {
        if is_lost {
            service.forget_answers();
            service = service.restart().await;
        }
        for (path, tag, key, change) in &requests {
            let headers = [("if-match", &**tag), ("idempotency-key", &**key)];
            let token = service.operator();
            let of = (path.as_str(), token.as_str());
            let again = patch_as(&service, of, &headers, change.clone()).await;
            assert_eq!(again.status, 200, "{is_lost} {change}: {again:?}");
            assert_eq!(again.header("idempotency-replayed"), "true");
        }
        let now = service.get(&sale, &service.operator()).await.json();
        let now = (&now["stock"], &now["title"], &now["unit_price"]["amount"]);
        assert_eq!(now, (&json!(8), &json!("desks"), &json!(601)));
    }
    service.stop().await;
}

/// A node dies within the turn of a change. The next change waits for the end of the turn.
#[tokio::test]
async fn the_turn_of_a_node_that_died_ends() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{id}");
    let file = rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap();
    let begun = qiang_api::id_at(qiang_core::ports::Clock::now(&*service.clock));
    let insert = "INSERT INTO idempotency_keys (scope, key, id, fingerprint, at) \
        VALUES ('change-turn', ?1, ?2, zeroblob(32), 1795262400000)";
    file.execute(insert, [&id, &begun.to_string()]).unwrap();
    let tag = tag_of(&service, &path).await;
    let refused = patch_if(&service, &path, &tag, price(1)).await;
    refused.assert_problem(503, "overloaded");
    // A change without a condition needs no turn, and waits for no change that does.
    let token = service.operator();
    let waiting = join_all((0..4).map(|n| patch_if(&service, &path, &tag, price(10 + n))));
    let (refused, took) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        let changed = service.patch(&path, &token, price(2)).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        began.elapsed()
    });
    assert!(took < Duration::from_millis(1_000), "{took:?}");
    for refused in refused {
        refused.assert_problem(503, "overloaded");
    }
    service.clock.advance_ms(15_000);
    let tag = tag_of(&service, &path).await;
    for amount in [3, 4] {
        let changed = patch_if(&service, &path, &tag, price(amount)).await;
        match amount {
            3 => assert_eq!(changed.status, 200, "{changed:?}"),
            _ => changed.assert_problem(412, CHANGED),
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn metadata_changes_only_if_it_is_as_it_was_read() {
    let service = Service::start().await;
    let id = service.sale(5, |_| ()).await;
    let (orders, ann) = (
        format!("/v1/sales/{id}/orders"),
        service.token("ann", "claim"),
    );
    let order = service.act(&orders, &ann).await.text("id");
    for path in [
        format!("/v1/campaigns/{id}/metadata"),
        format!("/v1/orders/{order}/metadata"),
    ] {
        let first = tag_of(&service, &path).await;
        let changed = patch_if(&service, &path, &first, json!({ "reference": "A-1" })).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let second = tag_of(&service, &path).await;
        assert_eq!(changed.header("etag"), second);
        let change = json!({ "metadata": { "a": "1" } });
        let refused = patch_if(&service, &path, &first, change.clone()).await;
        refused.assert_problem(412, CHANGED);
        let weak = format!("W/{second}");
        let refused = patch_if(&service, &path, &weak, change.clone()).await;
        refused.assert_problem(412, WEAK);
        let changed = patch_if(&service, &path, &second, change).await;
        assert_eq!(changed.status, 200, "{changed:?}");
        let headers = [("if-none-match", changed.header("etag"))];
        let token = service.operator();
        let again = call(service.addr, "GET", &path, Some(&token), &headers, None).await;
        assert_eq!(again.status, 304, "{again:?}");
        // The tag of a value is the same whenever it has the value: nothing was lost in between.
        let back = json!({ "metadata": { "a": null } });
        let back = service.patch(&path, &token, back).await;
        assert_eq!(back.header("etag"), second);
    }
    service.stop().await;
}
