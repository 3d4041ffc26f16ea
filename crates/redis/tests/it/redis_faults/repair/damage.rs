//! Keys of an open campaign are deleted, expire, or are overwritten manually. No user gets more than the limit, and the
//! campaign is rebuilt automatically.

use qiang_core::{
    book::{PaymentOutcome, Reply},
    campaign::AckLevel,
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

/// Orders that are paid before the value that an older one is copied from, and as many afterwards.
const PAYERS: usize = 6;

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
    // Each part has some of them.
    for n in (0..PAYERS).filter(|_| pays) {
        orders.push(world.buy(&format!("payer-{n}")).await);
        world.pay(orders[n]).await;
    }
    let key = blocking(|| world.key_of(target, rest));
    blocking(|| world.keep(&key));
    answers.extend(world.grant(40, 60).await);
    for n in (PAYERS..2 * PAYERS).filter(|_| pays) {
        orders.push(world.buy(&format!("payer-{n}")).await);
        world.pay(orders[n]).await;
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
    // The sums are the same until the shares are others.
    let is_same = rest == ":sums" && matches!(damage, Damage::Older);
    assert_eq!(blocking(|| world.repairs()) > 0, is_spread && !is_same);
    if !pays {
        world.close().await;
    }
}

/// Keys of a buyer with more keys than fit in the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_a_sale() {
    check_damaged_keys(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_a_part_of_a_sale() {
    check_damaged_keys(true).await;
}

async fn check_damaged_keys(is_spread: bool) {
    for damage in DAMAGES {
        let mut world = World::calm(is_spread).await;
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
        world.harness.replay_with_retries(&answers).await;
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
                cancelled: 0,
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
    the_payments_of_a_part_of_a_sale: true ":payments" true;
    the_admissions_of_a_sale: true ":admissions" false;
    the_hash_of_a_part_of_a_packet: false "" true;
    the_sums_of_a_part_of_a_packet: false ":sums" true;
    the_users_of_a_part_of_a_packet: false ":users" true;
    the_shares_of_a_part_of_a_packet: false ":shares" true;
}

/// The recorded number of parts is damaged. The campaign is open, so its hash has the number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_of_a_sale() {
    for damage in [Damage::Deleted, Damage::Expired, Damage::WrongType] {
        let world = World::calm(true).await;
        let mut answers = world.grant(0, 20).await;
        let key = blocking(|| world.key_of(world.sale, ":plan"));
        blocking(|| {
            world.call(&["DEL", &key]);
            match damage {
                Damage::WrongType => world.call(&["HSET", &key, "a", "hash"]),
                Damage::Expired => world.call(&["SET", &key, "2", "PX", "1"]),
                _ => {}
            }
        });
        let setup = &world.harness.setups[0];
        let again = Command::Open(Box::new(setup.clone()));
        assert!(world.harness.submit(1, again).await.is_ok(), "{damage:?}");
        answers.extend(world.grant(20, 40).await);
        world.harness.replay(&answers).await;
        world.check().await;
        world.close().await;
        assert_eq!(blocking(|| world.repairs()), 0);
    }
}

/// Units are in flight from one part of a sale to the other when the journal of the giving part is damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_transfers_of_a_sale() {
    for damage in DAMAGES {
        println!("{damage:?}");
        let world = World::calm(true).await;
        let mut answers = world.grant(0, 40).await;
        let settling = world.settling();
        blocking(|| world.send_and_damage(damage));
        let again = answers.iter().map(|(claim, _)| claim.clone()).collect();
        world.harness.ask_all(again).await;
        answers.extend(world.grant(40, 80).await);
        world.tallied().await;
        world.harness.replay_with_retries(&answers).await;
        settling.abort();
        drop(settling.await);
        world.check().await;
        world.close().await;
    }
}

/// Units of a transfer.
const SENT: u32 = 5;

impl World {
    /// Two transfers of the sale from the part on partition 1 to the other one: one that has arrived, and one that is
    /// under way, as `transfer_out.lua` begins it. Damages the journal in the same step.
    fn send_and_damage(&self, damage: Damage) {
        let prefix = &self.harness.options.prefix;
        let campaign = self.sale.id.to_string();
        let key = |part: u8, rest: &str| format!("{prefix}:{{p0{part}}}:{rest}");
        let part = |part: u8, rest: &str| key(part, &format!("c:{campaign}{rest}"));
        let script = "
            local time = redis.call('TIME')
            local millis = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
            local function record(partition, log, body)
                local seq = redis.call('HINCRBY', partition, 'seq', 1)
                redis.call('XADD', log, seq .. '-0', 'c', ARGV[1], 't', millis, 'e', body)
            end
            local function move(hash, by)
                redis.call('HINCRBY', hash, 'supply', by)
                redis.call('HINCRBY', hash, 'remaining', by)
            end
            local units = tonumber(ARGV[2])
            local journal
            for n = 1, 2 do
                local number = redis.call('HINCRBY', KEYS[3], 'sent', 1)
                move(KEYS[3], -units)
                record(KEYS[1], KEYS[2], 'transferred_out 0 ' .. units .. ' 0')
                journal = journal or number .. '\\n' .. units
                if n == 1 then
                    move(KEYS[7], units)
                    redis.call('HSET', KEYS[7], 'from:1', number)
                    record(KEYS[5], KEYS[6], 'transferred_in 1 ' .. units .. ' 0')
                else
                    redis.call('HSET', KEYS[4], '0', number .. '\\n' .. units)
                    redis.call('HSET', KEYS[3], 'moving', 1, 'newest_transfer', '0 ' .. number)
                end
            end
            if ARGV[3] == 'Deleted' then redis.call('DEL', KEYS[4])
            elseif ARGV[3] == 'Expired' then redis.call('PEXPIRE', KEYS[4], 1)
            elseif ARGV[3] == 'WrongType' then redis.call('SET', KEYS[4], 'a string')
            else redis.call('HSET', KEYS[4], '0', journal) end";
        let keys = [
            key(1, "partition"),
            key(1, "log"),
            part(1, ""),
            part(1, ":transfers"),
            key(0, "partition"),
            key(0, "log"),
            part(0, ""),
        ];
        let (units, damage) = (SENT.to_string(), format!("{damage:?}"));
        let mut words = vec!["EVAL", script, "7"];
        words.extend(keys.iter().map(String::as_str));
        words.extend([campaign.as_str(), &units, &damage]);
        self.call(&words);
    }
}

/// Replies that are kept for a repeated call, and marks that are written before a `WAIT`, belong to no campaign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_and_marks_of_calls() {
    let mut options = options(String::new());
    options.call_timeout = Duration::from_secs(10);
    options.claim_timeout = Duration::from_secs(20);
    options.replicas = 1;
    let mut world = World::with(options).await;
    let builder = open_now(sale(1_000))
        .price(1)
        .ack(AckLevel::Replica)
        .hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let confirmed = |from: usize| {
        let claims = (from..from + 10).map(|n| target.one(&name(n)));
        world.harness.ask_all(claims.collect())
    };
    let mut answers = world.grant(0, 10).await;
    answers.extend(confirmed(0).await);
    for (n, damage) in (1..).zip(DAMAGES) {
        println!("{damage:?}");
        let keys = |kind: &str| {
            let pattern = format!("{}:{{p0?}}:{kind}:*", world.harness.options.prefix);
            let found = blocking(|| world.server().call(&["KEYS", &pattern]).unwrap());
            let found = found
                .array()
                .iter()
                .map(|key| key.text().unwrap().to_owned());
            let found: Vec<String> = found.collect();
            assert!(!found.is_empty(), "{kind}");
            found
        };
        let keys = [keys("call"), keys("mark")].concat();
        let damage_all = |is_before| {
            let damage = |key: &String| world.damage_partition_key(key, damage, is_before);
            blocking(|| keys.iter().for_each(damage));
        };
        damage_all(true);
        answers.extend(world.grant(20 * n, 20 * n + 10).await);
        answers.extend(confirmed(20 * n).await);
        damage_all(false);
        answers.extend(world.grant(20 * n + 10, 20 * n + 20).await);
        answers.extend(confirmed(20 * n + 10).await);
        world.harness.replay(&answers).await;
    }
    assert_eq!(blocking(|| world.repairs()), 0);
    world.check().await;
    world.close().await;
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
