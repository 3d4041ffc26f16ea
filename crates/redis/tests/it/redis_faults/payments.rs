//! Payments that are reported late count by their own time, and units wait for them.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    id::{OrderId, PaymentRef},
    order::OrderState,
    payment::ReceivedMoney,
    ports::Engine as _,
    time::Timestamp,
};
use qiang_redis::RedisOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};

use crate::redis_faults::harness::{Harness, grant_of, node, options, shared};

const HOLD_MS: i64 = 60_000;
const GRACE_MS: i64 = 10_000;
/// Time for several ticks of the nodes.
const TICKS: Duration = Duration::from_millis(800);

struct World {
    harness: Harness,
    target: Target,
}

impl World {
    /// Starts a sale of this many units on two nodes.
    async fn start(options: &RedisOptions, units: u32) -> Self {
        let mut harness = Harness::new(options.clone()).await;
        let target = harness.open(sale(units).hold_ms(HOLD_MS)).await;
        // At their first tick, nodes learn from when on they accept reports.
        tokio::time::sleep(TICKS).await;
        Self { harness, target }
    }

    /// Stops the service and starts it again at that time.
    async fn restart(&mut self, options: &RedisOptions, clock: &ManualClock, until: Timestamp) {
        for node in &self.harness.nodes {
            node.abort();
        }
        clock.set(until);
        self.harness.nodes = vec![node(options, &[]).await, node(options, &[]).await];
        tokio::time::sleep(TICKS).await;
    }

    async fn order(&self, user: &str) -> OrderId {
        let claim = self.target.one(user);
        let claimed = self.harness.record.ask(&self.harness.nodes[0], &claim);
        grant_of(&claimed.await.unwrap()).unwrap().order_id()
    }

    async fn state(&self, order: OrderId) -> OrderState {
        let view = self.harness.nodes[1].order(order).await.unwrap();
        view.unwrap().grant.order.unwrap().state
    }

    async fn pay(&self, order: OrderId, paid_at: Option<Timestamp>) -> PaymentOutcome {
        let pay = Command::Pay {
            order,
            payment: PaymentRef::new(&format!("p-{}", order.number)).unwrap(),
            paid_at,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        let mut outcomes = Vec::new();
        for place in 0..2 {
            match self.harness.submit(place, pay.clone()).await {
                Ok(Reply::Payment(outcome, _)) => outcomes.push(outcome),
                reply => panic!("{reply:?}"),
            }
        }
        assert_eq!(
            outcomes[0], outcomes[1],
            "the repeated report gets the same outcome"
        );
        outcomes[0]
    }
}

fn late_reports(clock: &Arc<ManualClock>) -> RedisOptions {
    RedisOptions {
        clock: Some(clock.clone()),
        payment_grace: Duration::from_millis(GRACE_MS.unsigned_abs()),
        ..options(shared().url())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_wait_for_payments_that_were_made_in_time() {
    let clock = ManualClock::new(OPENS);
    let options = late_reports(&clock);
    let mut world = World::start(&options, 3).await;
    let (end, in_time) = (OPENS.plus_millis(HOLD_MS), OPENS.plus_millis(HOLD_MS - 1));
    let orders = [
        world.order("a").await,
        world.order("b").await,
        world.order("c").await,
    ];
    clock.set(end.plus_millis(GRACE_MS - 1));
    tokio::time::sleep(TICKS).await;
    for order in orders {
        assert_eq!(world.state(order).await, OrderState::Held);
    }
    assert_eq!(
        world.pay(orders[0], Some(in_time)).await,
        PaymentOutcome::Paid
    );
    assert_eq!(
        world.pay(orders[1], Some(end)).await,
        PaymentOutcome::Reinstated
    );
    clock.set(end.plus_millis(GRACE_MS));
    tokio::time::sleep(TICKS).await;
    assert_eq!(world.state(orders[2]).await, OrderState::Expired);
    let last = world.order("d").await;
    assert_eq!(
        world.pay(orders[2], Some(in_time)).await,
        PaymentOutcome::RefundDue
    );

    // The service is down when the hold ends. Payments made during that time are reported afterwards.
    let up_again = end.plus_millis(10 * HOLD_MS);
    world.restart(&options, &clock, up_again).await;
    clock.set(up_again.plus_millis(GRACE_MS - 1));
    tokio::time::sleep(TICKS).await;
    assert_eq!(world.state(last).await, OrderState::Held);
    let paid_at = end.plus_millis(GRACE_MS + 1);
    assert_eq!(world.pay(last, Some(paid_at)).await, PaymentOutcome::Paid);
    world.harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_ends_no_hold() {
    let clock = ManualClock::new(OPENS);
    let world = World::start(&late_reports(&clock), 1).await;
    let order = world.order("a").await;
    let ahead = OPENS.plus_millis(HOLD_MS + 1);
    assert_eq!(world.pay(order, Some(ahead)).await, PaymentOutcome::Paid);
    world.harness.audit().await;
}
