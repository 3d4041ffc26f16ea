//! Admission: few users of a crowd reach Redis, and still every unit is sold, even if users fail, leave, or nodes die.
//! No user is refused while the sale admits more users than claim.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use qiang_core::{
    admission::AdmissionBound,
    book::{Claim, Command, Reply},
    campaign::SaleSettingsChange,
    id::{CampaignId, OrderId, PaymentRef},
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{Claimed, Engine as _, EngineError, PendingReply},
};
use qiang_redis::{BLOCK_LASTS, RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{HOLD_MS, OPENS, Target, sale},
    proxy::FaultProxy,
    servers::redis::Server,
};

use crate::redis_faults::harness::{
    Harness, blocking, grant_of, name, node, open_now, options, shared, wait_for, winners,
};

const STOCK: u32 = 100;

/// Claims for all these users concurrently, on all nodes in turn, without a wait for answers.
fn crowd(nodes: &[RedisEngine], claims: &[Claim]) -> Vec<PendingReply<Claimed>> {
    let on = |(n, claim): (usize, &Claim)| nodes[n % nodes.len()].claim(claim.clone());
    claims.iter().enumerate().map(on).collect()
}

async fn answers(
    harness: &Harness,
    claims: Vec<Claim>,
    tickets: Vec<PendingReply<Claimed>>,
) -> Vec<(Claim, Claimed)> {
    // On a busy machine, one user of a hundred may have to retry.
    let mut again = claims.len() / 100;
    let mut answered = Vec::new();
    for (claim, ticket) in claims.into_iter().zip(tickets) {
        let mut answer = ticket.await;
        while answer == Err(EngineError::NotAdmitted) {
            again = again
                .checked_sub(1)
                .expect("at most one user of a hundred is not admitted");
            answer = harness.nodes[0].claim(claim.clone()).await;
        }
        harness.record.note_claim(&claim, &answer);
        answered.push((claim, answer.unwrap()));
    }
    answered
}

fn users(target: Target, count: usize) -> Vec<Claim> {
    (0..count).map(|n| target.one(&name(n))).collect()
}

fn decided(nodes: &[RedisEngine]) -> u64 {
    nodes.iter().map(|node| node.gate_answers().decided).sum()
}

/// Tests this number of nodes, each without any knowledge of the sale.
async fn a_crowd_stays_outside(nodes: usize) {
    const CLAIMS: usize = 30_000;
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    for engine in std::mem::take(&mut harness.nodes) {
        engine.close().await;
    }
    for _ in 0..nodes {
        harness.nodes.push(node(&harness.options, &[]).await);
    }
    let claims = users(target, CLAIMS);
    let began = Instant::now();
    let tickets = crowd(&harness.nodes, &claims);
    let answered = answers(&harness, claims, tickets).await;
    assert_eq!(winners(&answered), STOCK as usize);
    for (claim, claimed) in &answered {
        let sold_out = claimed.outcome == Outcome::SoldOut { remaining: 0 };
        assert!(
            sold_out || grant_of(claimed).is_some(),
            "{claim:?} {claimed:?}"
        );
    }
    let decided = decided(&harness.nodes);
    assert!(decided >= u64::from(STOCK), "the counter counts decisions");
    // A claim that has waited for a second goes to Redis anyway, so each further second may bring as many.
    let seconds = 1 + began.elapsed().as_secs();
    assert!(
        decided <= seconds * CLAIMS as u64 / 100,
        "{decided} of {CLAIMS} were decided by Redis"
    );
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_stays_outside_one_node() {
    a_crowd_stays_outside(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_stays_outside_three_nodes() {
    a_crowd_stays_outside(3).await;
}

/// Sets a sale's admission ratio through one node.
async fn set_admission(node: &RedisEngine, campaign: CampaignId, percent: u32) {
    let change = SaleSettingsChange {
        admission: Some(AdmissionBound::from_percent(percent).unwrap()),
        ..SaleSettingsChange::default()
    };
    let changed = node.submit(Command::SetTerms { campaign, change }).await;
    let Ok(Reply::Acted(tally)) = changed else {
        panic!("{changed:?}");
    };
    assert_eq!(Some(tally.terms.unwrap().admission), change.admission);
}

/// A live change reaches a node that has read the sale before. After a lower ratio fewer users reach Redis, and after
/// no ratio most of them do. The first node makes the changes, and the crowds claim on the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_admission_reaches_another_node() {
    const CROWD: usize = 10_000;
    let mut harness = Harness::new(options(shared().url())).await;
    let draft = sale(STOCK).admission(None);
    let target = harness.open(open_now(draft)).await;
    for engine in std::mem::take(&mut harness.nodes) {
        engine.close().await;
    }
    for _ in 0..2 {
        harness.nodes.push(node(&harness.options, &[]).await);
    }
    // The second node knows the sale without a ratio.
    let first = harness.nodes[1].claim(target.one("first")).await;
    harness.record.note_claim(&target.one("first"), &first);
    assert!(grant_of(&first.unwrap()).is_some());
    let mut reached = Vec::new();
    for (round, percent) in [100, 0, 100].into_iter().enumerate() {
        set_admission(&harness.nodes[0], target.id, percent).await;
        let stock = u64::from(STOCK) * (round as u64 + 1) + 1;
        let campaign = target.id;
        let more = Command::SetStock { campaign, stock };
        harness.submit(0, more).await.unwrap();
        let pass = Duration::from_millis(600);
        tokio::time::sleep(pass).await;
        let claims: Vec<_> = (0..CROWD)
            .map(|n| target.one(&format!("r{round}u{n}")))
            .collect();
        let before = decided(&harness.nodes[1..]);
        let tickets = crowd(&harness.nodes[1..], &claims);
        let answered = answers(&harness, claims, tickets).await;
        assert_eq!(winners(&answered), STOCK as usize, "round {round}");
        reached.push(decided(&harness.nodes[1..]) - before);
    }
    let [down, up, down_again] = reached[..] else {
        panic!("{reached:?}");
    };
    assert!(up >= CROWD as u64 / 2, "{reached:?}");
    assert!(down <= CROWD as u64 / 4, "{reached:?}");
    assert!(down_again <= CROWD as u64 / 4, "{reached:?}");
    harness.audit().await;
}

/// Users that are admitted but refused, and users that leave, free their admission permits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_refused_or_gone_keeps_nobody_out() {
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK).limit(2))).await;
    let mut claims = users(target, 3_000);
    for (n, claim) in claims.iter_mut().enumerate() {
        // Two of three users claim more than the limit.
        claim.quantity = if n % 3 == 0 { 1 } else { 3 };
    }
    let gone = crowd(&harness.nodes, &claims[2_000..]);
    let tickets = crowd(&harness.nodes, &claims[..2_000]);
    drop(gone);
    claims.truncate(2_000);
    let answered = answers(&harness, claims, tickets).await;
    let tally = harness.nodes[0].tally(target.id).await.unwrap().unwrap();
    assert_eq!(tally.remaining, 0, "{tally:?}");
    let limited = |(_, claimed): &&(Claim, Claimed)| {
        matches!(
            claimed.outcome,
            Outcome::LimitReached { .. } | Outcome::SoldOut { .. }
        )
    };
    assert_eq!(
        answered.iter().filter(limited).count() + winners(&answered),
        2_000
    );
}

/// Orders are cancelled while a crowd waits. Their units are sold again, and no user gets a wrong answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returned_units_are_open_at_once() {
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let first = users(target, STOCK as usize);
    let tickets = crowd(&harness.nodes, &first);
    let answered = answers(&harness, first, tickets).await;
    assert_eq!(winners(&answered), STOCK as usize);
    for (_, claimed) in answered.iter().take(20) {
        let order = grant_of(claimed).unwrap().order_id();
        harness
            .submit(0, Command::Cancel { order, part: None })
            .await
            .unwrap();
    }
    let started = Instant::now();
    let claims: Vec<_> = (0..2_000)
        .map(|n| target.one(&format!("next-{n}")))
        .collect();
    let tickets = crowd(&harness.nodes, &claims);
    let answered = answers(&harness, claims, tickets).await;
    assert_eq!(winners(&answered), 20);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    harness.audit().await;
}

/// A dead node that has all permits of a sale, either left as they are or renewed all the time.
struct DeadNode {
    stop: Arc<AtomicBool>,
    renewing: Option<std::thread::JoinHandle<()>>,
}

impl DeadNode {
    fn of(harness: &Harness, server: &'static Server, id: CampaignId, renews: bool) -> Self {
        const TAKE_ALL: &str = "local now = redis.call('TIME')
            local last = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1]
            return redis.call('HSET', KEYS[1], 'dead', string.format('2000000000 %d 2000000000', last))";
        let prefix = harness.options.prefix.clone();
        let lasts_ms = BLOCK_LASTS.as_millis().to_string();
        let take_all = move || {
            for partition in 0..2 {
                let key = format!("{prefix}:{{p{partition:02}}}:c:{id}:admissions");
                let words = ["EVAL", TAKE_ALL, "1", &key, &lasts_ms];
                server.call(&words).unwrap();
            }
        };
        blocking(&take_all);
        let stop = Arc::new(AtomicBool::new(false));
        let renewing = renews.then(|| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    take_all();
                    std::thread::sleep(BLOCK_LASTS / 10);
                }
            })
        });
        Self { stop, renewing }
    }
}

impl Drop for DeadNode {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(renewing) = self.renewing.take() {
            let ended = blocking(|| renewing.join());
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// Two nodes with a proxy to Redis.
async fn far_away() -> (Harness, FaultProxy) {
    let proxy = FaultProxy::start(shared().addr()).await;
    let far = RedisOptions {
        call_timeout: Duration::from_secs(5),
        ..options(format!("redis://{}", proxy.addr()))
    };
    (Harness::new(far).await, proxy)
}

/// Requires that every claim is granted at the first attempt.
async fn all_granted(harness: &Harness, claims: Vec<Claim>) {
    let tickets = crowd(&harness.nodes, &claims);
    for (claim, ticket) in claims.into_iter().zip(tickets) {
        let answer = ticket.await;
        harness.record.note_claim(&claim, &answer);
        let granted = answer.as_ref().is_ok_and(|it| grant_of(it).is_some());
        assert!(granted, "{claim:?} got {answer:?}");
    }
}

/// A dead node holds all permits. Other nodes sell one by one, and as before once its block has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_nodes_block_leaves_nothing_unsold() {
    let mut harness = Harness::new(options(shared().url())).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let _dead = DeadNode::of(&harness, shared().primary(), target.id, false);
    let started = Instant::now();
    let claims = users(target, 2 * STOCK as usize);
    let tickets = crowd(&harness.nodes, &claims);
    let answered = answers(&harness, claims, tickets).await;
    assert_eq!(winners(&answered), STOCK as usize);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    harness.audit().await;
}

/// Fewer users claim than are admitted, on three nodes, but no node gets a block, and answers of Redis take longer than
/// a block lasts. Claims wait, and no user is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_turned_away_for_what_other_nodes_hold() {
    let (mut harness, proxy) = far_away().await;
    let third = node(&harness.options, &[]).await;
    harness.nodes.push(third);
    let target = harness.open(open_now(sale(3 * STOCK))).await;
    let _dead = DeadNode::of(&harness, shared().primary(), target.id, true);
    proxy.delay(BLOCK_LASTS * 3 / 5, BLOCK_LASTS * 3 / 5).await;
    all_granted(&harness, users(target, 3 * STOCK as usize)).await;
    proxy.pass().await;
    harness.audit().await;
}

/// Fewer users claim than are admitted, but Redis is so slow that claims wait long in other queues. No user is refused
/// because of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_turned_away_for_the_time_that_redis_takes() {
    const CLAIMS: u32 = 8_000;
    let (mut harness, proxy) = far_away().await;
    let target = harness.open(open_now(sale(CLAIMS + 1))).await;
    let delay = Duration::from_millis(200);
    proxy.delay(delay, delay).await;
    all_granted(&harness, users(target, CLAIMS as usize)).await;
    proxy.pass().await;
    harness.audit().await;
}

/// A sale of several shards sells to every user, whichever shard the user belongs to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_turned_away_from_a_spread_sale() {
    let spread = RedisOptions {
        shard_supply_min: 2,
        shards_max: 2,
        ..options(shared().url())
    };
    let mut harness = Harness::new(spread).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let _dead = DeadNode::of(&harness, shared().primary(), target.id, true);
    all_granted(&harness, users(target, STOCK as usize)).await;
    let claims: Vec<_> = (0..500).map(|n| target.one(&format!("late-{n}"))).collect();
    for ticket in crowd(&harness.nodes, &claims) {
        let sold_out = Outcome::SoldOut { remaining: 0 };
        assert_eq!(ticket.await.map(|claimed| claimed.outcome), Ok(sold_out));
    }
    harness.audit().await;
}

/// Claims on a node until its gate knows that the sale is sold out. The gate drops loaded data if it gets an older
/// invalidation during the load.
async fn know_it(node: &RedisEngine, target: Target) {
    let nobody = target.one("nobody");
    let sold_out = Outcome::SoldOut { remaining: 0 };
    let until = Instant::now() + Duration::from_secs(10);
    while node.try_gate_outcome(&nobody) != Some(sold_out) {
        assert!(
            Instant::now() < until,
            "the gate does not learn of the sell-out"
        );
        let answer = node.claim(nobody.clone()).await;
        assert_eq!(answer.map(|claimed| claimed.outcome), Ok(sold_out));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a node's gate has learned of restocked units.
async fn hear_of_it(node: &RedisEngine, target: Target) {
    let is_open = || node.try_gate_outcome(&target.one("nobody")).is_none();
    wait_for("a node to learn of restocked units", is_open).await;
}

/// A sale that both nodes know to be sold out, with all its orders.
async fn sold_out(harness: &mut Harness) -> (Target, Vec<OrderId>) {
    let target = harness.open(sale(STOCK)).await;
    let claims = users(target, 3 * STOCK as usize);
    let tickets = crowd(&harness.nodes, &claims);
    let answered = answers(harness, claims, tickets).await;
    let grants = answered.iter().filter_map(|(_, claimed)| grant_of(claimed));
    let orders: Vec<_> = grants.map(|grant| grant.order_id()).collect();
    assert_eq!(orders.len(), STOCK as usize);
    for node in &harness.nodes {
        know_it(node, target).await;
    }
    (target, orders)
}

/// Units of cancelled, returned and expired orders go to the next user. On the same node this happens at once, on other
/// nodes as soon as they learn of the units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_back_is_open_at_once() {
    let clock = ManualClock::new(OPENS);
    let timed = RedisOptions {
        clock: Some(clock.clone()),
        ..options(shared().url())
    };
    let mut harness = Harness::new(timed).await;
    let (target, orders) = sold_out(&mut harness).await;
    let cancelled = orders[0];
    let returned = orders[1];
    let payment = PaymentRef::new("payment").unwrap();
    let pay = Command::Pay {
        order: returned,
        payment,
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    harness.submit(0, pay).await.unwrap();
    let comes_back = [
        Command::Cancel {
            order: cancelled,
            part: None,
        },
        Command::Return {
            order: returned,
            part: None,
        },
    ];
    for (n, command) in comes_back.into_iter().enumerate() {
        harness.submit(0, command).await.unwrap();
        let claims = vec![target.one(&format!("next-{n}"))];
        all_granted(&harness, claims).await;
    }
    let other = &harness.nodes[1];
    for (n, order) in orders[2..4].iter().enumerate() {
        know_it(other, target).await;
        let command = Command::Cancel {
            order: *order,
            part: None,
        };
        harness.submit(0, command).await.unwrap();
        hear_of_it(other, target).await;
        let claim = target.one(&format!("elsewhere-{n}"));
        let claimed = other.claim(claim.clone()).await;
        harness.record.note_claim(&claim, &claimed);
        assert!(grant_of(&claimed.unwrap()).is_some());
    }
    know_it(other, target).await;
    clock.advance(HOLD_MS);
    let tick = Command::Tick { events_max: 1_000 };
    harness.submit(0, tick).await.unwrap();
    hear_of_it(other, target).await;
    let claims = (0..STOCK - 1).map(|n| target.one(&format!("last-{n}")));
    all_granted(&harness, claims.collect()).await;
    harness.audit().await;
}
