//! Random histories on the embedded engine and on a bare book: the same outcomes, the same log, the same numbers.
//!
//! The book on the side never restarts and never batches; the engine does both. Commands of one batch are submitted
//! without waiting for answers, so they share turns of the writer as chance will have it. The writer ticks by
//! itself; as the clock stands still between transitions, and each transition that moves it ends with a tick, what
//! it finds due at other times is nothing.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::{prelude::*, test_runner::Config};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use qiang_core::{
    book::{Book, Claim, Command, Grace, Reply},
    event::{Entry, PartitionId},
    ports::{
        AccountStore as _, CampaignStore as _, Claimed, Engine, EngineError, EventLog,
        SettlementStore as _, Ticket,
    },
    time::Timestamp,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    auditor::{Exchange, History, assert_sound},
    campaign::{OPENS, Target, user},
    histories::{self, Request, Transition},
};

/// Events of a tick; as many as the writer's own, so that both do all at once.
const TICK_EVENTS_MAX: usize = 1_024;

/// Generates histories; what they should come to is the business of the book.
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

/// Orders have so long for payments that are reported late.
fn grace() -> Grace {
    Grace {
        ms: 30_000,
        ..Grace::default()
    }
}

/// The engine and, beside it, the book.
struct Pair {
    runtime: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    engine: Option<Embedded>,
    book: Book,
    history: History,
    log: Vec<Entry>,
}

enum Pending {
    Claim(Ticket<Claimed>, Claim),
    Command(Ticket<Reply>, Command),
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            directory: tempfile::tempdir().unwrap(),
            clock: ManualClock::new(OPENS),
            engine: None,
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
        let opened = Embedded::open_with(&path, clock, grace());
        self.engine = Some(opened.unwrap_or_else(|error| panic!("{error}")));
    }

    fn now(&self) -> Timestamp {
        qiang_core::ports::Clock::now(&*self.clock)
    }

    /// Submits without waiting, then holds every answer against the book's.
    fn batch(&mut self, requests: Vec<Request>) {
        let engine = self.engine.as_ref().unwrap();
        let submit = |request| match request {
            Request::Claim(claim) => Pending::Claim(engine.claim(claim.clone()), claim),
            Request::Command(command) => Pending::Command(engine.submit(command.clone()), command),
        };
        let pending: Vec<_> = requests.into_iter().map(submit).collect();
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

    fn tick(&mut self) {
        let events_max = TICK_EVENTS_MAX;
        self.batch(vec![Command::Tick { events_max }.into()]);
    }

    /// Log and numbers of both are the same.
    fn compare(&self) {
        let engine = self.engine.as_ref().unwrap();
        let read = engine.read(PartitionId(0), 0, usize::MAX);
        let log = self.runtime.block_on(read).unwrap();
        assert_eq!(log, self.log);
        let now = self.now();
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
}

impl StateMachineTest for Pair {
    type SystemUnderTest = Self;
    type Reference = Histories;

    fn init_test((): &()) -> Self {
        Self::new()
    }

    fn apply(mut pair: Self, (): &(), transition: Transition) -> Self {
        match transition {
            Transition::Open(campaign) => {
                let setup = Box::new(pair.history.setups[campaign].clone());
                pair.batch(vec![Command::Open(setup).into()]);
                pair.tick(); // its window may be over
            }
            Transition::Batch(steps) => {
                let requests = steps
                    .into_iter()
                    .map(|step| histories::request(&pair.history.setups, step))
                    .collect();
                pair.batch(requests);
            }
            Transition::Wait(millis) => {
                pair.clock.advance(millis);
                pair.tick();
            }
            Transition::Restart => {
                pair.engine.take().unwrap().abort();
                pair.start();
                pair.tick();
            }
        }
        pair
    }

    fn check_invariants(pair: &Self, (): &()) {
        pair.compare();
    }

    fn teardown(mut pair: Self, (): ()) {
        let engine = pair.engine.take().unwrap();
        pair.history.logs = vec![std::mem::take(&mut pair.log)];
        // Everything that happened can be settled.
        let head = pair.history.logs[0].len() as u64;
        let wait_max = std::time::Duration::from_secs(20);
        let settled = engine.await_settled(PartitionId(0), head, wait_max);
        assert_eq!(pair.runtime.block_on(settled), Ok(true));
        engine.close();
        drop(assert_sound(&pair.history));
    }
}

/// Histories of one run; `PROPTEST_CASES` asks for more.
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
    fn the_engine_does_what_the_book_says(sequential 1..40 => Pair);
}
