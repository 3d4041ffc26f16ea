//! Keys of an open campaign are deleted, expire, or are overwritten manually. No user gets more than the limit, and the
//! campaign is rebuilt automatically.

use qiang_core::{
    book::{PaymentOutcome, Reply},
    id::{OrderId, PaymentRef},
    payment::ReceivedMoney,
    ports::{EngineError, RetireEngine as _},
};

use super::*;

/// Damage to one key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    Deleted,
    Expired,
    WrongType,
    Older,
}

pub(super) const DAMAGES: [Damage; 4] = [
    Damage::Deleted,
    Damage::Expired,
    Damage::WrongType,
    Damage::Older,
];

impl World {
    /// A world for servers that do not fail, with long timeouts for busy machines. Campaigns may be spread over both
    /// partitions.
    pub(super) async fn calm(is_spread: bool) -> Self {
        let mut options = options(String::new());
        options.call_timeout = Duration::from_secs(10);
        options.claim_timeout = Duration::from_secs(20);
        if is_spread {
            options.shard_supply_min = 1_000;
        }
        let world = Self::with(options).await;
        for node in &world.harness.nodes {
            node.recall_from(world.ledger.clone());
        }
        world
    }

    pub(super) fn key_of(&self, target: Target, rest: &str) -> String {
        let prefix = &self.harness.options.prefix;
        let key = |tag: &str| format!("{prefix}:{{{tag}}}:c:{}{rest}", target.id);
        let call = |key: &String| {
            let reply = self.server().call(&["EXISTS", key]);
            reply.unwrap().integer() == Some(1)
        };
        let found = TAGS.map(key).into_iter().find(call);
        found.unwrap_or_else(|| panic!("no partition has {rest} of {target:?}"))
    }

    /// Number of repairs that have finished.
    fn repairs(&self) -> i64 {
        let repairs = |tag: &str| {
            let key = format!("{}:{{{tag}}}:repairs", self.harness.options.prefix);
            let reply = self.server().call(&["LLEN", &key]).unwrap();
            reply.integer().unwrap()
        };
        TAGS.into_iter().map(repairs).sum()
    }

    pub(super) fn call(&self, words: &[&str]) {
        self.server().call(words).unwrap();
    }

    /// Copies the current value of a key.
    fn keep(&self, key: &str) {
        self.call(&["COPY", key, "older", "REPLACE"]);
    }

    fn damage(&self, key: &str, damage: Damage) {
        match damage {
            Damage::Deleted => self.call(&["DEL", key]),
            Damage::Expired => {
                self.call(&["PEXPIRE", key, "20"]);
                let gone = || {
                    let reply = self.server().call(&["EXISTS", key]).unwrap();
                    (reply.integer() == Some(0)).then_some(())
                };
                qiang_testkit::servers::wait_for("the expiry", Duration::from_secs(5), gone);
            }
            Damage::WrongType => self.call(&["SET", key, "a string"]),
            Damage::Older => self.call(&["COPY", "older", key, "REPLACE"]),
        }
    }
}

/// Damages a key of a campaign. Then users with a grant claim again, and other users claim. Unless campaigns are
/// spread, no partition halts.
async fn check_damaged(is_sale: bool, rest: &str, damage: Damage, is_spread: bool) {
    println!(
        "{} {rest} {damage:?}",
        if is_sale { "sale" } else { "packet" }
    );
    let world = World::calm(is_spread).await;
    let target = if is_sale { world.sale } else { world.packet };
    let pays = rest == ":payments";
    let mut answers = world.grant(0, 40).await;
    let mut orders = Vec::new();
    if pays {
        orders.push(world.buy("payer-1").await);
        world.pay(orders[0]).await;
    }
    let key = blocking(|| world.key_of(target, rest));
    blocking(|| world.keep(&key));
    answers.extend(world.grant(40, 60).await);
    if pays {
        orders.push(world.buy("payer-2").await);
        world.pay(orders[1]).await;
    }
    let settling = world.settling();
    blocking(|| world.damage(&key, damage));
    let again = answers.iter().map(|(claim, _)| claim.clone()).collect();
    world.harness.ask_all(again).await;
    for order in orders {
        // A repeated payment gets the same reply.
        world.pay(order).await;
    }
    answers.extend(world.grant(60, 80).await);
    world.tallied().await;
    let is_open = |node: &RedisEngine| {
        let mut all = node.partitions().into_iter();
        all.all(|partition| node.state(partition) == PartitionHealth::Open)
    };
    // A node may not know yet that a repair has finished.
    wait_for("open partitions", || {
        world.harness.nodes.iter().all(is_open)
    })
    .await;
    // Every user gets the same answer on both nodes as before the damage.
    world.harness.replay(&answers).await;
    settling.abort();
    drop(settling.await);
    world.check().await;
    assert_eq!(blocking(|| world.repairs()) > 0, is_spread);
    if !pays {
        world.close().await;
    }
}

/// Keys of a buyer with more keys than fit in the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_a_sale() {
    for damage in DAMAGES {
        let mut world = World::calm(false).await;
        let builder = open_now(sale(1_000)).limit(100).price(1).hold_ms(3_600_000);
        world.ledger.create(&builder.setup(3)).await.unwrap();
        let target = world.harness.open(builder).await;
        let claims = |from: usize, upto: usize| {
            let key = |n: usize| format!("{:a>60}", n);
            let claims = (from..upto).map(|n| target.keyed(&name(1), 1, &key(n)));
            world.harness.ask_all(claims.collect())
        };
        let mut answers = claims(0, 30).await;
        let key = blocking(|| world.key_of(target, ":keys"));
        blocking(|| world.keep(&key));
        answers.extend(claims(30, 35).await);
        let settling = world.settling();
        blocking(|| world.damage(&key, damage));
        claims(0, 35).await;
        world.harness.replay(&answers).await;
        let tally = world.harness.nodes[0].tally(target.id).await;
        assert_eq!(tally.unwrap().unwrap().granted, 35, "{damage:?}");
        settling.abort();
    }
}

impl World {
    /// The number of a user's order of the sale.
    pub(super) async fn buy(&self, user: &str) -> u32 {
        let claimed = self.harness.ask_all(vec![self.sale.one(user)]).await;
        claimed[0].1.outcome.grant().unwrap().number
    }

    /// Waits until the tallies of both campaigns are readable.
    pub(super) async fn tallied(&self) {
        let until = Instant::now() + REPAIRED_MAX;
        for target in [self.sale, self.packet] {
            while let Err(error) = self.harness.nodes[0].tally(target.id).await {
                assert!(Instant::now() < until, "{error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    pub(super) fn order(&self, number: u32) -> OrderId {
        let campaign = self.sale.id;
        OrderId { campaign, number }
    }

    /// Pays an order, as soon as a node answers.
    pub(super) async fn pay(&self, number: u32) {
        let order = self.order(number);
        let until = Instant::now() + REPAIRED_MAX;
        loop {
            let command = Command::Pay {
                order,
                payment: PaymentRef::new(&format!("payment-{number}")).unwrap(),
                paid_at: None,
                received: ReceivedMoney::Price,
            };
            match self.harness.submit(0, command).await {
                Ok(Reply::Payment(outcome, _)) => {
                    assert_eq!(outcome, PaymentOutcome::Paid);
                    return;
                }
                answer => assert!(Instant::now() < until, "{answer:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Settles in the background, as a worker does.
    pub(super) fn settling(&self) -> tokio::task::JoinHandle<()> {
        let (node, ledger) = (self.harness.nodes[1].clone(), Arc::clone(&self.ledger));
        tokio::spawn(async move {
            loop {
                for partition in node.partitions() {
                    drop(settle_once(&node, &*ledger, partition, ENTRIES_MAX).await);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }
}

macro_rules! damaged_keys {
    ($($name:ident: $is_sale:literal $rest:literal $is_spread:literal;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                for damage in DAMAGES {
                    check_damaged($is_sale, $rest, damage, $is_spread).await;
                }
            }
        )+
    };
}

damaged_keys! {
    the_hash_of_a_sale: true "" false;
    the_users_of_a_sale: true ":users" false;
    the_orders_of_a_sale: true ":orders" false;
    the_payments_of_a_sale: true ":payments" false;
    the_hash_of_a_packet: false "" false;
    the_users_of_a_packet: false ":users" false;
    the_shares_of_a_packet: false ":shares" false;
    the_sums_of_a_packet: false ":sums" false;
    the_hash_of_a_part_of_a_sale: true "" true;
    the_users_of_a_part_of_a_sale: true ":users" true;
    the_orders_of_a_part_of_a_sale: true ":orders" true;
    the_users_of_a_part_of_a_packet: false ":users" true;
    the_shares_of_a_part_of_a_packet: false ":shares" true;
}

/// Both shards of a spread campaign are damaged at once, one of them on a partition that gets no calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_damaged_parts_are_rebuilt_together() {
    for rest in [":users", ":orders"] {
        let world = World::calm(true).await;
        let target = world.sale;
        let mut answers = world.grant(0, 60).await;
        let prefix = &world.harness.options.prefix;
        let keys = TAGS.map(|tag| format!("{prefix}:{{{tag}}}:c:{}{rest}", target.id));
        let settling = world.settling();
        blocking(|| {
            keys.iter()
                .for_each(|key| world.damage(key, Damage::Deleted))
        });
        let again = answers.iter().map(|(claim, _)| claim.clone()).collect();
        world.harness.ask_all(again).await;
        answers.extend(world.grant(60, 80).await);
        world.tallied().await;
        world.harness.replay(&answers).await;
        settling.abort();
        drop(settling.await);
        world.check().await;
        world.close().await;
    }
}

/// Until the ledger has its entries, a damaged campaign waits. All others of its partition are decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_campaign_keeps_no_other_from_being_decided() {
    let mut world = World::calm(false).await;
    let mut others = Vec::new();
    for n in 3..8 {
        let builder = open_now(sale(1_000)).price(1).hold_ms(3_600_000);
        world.ledger.create(&builder.setup(n)).await.unwrap();
        others.push(world.harness.open(builder).await);
    }
    let answers = world.grant(0, 10).await;
    let key = blocking(|| world.key_of(world.sale, ":users"));
    let tag = TAGS.into_iter().find(|tag| key.contains(tag)).unwrap();
    let is_beside = |other: &Target| {
        let key = world.key_of(*other, "");
        key.contains(tag)
    };
    assert!(blocking(|| others.iter().any(is_beside)));
    blocking(|| world.damage(&key, Damage::Deleted));
    let (node, claim) = (&world.harness.nodes[0], world.sale.one(&name(1)));
    let refused = node.claim(claim).await;
    assert!(
        matches!(refused, Err(EngineError::Unavailable { .. })),
        "{refused:?}"
    );
    for other in &others {
        let claimed = node.claim(other.one(&name(1))).await.unwrap();
        assert!(claimed.outcome.grant().is_some(), "{claimed:?}");
    }
    let settling = world.settling();
    let again = answers.iter().map(|(claim, _)| claim.clone()).collect();
    world.harness.ask_all(again).await;
    world.harness.replay(&answers).await;
    settling.abort();
    assert_eq!(blocking(|| world.repairs()), 0);
}

/// A changed stock and a pause are the same after the rebuild.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_campaign_had_beside_its_rows_is_rebuilt() {
    let world = World::calm(false).await;
    let campaign = world.sale.id;
    let stock = Command::SetStock {
        campaign,
        stock: 15_000,
    };
    assert!(world.harness.submit(0, stock).await.is_ok());
    let answers = world.grant(0, 40).await;
    let pause = CampaignAction::Pause;
    let paused = Command::Act {
        campaign,
        action: pause,
    };
    assert!(world.harness.submit(0, paused).await.is_ok());
    world.settle().await;
    let before = world.harness.nodes[0].tally(campaign).await.unwrap();
    let key = blocking(|| world.key_of(world.sale, ":orders"));
    blocking(|| world.damage(&key, Damage::Deleted));
    world.harness.replay(&answers).await;
    let after = world.harness.nodes[0].tally(campaign).await.unwrap();
    let numbers = |tally: Option<qiang_core::campaign::Tally>| {
        let tally = tally.unwrap();
        (tally.phase, tally.supply, tally.granted, tally.remaining)
    };
    assert_eq!(numbers(after), numbers(before));
    assert_eq!(blocking(|| world.repairs()), 0);
}
