//! Reload of closed campaigns from a ledger in a database. Requests are answered in time in any state of the database,
//! and rows are read once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Command, PaymentOutcome, Reply},
    campaign::Phase,
    id::PaymentRef,
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{Engine as _, EngineError, EventLog as _, Ledger, RetireEngine as _},
    time::Timestamp,
};
use qiang_ledger::LedgerOptions;
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
    proxy::FaultProxy,
    servers::{
        postgres::{self, Postgres},
        redis::{Options as ServerOptions, Standalone},
    },
};
use qiang_worker::settlement::settle_once;

const ENTRIES_MAX: usize = 1_000;
const USERS: u32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// A spread sale that is over and evicted, with an order of each user.
struct World {
    postgres: Postgres,
    proxy: FaultProxy,
    ledger: Arc<dyn Ledger>,
    node: RedisEngine,
    sale: Target,
    /// Number of the last order.
    number: u32,
    _redis: Standalone,
}

impl World {
    async fn new() -> Self {
        let start = || Postgres::start(&postgres::Options::new().without_fsync());
        let postgres = tokio::task::block_in_place(start);
        let redis = tokio::task::block_in_place(|| Standalone::start(&ServerOptions::new()));
        qiang_ledger::migrate(&postgres.url()).await.unwrap();
        let proxy = FaultProxy::start(postgres.addr()).await;
        let url = postgres.url();
        let url = url.replace(&postgres.addr().to_string(), &proxy.addr().to_string());
        let clock = ManualClock::new(OPENS);
        let opened = qiang_ledger::open(&url, clock, LedgerOptions::default());
        let ledger = opened.await.unwrap();
        let options = RedisOptions {
            urls: vec![redis.url()],
            partitions: 2,
            shard_supply_min: 10,
            shards_max: 2,
            closed_campaign_ttl: Duration::ZERO,
            claim_timeout: Duration::from_secs(1),
            ..RedisOptions::default()
        };
        let node = RedisEngine::connect(options, &[]).await.unwrap();
        node.recall_from(Arc::clone(&ledger));
        let open = Timestamp::from_millis(1_577_836_800_000);
        let setup = sale(10).window(open, 631_152_000_000).setup(1);
        ledger.create(&setup).await.unwrap();
        let command = Command::Open(Box::new(setup.clone()));
        assert_eq!(node.submit(command).await, Ok(Reply::Opened));
        let mut world = Self {
            postgres,
            proxy,
            ledger,
            node,
            sale: Target::of(&setup),
            number: 0,
            _redis: redis,
        };
        world.sell().await;
        world.leave().await;
        world
    }

    async fn sell(&mut self) {
        for n in 0..USERS {
            let claimed = self.node.claim(self.sale.one(&format!("u{n}"))).await;
            let Outcome::Granted(grant) = claimed.unwrap().outcome else {
                panic!("there are units left");
            };
            let paid = self.pay(grant.number, &format!("p{n}")).await;
            paid.unwrap();
            self.number = grant.number;
        }
        let (campaign, action) = (self.sale.id, CampaignAction::Close);
        let closed = self.node.submit(Command::Act { campaign, action }).await;
        assert!(matches!(closed, Ok(Reply::Acted(_))), "{closed:?}");
    }

    async fn pay(&self, number: u32, payment: &str) -> Result<Reply, EngineError> {
        let pay = Command::Pay {
            order: self.sale.order(number),
            payment: PaymentRef::new(payment).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        self.node.submit(pay).await
    }

    /// A user retries until the claim is answered, as before the eviction.
    async fn insist(&self) {
        let until = Instant::now() + PATIENCE;
        let claimed = loop {
            match self.node.claim(self.sale.one("u0")).await {
                Ok(claimed) => break claimed.outcome,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert!(matches!(claimed, Outcome::AlreadyGranted(_)), "{claimed:?}");
        let tally = self.node.tally(self.sale.id).await.unwrap().unwrap();
        let found = (tally.phase, tally.granted);
        assert_eq!(found, (Phase::Closed, u64::from(USERS)));
    }

    /// Evicts the campaign: the other shard first, because the home shard waits for it.
    async fn leave(&self) {
        let mut partitions = self.node.partitions();
        for partition in &partitions {
            loop {
                let step = settle_once(&self.node, &*self.ledger, *partition, ENTRIES_MAX).await;
                let step = step.unwrap();
                if step.settled == step.head {
                    break;
                }
            }
        }
        let (home, _) = self.node.home_position(self.sale.id);
        partitions.sort_by_key(|partition| *partition == home);
        for partition in partitions {
            let retired = self.node.retire(partition, &*self.ledger).await.unwrap();
            assert_eq!(retired.campaigns, 1, "{partition:?}");
        }
    }
}

fn is_late<T: std::fmt::Debug>(answer: Result<T, EngineError>) {
    let Err(EngineError::Unavailable { reason }) = answer else {
        panic!("{answer:?}");
    };
    assert!(reason.contains("has not said in time"), "{reason}");
}

/// The database answers nothing and keeps its connections. Claims, reads and commands are still answered. Once it is
/// back, they get their usual answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_ledger_that_is_silent() {
    let world = World::new().await;
    world.proxy.half_open().await;
    let claims = (0..USERS).map(|n| world.node.claim(world.sale.one(&format!("u{n}"))));
    let claims: Vec<_> = claims.collect();
    let (campaign, action) = (world.sale.id, CampaignAction::Close);
    let close = world.node.submit(Command::Act { campaign, action });
    is_late(world.node.tally(world.sale.id).await);
    is_late(world.node.order(world.sale.order(1)).await);
    is_late(close.await);
    for claim in claims {
        is_late(claim.await);
    }
    world.proxy.pass().await;
    world.insist().await;
}

/// The database is so slow that no request waits long enough. A retry finds the answers of earlier reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_longer_than_anybody_waits_comes_back() {
    let world = World::new().await;
    world
        .proxy
        .delay(Duration::ZERO, Duration::from_millis(700))
        .await;
    is_late(world.node.tally(world.sale.id).await);
    world.insist().await;
}

/// A late payment reloads a campaign with two shards: each row is read once for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_spread_campaign_are_read_once() {
    let world = World::new().await;
    tokio::task::block_in_place(|| {
        let counted = "ALTER TABLE orders RENAME TO all_orders; CREATE SEQUENCE reads; \
             CREATE VIEW orders AS SELECT * FROM all_orders WHERE nextval('reads') > 0";
        world.postgres.sql(counted);
    });
    let late = world.pay(world.number, "late").await;
    let is_due = matches!(late, Ok(Reply::Payment(PaymentOutcome::RefundDue, _)));
    assert!(is_due, "{late:?}");
    let tally = world.node.tally(world.sale.id).await.unwrap().unwrap();
    assert_eq!(
        (tally.phase, tally.granted),
        (Phase::Closed, u64::from(USERS))
    );
    let reads = tokio::task::block_in_place(|| world.postgres.sql("SELECT last_value FROM reads"));
    assert_eq!(reads.trim(), USERS.to_string());
}
