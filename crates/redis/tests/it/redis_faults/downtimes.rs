//! Holds pause only while no node serves their partition. Records of downtimes may be lost, compared with a jumping
//! clock, or read by processes that serve no users.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    campaign::Phase,
    id::{OrderId, PaymentRef},
    order::OrderState,
    payment::ReceivedMoney,
    ports::{
        CampaignStore as _, Engine as _, EventLog as _, Ledger, RepairEngine, RetireEngine as _,
        SettlementStore as _,
    },
    time::Timestamp,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, Target, id, sale},
    servers::redis::{Options as ServerOptions, Server, Standalone},
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
    settlement::settle_once,
};

use crate::redis_faults::harness::{
    Harness, INSIST_MAX, Stuck, blocking, grant_of, node, open_now, options, shared, wait_for,
};

const HOLD_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const TAGS: [&str; 2] = ["p00", "p01"];
const EVENTS_MAX: usize = 1_000;

/// A sale on two nodes with a clock that the test sets.
struct World {
    harness: Harness,
    clock: Arc<ManualClock>,
    target: Target,
}

impl World {
    async fn new(server: &Standalone) -> Self {
        Self::since(server, OPENS, sale(20).hold_ms(HOLD_MS)).await
    }

    async fn since(server: &Standalone, now: Timestamp, builder: Builder) -> Self {
        Self::with(options(server.url()), now, builder).await
    }

    async fn with(options: RedisOptions, now: Timestamp, builder: Builder) -> Self {
        let clock = ManualClock::new(now);
        let options = RedisOptions {
            clock: Some(clock.clone()),
            ..options
        };
        let mut harness = Harness::new(options).await;
        let target = harness.open(builder).await;
        Self {
            harness,
            clock,
            target,
        }
    }

    /// Orders of these users.
    async fn orders(&self, users: &[&str]) -> Vec<OrderId> {
        let mut orders = Vec::new();
        for user in users {
            let claim = self.target.one(user);
            let claimed = self.harness.record.ask(&self.harness.nodes[0], &claim);
            orders.push(grant_of(&claimed.await.unwrap()).unwrap().order_id());
        }
        orders
    }

    /// Stops all nodes, and starts them again at that time.
    async fn down_until(&mut self, up: Timestamp) {
        self.stop().await;
        self.clock.set(up);
        self.start().await;
    }

    async fn stop(&mut self) {
        for node in self.harness.nodes.drain(..) {
            node.close().await;
        }
    }

    async fn start(&mut self) {
        let options = &self.harness.options;
        self.harness.nodes = vec![node(options, &[]).await, node(options, &[]).await];
    }

    /// Sets the clock and lets a node do due work.
    async fn at(&self, now: Timestamp) {
        self.clock.set(now);
        tick(&self.harness.nodes[0]).await;
    }

    async fn state(&self, order: OrderId) -> OrderState {
        state(&self.harness.nodes[0], order).await
    }

    async fn pay(&self, order: OrderId) -> PaymentOutcome {
        pay(&self.harness.nodes[1], order).await
    }

    /// A field of each partition's hash.
    fn fields(&self, server: &Server, field: &str) -> [Option<String>; 2] {
        TAGS.map(|tag| {
            let key = self.key(tag);
            let reply = blocking(|| server.call(&["HGET", &key, field]).unwrap());
            reply.text().map(str::to_owned)
        })
    }

    fn key(&self, tag: &str) -> String {
        format!("{}:{{{tag}}}:partition", self.harness.options.prefix)
    }

    /// Waits until a node has recorded that it serves both partitions now.
    async fn served_now(&self) {
        let now = qiang_core::ports::Clock::now(&*self.clock);
        let now = Some(now.as_millis().to_string());
        let is_noted = || {
            self.fields(shared().primary(), "up")
                .iter()
                .all(|up| *up == now)
        };
        wait_for("a node to record that it serves", is_noted).await;
    }
}

async fn tick(node: &RedisEngine) {
    let tick = Command::Tick {
        events_max: EVENTS_MAX,
    };
    node.submit(tick).await.unwrap();
}

async fn pay(node: &RedisEngine, order: OrderId) -> PaymentOutcome {
    let payment = PaymentRef::new(&format!("p-{}", order.number)).unwrap();
    let pay = Command::Pay {
        order,
        payment,
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    match node.submit(pay).await {
        Ok(Reply::Payment(outcome, _)) => outcome,
        reply => panic!("{reply:?}"),
    }
}

async fn state(node: &RedisEngine, order: OrderId) -> OrderState {
    let view = node.order(order).await.unwrap();
    view.unwrap().grant.order.unwrap().state
}

/// One node stops for an hour and starts again. The other one has served all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_nodes_is_enough() {
    let mut world = World::new(shared()).await;
    let orders = world.orders(&["a", "b"]).await;
    world.harness.nodes[0].close().await;
    let end = OPENS.plus_millis(HOLD_MS);
    world.clock.set(end.plus_millis(-1));
    world.served_now().await;
    world.harness.nodes[0] = node(&world.harness.options, &[]).await;
    assert_eq!(world.fields(shared().primary(), "downs"), [None, None]);
    assert_eq!(world.pay(orders[0]).await, PaymentOutcome::Paid);
    world.at(end).await;
    assert_eq!(world.state(orders[1]).await, OrderState::Expired);
    world.harness.audit().await;
}

/// Nodes without a clock of their own: the time between two uptime records is measured by Redis.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_by_the_clock_of_redis_is_a_downtime() {
    let reply = blocking(|| shared().primary().call(&["TIME"]).unwrap());
    let seconds: i64 = reply.array()[0].text().unwrap().parse().unwrap();
    let before = Timestamp::from_millis(1_000 * seconds - HOUR_MS);
    let builder = open_now(sale(2)).hold_ms(HOUR_MS / 2);
    let mut world = World::since(shared(), before, builder).await;
    let orders = world.orders(&["a", "b"]).await;
    world.served_now().await;
    world.stop().await;
    world.harness.options.clock = None;
    world.start().await;
    tick(&world.harness.nodes[0]).await;
    assert_eq!(world.state(orders[0]).await, OrderState::Held);
    assert_eq!(world.pay(orders[0]).await, PaymentOutcome::Paid);
    let [first, second] = world.fields(shared().primary(), "downs");
    let downs = [first.unwrap(), second.unwrap()];
    assert!(downs.iter().all(|downs| downs.matches(':').count() == 1));
    world.harness.audit().await;
}

/// A tick waits for a ledger that does not answer, for twice the time that counts as a downtime. The partition was
/// served during the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_waits_is_no_downtime() {
    const LONGER_MS: i64 = 6_000;
    let options = options(shared().url());
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(OPENS);
    let ledger = SqliteLedger::open(&folder.path().join("ledger.db"), clock).unwrap();
    let stuck = Stuck::new();
    let node = stuck.node(&options).await;
    node.recall_from(Arc::new(ledger));
    let call = |words: &[&str]| blocking(|| shared().primary().call(words).unwrap());
    let key = |rest: &str| format!("{}:{{p00}}:{rest}", options.prefix);
    // The campaign may have been evicted, so the call needs the ledger.
    let order = OrderId {
        campaign: id(1),
        number: 1,
    };
    call(&["ZADD", &key("agenda"), "0", &order.campaign.to_string()]);
    let asked = tokio::time::timeout(Duration::from_secs(1), node.order(order)).await;
    assert!(asked.is_err(), "the ledger must not answer: {asked:?}");
    let partition = key("partition");
    let up = || -> i64 {
        let up = call(&["HGET", &partition, "up"]);
        up.text().unwrap().parse().unwrap()
    };
    let (before, until) = (up(), Instant::now() + INSIST_MAX);
    while up() < before + LONGER_MS {
        assert!(Instant::now() < until, "no node records that it serves");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(call(&["HGET", &partition, "downs"]).text(), None);
    node.close().await;
}

/// A process that settles but serves no users does due work, but ends no hold. A node that gets an explicit tick ends
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_can_pay_a_worker() {
    let mut world = World::new(shared()).await;
    let orders = world.orders(&["a", "b", "c"]).await;
    world.served_now().await;
    world.stop().await;
    // The window has ended too.
    let up = OPENS.plus_millis(2 * HOUR_MS);
    world.clock.set(up);
    let alone = RedisOptions {
        serves: false,
        ..world.harness.options.clone()
    };
    let worker = node(&alone, &[]).await;
    let is_closed = async || {
        let tally = worker.tally(world.target.id).await.unwrap().unwrap();
        tally.phase == Phase::Closed
    };
    let until = Instant::now() + INSIST_MAX;
    while !is_closed().await {
        assert!(Instant::now() < until, "the worker does no due work");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for order in &orders {
        assert_eq!(state(&worker, *order).await, OrderState::Held);
    }
    // A node that has not recorded its first uptime yet already accepts a payment.
    let paid = pay(&worker, orders[2]).await;
    assert_eq!(paid, PaymentOutcome::Paid);
    let began = Some(OPENS.as_millis().to_string());
    let noted = world.fields(shared().primary(), "up");
    assert_eq!(noted, [began.clone(), began]);
    world.start().await;
    worker.close().await;
    assert_eq!(world.pay(orders[0]).await, PaymentOutcome::Paid);
    let end = up.plus_millis(HOLD_MS);
    world.at(end.plus_millis(-1)).await;
    assert_eq!(world.state(orders[1]).await, OrderState::Held);
    world.stop().await;
    world.clock.set(end);
    let told = node(&alone, &[]).await;
    tick(&told).await;
    assert_eq!(state(&told, orders[1]).await, OrderState::Expired);
    world.harness.nodes = vec![told];
    world.harness.audit().await;
}

/// A node starts while the clock is an hour ahead, and counts the hour as a downtime. When the clock is right again,
/// the downtime is removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_ahead_leaves_no_downtime() {
    let mut world = World::new(shared()).await;
    let orders = world.orders(&["a"]).await;
    world.served_now().await;
    world.down_until(OPENS.plus_millis(HOUR_MS / 2)).await;
    let noted = world.fields(shared().primary(), "downs");
    assert!(noted.iter().all(Option::is_some), "{noted:?}");
    world.down_until(OPENS.plus_millis(1_000)).await;
    world.served_now().await;
    let known = ["0", "1"].map(|_| {
        let known = format!("{}:{}", OPENS.as_millis(), OPENS.as_millis() + 1_000);
        Some(known)
    });
    assert_eq!(world.fields(shared().primary(), "downs"), known);
    let end = OPENS.plus_millis(HOLD_MS + 1_000);
    world.at(end.plus_millis(-1)).await;
    assert_eq!(world.state(orders[0]).await, OrderState::Held);
    world.at(end).await;
    assert_eq!(world.state(orders[0]).await, OrderState::Expired);
    world.harness.audit().await;
}

/// Redis loses the record of a downtime. The time after its last record counts as one, and no hold is shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downtime_that_is_forgotten_is_found_again() {
    let mut world = World::new(shared()).await;
    let orders = world.orders(&["a", "b"]).await;
    let last = OPENS.plus_millis(HOLD_MS / 2);
    world.at(last).await;
    let before = world.fields(shared().primary(), "up");
    world.down_until(last.plus_millis(10 * HOLD_MS)).await;
    world.stop().await;
    for (tag, up) in TAGS.into_iter().zip(before) {
        let (key, up) = (world.key(tag), up.unwrap());
        blocking(|| {
            let server = shared().primary();
            server.call(&["HSET", &key, "up", &up]).unwrap();
            server.call(&["HDEL", &key, "downs"]).unwrap();
        });
    }
    let up = last.plus_millis(20 * HOLD_MS);
    world.clock.set(up);
    world.start().await;
    let end = up.plus_millis(HOLD_MS / 2);
    world.at(end.plus_millis(-1)).await;
    assert_eq!(world.pay(orders[0]).await, PaymentOutcome::Paid);
    world.at(end).await;
    assert_eq!(world.state(orders[1]).await, OrderState::Expired);
    world.harness.audit().await;
}

/// Only the newest of many downtimes are kept apart, and no hold is shorter because of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_downtimes_are_known_as_there_is_room_for() {
    let mut world = World::new(shared()).await;
    let orders = world.orders(&["a"]).await;
    world.served_now().await;
    world.stop().await;
    let known: Vec<String> = (0..64)
        .map(|n| {
            let began = OPENS.plus_millis(1_000 + 11_000 * n).as_millis();
            format!("{began}:{}", began + 10_900)
        })
        .collect();
    let up = OPENS.plus_millis(1_000 + 11_000 * 64);
    for tag in TAGS {
        let (key, now) = (world.key(tag), up.as_millis().to_string());
        let words = ["HSET", &key, "up", &now, "downs", &known.join(" ")];
        blocking(|| shared().primary().call(&words).unwrap());
    }
    let now = up.plus_millis(10_000);
    world.clock.set(now);
    world.start().await;
    let [noted, _] = world.fields(shared().primary(), "downs");
    let noted = noted.unwrap();
    let noted: Vec<&str> = noted.split(' ').collect();
    assert_eq!(noted.len(), 64);
    let (began, _) = known[0].split_once(':').unwrap();
    let (_, ended) = known[1].split_once(':').unwrap();
    assert_eq!(noted[0], format!("{began}:{ended}"));
    assert_eq!(noted[63], format!("{}:{}", up.as_millis(), now.as_millis()));
    // Up for one second, and 63 times for a tenth of one. The first of these now counts as down.
    let end = now.plus_millis(HOLD_MS - 1_000 - 63 * 100);
    world.at(end.plus_millis(-1)).await;
    assert_eq!(world.state(orders[0]).await, OrderState::Held);
    world.at(end).await;
    assert_eq!(world.state(orders[0]).await, OrderState::Expired);
    world.harness.audit().await;
}

/// One partition was down and the other was served all the time. Holds of a spread sale end shard by shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_of_a_sale_has_its_own_downtimes() {
    let options = RedisOptions {
        shard_supply_min: 20,
        shards_max: 2,
        ..options(shared().url())
    };
    let mut world = World::with(options, OPENS, sale(20).hold_ms(HOLD_MS)).await;
    let orders = world
        .orders(&["a", "b", "c", "d", "e", "f", "g", "h"])
        .await;
    world.served_now().await;
    world.stop().await;
    let up = OPENS.plus_millis(10 * HOLD_MS);
    world.clock.set(up);
    let (key, now) = (world.key(TAGS[1]), up.as_millis().to_string());
    blocking(|| {
        shared()
            .primary()
            .call(&["HSET", &key, "up", &now])
            .unwrap()
    });
    world.start().await;
    tick(&world.harness.nodes[0]).await;
    let (home, _) = world.harness.nodes[0].home_position(world.target.id);
    let mut seen = [0; 2];
    for order in orders {
        let part = (order.number - 1) % 2;
        let partition = (u32::from(home.0) + part) % 2;
        seen[partition as usize] += 1;
        let expected = [OrderState::Held, OrderState::Expired][partition as usize];
        assert_eq!(world.state(order).await, expected, "{order:?}");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    world.harness.audit().await;
}

/// Redis loses everything and the partition is rebuilt. Its downtimes are unknown, so holds start again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_begin_anew_where_redis_has_lost_everything() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut world = World::new(&server).await;
    let orders = world.orders(&["a", "b"]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Arc::new(SqliteLedger::open(&path, world.clock.clone()).unwrap());
    ledger.create(&world.harness.setups[0]).await.unwrap();
    for partition in world.harness.nodes[0].partitions() {
        let node = &world.harness.nodes[0];
        let step = settle_once(node, &*ledger, partition, EVENTS_MAX).await;
        let step = step.unwrap();
        assert_eq!(step.settled, step.head);
    }
    world.stop().await;
    blocking(|| server.start_again_empty());
    let up = OPENS.plus_millis(20 * HOLD_MS);
    world.clock.set(up);
    let settled = ledger.positions().await.unwrap();
    for _ in 0..2 {
        world
            .harness
            .nodes
            .push(node(&world.harness.options, &settled).await);
    }
    let host = Host::new("repairs");
    let known: Arc<dyn Ledger> = ledger.clone();
    let repairing: Arc<dyn RepairEngine> = Arc::new(world.harness.nodes[0].clone());
    repair::start_all(&host, &repairing, &known, RepairMode::Automatic);
    let is_open = |node: &RedisEngine| {
        let mut all = node.partitions().into_iter();
        all.all(|partition| node.state(partition) == PartitionHealth::Open)
    };
    wait_for("the repair", || world.harness.nodes.iter().all(is_open)).await;
    world.at(up).await;
    let end = up.plus_millis(HOLD_MS);
    world.at(end.plus_millis(-1)).await;
    assert_eq!(world.state(orders[1]).await, OrderState::Held);
    assert_eq!(world.pay(orders[0]).await, PaymentOutcome::Paid);
    world.at(end).await;
    assert_eq!(world.state(orders[1]).await, OrderState::Expired);
    host.stop().await;
}
