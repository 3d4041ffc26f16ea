//! Comparison of engine and ledger while users claim. Each planted difference is counted under its kind, and no other
//! difference is reported.

mod campaigns;
mod withheld;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, Reply},
    event::PartitionId,
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{Engine as _, EventLog as _, SampleCursor, SampleEngine as _},
    reconcile::DifferenceKind,
    split::SplitRule,
};
use qiang_embedded::SystemClock;
use qiang_redis::RedisOptions;
use qiang_testkit::{
    campaign::{Target, red_packet, sale},
    servers::redis::Server,
};
use qiang_worker::{
    host::Reconciler as _,
    reconcile::{ReconcileMonitor, ReconcileOptions, Reconciliation},
    settlement::settle_once,
};

use crate::redis_faults::{
    harness::{
        Harness, SHORT_PAUSE, blocking, grant_of, name, open_now, options, shared, wait_for,
        winners,
    },
    terms::Books,
};

const USERS: usize = 150;
const STOCK: u32 = 50_000;
/// Rows per step; few, so that a walk takes many steps.
const ROWS_MAX: u32 = 64;
const PASS_MAX: Duration = Duration::from_secs(300);
/// Pause between two claims of a worker, so that the rows to walk grow by some hundred per second.
const LOAD_PAUSE: Duration = Duration::from_millis(100);

/// Counts by kind, in the order of [`DifferenceKind::FAULTS`].
type Counts = [u64; DifferenceKind::FAULTS.len()];

struct World {
    harness: Harness,
    books: Arc<Books>,
    monitor: Arc<ReconcileMonitor>,
    reconciliation: Reconciliation,
}

impl World {
    async fn new(spread: bool) -> Self {
        let harness = Harness::new(RedisOptions {
            shard_supply_min: if spread { 2 } else { u32::MAX },
            shards_max: 2,
            ..options(shared().url())
        })
        .await;
        let books = Arc::new(Books::new(&harness).await);
        let monitor = Arc::<ReconcileMonitor>::default();
        let reconciliation = reconciliation(&harness, 0, &books, &monitor);
        Self {
            harness,
            books,
            monitor,
            reconciliation,
        }
    }

    /// Creates a campaign in the engine and the ledger, with settled grants.
    async fn campaign(&mut self, builder: qiang_testkit::campaign::Builder) -> Target {
        let target = self.harness.open(open_now(builder)).await;
        self.books.create(self.harness.setups.last().unwrap()).await;
        let claims = (0..USERS).map(|n| target.keyed(&name(n), 1, "key"));
        let answers = self.harness.ask_all(claims.collect()).await;
        assert_eq!(winners(&answers), USERS);
        target
    }

    async fn settle(&self) {
        self.books.settle_all(&self.harness.nodes[0]).await;
    }

    /// Walks through everything from the start, and returns the differences.
    async fn pass(&mut self) -> Counts {
        self.reconciliation = reconciliation(&self.harness, 0, &self.books, &self.monitor);
        let before = passed_at(&self.monitor);
        let until = Instant::now() + PASS_MAX;
        loop {
            // A server that does not answer in time is asked again in the next step.
            let walked = self.reconciliation.reconcile().await;
            let now = passed_at(&self.monitor);
            if now.len() == 2 && now.iter().all(|at| at.is_some() && !before.contains(at)) {
                return counts(&self.monitor);
            }
            assert!(Instant::now() < until, "the walk does not end: {walked:?}");
        }
    }
}

fn reconciliation(
    harness: &Harness,
    node: usize,
    books: &Books,
    monitor: &Arc<ReconcileMonitor>,
) -> Reconciliation {
    let options = ReconcileOptions {
        interval: Duration::from_millis(1),
        rows_max: ROWS_MAX,
    };
    Reconciliation::new(
        Arc::new(harness.nodes[node].clone()),
        Arc::new(books.ledger.clone()),
        Arc::new(SystemClock),
        options,
        Arc::clone(monitor),
    )
}

fn passed_at(monitor: &ReconcileMonitor) -> Vec<Option<qiang_core::time::Timestamp>> {
    let findings = monitor.findings();
    findings.into_iter().map(|it| it.passed_at).collect()
}

fn counts(monitor: &ReconcileMonitor) -> Counts {
    let mut counts = Counts::default();
    for findings in monitor.findings() {
        for (n, (_, count)) in findings.differences.into_iter().enumerate() {
            counts[n] += count;
        }
    }
    counts
}

fn one(kind: DifferenceKind, count: u64) -> Counts {
    DifferenceKind::FAULTS.map(|other| if other == kind { count } else { 0 })
}

/// Key of a campaign's shard.
fn key(harness: &Harness, partition: PartitionId, target: Target, rest: &str) -> String {
    let prefix = &harness.options.prefix;
    format!("{prefix}:{{p{:02}}}:c:{}{rest}", partition.0, target.id)
}

fn call(server: &Server, words: &[&str]) -> Option<String> {
    blocking(|| server.call(words).unwrap().text().map(str::to_owned))
}

/// A planted difference, with the field's former value to undo it.
struct Plant {
    key: String,
    field: String,
    was: Option<String>,
}

impl Plant {
    /// Sets a field of a hash, or removes it.
    fn new(key: String, field: &str, becomes: impl FnOnce(Option<&str>) -> Option<String>) -> Self {
        let server = shared().primary();
        let was = call(server, &["HGET", &key, field]);
        let plant = Self {
            field: field.to_owned(),
            key,
            was,
        };
        plant.write(becomes(plant.was.as_deref()));
        plant
    }

    fn write(&self, value: Option<String>) {
        let server = shared().primary();
        match value {
            Some(value) => call(server, &["HSET", &self.key, &self.field, &value]),
            None => call(server, &["HDEL", &self.key, &self.field]),
        };
    }

    fn undo(self) {
        self.write(self.was.clone());
    }
}

/// Replaces the n-th tab-separated field of a text.
fn with(text: &str, n: usize, value: &str) -> String {
    let mut parts: Vec<&str> = text.split('\t').collect();
    parts[n] = value;
    parts.join("\t")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_differs_is_counted_by_its_kind() {
    for spread in [false, true] {
        let mut world = World::new(spread).await;
        let orders = world.campaign(sale(STOCK).limit(3)).await;
        let split = SplitRule::DoubleAverage { min: 1 };
        let packet = world.campaign(red_packet(1_000_000, 1_000, split)).await;
        for n in 1..=5 {
            let order = orders.order(n);
            let payment = PaymentRef::new(&format!("payment-{n}")).unwrap();
            let paid = world
                .harness
                .submit(
                    0,
                    Command::Pay {
                        order,
                        payment,
                        paid_at: None,
                        received: ReceivedMoney::Price,
                        cancelled: 0,
                    },
                )
                .await;
            assert!(matches!(paid, Ok(Reply::Payment(..))), "{paid:?}");
        }
        world.settle().await;
        assert_eq!(
            world.pass().await,
            Counts::default(),
            "there are no differences yet"
        );

        let harness = &world.harness;
        let node = &harness.nodes[0];
        // The shards with order 3 and with the share of the first user.
        let partitions = node.partitions();
        let owner = |target: Target, field: &str, rest: &str| {
            let has = |partition: &&PartitionId| {
                let key = key(harness, **partition, target, rest);
                call(shared().primary(), &["HGET", &key, field]).is_some()
            };
            *partitions.iter().find(has).unwrap()
        };
        let order_key = key(harness, owner(orders, "3", ":orders"), orders, ":orders");
        let payments_key = key(harness, owner(orders, "3", ":orders"), orders, ":payments");
        let user = name(7);
        let users_key = key(harness, owner(packet, &user, ":users"), packet, ":users");
        type Change = Box<dyn FnOnce(Option<&str>) -> Option<String>>;
        let in_engine = |n: usize, value: &'static str| -> Change {
            Box::new(move |text| Some(with(text.unwrap(), n, value)))
        };
        let plants: Vec<(DifferenceKind, u64, String, String, Change)> = vec![
            // Orders: state, refunds due, user, units, price, …
            (
                DifferenceKind::MissingInEngine,
                1,
                order_key.clone(),
                "3".to_owned(),
                Box::new(|_| None),
            ),
            (
                DifferenceKind::AmountDiffers,
                1,
                order_key.clone(),
                "3".to_owned(),
                in_engine(4, "7"),
            ),
            (
                DifferenceKind::AmountDiffers,
                1,
                order_key.clone(),
                "3".to_owned(),
                in_engine(3, "2"),
            ),
            (
                DifferenceKind::Double,
                1,
                order_key.clone(),
                "3".to_owned(),
                in_engine(2, "thief"),
            ),
            (
                DifferenceKind::StateDiffers,
                1,
                order_key,
                "3".to_owned(),
                in_engine(0, "c"),
            ),
            // A payment that only the engine has, and one that only the ledger has.
            (
                DifferenceKind::StateDiffers,
                1,
                payments_key.clone(),
                "3\tother".to_owned(),
                Box::new(|_| Some("d".to_owned())),
            ),
            (
                DifferenceKind::StateDiffers,
                1,
                payments_key,
                "3\tpayment-3".to_owned(),
                Box::new(|_| None),
            ),
            // Shares: number and amount, milliseconds, key.
            (
                DifferenceKind::MissingInEngine,
                1,
                users_key.clone(),
                user.clone(),
                Box::new(|_| None),
            ),
            (
                DifferenceKind::AmountDiffers,
                1,
                users_key.clone(),
                user.clone(),
                Box::new(|text| {
                    let text = text.unwrap();
                    let number = &text[..6];
                    Some(with(text, 0, &format!("{number}999999")))
                }),
            ),
            // No user has the last of a thousand shares: 999 in base 36 is `rr`.
            (
                DifferenceKind::MissingInLedger,
                1,
                users_key,
                "somebody".to_owned(),
                Box::new(|_| Some("0000rr5\t0".to_owned())),
            ),
        ];
        for (kind, count, key, field, change) in plants {
            let plant = Plant::new(key, &field, change);
            let found = world.pass().await;
            assert_eq!(found, one(kind, count), "{field} (spread: {spread})");
            plant.undo();
            // Mended differences no longer count.
            assert_eq!(world.pass().await, Counts::default(), "{field}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_flight_or_just_settled_is_no_difference() {
    let mut world = World::new(true).await;
    let orders = world.campaign(sale(STOCK).limit(STOCK)).await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let packet = world.campaign(red_packet(1_000_000, 4_000, split)).await;
    let load = world.harness.start(
        move |n| {
            Some(match n % 2 {
                0 => packet.one(&name(USERS + n)),
                _ => orders.keyed(&name(n % 97), 1, &format!("key-{n}")),
            })
        },
        LOAD_PAUSE,
    );
    // Settlement runs repeatedly, as fast as it can, while orders are paid and cancelled.
    let (books, node) = (Arc::clone(&world.books), world.harness.nodes[1].clone());
    let settling = tokio::spawn(async move {
        loop {
            for partition in node.partitions() {
                drop(settle_once(&node, &books.ledger, partition, 4_096).await);
            }
            tokio::time::sleep(SHORT_PAUSE).await;
        }
    });
    let node = world.harness.nodes[1].clone();
    let paying = tokio::spawn(async move {
        for n in 1.. {
            let order = orders.order(n);
            let payment = PaymentRef::new(&format!("payment-{n}")).unwrap();
            let done = match n % 3 {
                0 => node.submit(Command::Cancel { order, part: None }).await,
                _ => {
                    node.submit(Command::Pay {
                        order,
                        payment,
                        paid_at: None,
                        received: ReceivedMoney::Price,
                        cancelled: 0,
                    })
                    .await
                }
            };
            // The order may not exist yet.
            drop(done);
            tokio::time::sleep(SHORT_PAUSE).await;
        }
    });
    for round in 0..4 {
        load.more(300).await;
        assert_eq!(world.pass().await, Counts::default(), "round {round}");
    }
    // The packet may be empty by now.
    assert!(winners(&load.stop().await) > 0);
    assert!(!settling.is_finished() && !paying.is_finished());
    settling.abort();
    paying.abort();
}

/// The shard with fewer orders is walked to its end, however fast the other shard grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_ends_while_another_part_grows() {
    const STEPS_MAX: usize = 30;
    let mut world = World::new(true).await;
    let orders = world.campaign(sale(STOCK).limit(STOCK)).await;
    world.settle().await;
    let harness = &world.harness;
    let busy = harness.ask_all(vec![orders.keyed(&name(0), 1, "key")]);
    let number = grant_of(&busy.await[0].1).unwrap().number.to_string();
    let is_quiet = |partition: &PartitionId| {
        let key = key(harness, *partition, orders, ":orders");
        call(shared().primary(), &["HGET", &key, &number]).is_none()
    };
    let node = &harness.nodes[0];
    let quiet = node.partitions().into_iter().find(is_quiet).unwrap();
    let (mut cursor, mut rows) = (SampleCursor::default(), 0);
    for step in 0..STEPS_MAX {
        let ledger = &world.books.ledger;
        let sample = node.sample(quiet, orders.id, ledger, &cursor, ROWS_MAX);
        let sample = sample.await.unwrap().unwrap();
        rows += sample.rows;
        match sample.next {
            Some(next) => cursor = next,
            None => return assert!(rows > 0),
        }
        let more = (0..2 * ROWS_MAX).map(|n| orders.keyed(&name(0), 1, &format!("{step}-{n}")));
        harness.ask_all(more.collect()).await;
        world.settle().await;
    }
    panic!("the walk does not end: {cursor:?}");
}

/// Only one of several processes reconciles a partition. When it is gone, another one does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_reconciles_a_partition() {
    let mut world = World::new(false).await;
    world.campaign(sale(STOCK)).await;
    world.settle().await;
    let other = Arc::<ReconcileMonitor>::default();
    let mut beside = reconciliation(&world.harness, 1, &world.books, &other);
    assert_eq!(world.pass().await, Counts::default());
    beside.reconcile().await.unwrap();
    assert!(other.findings().is_empty(), "two processes reconcile");
    // The process is gone, and its lease too.
    for partition in 0..2 {
        let prefix = &world.harness.options.prefix;
        let key = format!("{prefix}:{{p{partition:02}}}:reconciler");
        let server = shared().primary();
        assert!(call(server, &["PTTL", &key]).is_none_or(|ttl| ttl != "-1"));
        call(server, &["DEL", &key]);
    }
    beside.reconcile().await.unwrap();
    wait_for("the other process", || other.findings().len() == 2).await;
    world.reconciliation.reconcile().await.unwrap();
    assert!(
        world.monitor.findings().is_empty(),
        "two processes reconcile"
    );
}
