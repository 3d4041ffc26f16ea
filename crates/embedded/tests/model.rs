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
    book::{Book, Claim, Command, Refusal, Reply, Setup, Steer},
    event::{Entry, PartitionId},
    id::PaymentRef,
    ports::{Engine, EngineError, EventLog, Ledger, Ticket},
    split::SplitRule,
    time::Timestamp,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    auditor::{Exchange, History, assert_sound},
    campaign::{OPENS, Target, red_packet, sale, user},
};

const MINUTE_MS: i64 = 60_000;
/// Events of a tick; as many as the writer's own, so that both do all at once.
const TICK_EVENTS_MAX: usize = 1_024;

/// The campaigns of every history; each may or may not be opened at some time.
fn setups() -> Vec<Setup> {
    let minutes = |n: i64| OPENS.plus_millis(n * MINUTE_MS);
    let builders = [
        sale(7).hold_ms(2 * MINUTE_MS),
        sale(12).limit(4).hold_ms(MINUTE_MS),
        sale(9)
            .limit(3)
            .hold_ms(MINUTE_MS)
            .window(minutes(3), 9 * MINUTE_MS),
        red_packet(1_000, 5, SplitRule::Lazy { min: 2 }),
        red_packet(1_000, 8, SplitRule::DoubleAverage { min: 2 }).window(minutes(2), 5 * MINUTE_MS),
    ];
    let numbered = (1..).zip(builders);
    numbered.map(|(n, builder)| builder.setup(n)).collect()
}

/// One command of a batch. Campaigns, users, orders, keys and payments are few, so that they meet often.
#[derive(Debug, Clone)]
enum Step {
    Claim {
        campaign: usize,
        mistaken: bool,
        user: u8,
        quantity: u32,
        key: Option<u8>,
    },
    Pay {
        campaign: usize,
        number: u32,
        payment: u8,
    },
    Cancel {
        campaign: usize,
        number: u32,
    },
    Steer {
        campaign: usize,
        steer: Steer,
    },
}

#[derive(Debug, Clone)]
enum Transition {
    Open(usize),
    Batch(Vec<Step>),
    /// Moves the clock, by milliseconds.
    Wait(i64),
    Restart,
}

fn campaign() -> impl Strategy<Value = usize> {
    0..setups().len()
}

fn claim() -> impl Strategy<Value = Step> {
    let mistaken = prop::bool::weighted(0.05);
    let key = prop::option::of(0..3_u8);
    (campaign(), mistaken, 0..6_u8, 1..4_u32, key).prop_map(
        |(campaign, mistaken, user, quantity, key)| Step::Claim {
            campaign,
            mistaken,
            user,
            // Of a packet, and of the sale with a limit of one, mostly one is asked for.
            quantity: if matches!(campaign, 0 | 3 | 4) {
                1.max(quantity - 1)
            } else {
                quantity
            },
            key,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let steer =
        prop_oneof![3 => Just(Steer::Pause), 5 => Just(Steer::Resume), 1 => Just(Steer::Close)];
    prop_oneof![
        12 => claim(),
        4 => (campaign(), 1..8_u32, 0..3_u8).prop_map(|(campaign, number, payment)| Step::Pay {
            campaign,
            number,
            payment,
        }),
        3 => (campaign(), 1..8_u32)
            .prop_map(|(campaign, number)| Step::Cancel { campaign, number }),
        1 => (campaign(), steer).prop_map(|(campaign, steer)| Step::Steer { campaign, steer }),
    ]
}

/// Generates histories; what they should come to is the business of the book.
struct Histories;

impl ReferenceStateMachine for Histories {
    type State = ();
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Transition> {
        let wait = prop_oneof![
            8 => 0..2 * MINUTE_MS,
            2 => Just(MINUTE_MS),
            2 => -4 * MINUTE_MS..0,
            1 => 3 * MINUTE_MS..30 * MINUTE_MS,
        ];
        prop_oneof![
            6 => campaign().prop_map(Transition::Open),
            20 => prop::collection::vec(step(), 1..12).prop_map(Transition::Batch),
            5 => wait.prop_map(Transition::Wait),
            2 => Just(Transition::Restart),
        ]
        .boxed()
    }

    fn apply((): (), _: &Transition) {}
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

type Answer = Result<Reply, EngineError>;

enum Pending {
    Claim(Ticket<qiang_core::ports::Claimed>),
    Command(Ticket<Reply>),
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
            book: Book::new(),
            history: History {
                complete: true,
                ..History::default()
            },
            log: Vec::new(),
        };
        pair.start();
        for setup in setups() {
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
        let opened = Embedded::open(&path, clock);
        self.engine = Some(opened.unwrap_or_else(|error| panic!("{error}")));
    }

    fn now(&self) -> Timestamp {
        qiang_core::ports::Clock::now(&*self.clock)
    }

    /// Submits without waiting, then holds every answer against the book's.
    fn batch(&mut self, commands: Vec<Command>) {
        let engine = self.engine.as_ref().unwrap();
        let submit = |command: &Command| match command {
            Command::Claim(claim) => Pending::Claim(engine.claim(claim.clone())),
            other => Pending::Command(engine.submit(other.clone())),
        };
        let pending: Vec<_> = commands.iter().map(submit).collect();
        let now = self.now();
        for (command, pending) in commands.into_iter().zip(pending) {
            let answer: Answer = match pending {
                Pending::Claim(ticket) => {
                    let claimed = self.runtime.block_on(ticket);
                    claimed.map(|claimed| Reply::Claimed(claimed.outcome))
                }
                Pending::Command(ticket) => self.runtime.block_on(ticket),
            };
            let expected: Result<Reply, Refusal> = self.book.apply(now, &command, &mut self.log);
            assert_eq!(answer, expected.map_err(EngineError::from), "{command:?}");
            let reply = answer;
            self.history.exchanges.push(Exchange { command, reply });
        }
    }

    fn tick(&mut self) {
        let events_max = TICK_EVENTS_MAX;
        self.batch(vec![Command::Tick { events_max }]);
    }

    fn command(&self, step: Step) -> Command {
        let target = |campaign: usize| Target::of(&self.history.setups[campaign]);
        match step {
            Step::Claim {
                campaign,
                mistaken,
                user,
                quantity,
                key,
            } => {
                let target = target(campaign);
                let target = if mistaken { target.mistaken() } else { target };
                let name = format!("u{user}");
                let claim: Claim = match key {
                    Some(key) => target.keyed(&name, quantity, &format!("k{key}")),
                    None => target.units(&name, quantity),
                };
                Command::Claim(claim)
            }
            Step::Pay {
                campaign,
                number,
                payment,
            } => Command::Pay {
                order: target(campaign).order(number),
                payment: PaymentRef::new(&format!("p{payment}")).unwrap(),
            },
            Step::Cancel { campaign, number } => Command::Cancel {
                order: target(campaign).order(number),
            },
            Step::Steer { campaign, steer } => Command::Steer {
                campaign: target(campaign).id,
                steer,
            },
        }
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
                pair.batch(vec![Command::Open(setup)]);
                pair.tick(); // its window may be over
            }
            Transition::Batch(steps) => {
                let commands = steps.into_iter().map(|step| pair.command(step)).collect();
                pair.batch(commands);
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
