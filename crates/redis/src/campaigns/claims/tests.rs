//! Tests of claims of several packets in one call, on a real server.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use qiang_core::{
    book::{Claim, Command, Setup},
    event::{Entry, Event},
    ports::{Engine as _, EventLog as _},
    split::SplitRule,
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Builder, Target, red_packet, sale},
    servers::redis::{Options as ServerOptions, Reply as RedisReply, Standalone},
};

use super::*;
use crate::{
    RedisEngine, RedisOptions,
    connection::{CallConnection, Script},
    intake::batcher::submitted,
};

mod calls;

const PARTITION: PartitionId = PartitionId(0);
const SHARES: u32 = 3;

struct World {
    server: Arc<Standalone>,
    engine: RedisEngine,
    connection: CallConnection,
    packets: Vec<Setup>,
}

impl World {
    /// One partition with this many packets; each third packet draws its shares at the claim.
    async fn new(packets: u64) -> Self {
        // The slow log records all calls.
        let options = ServerOptions::new()
            .line("slowlog-log-slower-than 0")
            .line("slowlog-max-len 1000000");
        let server = tokio::task::block_in_place(|| Standalone::start(&options));
        let mut world = Self::on(Arc::new(server), 0).await;
        world.call(&["SCRIPT", "LOAD", &CLAIM_PACKETS.text]);
        for n in 1..=packets {
            let rule = match n % 3 {
                0 => SplitRule::Lazy { min: 1 },
                _ => SplitRule::DoubleAverage { min: 1 },
            };
            let packet = long(red_packet(1_000, SHARES, rule)).setup(n);
            world.open(&packet).await;
            world.packets.push(packet);
        }
        world
    }

    /// A node whose grants wait for this number of replicas.
    async fn on(server: Arc<Standalone>, replicas: u32) -> Self {
        let options = RedisOptions {
            replicas,
            replica_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(60),
            claim_timeout: Duration::from_secs(60),
            urls: vec![server.url()],
            partitions: 1,
            prefix: "packets".to_owned(),
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(options, &[]).await.unwrap();
        let connection = engine.node.partitions.connection(PARTITION, "test");
        Self {
            server,
            engine,
            connection,
            packets: Vec::new(),
        }
    }

    /// Another node of the same installation.
    async fn beside(world: &Self) -> Self {
        Self {
            packets: world.packets.clone(),
            ..Self::on(Arc::clone(&world.server), 0).await
        }
    }

    async fn open(&self, setup: &Setup) {
        let open = Command::Open(Box::new(setup.clone()));
        self.engine.submit(open).await.unwrap();
    }

    fn call(&self, words: &[&str]) -> RedisReply {
        tokio::task::block_in_place(|| self.server.primary().call(words).unwrap())
    }

    /// Scripts that clients have called: the client, the command, and the script or its hash.
    fn scripts(&self) -> Vec<[String; 3]> {
        let log = self.call(&["SLOWLOG", "GET", "-1"]);
        let script = |entry: &RedisReply| {
            let text = |reply: &RedisReply| reply.text().unwrap_or_default().to_owned();
            let (entry, words) = (entry.array(), entry.array()[3].array());
            Some([text(&entry[4]), text(words.first()?), text(words.get(1)?)])
        };
        let mut scripts: Vec<_> = log.array().iter().filter_map(script).collect();
        scripts.retain(|[_, command, _]| command.starts_with("EVAL"));
        scripts
    }

    /// Number of calls of a script.
    fn calls(&self, script: &Script) -> usize {
        let scripts = self.scripts();
        scripts.iter().filter(|it| it[2] == script.sha1).count()
    }

    /// A key of a packet.
    fn key(&self, packet: usize, rest: &str) -> String {
        let keys = self.engine.node.partitions.keys();
        keys.for_campaign(PARTITION, self.packets[packet].campaign.id, rest)
    }

    async fn decide_batches(&mut self, batches: Vec<Batch>) {
        decide(&self.engine.node, &mut self.connection, PARTITION, batches).await;
    }

    /// Answers to claims that arrive together.
    async fn decide(&mut self, claims: &[Claim]) -> Vec<Result<Claimed, EngineError>> {
        let (batches, tickets) = submitted(claims);
        self.decide_batches(batches).await;
        let mut answers = Vec::new();
        for ticket in tickets {
            answers.push(ticket.await);
        }
        answers
    }

    /// Names of the answers to claims that arrive together.
    async fn names(&mut self, claims: &[Claim]) -> Vec<&'static str> {
        let answers = self.decide(claims).await.into_iter();
        let name = |answer: Result<Claimed, EngineError>| match answer {
            Ok(claimed) => claimed.outcome.name(),
            Err(EngineError::Overloaded) => "overloaded",
            Err(EngineError::Uncertain { .. }) => "uncertain",
            Err(EngineError::Unavailable { .. }) => "unavailable",
            Err(error) => panic!("{error:?}"),
        };
        answers.map(name).collect()
    }

    fn one(&self, packet: usize, user: &str) -> Claim {
        Target::of(&self.packets[packet]).one(user)
    }

    /// A claim of each packet by one user.
    fn each(&self, user: &str) -> Vec<Claim> {
        let packets = 0..self.packets.len();
        packets.map(|packet| self.one(packet, user)).collect()
    }

    async fn log(&self) -> Vec<Entry> {
        self.engine.read(PARTITION, 0, usize::MAX).await.unwrap()
    }
}

/// A window of twenty years.
fn long(builder: Builder) -> Builder {
    let opens = Timestamp::from_millis(1_577_836_800_000);
    builder.window(opens, 631_152_000_000)
}

fn grants(log: &[Entry]) -> Vec<&Entry> {
    let is_grant = |entry: &&Entry| matches!(entry.event, Event::Granted { .. });
    log.iter().filter(is_grant).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_many_packets_are_one_call() {
    let mut world = World::new(30).await;
    // The claims include a retry, one with a key, one for two units, and one of a sale.
    let mut claims = world.each("ann");
    claims.extend(world.each("bob"));
    claims.push(world.one(7, "ann"));
    claims.push(Target::of(&world.packets[8]).keyed("cid", 1, "a-key"));
    claims.push(Target::of(&world.packets[9]).units("dan", 2));
    let sale = long(sale(5)).setup(31);
    world.open(&sale).await;
    claims.push(Target::of(&sale).one("ann"));
    let mut expected = vec!["granted"; 60];
    expected.extend(["already_granted", "granted", "limit_reached", "granted"]);
    assert_eq!(world.names(&claims).await, expected);
    let calls = [&*CLAIM_PACKETS, &*CLAIM_PACKET, &*CLAIM_SALE].map(|script| world.calls(script));
    assert_eq!(calls, [1, 0, 1]);

    // The same claims again, then claims of one more user.
    let before = world.log().await;
    let again = world.names(&claims[..60]).await;
    assert_eq!(again, ["already_granted"; 60]);
    let eve = world.each("eve");
    let last = world.names(&eve).await;
    let late = last.iter().filter(|name| **name == "sold_out").count();
    assert_eq!((late, last[8]), (1, "sold_out"), "{last:?}");
    let after = world.log().await;
    assert_eq!(after.len(), before.len() + 29);

    for packet in &world.packets {
        let tally = world.engine.tally(packet.campaign.id).await.unwrap();
        let tally = tally.unwrap();
        assert!(tally.conserves(), "{tally:?}");
        let of_packet = |entry: &&&Entry| entry.campaign == packet.campaign.id;
        let grants = grants(&after);
        let mut numbers: Vec<_> = grants
            .iter()
            .filter(of_packet)
            .map(|entry| match &entry.event {
                Event::Granted { number, .. } => *number,
                _ => unreachable!("it is a grant"),
            })
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3], "each share once");
    }
}

/// The kept answers of a node equal the log, entry by entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_of_a_call_is_what_the_log_says() {
    let mut world = World::new(12).await;
    for user in ["ann", "bob"] {
        let mut claims = world.each(user);
        claims.extend(world.each("ann"));
        claims.push(Target::of(&world.packets[3]).keyed(user, 1, "a-key"));
        world.names(&claims).await;
    }
    let (mut kept, from) = world
        .engine
        .node
        .runtime(PARTITION)
        .unsettled_answers
        .since(1);
    assert_eq!(from, 1);
    kept.retain(|entry| entry.seq > 0);
    let log = world.log().await;
    assert_eq!(kept.iter().collect::<Vec<_>>(), grants(&log));
}

/// One packet is missing, and some have keys of another type. There is no ledger to rebuild them from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_that_cannot_be_read_keeps_no_other_from_being_decided() {
    let mut world = World::new(10).await;
    let keys = world.engine.node.partitions.keys();
    let gone = keys.campaign(PARTITION, world.packets[6].campaign.id);
    let damaged = keys.campaign(PARTITION, world.packets[7].campaign.id);
    let damaged = [world.key(4, "users"), world.key(1, "shares"), damaged];
    let mut expected = ["granted"; 10];
    let ann = world.each("ann");
    assert_eq!(world.names(&ann).await, expected);
    for key in &damaged {
        world.call(&["RENAME", key, &format!("{key}:kept")]);
        world.call(&["SET", key, "a string"]);
    }
    world.call(&["DEL", &gone]);
    let bob = world.each("bob");
    expected[6] = "unknown_campaign";
    for damaged in [1, 4, 7] {
        expected[damaged] = "unavailable";
    }
    assert_eq!(world.names(&bob).await, expected);
    // Another node, which knows no packet.
    let mut others = World::beside(&world).await;
    let cid = others.each("cid");
    assert_eq!(others.names(&cid).await, expected);
    for key in &damaged {
        world.call(&["RENAME", &format!("{key}:kept"), key]);
    }
    let again = world.names(&bob).await;
    for (n, name) in again.into_iter().enumerate() {
        match n {
            // No share of these was taken.
            1 | 4 | 7 => assert_eq!(name, "granted"),
            6 => assert_eq!(name, "unknown_campaign"),
            _ => assert_eq!(name, "already_granted"),
        }
    }
}

/// A node that does not know these packets reads all of their metas with one call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_of_packets_is_asked_with_one_call() {
    let world = World::new(20).await;
    let mut other = World::beside(&world).await;
    let ann = other.each("ann");
    assert_eq!(other.names(&ann).await, ["granted"; 20]);
    let scripts = world.scripts();
    let decided = scripts.iter().find(|it| it[2] == CLAIM_PACKETS.sha1);
    let client = &decided.unwrap()[0];
    let of_client: Vec<_> = scripts.iter().filter(|it| it[0] == *client).collect();
    assert_eq!(of_client.len(), 2, "one reads, one decides: {of_client:?}");
    let names = other.names(&ann).await;
    assert_eq!(names, ["already_granted"; 20]);
}

/// If Redis has no free memory, claims that get nothing are still answered. The others are refused completely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_those_who_get_nothing_are_answered() {
    let mut world = World::new(9).await;
    for user in ["ann", "bob", "cid"] {
        let claims = [world.one(2, user), world.one(5, user)];
        assert_eq!(world.names(&claims).await, ["granted"; 2]);
    }
    let before = world.log().await;
    world.call(&["CONFIG", "SET", "maxmemory", "1"]);
    let dan = world.each("dan");
    let mut expected = ["overloaded"; 9];
    expected[2] = "sold_out";
    expected[5] = "sold_out";
    assert_eq!(world.names(&dan).await, expected);
    world.call(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(world.log().await, before);
    for expected in expected.iter_mut().filter(|name| **name == "overloaded") {
        *expected = "granted";
    }
    assert_eq!(world.names(&dan).await, expected);
}

/// An abandoned claim is not sent, even if it was taken from the queue together with others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_nobody_waits_for_is_not_sent() {
    let mut world = World::new(6).await;
    let (batches, mut tickets) = submitted(&world.each("ann"));
    drop(tickets.remove(2));
    world.decide_batches(batches).await;
    for ticket in tickets {
        assert_eq!(ticket.await.unwrap().outcome.name(), "granted");
    }
    let log = world.log().await;
    let campaigns = grants(&log).into_iter().map(|entry| entry.campaign);
    let others = world.packets.iter().enumerate().filter(|(n, _)| *n != 2);
    assert!(campaigns.eq(others.map(|(_, packet)| packet.campaign.id)));
}

/// Claims that wait for a replica, which does not answer, delay no other claim that arrived with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_replicas_keeps_nobody_else_waiting() {
    let with = ServerOptions::new().replicas(1);
    let server = Arc::new(tokio::task::block_in_place(|| Standalone::start(&with)));
    let mut world = World::on(Arc::clone(&server), 1).await;
    tokio::task::block_in_place(|| server.replica(0).pause());
    let levels = [
        AckLevel::Replica,
        AckLevel::Memory,
        AckLevel::Replica,
        AckLevel::Memory,
        AckLevel::Fsync,
    ];
    for (n, level) in (1..).zip(levels) {
        let packet = red_packet(1_000, SHARES, SplitRule::DoubleAverage { min: 1 });
        let packet = long(packet).ack(AckLevel::Memory).setup(n);
        world.open(&packet).await;
        // Its opening does not wait.
        let meta = world.engine.node.partitions.meta(packet.campaign.id).await;
        let meta = CachedCampaign {
            ack: level,
            ..(*meta.unwrap().unwrap()).clone()
        };
        world.engine.node.partitions.remember(Arc::new(meta));
        world.packets.push(packet);
    }
    let (batches, tickets) = submitted(&world.each("ann"));
    let deciding = tokio::spawn(async move { world.decide_batches(batches).await });
    let mut waiting = Vec::new();
    for (level, ticket) in levels.into_iter().zip(tickets) {
        match level {
            AckLevel::Replica => waiting.push(ticket),
            _ => assert_eq!(ticket.await.unwrap().outcome.name(), "granted"),
        }
    }
    for ticket in waiting {
        let mut ticket = std::pin::pin!(ticket);
        let answer = futures_util::poll!(&mut ticket);
        assert!(
            answer.is_pending(),
            "it was answered before claims that do not wait"
        );
    }
    deciding.abort();
}

/// Redis refuses writes while it has too few replicas, and accepts them again soon: users do not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_wait_out_that_redis_takes_no_writes() {
    let mut world = World::new(6).await;
    world.call(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let (batches, tickets) = submitted(&world.each("ann"));
    let server = Arc::clone(&world.server);
    let deciding = tokio::spawn(async move { world.decide_batches(batches).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!deciding.is_finished(), "they wait");
    let lift = move || {
        let words = ["CONFIG", "SET", "min-replicas-to-write", "0"];
        server.primary().call(&words)
    };
    tokio::task::block_in_place(lift).unwrap();
    for ticket in tickets {
        assert_eq!(ticket.await.unwrap().outcome.name(), "granted");
    }
    deciding.await.unwrap();
}
