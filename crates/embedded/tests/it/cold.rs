//! Reads of evicted campaigns take a few rows, however many grants there are.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Claim, Command, Reply, Setup},
    event::PartitionId,
    id::PaymentRef,
    money::Money,
    order::OrderState,
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{AccountStore as _, CampaignStore as _, Engine, SettlementStore as _},
    split::SplitRule,
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, red_packet, sale, user},
};

const HOLD_MS: i64 = 60 * 60_000;

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
    fn new() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(OPENS));
        let engine = open(&folder, &clock);
        Self {
            folder,
            clock,
            engine,
        }
    }

    fn create(&self, setup: Setup) -> Target {
        let target = Target::of(&setup);
        let funds = Money::new(10_000, setup.campaign.currency());
        let id = setup.campaign.id.uuid();
        block_on(self.engine.deposit(id, &user("owner"), funds)).unwrap();
        block_on(self.engine.create(&setup)).unwrap();
        self.command(Command::Open(Box::new(setup)));
        target
    }

    fn command(&self, command: Command) -> Reply {
        block_on(self.engine.submit(command)).unwrap()
    }

    fn claim(&self, claim: Claim) -> Outcome {
        block_on(self.engine.claim(claim)).unwrap().outcome
    }

    fn look(&self, claim: &Claim) -> Option<Outcome> {
        block_on(self.engine.gate_outcome(claim)).unwrap()
    }

    /// Settles everything and restarts: no campaign is in memory.
    fn restart(&mut self) {
        let head = self.engine.positions().0;
        let settled = self
            .engine
            .await_settled(PartitionId(0), head, Duration::from_secs(60));
        assert_eq!(block_on(settled), Ok(true));
        self.engine.close();
        self.engine = open(&self.folder, &self.clock);
        assert_eq!(self.engine.campaigns_in_memory(), 0);
    }
}

fn open(folder: &tempfile::TempDir, clock: &Arc<ManualClock>) -> Embedded {
    let path = folder.path().join("qiang.db");
    let options = EmbeddedOptions::default();
    Embedded::open_with(&path, Arc::clone(clock) as _, options).unwrap()
}

#[test]
fn nothing_is_read_whole_for_numbers_an_order_or_a_user() {
    let mut scene = Scene::new();
    let sale = scene.create(sale(10).limit(3).hold_ms(HOLD_MS).setup(1));
    let rules = [
        SplitRule::Equal,
        SplitRule::DoubleAverage { min: 1 },
        SplitRule::Lazy { min: 1 },
    ];
    let packets = (2..).zip(rules);
    let packets: Vec<_> = packets
        .map(|(n, rule)| scene.create(red_packet(1_000, 5, rule).setup(n)))
        .collect();
    for (name, key) in [("a", "one"), ("b", "one"), ("a", "two"), ("c", "one")] {
        assert!(scene.claim(sale.keyed(name, 1, key)).grant().is_some());
    }
    for packet in &packets {
        for name in ["a", "b"] {
            assert!(scene.claim(packet.one(name)).grant().is_some());
        }
    }
    let payment = |number, payment: &str| Command::Pay {
        order: sale.order(number),
        payment: PaymentRef::new(payment).unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    scene.command(payment(1, "p-1"));
    scene.command(payment(1, "p-2"));
    let order = sale.order(4);
    scene.command(Command::Cancel { order, part: None });

    // Claims to compare with the answers from memory.
    let looks: Vec<_> = packets
        .iter()
        .chain([&sale])
        .flat_map(|target| ["a", "nobody"].map(|name| target.one(name)))
        .chain([sale.keyed("a", 1, "two"), sale.keyed("a", 2, "two")])
        .chain([sale.units("a", 2), sale.mistaken().one("a")])
        .collect();
    let answers = |scene: &Scene| {
        let targets = packets.iter().chain([&sale]);
        let tallies: Vec<_> = targets
            .map(|target| block_on(scene.engine.tally(target.id)).unwrap())
            .collect();
        let orders: Vec<_> = (0..6)
            .map(|number| block_on(scene.engine.order(sale.order(number))).unwrap())
            .collect();
        let looks: Vec<_> = looks.iter().map(|claim| scene.look(claim)).collect();
        (tallies, orders, looks)
    };
    let expected = answers(&scene);
    let state = |number: usize| {
        let order = expected.1[number].as_ref().unwrap().grant.order.unwrap();
        (order.state, order.refunds_due)
    };
    assert_eq!(state(1), (OrderState::Paid, 1));
    assert_eq!(state(4), (OrderState::Cancelled, 0));

    scene.restart();
    assert_eq!(answers(&scene), expected);
    assert_eq!(scene.engine.campaigns_read(), 0);
    assert_eq!(scene.engine.campaigns_in_memory(), 0);
    // The same after the campaigns are closed.
    for target in packets.iter().chain([&sale]) {
        scene.command(Command::Act {
            campaign: target.id,
            action: qiang_core::book::CampaignAction::Close,
        });
    }
    let expected = answers(&scene);
    scene.restart();
    assert_eq!(answers(&scene), expected);
    assert_eq!(scene.engine.campaigns_read(), 0);
}
