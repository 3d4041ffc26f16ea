//! Random histories on the embedded engine and on a plain book: outcomes, log and numbers are the same.
//!
//! The book never restarts and never batches; the engine does both. Commands of one batch are submitted without waiting
//! for answers, so they share the writer's batches at random. The writer also ticks on its own. The clock is fixed
//! between transitions, and each transition that moves it ends with a tick, so the writer's own ticks find nothing due.

use std::{sync::Arc, time::Duration};

use proptest::{prelude::*, test_runner::Config};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use qiang_core::{
    book::{Book, Claim, Command, Grace, Refusal, Reply},
    event::{Entry, Event, PartitionId},
    ports::{
        AccountStore as _, CampaignStore as _, Claimed, Engine, EngineError, EventLog,
        PendingReply, SettlementStore as _,
    },
    time::Timestamp,
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    auditor::{Exchange, History, assert_sound},
    campaign::{OPENS, Target, user},
    histories::{self, Request, Transition},
};

/// Events of a tick: as many as the writer's own, so that both handle all due events at once.
const TICK_EVENTS_MAX: usize = 1_024;

/// Generates histories; the book computes the expected results.
struct Histories;

impl ReferenceStateMachine for Histories {
    type State = ();
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Transition> {
        histories::transition().boxed()
    }

    fn apply((): (), _: &Transition) {}
}

/// Grace that orders get for payments reported late.
fn grace() -> Grace {
    Grace {
        ms: 30_000,
        ..Grace::default()
    }
}

/// The engine under test, and the book as its model.
struct Pair {
    runtime: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    engine: Option<Embedded>,
    residence: Residence,
    book: Book,
    history: History,
    log: Vec<Entry>,
}

/// Which campaigns the engine keeps in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Residence {
    /// All.
    Kept,
    /// Only unsettled ones. A request reloads its campaign.
    Reloaded,
    /// Only unsettled ones. Requests are decided from rows.
    FromRows,
}

impl Residence {
    fn options(self) -> EmbeddedOptions {
        let options = EmbeddedOptions {
            grace: grace(),
            ..EmbeddedOptions::default()
        };
        match self {
            Self::Kept => EmbeddedOptions {
                idle_campaign_ttl: Duration::MAX,
                ..options
            },
            Self::Reloaded => EmbeddedOptions {
                idle_campaign_ttl: Duration::ZERO,
                ..options
            },
            Self::FromRows => EmbeddedOptions {
                idle_campaign_ttl: Duration::ZERO,
                small_campaign_max: 0,
                ..options
            },
        }
    }
}

/// Entries without their places. Campaigns that are due at once have no order among each other.
fn by_campaign(log: &[Entry]) -> Vec<Entry> {
    let mut entries = log.to_vec();
    entries.sort_by_key(|entry| (entry.campaign, entry.seq));
    for entry in &mut entries {
        entry.seq = 0;
        if let Event::TermsChanged { revision, .. } = &mut entry.event {
            *revision = 0; // the place of the entry
        }
    }
    entries
}

enum Pending {
    Claim(PendingReply<Claimed>, Claim),
    Command(PendingReply<Reply>, Command),
}

impl Pair {
    fn new(residence: Residence) -> Self {
        let mut pair = Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            directory: tempfile::tempdir().unwrap(),
            clock: ManualClock::new(OPENS),
            engine: None,
            residence,
            book: Book::with_grace(grace()),
            history: History {
                complete: true,
                ..History::default()
            },
            log: Vec::new(),
        };
        pair.start();
        for setup in histories::setups() {
            let engine = pair.engine.as_ref().unwrap();
            let owner = user("owner");
            if setup.campaign.funded_minor() > 0 {
                let minor = setup.campaign.funded_minor();
                let money = qiang_core::money::Money::new(minor, setup.campaign.currency());
                let deposit = engine.deposit(setup.campaign.id.uuid(), &owner, money);
                pair.runtime.block_on(deposit).unwrap();
            }
            let create = engine.create(&setup);
            pair.runtime.block_on(create).unwrap();
            pair.history.setups.push(setup);
        }
        pair
    }

    fn start(&mut self) {
        let path = self.directory.path().join("qiang.db");
        let clock = Arc::clone(&self.clock);
        let opened = Embedded::open_with(&path, clock, self.residence.options());
        self.engine = Some(opened.unwrap_or_else(|error| panic!("{error}")));
        self.recall_all();
    }

    fn now(&self) -> Timestamp {
        qiang_core::ports::Clock::now(&*self.clock)
    }

    /// Submits without waiting, then compares every answer with the book's. A task that waits for its campaign may be
    /// decided after a task of another campaign. So an engine that keeps no campaign in memory gets single requests.
    fn batch(&mut self, requests: Vec<Request>) {
        let together = match self.residence {
            Residence::Kept => requests.len().max(1),
            Residence::Reloaded | Residence::FromRows => 1,
        };
        for requests in requests.chunks(together) {
            self.together(requests);
        }
    }

    fn together(&mut self, requests: &[Request]) {
        let engine = self.engine.as_ref().unwrap();
        let submit = |request: &Request| match request.clone() {
            Request::Claim(claim) => Pending::Claim(engine.claim(claim.clone()), claim),
            Request::Command(command) => Pending::Command(engine.submit(command.clone()), command),
        };
        let pending: Vec<_> = requests.iter().map(submit).collect();
        let now = self.now();
        for pending in pending {
            self.history.exchanges.push(match pending {
                Pending::Claim(ticket, claim) => {
                    let outcome = self.runtime.block_on(ticket).map(|claimed| claimed.outcome);
                    let expected = self.book.claim(now, &claim, &mut self.log);
                    assert_eq!(outcome, expected.map_err(EngineError::from), "{claim:?}");
                    Exchange::Claim(claim, outcome)
                }
                Pending::Command(ticket, command) => {
                    let reply = self.runtime.block_on(ticket);
                    let expected = self.book.apply(now, &command, &mut self.log);
                    assert_eq!(reply, expected.map_err(EngineError::from), "{command:?}");
                    Exchange::Command(command, reply)
                }
            });
        }
    }

    /// Makes the engine reload every campaign, by commands that change nothing.
    fn recall_all(&self) {
        let engine = self.engine.as_ref().unwrap();
        for setup in &self.history.setups {
            let order = Target::of(setup).order(u32::MAX);
            let refused = self
                .runtime
                .block_on(engine.submit(Command::Cancel { order, part: None }));
            assert_eq!(refused, Err(Refusal::UnknownOrder.into()));
        }
    }

    fn tick(&mut self) {
        let events_max = TICK_EVENTS_MAX;
        self.batch(vec![Command::Tick { events_max }.into()]);
    }

    /// The latest claims, newest first.
    fn last_claims(&self) -> impl Iterator<Item = &Claim> {
        let exchanges = self.history.exchanges.iter().rev();
        let claims = exchanges.filter_map(|exchange| match exchange {
            Exchange::Claim(claim, _) => Some(claim),
            Exchange::Command(..) => None,
        });
        claims.take(8)
    }

    /// Asserts that log, numbers and answers of both are the same.
    fn compare(&self) {
        let engine = self.engine.as_ref().unwrap();
        let read = engine.read(PartitionId(0), 0, usize::MAX);
        let log = self.runtime.block_on(read).unwrap();
        match self.residence {
            Residence::Kept | Residence::Reloaded => assert_eq!(log, self.log),
            Residence::FromRows => assert_eq!(by_campaign(&log), by_campaign(&self.log)),
        }
        let now = self.now();
        for claim in self.last_claims() {
            let outcome = self.runtime.block_on(engine.gate_outcome(claim)).unwrap();
            let expected = self.book.try_gate_outcome(now, claim, self.book.head());
            assert_eq!(outcome, expected, "{claim:?}");
        }
        for setup in &self.history.setups {
            let id = setup.campaign.id;
            let tally = self.runtime.block_on(engine.tally(id)).unwrap();
            assert_eq!(tally, self.book.tally(now, id), "{id}");
            for number in 1..=tally.map_or(0, |tally| tally.grants) {
                let order = Target::of(setup).order(number);
                let view = self.runtime.block_on(engine.order(order)).unwrap();
                assert_eq!(view, self.book.order(order));
            }
        }
    }

    fn apply(&mut self, transition: Transition) {
        match transition {
            Transition::Open(campaign) => {
                let setup = Box::new(self.history.setups[campaign].clone());
                self.batch(vec![Command::Open(setup).into()]);
                self.tick(); // // its end may be due
            }
            Transition::Batch(steps) => {
                let requests = steps
                    .into_iter()
                    .map(|step| histories::request(&self.history.setups, step))
                    .collect();
                self.batch(requests);
            }
            Transition::Wait(millis) => {
                self.clock.advance(millis);
                self.tick();
            }
            Transition::Restart => {
                self.engine.take().unwrap().abort();
                self.start();
                self.tick();
            }
        }
    }

    fn finish(mut self) {
        let engine = self.engine.take().unwrap();
        self.history.logs = vec![std::mem::take(&mut self.log)];
        // The whole history can be settled.
        let head = self.history.logs[0].len() as u64;
        let settled = engine.await_settled(PartitionId(0), head, Duration::from_secs(20));
        assert_eq!(self.runtime.block_on(settled), Ok(true));
        engine.close();
        drop(assert_sound(&self.history));
    }
}

/// Engine that keeps campaigns in memory for longer than a history takes.
struct Kept;

/// Engine that evicts campaigns as soon as they are settled, and reloads them on demand.
struct Reloaded;

/// Engine that evicts campaigns as soon as they are settled, and decides requests from their rows.
struct FromRows;

macro_rules! state_machine_test {
    ($name:ident) => {
        impl StateMachineTest for $name {
            type SystemUnderTest = Pair;
            type Reference = Histories;

            fn init_test((): &()) -> Pair {
                Pair::new(Residence::$name)
            }

            fn apply(mut pair: Pair, (): &(), transition: Transition) -> Pair {
                pair.apply(transition);
                pair
            }

            fn check_invariants(pair: &Pair, (): &()) {
                pair.compare();
            }

            fn teardown(pair: Pair, (): ()) {
                pair.finish();
            }
        }
    };
}

state_machine_test!(Kept);
state_machine_test!(Reloaded);
state_machine_test!(FromRows);

/// Number of histories of one run; `PROPTEST_CASES` can raise it.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(48)
}

prop_state_machine! {
    #![proptest_config(Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    })]

    #[test]
    fn the_engine_does_what_the_book_says(sequential 1..40 => Kept);

    #[test]
    fn an_engine_that_keeps_nothing_in_memory_does_so_too(sequential 1..40 => Reloaded);

    #[test]
    fn an_engine_that_decides_from_rows_does_so_too(sequential 1..40 => FromRows);
}
