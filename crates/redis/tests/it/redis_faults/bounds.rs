//! Bounds of the work that one call makes Redis do, for any number of orders of a campaign or a buyer.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Claim, Command, Reply},
    id::{OrderId, PaymentRef},
    order::OrderState,
    outcome::{Grant, Outcome},
    payment::ReceivedMoney,
    ports::{Engine as _, EngineError},
};
use qiang_redis::RedisOptions;
use qiang_testkit::{
    ManualClock,
    campaign::{HOLD_MS, OPENS, Target, sale},
    servers::redis::{Options as ServerOptions, Server, Standalone},
};

use crate::redis_faults::harness::{Harness, blocking, name, options, wait_for};

/// Orders that a call might have to skip.
const ORDERS: u32 = 100_000;
/// Maximum claims in flight.
const AT_ONCE: usize = 10_000;
/// Maximum steps of one call: `STEPS_MAX` of tick.lua.
const STEPS_MAX: u64 = 5_000;
/// Maximum commands of a payment or a cancellation, including presence calls and ticks in between. On a busy machine
/// these exceed its own commands. A walk over the orders would need a hundred thousand.
const COMMANDS_MAX: u64 = 1_000;
/// Keys of one buyer.
const KEYS: usize = 5_000;
/// Maximum bytes of a buyer's row: `KEYS_BYTES_MAX` of claim_sale.lua and the rest of the row.
const ROW_BYTES_MAX: i64 = 1_024 + 64;

/// Calls of a command so far.
fn calls(server: &Server, command: &str) -> u64 {
    let line = server.info("commandstats", &format!("cmdstat_{command}"));
    let calls = line.and_then(|line| {
        let calls = line.strip_prefix("calls=")?.split(',').next()?;
        calls.parse().ok()
    });
    calls.unwrap_or(0)
}

/// Hash commands so far. Scripts read orders and buyers with them.
fn on_hashes(server: &Server) -> u64 {
    let commands = ["hget", "hmget", "hset"];
    commands.map(|command| calls(server, command)).iter().sum()
}

/// A sale with [`ORDERS`] orders. All but the first are paid.
struct Long {
    server: Standalone,
    clock: Arc<ManualClock>,
    harness: Harness,
    target: Target,
    /// The campaign's key.
    key: String,
}

impl Long {
    async fn new() -> Self {
        let server = blocking(|| Standalone::start(&ServerOptions::new()));
        let clock = ManualClock::new(OPENS);
        let options = RedisOptions {
            partitions: 1,
            clock: Some(clock.clone()),
            ..options(server.url())
        };
        let mut harness = Harness::new(options).await;
        let target = harness.open(sale(ORDERS + 1)).await;
        let key = format!("{}:{{p00}}:c:{}", harness.options.prefix, target.id);
        let claims: Vec<Claim> = (0..ORDERS as usize).map(|n| target.one(&name(n))).collect();
        for claims in claims.chunks(AT_ONCE) {
            claim_all(&harness, claims).await;
        }
        let long = Self {
            server,
            clock,
            harness,
            target,
            key,
        };
        long.pay_behind_the_first();
        long
    }

    /// Marks all orders but the first as paid directly in Redis, which is faster than that many payments.
    fn pay_behind_the_first(&self) {
        const PAID: &str = "for n = ARGV[1], ARGV[2] do
            local order = redis.call('HGET', KEYS[1], n)
            order = 'p' .. string.sub(order, 2)
            redis.call('HSET', KEYS[1], n, order)
            redis.call('HSET', KEYS[2], 'newest_order', n .. '\\n' .. order)
        end";
        let orders = format!("{}:orders", self.key);
        for from in (2..=ORDERS).step_by(10_000) {
            let to = ORDERS.min(from + 9_999);
            let words = [
                "EVAL",
                PAID,
                "2",
                &orders,
                &self.key,
                &from.to_string(),
                &to.to_string(),
            ];
            blocking(|| self.server.primary().call(&words).unwrap());
        }
    }

    fn first(&self) -> OrderId {
        self.target.order(1)
    }

    /// The campaign's position among its holds, and the number of ticks that set the next due time.
    fn position(&self) -> (u64, u64) {
        blocking(|| {
            let server = self.server.primary();
            let first = server.call(&["HGET", &self.key, "first"]).unwrap();
            let ticks = calls(server, "zadd");
            (first.text().unwrap().parse().unwrap(), ticks)
        })
    }

    async fn state(&self, order: OrderId) -> OrderState {
        let view = self.harness.nodes[0].order(order).await.unwrap().unwrap();
        view.grant.order.unwrap().state
    }
}

async fn claim_all(harness: &Harness, claims: &[Claim]) -> Vec<Grant> {
    let tickets: Vec<_> = claims
        .iter()
        .map(|claim| harness.nodes[0].claim(claim.clone()))
        .collect();
    let mut grants = Vec::new();
    for ticket in tickets {
        match ticket.await.map(|claimed| claimed.outcome) {
            Ok(Outcome::Granted(grant) | Outcome::AlreadyGranted(grant)) => grants.push(grant),
            other => panic!("a claim got {other:?}"),
        }
    }
    grants
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_hold_expires_without_a_walk_past_all_orders() {
    let long = Long::new().await;
    let before = long.position();
    long.clock.advance(HOLD_MS);
    while long.state(long.first()).await != OrderState::Expired {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let expired = long.position();
    wait_for("the ticks to skip all orders", || {
        long.position().0 > u64::from(ORDERS)
    })
    .await;
    let after = long.position();
    for (first, ticks) in [expired, after] {
        let (steps, ticks) = (first - before.0, ticks - before.1);
        assert!(steps <= STEPS_MAX * ticks, "{steps} steps in {ticks} ticks");
    }
    // No other user's hold expired, and the unit is in stock again.
    let tally = long.harness.nodes[0].tally(long.target.id).await.unwrap();
    assert_eq!(tally.unwrap().granted, u64::from(ORDERS - 1));
    claim_all(&long.harness, &[long.target.one("next")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_and_a_cancellation_look_at_one_order() {
    let long = Long::new().await;
    let last = claim_all(&long.harness, &[long.target.one("last")]).await[0].order_id();
    let payment = PaymentRef::new("payment").unwrap();
    for command in [
        Command::Pay {
            order: long.first(),
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        },
        Command::Cancel {
            order: last,
            part: None,
        },
    ] {
        let before = blocking(|| on_hashes(long.server.primary()));
        long.harness.nodes[0].submit(command).await.unwrap();
        let commands = blocking(|| on_hashes(long.server.primary())) - before;
        assert!(commands <= COMMANDS_MAX, "{commands} commands");
    }
    // Orders that are not held do not expire.
    long.clock.advance(2 * HOLD_MS);
    let events_max = 1;
    let ticked = || long.harness.nodes[0].submit(Command::Tick { events_max });
    while ticked().await != Ok(Reply::Ticked { more: false }) {}
    assert_eq!(long.state(long.first()).await, OrderState::Paid);
    assert_eq!(long.state(last).await, OrderState::Cancelled);
    assert_eq!(long.state(long.target.order(2)).await, OrderState::Paid);
}

/// Size of a buyer's row in Redis, without the orders.
fn row_bytes(harness: &Harness, server: &Server, target: Target, user: &str) -> i64 {
    let users = format!("{}:{{p00}}:c:{}:users", harness.options.prefix, target.id);
    let reply = blocking(|| server.call(&["HSTRLEN", &users, user]).unwrap());
    reply.integer().unwrap()
}

/// A server, two nodes, and a sale with a limit that allows one buyer everything.
async fn one_buyer() -> (Standalone, Harness, Target) {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let options = RedisOptions {
        partitions: 1,
        clock: Some(ManualClock::new(OPENS)),
        ..options(server.url())
    };
    let mut harness = Harness::new(options).await;
    let target = harness.open(sale(ORDERS).limit(ORDERS)).await;
    (server, harness, target)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_with_many_keys_has_a_short_row_and_every_replay() {
    let (server, harness, target) = one_buyer().await;
    let claim = |n: usize| target.keyed("buyer", 1 + n as u32 % 3, &format!("key-{n}"));
    // Every key twice, in the same batch and later.
    let mut claims: Vec<Claim> = (0..2 * KEYS).map(|n| claim(n / 2)).collect();
    claims.extend((0..KEYS).map(claim));
    let grants = claim_all(&harness, &claims).await;
    let numbers: Vec<u32> = (0..KEYS).map(|key| grants[2 * key].number).collect();
    for (n, grant) in grants.iter().enumerate() {
        let key = if n < 2 * KEYS { n / 2 } else { n - 2 * KEYS };
        assert_eq!(grant.number, numbers[key], "key {key}");
        assert_eq!(grant.quantity, 1 + key as u32 % 3);
    }
    assert_eq!(
        numbers.iter().max(),
        Some(&(KEYS as u32)),
        "one order per key"
    );
    let bytes = row_bytes(&harness, server.primary(), target, "buyer");
    assert!(bytes <= ROW_BYTES_MAX, "a row of {bytes} bytes");
    // A key identifies its request on another node too.
    for n in [0, KEYS / 2, KEYS - 1] {
        let other = target.keyed("buyer", 1 + (n as u32 + 1) % 3, &format!("key-{n}"));
        let refused = harness.nodes[1].claim(other).await;
        assert!(
            matches!(refused, Err(EngineError::Refused(_))),
            "{refused:?}"
        );
    }
    // The key of a cancelled order still identifies that order.
    let order = target.order(numbers[KEYS - 1]);
    harness.nodes[0]
        .submit(Command::Cancel { order, part: None })
        .await
        .unwrap();
    let again = claim_all(&harness, &[claim(KEYS - 1)]).await[0];
    assert_eq!(again.order.unwrap().state, OrderState::Cancelled);
    // Another buyer with the same keys gets new orders.
    let others = claim_all(&harness, &[target.keyed("other", 1, "key-0")]).await;
    assert_eq!(others[0].number, 1 + KEYS as u32);
}
