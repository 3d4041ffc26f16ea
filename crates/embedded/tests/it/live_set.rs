//! Idle campaigns leave memory, and answers do not show it.

use std::{path::Path, sync::Arc, time::Duration};

use qiang_core::{
    book::{CampaignAction, Claim, Command, Grace, PaymentOutcome, Refusal, Reply, Setup},
    campaign::Phase,
    event::PartitionId,
    id::{IdempotencyKey, PaymentRef},
    money::Money,
    order::OrderState,
    outcome::{Grant, Outcome},
    payment::ReceivedMoney,
    ports::{AccountStore as _, CampaignStore as _, Engine, EngineError, SettlementStore as _},
    split::SplitRule,
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, red_packet, sale, user},
};

const MINUTE_MS: i64 = 60_000;
/// How long campaigns are kept.
const KEPT: Duration = Duration::from_secs(120);

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

struct Scene {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    engine: Embedded,
}

impl Scene {
    fn new(idle_campaign_ttl: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(OPENS);
        let engine = open(folder.path(), &clock, idle_campaign_ttl);
        Self {
            folder,
            clock,
            engine,
        }
    }

    fn create(&self, setup: Setup) -> Target {
        let target = Target::of(&setup);
        let funds = Money::new(1_000, setup.campaign.currency());
        let (id, owner) = (setup.campaign.id.uuid(), user("owner"));
        block_on(self.engine.deposit(id, &owner, funds)).unwrap();
        block_on(self.engine.create(&setup)).unwrap();
        self.command(Command::Open(Box::new(setup))).unwrap();
        target
    }

    fn command(&self, command: Command) -> Result<Reply, EngineError> {
        block_on(self.engine.submit(command))
    }

    fn claim(&self, claim: Claim) -> Outcome {
        block_on(self.engine.claim(claim)).unwrap().outcome
    }

    fn grant(&self, claim: Claim) -> Grant {
        match self.claim(claim) {
            Outcome::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    fn settle(&self) {
        let (head, _) = self.engine.positions();
        let settled = self
            .engine
            .await_settled(PartitionId(0), head, Duration::from_secs(20));
        assert_eq!(block_on(settled), Ok(true));
    }

    /// Lets time pass until no campaign is in memory.
    fn forget(&self) {
        self.settle();
        self.clock.advance(3 * MINUTE_MS);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while self.engine.campaigns_in_memory() > 0 {
            assert!(
                std::time::Instant::now() < deadline,
                "campaigns stay in memory"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn restart(&mut self) {
        self.engine.close();
        self.engine = open(self.folder.path(), &self.clock, KEPT);
        assert_eq!(
            self.engine.campaigns_in_memory(),
            0,
            "a start reads no campaign"
        );
    }

    fn state_of(&self, target: Target, number: u32) -> OrderState {
        let view = block_on(self.engine.order(target.order(number)))
            .unwrap()
            .unwrap();
        view.grant.order.unwrap().state
    }
}

fn open(folder: &Path, clock: &Arc<ManualClock>, idle_campaign_ttl: Duration) -> Embedded {
    let options = EmbeddedOptions {
        grace: Grace::default(),
        idle_campaign_ttl,
        ..EmbeddedOptions::default()
    };
    let clock = Arc::clone(clock);
    Embedded::open_with(&folder.join("qiang.db"), clock, options).unwrap()
}

fn pay(target: Target, number: u32, payment: &str) -> Command {
    Command::Pay {
        order: target.order(number),
        payment: PaymentRef::new(payment).unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    }
}

fn keyed(claim: Claim, key: &str) -> Claim {
    Claim {
        key: Some(IdempotencyKey::new(key).unwrap()),
        ..claim
    }
}

/// Everything that may still happen to a campaign, after it has left memory and after a restart.
#[test]
fn nobody_can_tell_that_a_campaign_was_away() {
    let mut scene = Scene::new(KEPT);
    let packet = scene.create(red_packet(1_000, 5, SplitRule::Lazy { min: 1 }).setup(1));
    let sale = scene.create(sale(5).limit(3).hold_ms(60 * MINUTE_MS).setup(2));
    let share = scene.grant(keyed(packet.one("a"), "one"));
    let first = scene.grant(keyed(sale.one("a"), "one"));
    let second = scene.grant(keyed(sale.one("a"), "two"));
    scene.command(pay(sale, first.number, "p1")).unwrap();
    for restarts in [false, true] {
        scene.forget();
        if restarts {
            scene.restart();
        }
        let tally = block_on(scene.engine.tally(sale.id)).unwrap().unwrap();
        assert_eq!((tally.granted, tally.remaining), (2, 3));
        assert_eq!(scene.state_of(sale, first.number), OrderState::Paid);
        assert_eq!(
            scene.engine.campaigns_in_memory(),
            0,
            "who only reads brings nothing back"
        );
        // A retry is a replay, by the user and by the key.
        assert_eq!(scene.claim(packet.one("a")), Outcome::AlreadyGranted(share));
        // No share is found by its key, which the rows do not have.
        let several = Claim {
            quantity: 2,
            ..keyed(packet.one("a"), "one")
        };
        assert_eq!(scene.claim(several), Outcome::AlreadyGranted(share));
        let again = scene.claim(keyed(sale.one("a"), "two"));
        assert_eq!(again, Outcome::AlreadyGranted(second));
        let reused = Claim {
            quantity: 2,
            ..keyed(sale.one("a"), "two")
        };
        let refused = block_on(scene.engine.claim(reused)).map(drop);
        assert_eq!(refused, Err(EngineError::Refused(Refusal::KeyReused)));
        let paid = scene.command(pay(sale, first.number, "p1")).unwrap();
        assert!(
            matches!(paid, Reply::Payment(PaymentOutcome::Paid, _)),
            "{paid:?}"
        );
    }
    // After a reload, numbers continue after the last number before the eviction.
    scene.forget();
    assert_eq!(scene.grant(packet.one("b")).number, share.number + 1);
    assert_eq!(scene.grant(sale.one("b")).number, second.number + 1);
    // Over, and still answering.
    let act = Command::Act {
        campaign: sale.id,
        action: CampaignAction::Close,
    };
    scene.command(act.clone()).unwrap();
    scene.forget();
    assert_eq!(
        scene.claim(keyed(sale.one("a"), "two")),
        Outcome::AlreadyGranted(second)
    );
    assert_eq!(scene.claim(sale.one("c")), Outcome::Ended);
    let late = scene.command(pay(sale, first.number, "p2")).unwrap();
    assert!(
        matches!(late, Reply::Payment(PaymentOutcome::RefundDue, _)),
        "{late:?}"
    );
    scene.forget();
    let order = sale.order(first.number);
    scene
        .command(Command::Return { order, part: None })
        .unwrap();
    scene.forget();
    assert_eq!(scene.state_of(sale, first.number), OrderState::Returned);
    scene.command(act).unwrap(); // closing again changes nothing
    let unknown = Target {
        id: red_packet(10, 1, SplitRule::Equal).setup(9).campaign.id,
        ..packet
    };
    assert_eq!(scene.claim(unknown.one("a")), Outcome::UnknownCampaign);
}

/// Windows end and holds expire of campaigns that are not in memory.
#[test]
fn the_time_changes_campaigns_that_are_away() {
    for restarts in [false, true] {
        let mut scene = Scene::new(KEPT);
        let packet =
            scene.create(red_packet(1_000, 5, SplitRule::DoubleAverage { min: 1 }).setup(1));
        let sale = scene.create(sale(5).hold_ms(60 * MINUTE_MS).setup(2));
        let order = scene.grant(sale.one("a"));
        scene.grant(packet.one("a"));
        scene.forget();
        if restarts {
            scene.restart();
        }
        let head = scene.engine.positions().0;
        scene.clock.advance(90 * MINUTE_MS);
        wait_for(|| scene.engine.positions().0 > head);
        assert_eq!(scene.state_of(sale, order.number), OrderState::Expired);
        scene.forget();
        let ends_at = red_packet(1_000, 5, SplitRule::Equal)
            .setup(1)
            .campaign
            .window
            .ends_at();
        let now = qiang_core::ports::Clock::now(&*scene.clock);
        scene
            .clock
            .advance(ends_at.millis_since(now).max(0) + MINUTE_MS);
        for target in [packet, sale] {
            let is_closed = || {
                let tally = block_on(scene.engine.tally(target.id)).unwrap().unwrap();
                tally.phase == Phase::Closed
            };
            wait_for(is_closed);
        }
        scene.forget();
    }
}

fn wait_for(reached: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while !reached() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Campaigns are evicted and reloaded while many users claim from them.
#[test]
fn users_who_ask_while_it_leaves_and_comes_back_get_one_share_each() {
    let scene = Scene::new(Duration::ZERO);
    let packets: Vec<_> = (1..=8)
        .map(|n| scene.create(red_packet(1_000, 100, SplitRule::DoubleAverage { min: 1 }).setup(n)))
        .collect();
    let asked = |thread: u32| {
        let (engine, packets) = (&scene.engine, &packets);
        let mut granted = 0;
        for n in 0..200_u32 {
            let who = format!("u{}", (n * 7 + thread) % 150);
            for packet in packets {
                let outcome = block_on(engine.claim(packet.one(&who))).unwrap().outcome;
                granted += u32::from(matches!(outcome, Outcome::Granted(_)));
            }
            if n % 16 == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        granted
    };
    let granted: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || asked(thread)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(granted, 800);
    for packet in &packets {
        let tally = block_on(scene.engine.tally(packet.id)).unwrap().unwrap();
        assert_eq!((tally.granted, tally.remaining), (100, 0));
        assert!(tally.conserves());
    }
}

/// Claims that wait for a campaign are decided in order of arrival.
#[test]
fn what_waits_for_a_campaign_keeps_its_order() {
    let scene = Scene::new(KEPT);
    let sale = scene.create(sale(100).setup(1));
    for round in 0..5_u32 {
        scene.forget();
        let ask = |n| scene.engine.claim(sale.one(&format!("u{n}")));
        let asked: Vec<_> = (round * 20..(round + 1) * 20).map(ask).collect();
        for (number, ticket) in (round * 20 + 1..).zip(asked) {
            match block_on(ticket).unwrap().outcome {
                Outcome::Granted(grant) => assert_eq!(grant.number, number),
                other => panic!("{other:?}"),
            }
        }
    }
}
