//! A sale that is sold out opens again at once, whatever brings units back: the node that does it needs nobody to tell
//! it, the others are told and need not poll, and a crowd that asks next gets all of them and no more. What brings no
//! unit back opens nothing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    id::{OrderId, PaymentRef},
    outcome::Outcome,
    ports::Engine as _,
};
use qiang_redis::{Options, RedisEngine};
use qiang_testkit::{
    ManualClock,
    campaign::{HOLD_MS, OPENS, Target, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};

use super::{STOCK, all_granted, answers, crowd, users};
use crate::harness::{Harness, blocking, calls_of, grant_of, options, wait_for, winners};

/// Units that the seller adds.
const MORE: u32 = 3;
/// Somebody who may connect and not publish.
const MUTE: &str =
    "user default off\nuser admin on >admin ~* &* +@all\nuser mute on >mute ~* resetchannels +@all";

/// What brings units back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Also how a shop tells that a payment has failed.
    Cancelled,
    Returned,
    Raised,
    Expired,
}

/// A sale that is sold out, on two nodes.
struct SoldOut {
    server: Standalone,
    clock: Arc<ManualClock>,
    harness: Harness,
    target: Target,
    orders: Vec<OrderId>,
}

impl SoldOut {
    /// The second order is paid.
    async fn start(server: Standalone, url: String) -> Self {
        let clock = ManualClock::new(OPENS);
        let timed = Options {
            clock: Some(clock.clone()),
            ..options(url)
        };
        let mut harness = Harness::new(timed).await;
        let target = harness.open(sale(STOCK)).await;
        let claims = users(target, 3 * STOCK as usize);
        let tickets = crowd(&harness.nodes, &claims);
        let answered = answers(&harness, claims, tickets).await;
        let grants = answered.iter().filter_map(|(_, claimed)| grant_of(claimed));
        let orders: Vec<_> = grants.map(|grant| grant.order_id()).collect();
        assert_eq!(orders.len(), STOCK as usize);
        let sold_out = Self {
            server,
            clock,
            harness,
            target,
            orders,
        };
        assert_eq!(sold_out.pay(1).await, PaymentOutcome::Paid);
        sold_out
    }

    async fn pay(&self, order: usize) -> PaymentOutcome {
        let (order, payment) = (self.orders[order], PaymentRef::new("payment").unwrap());
        match self
            .harness
            .submit(0, Command::Pay { order, payment })
            .await
        {
            Ok(Reply::Payment(outcome, _)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Brings units back by the first node; returns how many.
    async fn bring_back(&self, way: Way) -> u32 {
        let (command, units) = match way {
            Way::Cancelled => (
                Command::Cancel {
                    order: self.orders[0],
                },
                1,
            ),
            Way::Returned => (
                Command::Return {
                    order: self.orders[1],
                },
                1,
            ),
            Way::Raised => {
                let (campaign, stock) = (self.target.id, u64::from(STOCK + MORE));
                (Command::SetStock { campaign, stock }, MORE)
            }
            Way::Expired => {
                self.clock.advance(HOLD_MS);
                // All are held, those too that were sold since.
                (Command::Tick { events_max: 1_000 }, STOCK + MORE)
            }
        };
        self.harness.submit(0, command).await.unwrap();
        units
    }

    /// Asks a node until its gate knows that the sale is sold out: what it loads is forgotten when it hears of an
    /// earlier change meanwhile.
    async fn known_to(&self, node: &RedisEngine) {
        let nobody = self.target.one("nobody");
        let sold_out = Outcome::SoldOut { remaining: 0 };
        let until = Instant::now() + Duration::from_secs(10);
        while node.peek(&nobody) != Some(sold_out) {
            assert!(Instant::now() < until, "the gate does not know it");
            let answer = node.claim(nobody.clone()).await;
            assert_eq!(answer.map(|claimed| claimed.outcome), Ok(sold_out));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn is_open(&self, node: usize) -> bool {
        let nobody = self.target.one("nobody");
        self.harness.nodes[node].peek(&nobody).is_none()
    }

    /// Invalidations so far.
    fn published(&self) -> u64 {
        blocking(|| calls_of(self.server.primary(), "publish"))
    }

    /// A crowd on both nodes gets so many units.
    async fn sell(&self, units: u32, round: usize) {
        let name = |n| self.target.one(&format!("{round}-{n}"));
        let claims: Vec<_> = (0..600).map(name).collect();
        let tickets = crowd(&self.harness.nodes, &claims);
        let answered = answers(&self.harness, claims, tickets).await;
        assert_eq!(winners(&answered), units as usize, "round {round}");
        for (claim, claimed) in &answered {
            let sold_out = claimed.outcome == Outcome::SoldOut { remaining: 0 };
            assert!(
                sold_out || grant_of(claimed).is_some(),
                "{claim:?} {claimed:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_brings_units_back_tells_all_nodes() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let url = server.url();
    let sold_out = SoldOut::start(server, url).await;
    let ways = [Way::Cancelled, Way::Returned, Way::Raised, Way::Expired];
    for (round, way) in ways.into_iter().enumerate() {
        for node in &sold_out.harness.nodes {
            sold_out.known_to(node).await;
        }
        let before = sold_out.published();
        let units = sold_out.bring_back(way).await;
        let what = format!("the nodes to hear of units: {way:?}");
        wait_for(&what, || sold_out.is_open(0) && sold_out.is_open(1)).await;
        assert!(sold_out.published() > before, "{way:?}: it was polled");
        sold_out.sell(units, round).await;
    }
    // A payment that comes when the hold is over and its unit sold is owed back, and nobody else has anything of it.
    sold_out.known_to(&sold_out.harness.nodes[1]).await;
    let before = sold_out.published();
    assert_eq!(sold_out.pay(2).await, PaymentOutcome::RefundDue);
    assert_eq!(sold_out.published(), before);
    assert!(!sold_out.is_open(1), "the other node was told of a unit");
    sold_out.sell(0, ways.len()).await;
    sold_out.harness.audit().await;
}

/// Nobody may publish here: the node that brings units back knows it all the same, before it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_brings_units_back_sells_them_at_once() {
    let with = ServerOptions::new().acl(MUTE, "admin", "admin");
    let server = blocking(|| Standalone::start(&with));
    let url = format!("redis://mute:mute@{}", server.addr());
    let sold_out = SoldOut::start(server, url).await;
    let (harness, target) = (&sold_out.harness, sold_out.target);
    for way in [Way::Cancelled, Way::Returned, Way::Raised] {
        sold_out.known_to(&harness.nodes[0]).await;
        let units = sold_out.bring_back(way).await;
        assert!(sold_out.is_open(0), "{way:?}");
        let claims = (0..units).map(|n| target.one(&format!("{way:?}-{n}")));
        all_granted(harness, claims.collect()).await;
    }
    harness.audit().await;
}
