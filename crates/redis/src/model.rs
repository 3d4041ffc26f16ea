//! Random histories on Redis and on a bare book, compared by outcomes, log and counters.
//!
//! Two nodes alternate on one partition. Claims that arrive together for one campaign, or for several packets, reach
//! Redis in one call. So a batch runs on the state that earlier batches, payments and restarts have left. The script
//! cache is flushed at times. In half of the histories each closed campaign is evicted from Redis after each step, and
//! reloaded from a ledger when it is needed.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use proptest::{prelude::*, test_runner::Config};
use qiang_core::{
    book::{Book, Claim, Command, Grace, Reply, Setup},
    campaign::{Phase, Tally},
    event::{Entry, PartitionId},
    money::Money,
    ports::{
        AccountStore as _, CampaignStore as _, Engine as _, EngineError, EventLog as _,
        RetireEngine as _,
    },
    time::Timestamp,
};
use qiang_embedded::SqliteLedger;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, OWNER, Target, user},
    histories::{self, Request, Transition},
    servers::redis::{Options as ServerOptions, Standalone},
};
use qiang_worker::settlement::settle_once;

use crate::{
    RedisEngine, RedisOptions, campaigns::claims, connection::CallConnection,
    intake::batcher::submitted,
};

const PARTITION: PartitionId = PartitionId(0);
/// Time for which orders accept payments that are reported late.
const GRACE: Duration = Duration::from_secs(30);
/// More events than a history makes due at a time.
const EVENTS_MAX: usize = 10_000;

/// One server for all histories; each history has its own keys.
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
    /// Ledger from which closed campaigns are reloaded; `None` if they are not evicted.
    ledger: Option<(Arc<SqliteLedger>, tempfile::TempDir)>,
    retired: u64,
}

/// A ledger with these campaigns.
async fn ledger(
    clock: &Arc<ManualClock>,
    setups: &[Setup],
) -> (Arc<SqliteLedger>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path, clock.clone()).unwrap();
    for setup in setups {
        let minor = setup.campaign.funded_minor();
        if minor > 0 {
            let money = Money::new(minor, setup.campaign.currency());
            let id = setup.campaign.id.uuid();
            ledger.deposit(id, &user(OWNER), money).await.unwrap();
        }
        ledger.create(setup).await.unwrap();
    }
    (Arc::new(ledger), folder)
}

async fn node(
    prefix: &str,
    clock: &Arc<ManualClock>,
    ledger: Option<&(Arc<SqliteLedger>, tempfile::TempDir)>,
) -> RedisEngine {
    let options = RedisOptions {
        urls: vec![server().url()],
        prefix: prefix.to_owned(),
        partitions: 1,
        payment_grace: GRACE,
        // Claims of a slow history must not be late.
        claim_timeout: Duration::from_secs(600),
        clock: Some(clock.clone()),
        // A node's own ticks judge holds by the time since which that node has accepted payment reports. The book does
        // not know this time.
        ticks: false,
        // The whole log is compared at the end, and campaigns are evicted at once.
        retain: Duration::from_secs(3_600),
        closed_campaign_ttl: Duration::ZERO,
        ..RedisOptions::default()
    };
    let connected = RedisEngine::connect(options, &[]).await;
    let engine = connected.unwrap_or_else(|error| panic!("{error:?}"));
    if let Some((ledger, _)) = ledger {
        engine.recall_from(ledger.clone());
    }
    // Before the clock moves: a node without a record of service would treat that as a downtime.
    engine.node.note_served(PARTITION).await.unwrap();
    engine
}

fn connection(node: &RedisEngine) -> CallConnection {
    node.node.partitions.connection(PARTITION, "model")
}

impl World {
    async fn new(retires: bool) -> Self {
        static HISTORIES: AtomicU64 = AtomicU64::new(0);
        let prefix = format!("model{}", HISTORIES.fetch_add(1, Ordering::Relaxed));
        let clock = ManualClock::new(OPENS);
        let setups = histories::setups();
        let ledger = match retires {
            true => Some(ledger(&clock, &setups).await),
            false => None,
        };
        let start = || node(&prefix, &clock, ledger.as_ref());
        let nodes = [start().await, start().await];
        Self {
            connections: nodes.iter().map(connection).collect(),
            prefix,
            clock,
            nodes,
            turn: 0,
            setups,
            ledger,
            retired: 0,
            book: Book::with_grace(Grace {
                ms: GRACE.as_millis() as i64,
                ..Grace::default()
            }),
            log: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        qiang_core::ports::Clock::now(&*self.clock)
    }

    /// Decides claims in one call, or one per sale, and compares each answer with the book's.
    async fn claims(&mut self, claims: &[Claim]) {
        self.turn += 1;
        let turn = self.turn % 2;
        let (batches, tickets) = submitted(claims);
        let node = &self.nodes[turn].node;
        claims::decide(node, &mut self.connections[turn], PARTITION, batches).await;
        for (claim, ticket) in claims.iter().zip(tickets) {
            let answer = ticket.await.map(|claimed| claimed.outcome);
            let expected = self.book.claim(self.now(), claim, &mut self.log);
            assert_eq!(answer, expected.map_err(EngineError::from), "{claim:?}");
        }
    }

    async fn command(&mut self, command: Command) {
        self.turn += 1;
        let mut answer = self.nodes[self.turn % 2].submit(command.clone()).await;
        let expected = self.book.apply(self.now(), &command, &mut self.log);
        if let (Ok(Reply::Acted(tally)), Ok(Reply::Acted(expected))) = (&mut answer, &expected) {
            fill_uncounted(tally, expected);
        }
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
                // Claims come together, before the commands that came between them.
                let mut claims = Vec::new();
                let mut commands = Vec::new();
                for step in steps {
                    match histories::request(&self.setups, step) {
                        Request::Claim(claim) => claims.push(claim),
                        Request::Command(command) => commands.push(command),
                    }
                }
                claims.sort_by_key(|claim| (claim.campaign, claim.kind.name()));
                self.claims(&claims).await;
                for command in commands {
                    self.command(command).await;
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
                self.nodes[turn] = node(&self.prefix, &self.clock, self.ledger.as_ref()).await;
                self.connections[turn] = connection(&self.nodes[turn]);
            }
        }
    }

    async fn tick(&mut self) {
        let events_max = EVENTS_MAX;
        self.command(Command::Tick { events_max }).await;
    }

    /// Evicts all closed campaigns, if the history does that.
    async fn retire(&mut self) {
        let Some((ledger, _)) = &self.ledger else {
            return;
        };
        let engine = &self.nodes[self.turn % 2];
        loop {
            let step = settle_once(engine, &**ledger, PARTITION, usize::MAX).await;
            let step = step.unwrap();
            if step.settled == step.head {
                break;
            }
        }
        let retired = engine.retire(PARTITION, &**ledger).await.unwrap();
        self.retired += retired.campaigns;
    }

    /// Asserts that log and counters of both are equal.
    async fn compare_state(&self) {
        let engine = &self.nodes[self.turn % 2];
        let log = engine.read(PARTITION, 0, usize::MAX).await.unwrap();
        let seqs = log.iter().map(|entry| entry.seq);
        assert!(seqs.eq(1..=self.log.len() as u64), "{log:?}");
        assert_eq!(by_campaign(log), by_campaign(self.log.clone()));
        assert_eq!(engine.head(PARTITION).await.unwrap(), self.log.len() as u64);
        for setup in &self.setups {
            let id = setup.campaign.id;
            let mut tally = engine.tally(id).await.unwrap();
            let expected = self.book.tally(self.now(), id);
            if let (Some(tally), Some(expected)) = (&mut tally, &expected) {
                fill_uncounted(tally, expected);
            }
            assert_eq!(tally, expected, "{id}");
            for number in 1..=tally.map_or(0, |tally| tally.grants) {
                let order = Target::of(setup).order(number);
                assert_eq!(engine.order(order).await.unwrap(), self.book.order(order));
            }
        }
    }
}

/// Fills in the number of grants, which is not counted for a closed sale that was evicted.
fn fill_uncounted(tally: &mut Tally, expected: &Tally) {
    if (tally.phase, tally.grants) == (Phase::Closed, 0) {
        tally.grants = expected.grants;
    }
}

/// A log, ordered by campaign. The order in which a tick processes two campaigns is undefined. Claims on Redis record
/// holds as due without the grace, until a tick has checked them.
fn by_campaign(mut log: Vec<Entry>) -> Vec<Entry> {
    log.sort_by_key(|entry| entry.campaign); // stable
    (1..).zip(&mut log).for_each(|(seq, entry)| entry.seq = seq);
    log
}

/// Histories of one run; `PROPTEST_CASES` overrides the number.
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
        run(transitions, false);
    }

    #[test]
    fn nobody_can_tell_that_campaigns_have_left(
        transitions in prop::collection::vec(histories::transition(), 1..40),
    ) {
        run(transitions, true);
    }
}

/// Number of evicted campaigns in all histories.
static RETIRED: AtomicU64 = AtomicU64::new(0);

fn run(transitions: Vec<Transition>, retires: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(retires).await;
        for transition in transitions {
            world.step(transition).await;
            world.retire().await;
            world.compare_state().await;
        }
        RETIRED.fetch_add(world.retired, Ordering::Relaxed);
        for node in &world.nodes {
            node.abort();
        }
    });
}

/// Such histories do evict and reload campaigns: each campaign is read after every step.
#[test]
fn campaigns_leave_in_such_histories() {
    let open = |campaign| Transition::Open(campaign);
    let opened: Vec<_> = (0..histories::setups().len()).map(open).collect();
    let wait = || Transition::Wait(20 * 60_000);
    run(
        opened
            .into_iter()
            .chain([wait(), wait(), wait(), wait()])
            .collect(),
        true,
    );
    assert!(RETIRED.load(Ordering::Relaxed) >= histories::setups().len() as u64);
}
