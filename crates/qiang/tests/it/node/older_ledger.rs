//! A ledger that was restored from an older dump, while Redis lost its data. No source has the orders after the dump,
//! but buyers have their ids, and endpoints have those of their events. Neither may name another order or event later.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
    time::Duration,
};

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_api::config::Secret;
use qiang_core::{
    book::{CampaignAction, Command, PaymentOutcome, Reply, Setup},
    id::{OrderId, PaymentRef},
    payment::ReceivedMoney,
    time::Timestamp,
    webhook::{Filter, Webhook, WebhookEvent},
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::{
        mariadb::{self, MariaDb},
        postgres::{self, Postgres},
        redis::{Options, Standalone},
    },
};
use tokio::time::{Instant, sleep};

use crate::crash_matrix::audit;

const STOCK: u32 = 200;
/// Stock of a sale that is spread over the partitions.
const SPREAD_STOCK: u32 = 2_000;
/// Hold of orders. Some expire during the test.
const HOLD_MS: i64 = 15_000;
/// A takeover takes three seconds, and a repair takes `term_grace_ms`. The rest is for a busy machine.
const HEALED_MAX: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
const EVENTS_MAX: u32 = 10_000;

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

struct World {
    redis: Standalone,
    url: String,
    config: NodeConfig,
    node: Backend,
    sales: Vec<Setup>,
}

/// The first sale is in one partition, and the second one in all of them. The third one opens after the dump.
const OPEN_AT_DUMP: Range<usize> = 0..2;
const ALL: Range<usize> = 0..3;

impl World {
    async fn start(url: String) -> Self {
        qiang::migrate(&url).await.unwrap();
        let redis = blocking(|| Standalone::start(&Options::new()));
        let mut config = NodeConfig::defaults().unwrap();
        config.engine.kind = EngineKind::Redis;
        config.redis.urls = redis.url();
        config.redis.partitions = 2;
        config.redis.shard_supply_min = STOCK + 1;
        config.ledger.url = Secret::new(url.clone());
        let node = Backend::open(&config).await.unwrap();
        let sales = (1..).zip([STOCK, SPREAD_STOCK, STOCK]).map(|(n, stock)| {
            sale(stock)
                .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
                .admission(None)
                .hold_ms(HOLD_MS)
                .setup(n)
        });
        let sales: Vec<Setup> = sales.collect();
        for setup in &sales {
            node.ports.ledger.create(setup).await.unwrap();
        }
        let endpoint = Webhook {
            id: uuid::Uuid::from_u128(1),
            url: "https://127.0.0.1:9/".to_owned(),
            secret: "whsec_c2VjcmV0IG9mIGFuIGVuZHBvaW50IGluIGEgdGVzdA==".to_owned(),
            previous_secret: None,
            filter: Filter::default(),
            managed_by: None,
            created_at: Timestamp::default(),
        };
        let added = node.ports.ledger.add_webhook(&endpoint, None).await;
        assert_eq!(added, Ok(true));
        Self {
            redis,
            url,
            config,
            node,
            sales,
        }
    }

    /// Carries out a command. It is repeated until it is answered.
    async fn submit(&self, command: impl Fn() -> Command) -> Reply {
        let until = Instant::now() + HEALED_MAX;
        loop {
            match self.node.ports.engine.submit(command()).await {
                Ok(reply) => return reply,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    async fn open(&self, sales: Range<usize>) {
        for setup in &self.sales[sales] {
            let opened = self.submit(|| Command::Open(Box::new(setup.clone())));
            assert_eq!(opened.await, Reply::Opened);
        }
    }

    /// Orders of users, in the order of sales and users. Each claim is repeated until it is answered.
    async fn buy(&self, sales: Range<usize>, users: Range<u32>) -> Vec<OrderId> {
        let until = Instant::now() + HEALED_MAX;
        let mut orders = Vec::new();
        for setup in &self.sales[sales] {
            let target = Target::of(setup);
            for n in users.clone() {
                let claimed = loop {
                    let claim = target.one(&format!("u{n}"));
                    match self.node.ports.engine.claim(claim).await {
                        Ok(claimed) => break claimed,
                        Err(error) => assert!(Instant::now() < until, "{error}"),
                    }
                    sleep(AGAIN_AFTER).await;
                };
                let grant = claimed.outcome.grant().expect("an order");
                orders.push(target.order(grant.number));
            }
        }
        orders
    }

    async fn pay(&self, order: OrderId) -> Reply {
        self.submit(|| pay(order)).await
    }

    async fn settle(&self) {
        let until = Instant::now() + HEALED_MAX;
        while let Err(error) = self.node.settle(Duration::from_secs(5)).await {
            assert!(Instant::now() < until, "{error}");
            sleep(AGAIN_AFTER).await;
        }
    }

    /// Content of webhook events, by their ids.
    async fn events(&self) -> BTreeMap<String, String> {
        let events = self.node.ports.ledger.webhook_events(0, EVENTS_MAX).await;
        let events = events.unwrap().into_iter();
        let content = |event: WebhookEvent| {
            let content = format!("{:?} {} {:?}", event.kind, event.at.as_millis(), event.data);
            (event.id, content)
        };
        events.map(content).collect()
    }

    /// Stops the node, and starts it again with an empty Redis.
    async fn start_again_empty(self, between: impl FnOnce(&str)) -> Self {
        self.node.close().await.unwrap();
        blocking(|| between(&self.url));
        blocking(|| self.redis.start_again_empty());
        let node = Backend::open(&self.config).await.unwrap();
        Self { node, ..self }
    }

    /// Closes all sales, and audits ledger and Redis.
    async fn end(self) {
        for setup in &self.sales {
            let close = || Command::Act {
                campaign: setup.campaign.id,
                action: CampaignAction::Close,
            };
            self.submit(close).await;
        }
        self.settle().await;
        let redis = self.redis.url();
        blocking(|| audit(&["--ledger", &self.url, "--redis", &redis]));
        self.node.close().await.unwrap();
    }
}

fn pay(order: OrderId) -> Command {
    Command::Pay {
        order,
        payment: PaymentRef::new(&format!("p-{order}")).unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    }
}

fn expect_new(known: &mut BTreeSet<OrderId>, orders: &[OrderId]) {
    for order in orders {
        assert!(
            known.insert(*order),
            "{order} has been another order before"
        );
    }
}

async fn check(url: String, dump: impl Fn(&str, &Path), restore: impl Fn(&str, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("dump");
    let world = World::start(url).await;
    world.open(OPEN_AT_DUMP).await;
    let first = world.buy(OPEN_AT_DUMP, 0..20).await;
    let paid = first[0];
    world.pay(paid).await;
    world.settle().await;
    blocking(|| dump(&world.url, &copy));
    world.open(ALL).await;
    let lost = world.buy(ALL, 100..120).await;
    world.settle().await;
    let told = world.events().await;
    assert!(told.len() > 100, "{}", told.len());
    let mut known: BTreeSet<OrderId> = BTreeSet::new();
    expect_new(&mut known, &first);
    expect_new(&mut known, &lost);

    // The ledger is older, and Redis is empty.
    let world = world.start_again_empty(|url| restore(url, &copy)).await;
    world.open(ALL).await;
    assert_eq!(world.buy(OPEN_AT_DUMP, 0..20).await, first, "replays");
    let second = world.buy(ALL, 200..220).await;
    expect_new(&mut known, &second);
    let refused = world.node.ports.engine.submit(pay(lost[0])).await;
    assert!(refused.is_err(), "{refused:?}");
    // Holds from before and after the loss expire.
    sleep(Duration::from_millis(HOLD_MS as u64)).await;
    world.settle().await;
    for (id, content) in world.events().await {
        let before = told.get(&id);
        assert!(
            before.is_none_or(|before| *before == content),
            "{id}: {before:?} {content}"
        );
    }

    // Redis alone is empty.
    let world = world.start_again_empty(|_| ()).await;
    let third = world.buy(ALL, 300..320).await;
    expect_new(&mut known, &third);
    // A payment reaches its order by the number.
    let Reply::Payment(outcome, _) = world.pay(third[0]).await else {
        panic!("an order is unknown");
    };
    assert_eq!(outcome, PaymentOutcome::Paid);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_ledger_and_an_empty_redis_give_no_id_again_postgres() {
    let server = blocking(|| Postgres::start(&postgres::Options::new().without_fsync()));
    Box::pin(check(server.url(), postgres::dump, postgres::restore)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_ledger_and_an_empty_redis_give_no_id_again_mariadb() {
    let server = blocking(|| MariaDb::start(&mariadb::Options::new()));
    Box::pin(check(server.url(), mariadb::dump, mariadb::restore)).await;
}
