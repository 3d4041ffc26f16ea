//! After a sell-out, claims of losers on a node do not reach Redis, but those of winners do. A returned unit can be
//! claimed at once.

use std::time::{Duration, Instant};

use qiang_core::{
    book::{CampaignAction, Claim, Command, Reply},
    id::OrderId,
    outcome::Outcome,
    ports::Engine as _,
    split::SplitRule,
};
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, red_packet, sale},
    proxy::FaultProxy,
    servers::redis::{Options as ServerOptions, Server, Standalone},
};
use tokio::runtime::{Builder, Runtime};

use crate::redis_faults::harness::{
    Answered, Harness, blocking, calls_of, grant_of, name, node, open_now, options, wait_for,
    winners,
};

const STOCK: u32 = 100;
const LOSERS: usize = 1_000;
/// The gate polls every second. A pushed invalidation usually arrives well before that, even on a busy machine.
const PUSHED_MAX: Duration = Duration::from_millis(300);
/// Minimum invalidations of seven within `PUSHED_MAX`. A poll is that early in three of ten cases, so most of seven
/// polls would be late.
const PUSHED_MIN: usize = 5;
const POLLED_MAX: Duration = Duration::from_secs(5);

/// A claim as the service makes it: on the gate first.
async fn knock(node: &RedisEngine, claim: &Claim) -> Outcome {
    match node.try_gate_outcome(claim) {
        Some(outcome) => outcome,
        None => node.claim(claim.clone()).await.unwrap().outcome,
    }
}

/// Script calls so far. A poll sends the script's text, so it is not counted.
fn calls(server: &Server) -> u64 {
    calls_of(server, "evalsha")
}

async fn sold_out(harness: &mut Harness) -> (Target, Vec<Answered>) {
    let target = harness.open(open_now(sale(STOCK))).await;
    let answers = harness
        .ask_all(
            (0..2 * STOCK as usize)
                .map(|n| target.one(&name(n)))
                .collect(),
        )
        .await;
    assert_eq!(winners(&answers), STOCK as usize);
    (target, answers)
}

/// Waits until a node's gate knows that the sale is sold out.
async fn know(node: &RedisEngine, target: Target) {
    learn(node, target, Outcome::SoldOut { remaining: 0 }).await;
}

/// Waits until a node's gate answers losers. Redis decides one claim, and the gate the next ones.
async fn learn(node: &RedisEngine, target: Target, answer: Outcome) {
    let until = Instant::now() + POLLED_MAX;
    while node.try_gate_outcome(&target.one("loser")).is_none() {
        assert_eq!(knock(node, &target.one("loser")).await, answer);
        assert!(
            Instant::now() < until,
            "the gate does not learn the answer in time"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a unit on one node, and measures the time until the gate of another node opens. `next` gets the unit there.
async fn returned(
    harness: &Harness,
    here: &RedisEngine,
    there: &RedisEngine,
    from: OrderId,
    next: Claim,
) -> Duration {
    let reply = here
        .submit(Command::Cancel {
            order: from,
            part: None,
        })
        .await;
    assert!(matches!(reply, Ok(Reply::Cancelled(_))), "{reply:?}");
    harness.record.note(
        Command::Cancel {
            order: from,
            part: None,
        },
        reply,
    );
    let started = Instant::now();
    wait_for("the gate to open", || {
        there.try_gate_outcome(&next).is_none()
    })
    .await;
    let took = started.elapsed();
    let claimed = harness.record.ask(there, &next).await.unwrap();
    assert!(
        matches!(claimed.outcome, Outcome::Granted(_)),
        "{claimed:?}"
    );
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losers_are_answered_by_their_node() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let (target, answers) = sold_out(&mut harness).await;
    for node in &harness.nodes {
        know(node, target).await;
    }
    let before = blocking(|| calls(server.primary()));
    for n in 0..LOSERS {
        let outcome = knock(&harness.nodes[n % 2], &target.one(&format!("loser-{n}"))).await;
        assert_eq!(outcome, Outcome::SoldOut { remaining: 0 });
    }
    assert_eq!(
        blocking(|| calls(server.primary())),
        before,
        "losers reached Redis"
    );
    // Winners do: they get their grant.
    for (claim, claimed) in &answers {
        if let Some(grant) = grant_of(claimed) {
            assert_eq!(
                knock(&harness.nodes[0], claim).await,
                Outcome::AlreadyGranted(grant)
            );
        }
    }
    assert!(
        blocking(|| calls(server.primary())) > before,
        "the counter counts script calls"
    );

    let orders: Vec<_> = answers
        .iter()
        .filter_map(|(_, claimed)| Some(grant_of(claimed)?.order_id()))
        .collect();
    let (one, other) = (&harness.nodes[0], &harness.nodes[1]);
    let mut took_each = Vec::new();
    for (n, order) in orders.into_iter().take(5).enumerate() {
        let took = returned(
            &harness,
            one,
            other,
            order,
            target.one(&format!("next-{n}")),
        )
        .await;
        took_each.push(took);
        for node in &harness.nodes {
            know(node, target).await;
        }
    }
    // A pause and a close invalidate too.
    let campaign = target.id;
    let mut known = Outcome::SoldOut { remaining: 0 };
    for (action, answer) in [
        (CampaignAction::Pause, Outcome::Paused),
        (CampaignAction::Close, Outcome::Ended),
    ] {
        // The gate must first know an answer to be invalidated.
        learn(other, target, known).await;
        let reply = one.submit(Command::Act { campaign, action }).await;
        assert!(matches!(reply, Ok(Reply::Acted(_))), "{reply:?}");
        harness
            .record
            .note(Command::Act { campaign, action }, reply);
        let started = Instant::now();
        wait_for("the gate to get the invalidation", || {
            other.try_gate_outcome(&target.one("loser")) != Some(known)
        })
        .await;
        took_each.push(started.elapsed());
        assert_eq!(knock(other, &target.one("loser")).await, answer);
        known = answer;
    }
    let pushed = took_each.iter().filter(|took| **took < PUSHED_MAX).count();
    assert!(pushed >= PUSHED_MIN, "invalidations took {took_each:?}");
    harness.audit().await;
}

/// A node that was stopped for a moment missed invalidations. It must not refuse a user who got a grant on another
/// node.
#[test]
fn a_node_that_was_stopped_compares_before_it_answers() {
    const PAUSE: Duration = Duration::from_millis(800);
    let running = runtime(Builder::new_multi_thread().worker_threads(2));
    let stopping = runtime(&mut Builder::new_current_thread());
    let (server, harness, target, order) = running.block_on(running_sold_out());
    let there = stopping.block_on(async {
        let there = node(&harness.options, &[]).await;
        know(&there, target).await;
        there
    });
    // Nothing runs on the other runtime during this time.
    let stopped = Instant::now();
    let next = target.one("next");
    running.block_on(async {
        let cancelled = harness
            .submit(0, Command::Cancel { order, part: None })
            .await;
        assert!(
            matches!(cancelled, Ok(Reply::Cancelled(_))),
            "{cancelled:?}"
        );
        let claimed = harness.record.ask(&harness.nodes[0], &next).await.unwrap();
        assert!(
            matches!(claimed.outcome, Outcome::Granted(_)),
            "{claimed:?}"
        );
    });
    std::thread::sleep(PAUSE.saturating_sub(stopped.elapsed()));
    assert_eq!(there.try_gate_outcome(&next), None);
    stopping.block_on(async {
        let again = knock(&there, &next).await;
        assert!(matches!(again, Outcome::AlreadyGranted(_)), "{again:?}");
        // The gate then answers again, correctly.
        know(&there, target).await;
        assert_eq!(there.try_gate_outcome(&next), None);
    });
    running.block_on(harness.audit());
    drop(server);
}

fn runtime(builder: &mut Builder) -> Runtime {
    builder.enable_all().build().unwrap()
}

/// A sold-out sale and one of its orders.
async fn running_sold_out() -> (Standalone, Harness, Target, OrderId) {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let (target, answers) = sold_out(&mut harness).await;
    let order = answers
        .iter()
        .find_map(|(_, claimed)| Some(grant_of(claimed)?.order_id()))
        .unwrap();
    (server, harness, target, order)
}

/// The connection for invalidations is half open: it delivers neither data nor an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_without_invalidations_polls() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let (target, answers) = sold_out(&mut harness).await;
    let proxy = FaultProxy::start(server.addr()).await;
    // Invalidations use the first address only. All other calls may use the second.
    let deaf = RedisOptions {
        urls: vec![format!("redis://{}", proxy.addr()), server.url()],
        ..harness.options.clone()
    };
    let deaf = node(&deaf, &[]).await;
    know(&deaf, target).await;
    proxy.half_open().await;
    let order = answers
        .iter()
        .find_map(|(_, claimed)| Some(grant_of(claimed)?.order_id()))
        .unwrap();
    let took = returned(
        &harness,
        &harness.nodes[0],
        &deaf,
        order,
        target.one("next"),
    )
    .await;
    assert!(took < POLLED_MAX, "the poll took {took:?}");
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalidations_that_were_cut_off_are_not_missed() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let (target, answers) = sold_out(&mut harness).await;
    let orders: Vec<_> = answers
        .iter()
        .filter_map(|(_, claimed)| Some(grant_of(claimed)?.order_id()))
        .collect();
    for (n, order) in orders.into_iter().take(5).enumerate() {
        know(&harness.nodes[1], target).await;
        blocking(|| {
            server
                .primary()
                .call(&["CLIENT", "KILL", "TYPE", "pubsub"])
                .unwrap()
        });
        let next = target.one(&format!("next-{n}"));
        let took = returned(&harness, &harness.nodes[0], &harness.nodes[1], order, next).await;
        assert!(took < POLLED_MAX, "the poll took {took:?}");
    }
    harness.audit().await;
}

/// The gate keeps the users that it has read: a campaign that sells out again is not read from the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_sell_out_is_about_the_orders_made_meanwhile() {
    const MANY: u32 = 20_000;
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(MANY))).await;
    let winners = harness
        .ask_all((0..MANY as usize).map(|n| target.one(&name(n))).collect())
        .await;
    let there = harness.nodes[1].clone();
    for node in &harness.nodes {
        know(node, target).await;
    }
    let scans = || blocking(|| calls_of(server.primary(), "hscan"));
    let before = scans();
    assert!(before > 0, "the first sell-out reads all users");
    for n in 0..5 {
        let order = target.order(1 + n);
        let next = target.one(&format!("next-{n}"));
        returned(&harness, &harness.nodes[0], &there, order, next).await;
        know(&there, target).await;
    }
    assert_eq!(scans(), before, "users were read again");
    let next = (0..5).map(|n| target.one(&format!("next-{n}")));
    for claim in winners.iter().map(|(claim, _)| claim.clone()).chain(next) {
        assert_eq!(
            there.try_gate_outcome(&claim),
            None,
            "{claim:?} has an order"
        );
    }
    harness.audit().await;
}

/// No user may publish, so only polls carry the news, and every answer is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_campaigns_are_polled_as_fast_as_one() {
    const CAMPAIGNS: usize = 200;
    let late = Duration::from_millis(20);
    let acl = "user default off\nuser admin on >admin ~* &* +@all\nuser mute on >mute ~* resetchannels +@all";
    let with = ServerOptions::new().acl(acl, "admin", "admin");
    let server = blocking(|| Standalone::start(&with));
    let mut harness = Harness::new(options(format!("redis://mute:mute@{}", server.addr()))).await;
    let proxy = FaultProxy::start(server.addr()).await;
    let far = RedisOptions {
        urls: vec![format!("redis://admin:admin@{}", proxy.addr())],
        ..harness.options.clone()
    };
    let far = node(&far, &[]).await;
    let mut targets = Vec::new();
    for _ in 0..CAMPAIGNS {
        let target = harness.open(open_now(sale(1))).await;
        harness.ask_all(vec![target.one("winner")]).await;
        targets.push(target);
    }
    for target in &targets {
        know(&far, *target).await;
    }
    proxy.delay(late, late).await;
    for target in &targets {
        let order = target.order(1);
        let cancelled = harness
            .submit(0, Command::Cancel { order, part: None })
            .await;
        assert!(
            matches!(cancelled, Ok(Reply::Cancelled(_))),
            "{cancelled:?}"
        );
    }
    let started = Instant::now();
    wait_for("the gate to open for all", || {
        targets
            .iter()
            .all(|target| far.try_gate_outcome(&target.one("next")).is_none())
    })
    .await;
    assert!(started.elapsed() < POLLED_MAX, "{:?}", started.elapsed());
    harness.audit().await;
}

/// Answers that a node learned before the start must not reach users that were granted since. Redis' clock is set back
/// before the start, forward, and back again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_a_grant_gets_it_wherever_the_clock_is_set() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let early = OPENS.plus_millis(-60_000);
    let clock = ManualClock::new(early);
    let options = RedisOptions {
        clock: Some(clock.clone()),
        ..options(server.url())
    };
    let mut harness = Harness::new(options).await;
    let split = SplitRule::Lazy { min: 1 };
    let targets = [
        harness.open(sale(STOCK)).await,
        harness.open(sale(STOCK).limit(3)).await,
        harness.open(red_packet(100_000, STOCK, split)).await,
    ];
    let (here, there) = (harness.nodes[0].clone(), harness.nodes[1].clone());
    let is_early = |outcome: &Outcome| matches!(outcome, Outcome::NotStarted { .. });
    for target in targets {
        wait_for_knock(&there, &target.one("early"), is_early).await;
    }
    let mut winners: Vec<Answered> = Vec::new();
    for round in 0..3 {
        clock.set(OPENS);
        for target in targets {
            // On the other node, the gate has only learned of the clock.
            let claim = target.keyed(&name(round), 1, "key");
            let claimed = harness.record.ask(&here, &claim).await.unwrap();
            assert!(
                matches!(claimed.outcome, Outcome::Granted(_)),
                "{claimed:?}"
            );
            winners.push((claim, claimed));
        }
        clock.set(early);
        for (claim, claimed) in &winners {
            let granted = Outcome::AlreadyGranted(grant_of(claimed).unwrap());
            wait_for("the gate to forget", || {
                there.try_gate_outcome(claim).is_none()
            })
            .await;
            for _ in 0..20 {
                assert_eq!(knock(&there, claim).await, granted, "{claim:?}");
            }
        }
        for target in targets {
            assert!(is_early(&knock(&there, &target.one("early")).await));
        }
    }
    harness.replay(&winners).await;
    harness.audit().await;
}

/// Claims until the gate of a node gives such an answer.
async fn wait_for_knock(node: &RedisEngine, claim: &Claim, such: impl Fn(&Outcome) -> bool) {
    let until = Instant::now() + POLLED_MAX;
    while node.try_gate_outcome(claim).is_none() {
        assert!(such(&knock(node, claim).await));
        assert!(
            Instant::now() < until,
            "the gate does not learn the answer in time"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(such(&knock(node, claim).await));
}
