//! Accidents of a whole installation with Redis, a database and nodes. Answers to users remain valid, and no unit is
//! sold twice. docs/operate/disasters.md lists the accidents.

use std::{ops::Range, time::Duration};

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_api::config::Secret;
use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    event::PartitionId,
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{Claimed, EngineError},
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::{
        postgres::{self, Postgres},
        redis::{Options, Standalone},
    },
};
use tokio::time::{Instant, sleep};

const STOCK: u32 = 100;
/// A repair takes `term_grace_ms`. The rest is for a busy machine.
const HEALED_MAX: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
const PARTITION: PartitionId = PartitionId(0);

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

struct World {
    postgres: Postgres,
    redis: Standalone,
    node: Backend,
    target: Target,
}

impl World {
    async fn start(options: &Options) -> Self {
        let postgres = blocking(|| Postgres::start(&postgres::Options::new().without_fsync()));
        let redis = blocking(|| Standalone::start(options));
        qiang::migrate(&postgres.url()).await.unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.engine.kind = EngineKind::Redis;
        config.redis.urls = redis.url();
        config.redis.partitions = 1;
        config.ledger.url = Secret::new(postgres.url());
        let node = Backend::open(&config).await.unwrap();
        let setup = sale(STOCK)
            .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
            .admission(None)
            .hold_ms(3_600_000)
            .setup(1);
        node.ports.ledger.create(&setup).await.unwrap();
        let target = Target::of(&setup);
        let opened = node.ports.engine.submit(Command::Open(Box::new(setup)));
        assert_eq!(opened.await, Ok(Reply::Opened));
        Self {
            postgres,
            redis,
            node,
            target,
        }
    }

    async fn claim(&self, n: u32) -> Result<Claimed, EngineError> {
        let claim = self.target.one(&format!("u{n}"));
        self.node.ports.engine.claim(claim).await
    }

    /// Orders of users. Each claim is repeated until it is answered.
    async fn buy(&self, users: Range<u32>) -> Vec<Option<u32>> {
        let until = Instant::now() + HEALED_MAX;
        let mut orders = Vec::new();
        for n in users {
            let claimed = loop {
                match self.claim(n).await {
                    Ok(claimed) => break claimed,
                    Err(error) => assert!(Instant::now() < until, "{error}"),
                }
                sleep(AGAIN_AFTER).await;
            };
            orders.push(claimed.outcome.grant().map(|grant| grant.number));
        }
        orders
    }

    async fn pay(&self, number: u32) -> PaymentOutcome {
        let until = Instant::now() + HEALED_MAX;
        loop {
            let pay = Command::Pay {
                order: self.target.order(number),
                payment: PaymentRef::new(&format!("p-{number}")).unwrap(),
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            };
            match self.node.ports.engine.submit(pay).await {
                Ok(Reply::Payment(outcome, _)) => return outcome,
                Ok(reply) => panic!("{reply:?}"),
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    async fn settle(&self) {
        let until = Instant::now() + HEALED_MAX;
        while let Err(error) = self.node.settle(Duration::from_secs(5)).await {
            assert!(Instant::now() < until, "{error}");
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Number of orders in the ledger, and the number of paid orders.
    fn sold(&self) -> (u32, u32) {
        // One statement, because settlement continues.
        let counts = "SELECT concat_ws(' ', count(*) FILTER (WHERE state IN ('held', 'paid')), \
             (SELECT granted FROM campaigns), count(*) FILTER (WHERE state = 'paid')) FROM orders";
        let counts = blocking(|| self.postgres.sql(counts));
        let counts: Vec<u32> = counts.split(' ').map(|it| it.parse().unwrap()).collect();
        let [orders, granted, paid] = counts[..] else {
            panic!("{counts:?}");
        };
        assert_eq!(orders, granted, "rows differ from the campaign's count");
        (orders, paid)
    }

    /// Sells the rest, and checks earlier answers to users.
    async fn end(self, before: &[Option<u32>]) {
        let users = u32::try_from(before.len()).unwrap();
        assert_eq!(self.buy(0..users).await, before, "replays");
        let more = self.buy(users..2 * STOCK).await;
        let sold = before.iter().chain(&more).flatten().count();
        assert!(sold <= STOCK as usize, "{sold} of {STOCK}");
        self.settle().await;
        assert_eq!(self.sold().0 as usize, sold);
        self.node.close().await.unwrap();
    }
}

/// A promoted replica of the database lacks the last seconds. The log restores them, including the payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_gets_what_it_lacks() {
    let world = World::start(&Options::new()).await;
    let mut before = world.buy(0..30).await;
    for number in before.iter().flatten().take(10) {
        assert_eq!(world.pay(*number).await, PaymentOutcome::Paid);
    }
    world.settle().await;
    blocking(|| {
        world.postgres.copy();
        let newer = "CREATE TABLE newer_than_the_copy (id int)";
        world.postgres.sql_in("postgres", newer);
    });
    before.extend(world.buy(30..60).await);
    for number in before.iter().flatten().skip(10).take(25) {
        assert_eq!(world.pay(*number).await, PaymentOutcome::Paid);
    }
    world.settle().await;
    assert_eq!(world.sold(), (60, 35));
    blocking(|| world.postgres.promote_copy());
    // Orders may be back already, but nothing brings this table back.
    let is_gone = "SELECT to_regclass('newer_than_the_copy') IS NULL";
    let is_gone = blocking(|| world.postgres.sql_in("postgres", is_gone));
    assert_eq!(is_gone.trim(), "t", "the last seconds are lost");
    before.extend(world.buy(60..65).await);
    let until = Instant::now() + HEALED_MAX;
    while world.sold() != (65, 35) {
        assert!(Instant::now() < until, "{:?}", world.sold());
        sleep(AGAIN_AFTER).await;
    }
    for number in before.iter().flatten().take(35) {
        assert_eq!(
            world.pay(*number).await,
            PaymentOutcome::Paid,
            "a repeated report"
        );
    }
    world.end(&before).await;
}

/// An operator sets the ledger's position back. Entries are settled again without effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_was_set_back_by_hand_settles_nothing_twice() {
    let world = World::start(&Options::new()).await;
    let before = world.buy(0..30).await;
    for number in before.iter().flatten().take(10) {
        assert_eq!(world.pay(*number).await, PaymentOutcome::Paid);
    }
    world.settle().await;
    blocking(|| world.postgres.sql("UPDATE settled SET seq = seq - 20"));
    world.settle().await;
    let until = Instant::now() + HEALED_MAX;
    while world.node.ports.ledger.settled(PARTITION).await.unwrap() < 40 {
        assert!(Instant::now() < until);
        sleep(AGAIN_AFTER).await;
    }
    assert_eq!(world.sold(), (30, 10));
    world.end(&before).await;
}

/// An operator sets the ledger's position forward, so Redis seems to have lost entries. The partition stops, is
/// repaired, and grants again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_was_set_forward_by_hand_is_repaired() {
    let world = World::start(&Options::new()).await;
    let before = world.buy(0..30).await;
    world.settle().await;
    blocking(|| world.postgres.sql("UPDATE settled SET seq = seq + 5"));
    let until = Instant::now() + HEALED_MAX;
    while world.node.ports.gauges.partitions()[0].1.is_none() {
        assert!(
            Instant::now() < until,
            "a partition with a ledger ahead of it does not stop"
        );
        sleep(AGAIN_AFTER).await;
    }
    world.end(&before).await;
}

/// The nodes' user in Redis loses a command that scripts need after their first write. Once it has the command again,
/// the campaign is rebuilt from the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_ends_scripts_half_way_loses_nothing() {
    let users = "user default off\nuser app on >secret ~* &* +@all";
    let world = World::start(&Options::new().acl(users, "app", "secret")).await;
    let mut before = world.buy(0..30).await;
    for right in ["xadd", "hset"] {
        let rule = |sign: char| {
            let rule = format!("{sign}{right}");
            let set = ["ACL", "SETUSER", "app", &rule];
            blocking(|| world.redis.primary().call(&set)).unwrap();
        };
        let next = u32::try_from(before.len()).unwrap();
        rule('-');
        for n in next..next + 5 {
            assert!(world.claim(n).await.is_err(), "{right}");
        }
        rule('+');
        before.extend(world.buy(next..next + 5).await);
    }
    world.end(&before).await;
}
