//! Eviction of closed, settled campaigns from Redis. Users notice nothing: they get the same answers as before, and no
//! unit is granted twice.

mod answers;
mod full;
mod ledgers;
mod openings;
mod races;
mod returns;
mod siblings;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use qiang_core::{
    book::{CampaignAction, Command, OrderView, PaymentOutcome, Refusal, Reply},
    campaign::{Phase, Tally},
    event::PartitionId,
    id::PaymentRef,
    money::Money,
    order::OrderState,
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EngineError, EventLog as _,
        RetireEngine as _,
    },
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, OWNER, Target, currency, red_packet, sale, user},
    servers::redis::Server,
};
use qiang_worker::settlement::settle_once;

use crate::redis_faults::harness::{Answered, Harness, blocking, name, open_now, options, shared};

const HOLD_MS: i64 = 3_600_000;
const STOCK: u32 = 40;
const USERS: usize = 30;
const ENTRIES_MAX: usize = 4_096;

/// Two nodes and a ledger. Campaigns of `STOCK` units are spread, smaller ones are not.
struct Scene {
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    folder: tempfile::TempDir,
}

/// A ledger that contains only the owner's money.
async fn new_ledger(path: &Path) -> Arc<SqliteLedger> {
    let ledger = SqliteLedger::open(path, ManualClock::new(OPENS)).unwrap();
    let total = Money::new(1_000_000, currency());
    let id = uuid::Uuid::from_u128(1);
    ledger.deposit(id, &user(OWNER), total).await.unwrap();
    Arc::new(ledger)
}

impl Scene {
    async fn new(options: RedisOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = new_ledger(&folder.path().join("ledger.db")).await;
        let options = RedisOptions {
            shard_supply_min: STOCK,
            shards_max: 2,
            // Tests read the logs at the end.
            retain: Duration::from_secs(3_600),
            ..options
        };
        let harness = Harness::new(options).await;
        for node in &harness.nodes {
            node.recall_from(ledger.clone());
        }
        Self {
            harness,
            ledger,
            folder,
        }
    }

    async fn open(&mut self, builder: Builder) -> Target {
        let builder = open_now(builder);
        let setup = builder.setup(self.harness.setups.len() as u64 + 1);
        self.ledger.create(&setup).await.unwrap();
        self.harness.open(builder).await
    }

    /// Users claim, some pay, cancel or do nothing, and the campaign is closed.
    async fn lead(&self, target: Target, is_sale: bool) -> Vec<Answered> {
        let claims = (0..USERS).map(|n| target.one(&name(n)));
        let answers = self.harness.ask_all(claims.collect()).await;
        let numbers = numbers(&answers);
        for (n, number) in numbers.iter().enumerate().filter(|_| is_sale) {
            let step = match n % 3 {
                0 => pay(target, *number, "first"),
                1 => pay(target, *number, "first"),
                _ => cancel(target, *number),
            };
            self.command(0, step).await.unwrap();
        }
        self.command(0, close(target)).await.unwrap();
        answers
    }

    async fn command(&self, node: usize, command: Command) -> Result<Reply, EngineError> {
        self.harness.nodes[node].submit(command).await
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another ledger with all entries so far, which gets none later.
    async fn ledger_as_of_now(&self, name: &str) -> Arc<SqliteLedger> {
        let ledger = new_ledger(&self.path(name)).await;
        for setup in &self.harness.setups {
            ledger.create(setup).await.unwrap();
        }
        for partition in self.harness.nodes[0].partitions() {
            settle(&self.harness.nodes[0], &ledger, partition).await;
        }
        ledger
    }

    async fn settle(&self) {
        for partition in self.harness.nodes[0].partitions() {
            settle(&self.harness.nodes[0], &self.ledger, partition).await;
        }
    }

    /// Evicts everything that can leave, through this node, and returns the number of evicted shards. The first shard
    /// of a spread campaign leaves in the round after the others.
    async fn retire(&self, node: usize) -> u64 {
        let node = &self.harness.nodes[node];
        let mut count = 0;
        for _ in 0..2 {
            for partition in node.partitions() {
                let retired = node.retire(partition, &*self.ledger).await.unwrap();
                count += retired.campaigns;
            }
            for setup in &self.harness.setups {
                if setup.campaign.supply() == u64::from(STOCK) {
                    self.look_again(shared().primary(), Target::of(setup));
                }
            }
        }
        count
    }

    /// The partition of a campaign's first shard, and the other one.
    fn home_and_other(&self, target: Target) -> [PartitionId; 2] {
        let (home, _) = self.harness.nodes[0].home_position(target.id);
        [home, PartitionId(1 - home.0)]
    }

    /// A key of a partition.
    fn key(&self, partition: PartitionId, rest: &str) -> String {
        let prefix = &self.harness.options.prefix;
        format!("{prefix}:{{p{:02}}}:{rest}", partition.0)
    }

    /// Makes the next round check closed campaigns that could not leave before.
    fn look_again(&self, server: &Server, target: Target) {
        for partition in self.harness.nodes[0].partitions() {
            let key = self.key(partition, "closed");
            let words = ["ZADD", &key, "XX", "0", &target.id.to_string()];
            blocking(|| server.call(&words).unwrap());
        }
    }

    /// Keys of a campaign in Redis.
    fn keys_of(&self, server: &Server, target: Target) -> Vec<String> {
        let pattern = format!("{}:*:c:{}*", self.harness.options.prefix, target.id);
        let keys = blocking(|| server.call(&["KEYS", &pattern]).unwrap());
        let keys = keys.array().iter();
        keys.map(|key| key.text().unwrap().to_owned()).collect()
    }

    async fn tally(&self, target: Target) -> Tally {
        let tally = self.harness.nodes[1].tally(target.id).await;
        tally.unwrap().unwrap()
    }

    async fn order(&self, target: Target, number: u32) -> OrderView {
        let order = self.harness.nodes[1].order(target.order(number)).await;
        order.unwrap().unwrap()
    }

    async fn orders(&self, target: Target, numbers: &[u32]) -> Vec<OrderView> {
        let mut orders = Vec::new();
        for number in numbers {
            orders.push(self.order(target, *number).await);
        }
        orders
    }
}

async fn settle(node: &RedisEngine, ledger: &SqliteLedger, partition: PartitionId) {
    loop {
        let step = settle_once(node, ledger, partition, ENTRIES_MAX).await;
        let step = step.unwrap();
        if step.settled == step.head {
            return;
        }
    }
}

fn numbers(answers: &[Answered]) -> Vec<u32> {
    let grants = answers
        .iter()
        .filter_map(|(_, claimed)| claimed.outcome.grant());
    grants.map(|grant| grant.number).collect()
}

fn pay(target: Target, number: u32, payment: &str) -> Command {
    Command::Pay {
        order: target.order(number),
        payment: PaymentRef::new(payment).unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    }
}

fn cancel(target: Target, number: u32) -> Command {
    let order = target.order(number);
    Command::Cancel { order, part: None }
}

fn close(target: Target) -> Command {
    let (campaign, action) = (target.id, CampaignAction::Close);
    Command::Act { campaign, action }
}

/// Options that evict closed campaigns at once.
fn here() -> RedisOptions {
    RedisOptions {
        closed_campaign_ttl: Duration::ZERO,
        ..options(shared().url())
    }
}

/// A sale: all answers stay the same, late payments become refunds due, and paid orders can be returned. All of it is
/// settled like other entries.
async fn a_sale_is_over(stock: u32) {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(stock).hold_ms(HOLD_MS)).await;
    let answers = scene.lead(target, true).await;
    let granted = numbers(&answers);
    let (tally, orders) = (
        scene.tally(target).await,
        scene.orders(target, &granted).await,
    );
    assert_eq!(scene.retire(0).await, 0, "the sale is not settled");
    scene.settle().await;
    scene.look_again(shared().primary(), target);
    assert!(scene.retire(0).await > 0);
    assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
    assert_eq!(scene.order(target, granted[0]).await, orders[0]);
    let settled = scene.tally(target).await;
    let uncounted = Tally { grants: 0, ..tally };
    assert_eq!(
        settled, uncounted,
        "the ledger does not count all grants of a sale"
    );
    assert_eq!(scene.orders(target, &granted).await, orders);
    scene.retire(1).await;
    scene.harness.replay(&replayed(&answers, &orders)).await;
    scene.retire(1).await;
    for (outcome, claim) in [
        (Outcome::Ended, target.one("late")),
        (Outcome::UnknownCampaign, target.mistaken().one("late")),
    ] {
        let late = scene.harness.nodes[1].claim(claim).await.unwrap();
        assert_eq!(late.outcome, outcome);
    }
    for (again, owed) in [("first", 0), ("second", 1), ("second", 1)] {
        scene.retire(0).await;
        let paid = scene.command(1, pay(target, granted[0], again)).await;
        let Ok(Reply::Payment(outcome, view)) = paid else {
            panic!("{paid:?}");
        };
        let expected = [PaymentOutcome::Paid, PaymentOutcome::RefundDue];
        assert_eq!(outcome, expected[usize::from(again == "second")]);
        assert_eq!(view.grant.order.unwrap().refunds_due, owed);
        scene.settle().await;
    }
    scene.retire(0).await;
    let order = target.order(granted[0]);
    let returned = scene
        .command(1, Command::Return { order, part: None })
        .await;
    assert!(matches!(returned, Ok(Reply::Returned(_))), "{returned:?}");
    let refused = scene.command(1, cancel(target, granted[1])).await;
    assert!(matches!(
        refused,
        Err(EngineError::Refused(Refusal::Order(_)))
    ));
    scene.settle().await;
    scene.retire(0).await;
    let state = scene.order(target, granted[0]).await.grant.order.unwrap();
    assert_eq!((state.state, state.refunds_due), (OrderState::Returned, 2));
    assert!(matches!(
        scene.command(0, close(target)).await,
        Ok(Reply::Acted(tally)) if tally.phase == Phase::Closed
    ));
    let stock = Command::SetStock {
        campaign: target.id,
        stock: u64::from(stock) + 1,
    };
    assert!(matches!(
        scene.command(0, stock).await,
        Err(EngineError::Refused(_))
    ));
    let record = scene.ledger.campaign(target.id).await.unwrap().unwrap();
    let tally = scene.tally(target).await;
    assert_eq!(
        (record.granted, record.returned),
        (tally.granted, tally.returned)
    );
}

/// Answers to claims once their orders have these states: a cancelled order is not replayed without a key.
fn replayed(answers: &[Answered], orders: &[OrderView]) -> Vec<Answered> {
    let paid = |view: &&OrderView| view.grant.order.unwrap().state == OrderState::Paid;
    let paid: Vec<_> = orders.iter().filter(paid).collect();
    let mut replayed = Vec::new();
    for (claim, claimed) in answers {
        let view = paid.iter().find(|view| view.user == claim.user);
        let Some(view) = view else { continue };
        let mut claimed = *claimed;
        claimed.outcome = Outcome::AlreadyGranted(view.grant);
        replayed.push((claim.clone(), claimed));
    }
    replayed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_has_left_answers_as_before() {
    a_sale_is_over(STOCK - 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_sale_that_has_left_answers_as_before() {
    a_sale_is_over(STOCK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_that_have_left_answer_as_before() {
    let mut scene = Scene::new(here()).await;
    let average = SplitRule::DoubleAverage { min: 1 };
    for (shares, split) in [
        (STOCK - 1, average),
        (STOCK, average),
        (STOCK, SplitRule::Lazy { min: 1 }),
    ] {
        let target = scene.open(red_packet(10_000, shares, split)).await;
        let answers = scene.lead(target, false).await;
        let tally = scene.tally(target).await;
        scene.settle().await;
        assert!(scene.retire(0).await > 0);
        assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
        scene.harness.replay(&answers).await;
        scene.retire(1).await;
        assert_eq!(scene.tally(target).await, tally);
        scene.retire(0).await;
        let late = scene.harness.nodes[0].claim(target.one("late")).await;
        assert_eq!(late.unwrap().outcome, Outcome::Ended);
    }
    scene.harness.audit().await;
}

/// A campaign with pending automatic steps is not evicted, nor is one with unsettled entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_over_stays() {
    let mut scene = Scene::new(here()).await;
    let held = scene.open(sale(5).hold_ms(HOLD_MS)).await;
    let order = scene.harness.ask_all(vec![held.one("ann")]).await;
    let number = numbers(&order)[0];
    scene.command(0, close(held)).await.unwrap();
    let live = scene.open(sale(5)).await;
    let other = scene.open(sale(5)).await;
    scene.command(0, close(other)).await.unwrap();
    scene.settle().await;
    let hash = scene.keys_of(shared().primary(), other);
    let hash = hash.iter().min_by_key(|key| key.len()).unwrap();
    blocking(|| {
        shared()
            .primary()
            .call(&["HINCRBY", hash, "returned", "1"])
            .unwrap()
    });
    assert_eq!(scene.retire(0).await, 0);
    for target in [held, live, other] {
        assert!(!scene.keys_of(shared().primary(), target).is_empty());
    }
    scene
        .command(0, pay(held, number, "in-time"))
        .await
        .unwrap();
    assert_eq!(scene.retire(0).await, 0, "the payment is not settled");
    scene.settle().await;
    // The next check is a minute later.
    let agenda = closed_keys(&scene);
    for key in agenda {
        let id = held.id.to_string();
        blocking(|| {
            shared()
                .primary()
                .call(&["ZADD", &key, "XX", "0", &id])
                .unwrap()
        });
    }
    assert_eq!(scene.retire(0).await, 1);
    let paid = scene.order(held, number).await;
    assert_eq!(paid.grant.order.unwrap().state, OrderState::Paid);
}

fn closed_keys(scene: &Scene) -> Vec<String> {
    let partitions = scene.harness.nodes[0].partitions().into_iter();
    partitions
        .map(|partition| scene.key(partition, "closed"))
        .collect()
}

/// A campaign closed by a repair is evicted like others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_repair_has_closed_leaves() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(5)).await;
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    let server = shared().primary();
    let hash = scene.keys_of(server, target);
    let hash = hash.iter().min_by_key(|key| key.len()).unwrap();
    // The state after repair_part.lua.
    blocking(|| server.call(&["HDEL", hash, "touched"]).unwrap());
    scene.look_again(server, target);
    // The agenda entry simulates pending work of a tick.
    let [home, _] = scene.home_and_other(target);
    let (agenda, id) = (scene.key(home, "agenda"), target.id.to_string());
    blocking(|| {
        server
            .call(&["ZADD", &agenda, "9000000000000", &id])
            .unwrap()
    });
    // The first check finds that the campaign has no entry of its own. It leaves a minute later.
    let mut left = 0;
    for _ in 0..3 {
        left += scene.retire(0).await;
        scene.look_again(shared().primary(), target);
    }
    assert_eq!(left, 1);
    assert_eq!(scene.keys_of(server, target), [""; 0]);
    let due = blocking(|| server.call(&["ZSCORE", &agenda, &id]).unwrap());
    assert_eq!(due.text(), None);
}

/// A process may open drafts that it has read long ago. A campaign that ended and was evicted is not opened again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_left_is_not_opened_again() {
    let mut scene = Scene::new(here()).await;
    let split = SplitRule::DoubleAverage { min: 1 };
    for builder in [
        sale(5),
        red_packet(1_000, 5, split),
        red_packet(1_000, STOCK, split),
    ] {
        let target = scene.open(builder).await;
        let answers = scene.harness.ask_all(vec![target.one("ann")]).await;
        let is_sale = target.id == scene.harness.setups[0].campaign.id;
        if is_sale {
            scene.command(0, pay(target, 1, "it")).await.unwrap();
        }
        scene.command(0, close(target)).await.unwrap();
        scene.settle().await;
        assert!(scene.retire(0).await > 0);
        let setup = scene.harness.setups.last().unwrap().clone();
        let opened = scene.command(1, Command::Open(Box::new(setup))).await;
        assert_eq!(opened, Ok(Reply::Opened));
        assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
        let late = scene.harness.nodes[0].claim(target.one("late")).await;
        assert_eq!(late.unwrap().outcome, Outcome::Ended);
        if !is_sale {
            scene.harness.replay(&answers).await;
        }
    }
    // A campaign of any age that was never open is opened.
    let draft = scene.open(sale(3)).await;
    let answers = scene.harness.ask_all(vec![draft.one("ann")]).await;
    assert_eq!(numbers(&answers), [1]);
}
