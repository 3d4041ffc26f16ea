//! Random histories on Redis and on a bare book: the same outcomes, the same log, the same numbers.
//!
//! Two nodes take turns at one partition. Claims that come together for one campaign go to Redis in one call, so that
//! a batch meets what the batches, payments and restarts before it have left. The script cache is flushed now and then.
#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use proptest::{prelude::*, test_runner::Config};
use qiang_core::{
    book::{Book, Command, Reply, Setup},
    event::{Entry, PartitionId},
    ports::{Engine as _, EngineError, EventLog as _, Ticket},
    time::Timestamp,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target},
    histories::{self, Transition},
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::{Options, RedisEngine, batcher::PendingClaim, call_connection::CallConnection, claims};

const PARTITION: PartitionId = PartitionId(0);
/// More than a history makes due at a time.
const EVENTS_MAX: usize = 10_000;

/// One server for all histories; each has keys of its own.
fn server() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

struct World {
    prefix: String,
    clock: Arc<ManualClock>,
    nodes: [RedisEngine; 2],
    connections: Vec<CallConnection>,
    turn: usize,
    setups: Vec<Setup>,
    book: Book,
    log: Vec<Entry>,
}

async fn node(prefix: &str, clock: &Arc<ManualClock>) -> RedisEngine {
    let options = Options {
        urls: vec![server().url()],
        prefix: prefix.to_owned(),
        partitions: 1,
        clock: Some(clock.clone()),
        ..Options::default()
    };
    let connected = RedisEngine::connect(options, &[]).await;
    connected.unwrap_or_else(|error| panic!("{error:?}"))
}

fn connection(node: &RedisEngine) -> CallConnection {
    node.node.partitions.connection(PARTITION, "model")
}

impl World {
    async fn new() -> Self {
        static HISTORIES: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("model{}", HISTORIES.fetch_add(1, Ordering::Relaxed));
        let clock = ManualClock::new(OPENS);
        let nodes = [node(&prefix, &clock).await, node(&prefix, &clock).await];
        Self {
            connections: nodes.iter().map(connection).collect(),
            prefix,
            clock,
            nodes,
            turn: 0,
            setups: histories::setups(),
            book: Book::new(),
            log: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        qiang_core::ports::Clock::now(&*self.clock)
    }

    /// Decides claims of one campaign in one call, and holds every answer against the book's.
    async fn claims(&mut self, commands: Vec<Command>) {
        self.turn += 1;
        let turn = self.turn % 2;
        let mut asked = Vec::new();
        let mut tickets = Vec::new();
        for command in &commands {
            let Command::Claim(claim) = command else {
                unreachable!()
            };
            let (answer, ticket) = Ticket::new();
            asked.push(PendingClaim {
                claim: claim.clone(),
                answer,
            });
            tickets.push(ticket);
        }
        let group = (asked[0].claim.campaign, asked[0].claim.kind);
        let node = &self.nodes[turn].node;
        claims::decide(node, &mut self.connections[turn], PARTITION, group, asked).await;
        for (command, ticket) in commands.into_iter().zip(tickets) {
            let answer = ticket.await.map(|claimed| Reply::Claimed(claimed.outcome));
            self.compare(&command, answer);
        }
    }

    async fn command(&mut self, command: Command) {
        self.turn += 1;
        let answer = self.nodes[self.turn % 2].submit(command.clone()).await;
        self.compare(&command, answer);
    }

    fn compare(&mut self, command: &Command, answer: Result<Reply, EngineError>) {
        let expected = self.book.apply(self.now(), command, &mut self.log);
        assert_eq!(answer, expected.map_err(EngineError::from), "{command:?}");
    }

    async fn step(&mut self, transition: Transition) {
        match transition {
            Transition::Open(campaign) => {
                let setup = self.setups[campaign].clone();
                self.command(Command::Open(Box::new(setup))).await;
                self.tick().await; // its window may be over
            }
            Transition::Batch(steps) => {
                let mut commands: Vec<_> = steps
                    .into_iter()
                    .map(|step| histories::command(&self.setups, step))
                    .collect();
                // Claims of one campaign come together; what comes between them goes first or last.
                let group = |command: &Command| match command {
                    Command::Claim(claim) => Some((claim.campaign, claim.kind.name())),
                    _ => None,
                };
                commands.sort_by_key(group);
                for run in commands.chunk_by(|a, b| group(a).is_some() && group(a) == group(b)) {
                    match run {
                        [command] if group(command).is_none() => {
                            self.command(command.clone()).await
                        }
                        claims => self.claims(claims.to_vec()).await,
                    }
                }
            }
            Transition::Wait(millis) => {
                self.clock.advance(millis);
                self.tick().await;
            }
            Transition::Restart => {
                let flushed = server().primary().call(&["SCRIPT", "FLUSH"]);
                flushed.unwrap();
                let turn = self.turn % 2;
                self.nodes[turn].abort();
                self.nodes[turn] = node(&self.prefix, &self.clock).await;
                self.connections[turn] = connection(&self.nodes[turn]);
            }
        }
    }

    async fn tick(&mut self) {
        let events_max = EVENTS_MAX;
        self.command(Command::Tick { events_max }).await;
    }

    /// Log and numbers of both are the same.
    async fn look(&self) {
        let engine = &self.nodes[self.turn % 2];
        assert_eq!(
            engine.read(PARTITION, 0, usize::MAX).await.unwrap(),
            self.log
        );
        assert_eq!(engine.head(PARTITION).await.unwrap(), self.log.len() as u64);
        for setup in &self.setups {
            let id = setup.campaign.id;
            let tally = engine.tally(id).await.unwrap();
            assert_eq!(tally, self.book.tally(self.now(), id), "{id}");
            for number in 1..=tally.map_or(0, |tally| tally.grants) {
                let order = Target::of(setup).order(number);
                assert_eq!(engine.order(order).await.unwrap(), self.book.order(order));
            }
        }
    }
}

/// Histories of one run; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    })]

    #[test]
    fn redis_does_what_the_book_says(
        transitions in prop::collection::vec(histories::transition(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for transition in transitions {
                world.step(transition).await;
                world.look().await;
            }
            for node in &world.nodes {
                node.abort();
            }
        });
    }
}
