//! Tests of repeated calls, and of calls that fail half-way.

use qiang_core::{id::OrderId, outcome::Outcome};
use redis::{Cmd, Value};

use super::*;

/// A connection's call that claims a unit of a sale without a key. The call may be repeated.
fn claim_of(world: &World, sale: &Setup, number: u64, is_again: bool) -> Cmd {
    let partitions = &world.engine.node.partitions;
    let keys = partitions.keys();
    let keys = keys.for_script(PARTITION, "node:connection", sale.campaign.id);
    let mut command = redis::cmd("EVAL");
    command.arg(&CLAIM_SALE.text).arg(CLAIM_SALE.keys);
    command.arg(&keys[..CLAIM_SALE.keys]);
    let term = partitions.get(PARTITION).current_term().unwrap();
    command.arg(&*term).arg(0).arg("").arg(number);
    command.arg(u8::from(is_again));
    command.arg(sale.campaign.id.to_string());
    command.arg("3").arg("ann").arg(1).arg("");
    command
}

/// Status, and number of units left; `None` if the reply is lost.
async fn send(world: &World, command: &Cmd) -> (String, Option<u64>) {
    let partitions = &world.engine.node.partitions;
    let reply: Vec<Value> = partitions.query(PARTITION, command).await.unwrap();
    let text = |n: usize| match reply.get(n) {
        Some(Value::BulkString(text)) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    };
    let left = ClaimsReply::parse(&text(1)).map(|claims| claims.left);
    (text(0), left)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_reply_has_expired_is_not_carried_out_again() {
    let world = World::new(0).await;
    let sale = long(sale(5).limit(3)).setup(1);
    world.open(&sale).await;
    let ok = |left| ("ok".to_owned(), Some(left));
    let lost = || ("lost".to_owned(), None);
    assert_eq!(
        send(&world, &claim_of(&world, &sale, 1, false)).await,
        ok(4)
    );
    assert_eq!(send(&world, &claim_of(&world, &sale, 1, true)).await, ok(4));
    assert_eq!(
        send(&world, &claim_of(&world, &sale, 2, false)).await,
        ok(3)
    );
    // A minute has passed, or a server with a clock further ahead has taken over.
    let replies = world.call(&["KEYS", "packets:{p00}:call:*"]);
    for key in replies.array().iter().filter_map(RedisReply::text) {
        world.call(&["PEXPIRE", key, "0"]);
    }
    assert_eq!(
        send(&world, &claim_of(&world, &sale, 2, true)).await,
        lost()
    );
    // A packet that was in flight for all that time.
    assert_eq!(
        send(&world, &claim_of(&world, &sale, 1, false)).await,
        lost()
    );
    let tally = world.engine.tally(sale.campaign.id).await.unwrap();
    assert_eq!(tally.unwrap().granted, 2);
    assert_eq!(
        send(&world, &claim_of(&world, &sale, 3, false)).await,
        ok(2)
    );
}

/// The number of a node's last call is deleted an hour after the node has gone, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_calls_go_with_their_nodes() {
    const HOUR_MS: i64 = 3_600_000;
    let world = World::new(1).await;
    let (partitions, state) = (&world.engine.node.partitions, "packets:{p00}:partition");
    let now = partitions.time(PARTITION).await.unwrap().as_millis();
    let (old, new) = (now - 2 * HOUR_MS, now - HOUR_MS / 2);
    let own = format!("call:{}:idle", partitions.context.node);
    world.call(&["HSET", state, &own, &format!("7 {old}")]);
    world.call(&["HSET", state, "call:left:claims", &format!("7 {new}")]);
    let gone: Vec<String> = (0..500).map(|n| format!("call:gone:{n}")).collect();
    for field in &gone {
        world.call(&["HSET", state, field, &format!("7 {old}")]);
    }
    let calls = || {
        let fields = world.call(&["HKEYS", state]);
        let texts = fields.array().iter().filter_map(RedisReply::text);
        let calls = texts.filter(|field| field.starts_with("call:"));
        calls.map(str::to_owned).collect::<Vec<_>>()
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while calls().iter().any(|field| field.starts_with("call:gone")) {
        assert!(tokio::time::Instant::now() < until, "{:?}", calls().len());
        partitions.present(PARTITION).await.unwrap();
    }
    let left = calls();
    assert!(left.contains(&own), "{left:?}");
    assert!(
        left.iter().any(|field| field == "call:left:claims"),
        "{left:?}"
    );
}

/// The result of a call that failed half-way is unknown. A retry with the same key may find it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_after_the_first_write_is_not_known() {
    let mut world = World::new(1).await;
    // A script that fails half-way leaves its campaign damaged, so each command has its own campaign.
    let mut targets = Vec::new();
    for n in 2..5 {
        let sale = long(sale(5)).hold_ms(3_600_000).setup(n);
        world.open(&sale).await;
        targets.push(Target::of(&sale));
    }
    let [claimed, cancelled, whole]: [Target; 3] = targets.try_into().unwrap();
    let bought = world
        .decide(&[cancelled.one("ann")])
        .await
        .remove(0)
        .unwrap();
    let Outcome::Granted(grant) = bought.outcome else {
        panic!("{bought:?}");
    };
    let order = OrderId {
        campaign: grant.campaign,
        number: grant.number,
    };
    // Users and orders are written before the log, which a script may not write now.
    world.call(&["ACL", "SETUSER", "default", "-xadd"]);
    let single = [Target::of(&world.packets[0]).keyed("bob", 1, "a-key")];
    assert_eq!(world.names(&single).await, ["uncertain"], "a packet");
    let single = [claimed.one("bob")];
    assert_eq!(world.names(&single).await, ["uncertain"], "a sale");
    let cancelled = world
        .engine
        .submit(Command::Cancel { order, part: None })
        .await;
    assert!(
        matches!(cancelled, Err(EngineError::Uncertain { .. })),
        "{cancelled:?}"
    );
    world.call(&["ACL", "SETUSER", "default", "+xadd"]);
    // Refused before the first write: nothing has happened.
    world.call(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(world.names(&[whole.one("cid")]).await, ["overloaded"]);
    world.call(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(world.names(&[whole.one("cid")]).await, ["granted"]);
}
