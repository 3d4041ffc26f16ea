//! Tests of concurrent creations, on a real server.
#![allow(clippy::unwrap_used)]

use qiang_core::{
    book::{Command, Reply, Setup},
    ports::{Engine as _, EngineError, PendingReply},
    split::SplitRule,
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, red_packet, sale},
    servers::redis::{Options as ServerOptions, Reply as RedisReply, Standalone},
};

use crate::{RedisEngine, RedisOptions, protocol::scripts::OPEN_MANY};

const PARTITIONS: u16 = 4;
const CREATIONS: u64 = 1_000;

struct World {
    server: Standalone,
    engine: RedisEngine,
}

impl World {
    async fn new(partitions: u16) -> Self {
        // The slow log records all calls.
        let options = ServerOptions::new()
            .line("slowlog-log-slower-than 0")
            .line("slowlog-max-len 1000000");
        let server = tokio::task::block_in_place(|| Standalone::start(&options));
        let options = RedisOptions {
            urls: vec![server.url()],
            partitions,
            prefix: "together".to_owned(),
            shard_supply_min: 10_000,
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(options, &[]).await.unwrap();
        let world = Self { server, engine };
        world.call(&["SCRIPT", "LOAD", &OPEN_MANY.text]);
        world
    }

    fn submit(&self, setup: &Setup) -> PendingReply<Reply> {
        self.engine.submit(Command::Open(Box::new(setup.clone())))
    }

    fn call(&self, words: &[&str]) -> RedisReply {
        tokio::task::block_in_place(|| self.server.primary().call(words).unwrap())
    }

    /// A key of a campaign's home.
    fn key(&self, setup: &Setup, rest: &str) -> String {
        let partitions = &self.engine.node.partitions;
        let id = setup.campaign.id;
        partitions
            .keys()
            .for_campaign(partitions.home(id), id, rest)
    }

    /// All commands that clients have sent so far, each by its first words.
    fn sent(&self) -> Vec<Vec<String>> {
        let log = self.call(&["SLOWLOG", "GET", "-1"]);
        let words = |entry: &RedisReply| -> Vec<String> {
            let words = entry.array()[3].array().iter();
            words
                .map(|word| word.text().unwrap_or_default().to_owned())
                .collect()
        };
        log.array().iter().map(words).collect()
    }

    /// Number of calls that opened campaigns together.
    fn calls(&self) -> usize {
        let is_one = |words: &&Vec<String>| words.get(1) == Some(&OPEN_MANY.sha1);
        self.sent().iter().filter(is_one).count()
    }

    /// Waits until `count` requests wait for the only partition.
    async fn wait_for(&self, count: usize) {
        let line = self
            .engine
            .node
            .openings
            .line(self.engine.node.partitions.list()[0].id);
        while line.len() < count {
            tokio::task::yield_now().await;
        }
    }
}

/// A campaign that is open for twenty years.
fn setup(n: u64) -> Setup {
    let builder = match n % 4 {
        0 => sale(5),
        1 => red_packet(1_000, 10, SplitRule::Lazy { min: 1 }),
        _ => red_packet(1_000, 10, SplitRule::DoubleAverage { min: 1 }),
    };
    let opens = Timestamp::from_millis(1_577_836_800_000);
    builder.window(opens, 631_152_000_000).setup(n)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_creations_take_few_calls() {
    let world = World::new(PARTITIONS).await;
    let setups: Vec<_> = (1..=CREATIONS).map(setup).collect();
    let node = &world.engine.node;
    let partitions = node.partitions.list().iter();
    let lines: Vec<_> = partitions.map(|it| node.openings.line(it.id)).collect();
    let mut turns = Vec::new();
    for line in &lines {
        turns.push(line.turn.lock().await);
    }
    let tickets: Vec<_> = setups.iter().map(|setup| world.submit(setup)).collect();
    while lines.iter().map(|line| line.len()).sum::<usize>() < setups.len() {
        tokio::task::yield_now().await;
    }
    drop(turns);
    for ticket in tickets {
        assert_eq!(ticket.await, Ok(Reply::Opened));
    }
    // A call opens up to 256, and some partitions have more of them than others.
    let calls = world.calls();
    assert!(calls <= 2 * usize::from(PARTITIONS), "{calls} calls");
    for setup in &setups {
        let tally = world
            .engine
            .tally(setup.campaign.id)
            .await
            .unwrap()
            .unwrap();
        assert!(tally.conserves());
        let whole = (setup.campaign.supply(), setup.campaign.funded_minor());
        assert_eq!((tally.remaining, tally.funded_minor), whole);
        let claimed = world
            .engine
            .claim(Target::of(setup).one("ann"))
            .await
            .unwrap();
        assert_eq!(claimed.outcome.name(), "granted");
    }
}

/// One call writes the plan, the shares and the opening, and needs no other call before or after. The node then knows
/// the campaign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_is_one_call() {
    let world = World::new(1).await;
    let thousand = red_packet(100_000, 1_000, SplitRule::DoubleAverage { min: 1 });
    for setup in [setup(1), setup(2), setup(4), thousand.setup(5)] {
        assert_eq!(world.submit(&setup).await, Ok(Reply::Opened));
        assert!(world.engine.ack_and_owner(setup.campaign.id).is_some());
        let id = setup.campaign.id.to_string();
        let sent = world.sent();
        // The log also lists commands that a script runs.
        let is_call = |words: &&Vec<String>| words[0].starts_with("EVAL");
        let is_about =
            |words: &&Vec<String>| is_call(words) && words.iter().any(|word| word.contains(&id));
        let about: Vec<_> = sent.iter().filter(is_about).collect();
        assert_eq!(about.len(), 1, "{about:?}");
        assert_eq!(
            (&about[0][0][..], &about[0][1]),
            ("EVALSHA", &OPEN_MANY.sha1)
        );
    }
}

/// One has a foreign share in place, one was begun like this one, and one is submitted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_refused_is_refused_alone() {
    let world = World::new(1).await;
    let setups: Vec<_> = (1..=20).map(setup).collect();
    let (broken, begun) = (&setups[6], &setups[10]);
    world.call(&["RPUSH", &world.key(broken, "shares"), "000001100"]);
    world.call(&["SET", &world.key(begun, "plan"), "1"]);
    let line = world
        .engine
        .node
        .openings
        .line(world.engine.node.partitions.list()[0].id);
    let turn = line.turn.lock().await;
    let twice = setups.iter().chain(&setups[..1]);
    let tickets: Vec<_> = twice.map(|setup| world.submit(setup)).collect();
    world.wait_for(setups.len() + 1).await;
    drop(turn);
    for (n, ticket) in tickets.into_iter().enumerate() {
        match (n, ticket.await) {
            (6, Err(EngineError::Unavailable { reason })) => {
                assert!(reason.contains("gap"), "{reason}");
            }
            (_, opened) => assert_eq!(opened, Ok(Reply::Opened), "{n}"),
        }
    }
    assert_eq!(world.calls(), 1);
    let log = world.call(&["XLEN", "together:{p00}:log"]);
    assert_eq!(log.integer(), Some(19), "each is opened once");
    for setup in setups
        .iter()
        .filter(|setup| setup.campaign.id != broken.campaign.id)
    {
        let claimed = world
            .engine
            .claim(Target::of(setup).one("ann"))
            .await
            .unwrap();
        assert_eq!(claimed.outcome.name(), "granted");
    }
}
