//! Held orders of a sale that its seller cancels in one request, also when the request breaks off between two of them.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU32, Ordering},
};

use qiang_core::{
    book::{Claim, Command, OrderView, Refusal, Reply as EngineReply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, PendingReply, ProbeResult},
};
use serde_json::{Value, json};

use crate::node::http::common::{Reply, Service, paid};

/// An engine that loses cancellations after some of them: their callers hear that nothing is known.
#[derive(Clone)]
struct BrokenOff {
    engine: Arc<dyn Engine>,
    /// Cancellations that are still carried out.
    left: Arc<AtomicI64>,
    /// Number of the order that it lacks, as after a loss that reconciliation has not repaired; 0 for none.
    lacks: Arc<AtomicU32>,
}

impl Engine for BrokenOff {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.engine.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<EngineReply> {
        let lacks = self.lacks.load(Ordering::Relaxed);
        if matches!(command, Command::Cancel { order, .. } if order.number == lacks) {
            return PendingReply::ready(Err(Refusal::UnknownOrder.into()));
        }
        let is_lost = matches!(command, Command::Cancel { .. })
            && self.left.fetch_sub(1, Ordering::Relaxed) <= 0;
        match is_lost {
            true => PendingReply::ready(Err(EngineError::uncertain("it was lost"))),
            false => self.engine.submit(command),
        }
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

/// A sale of `sam` with held orders.
struct Case {
    service: Service,
    sale: String,
    sam: String,
}

impl Case {
    async fn new(buyers: &[&str]) -> Self {
        Self::on(Service::start().await, buyers).await
    }

    async fn on(service: Service, buyers: &[&str]) -> Self {
        let own = |body: &mut Value| {
            body["seller"] = json!("sam");
            body["per_user_limit"] = json!(9);
        };
        let sale = service.sale(100, own).await;
        let sam = service.token("sam", "campaigns:write");
        let case = Self { service, sale, sam };
        for (n, buyer) in buyers.iter().enumerate() {
            case.buy(buyer, &format!("k{n}")).await;
        }
        case
    }

    async fn buy(&self, buyer: &str, key: &str) -> String {
        self.service.clock.advance_ms(1);
        let path = format!("/v1/sales/{}/orders", self.sale);
        let token = self.service.token(buyer, "claim");
        let body = json!({ "quantity": 1 });
        let bought = self.service.post_key(&path, &token, key, body).await;
        assert_eq!(bought.status, 201, "{bought:?}");
        bought.text("id")
    }

    async fn cancel(&self, key: &str, body: Value) -> Reply {
        let path = format!("/v1/sales/{}/orders/cancel", self.sale);
        self.service.post_key(&path, &self.sam, key, body).await
    }

    /// States of the orders by number.
    async fn states(&self) -> Vec<String> {
        let path = format!("/v1/sales/{}/orders?limit=1000", self.sale);
        let orders = self.service.get(&path, &self.sam).await.json();
        assert_eq!(orders["settled"], json!(true));
        let orders = orders["data"].as_array().unwrap().iter();
        orders
            .map(|order| order["state"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn granted(&self) -> Value {
        let path = format!("/v1/campaigns/{}/state", self.sale);
        self.service.get(&path, &self.sam).await.json()["granted"].clone()
    }
}

/// Counts of an answer: matched, cancelled, unchanged.
fn counts(reply: &Reply) -> [i64; 3] {
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    ["matched", "cancelled", "unchanged"].map(|name| body[name].as_i64().unwrap())
}

#[tokio::test]
async fn held_orders_are_cancelled_by_a_filter_and_in_parts() {
    let case = Case::new(&["ann", "bob", "ann", "cid", "ann"]).await;
    let pay = format!("/v1/orders/{}-3/payment", case.sale);
    let operator = case.service.operator();
    let body = paid("p", 500);
    assert_eq!(case.service.post(&pay, &operator, body).await.status, 200);
    // One buyer's held orders, and no paid one.
    let of_ann = case.cancel("a", json!({ "user": "ann" })).await;
    assert_eq!(counts(&of_ann), [2, 2, 0]);
    let states = ["cancelled", "held", "paid", "held", "cancelled"];
    assert_eq!(case.states().await, states);
    let again = case.cancel("a", json!({ "user": "ann" })).await;
    assert_eq!(again.json(), of_ann.json());
    assert_eq!(again.header("idempotency-replayed"), "true");
    let other = case.cancel("a", json!({})).await;
    other.assert_problem(422, "key-reused");
    // The newest first, one at a time; an order of later is in no later part.
    let first = case.cancel("b", json!({ "limit": 1 })).await;
    assert_eq!(counts(&first), [1, 1, 0]);
    assert_eq!(case.states().await[3], "cancelled");
    case.buy("dan", "late").await;
    let mut next = first.json()["next"].as_str().map(str::to_owned);
    let mut cancelled = 0;
    while let Some(after) = next {
        let body = json!({ "limit": 1, "after": after });
        let part = case.cancel(&format!("b-{after}"), body).await;
        cancelled += counts(&part)[1];
        next = part.json()["next"].as_str().map(str::to_owned);
    }
    assert_eq!(cancelled, 1);
    assert_eq!(case.states().await[5], "held");
    assert_eq!(case.granted().await, json!(2));
    // Times bound it as well.
    let before = json!({ "created_before": "2026-11-21T12:00:00.001Z" });
    assert_eq!(counts(&case.cancel("c", before).await), [0, 0, 0]);
    for (body, pointer) in [
        (json!({ "limit": 501 }), "#/limit"),
        (json!({ "after": "b3JkZXJzOjM" }), "#/after"),
    ] {
        let refused = case.cancel("d", body).await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], json!(pointer));
    }
    let log = format!("/v1/operation-log?subject={}", case.sale);
    let log = case.service.get(&log, &operator).await.json();
    let parts = log["data"].as_array().unwrap().iter();
    let mut orders: Vec<_> = parts
        .filter(|action| action["action"] == json!("cancel"))
        .map(|action| {
            (
                action["actor"].clone(),
                action["detail"]["plan"]["orders"].clone(),
            )
        })
        .collect();
    // Actions of one millisecond are in any order.
    orders.sort_by_key(|(_, numbers)| numbers.to_string());
    let sam = || json!("sam");
    let expected = [
        (sam(), json!([2])),
        (sam(), json!([4])),
        (sam(), json!([5, 1])),
    ];
    assert_eq!(orders, expected, "{log}");
    case.service.stop().await;
}

/// Sellers cancel orders of their own sales, one by one too, and no other user does.
#[tokio::test]
async fn sellers_cancel_held_orders_of_their_own_sales_alone() {
    let case = Case::new(&["ann", "bob"]).await;
    let path = format!("/v1/orders/{}-1/cancellation", case.sale);
    let tom = case.service.token("tom", "campaigns:write");
    let stranger = case.service.act(&path, &tom).await;
    stranger.assert_problem(404, "not-found");
    let without = case.service.token("sam", "claim");
    let without = case.service.act(&path, &without).await;
    without.assert_problem(403, "forbidden");
    let cancelled = case.service.act(&path, &case.sam).await;
    assert_eq!(cancelled.text("state"), "cancelled");
    let path = format!("/v1/sales/{}/orders/cancel", case.sale);
    for user in ["tom", "bob"] {
        let token = case.service.token(user, "campaigns:write");
        let refused = case.service.act(&path, &token).await;
        refused.assert_problem(403, "forbidden");
    }
    assert_eq!(case.states().await, ["cancelled", "held"]);
    let packet = case.service.red_packet(3, |_| ()).await;
    let path = format!("/v1/sales/{packet}/orders/cancel");
    let refused = case.service.act(&path, &case.service.operator()).await;
    refused.assert_problem(404, "unknown-campaign");
    case.service.stop().await;
}

/// The request breaks off after two of five orders. Its retry cancels the same five and no other, although an order was
/// paid and another one was placed in between.
#[tokio::test]
async fn a_retry_cancels_the_orders_of_the_first_try_and_no_others() {
    let broken = std::sync::Mutex::new(None);
    let service = Service::start_with(|_, backend| {
        let engine = BrokenOff {
            engine: Arc::clone(&backend.ports.engine),
            left: Arc::new(AtomicI64::new(2)),
            lacks: Arc::default(),
        };
        backend.ports.engine = Arc::new(engine.clone());
        *broken.lock().unwrap() = Some(engine);
    })
    .await;
    let broken = broken.into_inner().unwrap().unwrap();
    let case = Case::on(service, &["ann", "bob", "cid", "dan", "eve"]).await;
    let first = case.cancel("k", json!({ "limit": 5 })).await;
    first.assert_problem(503, "uncertain");
    let states = case.states().await;
    let held: Vec<_> = (1..)
        .zip(&states)
        .filter(|(_, state)| *state == "held")
        .collect();
    assert_eq!(held.len(), 3, "{states:?}");
    let paid_number = held[0].0;
    let pay = format!("/v1/orders/{}-{paid_number}/payment", case.sale);
    let operator = case.service.operator();
    let body = paid("p", 500);
    assert_eq!(case.service.post(&pay, &operator, body).await.status, 200);
    case.buy("fay", "later").await;
    broken.left.store(i64::MAX, Ordering::Relaxed);
    for _ in 0..2 {
        let again = case.cancel("k", json!({ "limit": 5 })).await;
        assert_eq!(counts(&again), [5, 4, 1]);
        assert_eq!(again.json()["refusals"]["paid"], json!(1));
        assert_eq!(again.header("idempotency-replayed"), "true");
    }
    let states = case.states().await;
    let count = |wanted: &str| states.iter().filter(|state| *state == wanted).count();
    assert_eq!(
        [count("cancelled"), count("paid"), count("held")],
        [4, 1, 1]
    );
    assert_eq!(states[5], "held", "an order of later is no part of it");
    case.service.stop().await;
}

/// Orders that do not change are counted by reason, and one that the engine lacks is not taken for a paid one. The
/// parts use up no changes of the sale.
#[tokio::test]
async fn refusals_are_counted_by_reason_and_parts_apart_from_changes() {
    let engine = std::sync::Mutex::new(None);
    let service = Service::start_with(|config, backend| {
        config.limits.changes_per_campaign_per_minute = 1;
        let fickle = BrokenOff {
            engine: Arc::clone(&backend.ports.engine),
            left: Arc::new(AtomicI64::new(0)),
            lacks: Arc::new(AtomicU32::new(3)),
        };
        backend.ports.engine = Arc::new(fickle.clone());
        *engine.lock().unwrap() = Some(fickle);
    })
    .await;
    let engine = engine.into_inner().unwrap().unwrap();
    let case = Case::on(service, &["ann", "bob", "cid", "dan"]).await;
    // The first try records its plan, and no order is cancelled.
    let first = case.cancel("k", json!({})).await;
    first.assert_problem(503, "uncertain");
    let operator = case.service.operator();
    let pay = format!("/v1/orders/{}-1/payment", case.sale);
    let body = paid("p", 500);
    assert_eq!(case.service.post(&pay, &operator, body).await.status, 200);
    engine.left.store(i64::MAX, Ordering::Relaxed);
    let again = case.cancel("k", json!({})).await;
    assert_eq!(counts(&again), [4, 2, 2]);
    let expected = json!({ "paid": 1, "expired": 0, "returned": 0, "unknown": 1 });
    assert_eq!(again.json()["refusals"], expected);
    let more = case.cancel("l", json!({})).await;
    more.assert_problem(429, "throttled");
    let path = format!("/v1/sales/{}", case.sale);
    let changed = case.service.patch(&path, &operator, json!({ "stock": 90 }));
    let changed = changed.await;
    assert_eq!(changed.status, 200, "{changed:?}");
    case.service.stop().await;
}

/// The node stops after the first try has cancelled some orders. The retry after the restart completes it.
#[tokio::test]
async fn a_retry_after_a_restart_completes_a_cancellation() {
    let service = Service::start_with(|_, backend| {
        backend.ports.engine = Arc::new(BrokenOff {
            engine: Arc::clone(&backend.ports.engine),
            left: Arc::new(AtomicI64::new(1)),
            lacks: Arc::default(),
        });
    })
    .await;
    let mut case = Case::on(service, &["ann", "bob", "cid"]).await;
    let first = case.cancel("k", json!({})).await;
    first.assert_problem(503, "uncertain");
    case.service = case.service.restart().await;
    case.buy("dan", "later").await;
    assert_eq!(counts(&case.cancel("k", json!({})).await), [3, 3, 0]);
    let states = ["cancelled", "cancelled", "cancelled", "held"];
    assert_eq!(case.states().await, states);
    assert_eq!(case.granted().await, json!(1));
    case.service.stop().await;
}

/// Two callers cancel the same orders at once, while their buyers pay them: each order is cancelled or paid, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellations_and_payments_at_once_decide_each_order_once() {
    let buyers = ["ann", "bob", "cid", "dan", "eve", "fay", "gil", "hal"];
    let case = Case::new(&buyers).await;
    let operator = case.service.operator();
    let pays = async {
        let mut outcomes = Vec::new();
        for number in 1..=buyers.len() {
            let pay = format!("/v1/orders/{}-{number}/payment", case.sale);
            let body = paid(&format!("p{number}"), 500);
            let paid = case.service.post(&pay, &operator, body).await;
            outcomes.push(paid.text("outcome"));
        }
        outcomes
    };
    let (one, other, outcomes) = tokio::join!(
        case.cancel("x", json!({})),
        case.cancel("y", json!({})),
        pays
    );
    let states = case.states().await;
    for (state, outcome) in states.iter().zip(&outcomes) {
        let is_decided = [("paid", "paid"), ("cancelled", "refund_due")];
        assert!(is_decided.contains(&(state, outcome)), "{state} {outcome}");
    }
    let cancelled = states.iter().filter(|state| *state == "cancelled").count() as i64;
    for reply in [one, other] {
        let [matched, of_it, unchanged] = counts(&reply);
        assert!(
            of_it <= cancelled && matched == of_it + unchanged,
            "{reply:?}"
        );
    }
    case.service.stop().await;
}
