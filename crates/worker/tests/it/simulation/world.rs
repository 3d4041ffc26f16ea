//! A world: its inhabitants and its duration.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use qiang_core::{
    book::Setup,
    campaign::{RedPacket, Rules},
    id::CampaignId,
    payment::PaymentPolicy,
    ports::{EventLog, Ledger},
    split::{ClientSeed, Commitment, SeedParts, ServerSeed, SplitRule},
};
use qiang_testkit::{
    auditor::{Exchange, Reveal},
    campaign::{OPENS, Target, red_packet, sale, user},
    simulation::{Bug, Draw, Rows, SimulatedClock, SimulatedEngine},
};
use qiang_worker::{
    drafts::DraftOpener,
    host::Host,
    packets::PacketCloser,
    retirement::Retirement,
    settlement::{Settlement, SettlementOptions},
};
use tokio::{task::JoinHandle, time::sleep};

use crate::fakes::{
    FakeLedger,
    kept::{Kept, Weather},
};

/// Campaigns of a world.
pub(crate) const CAMPAIGNS: u64 = 5;
/// Tolerance of payments, below every price of a seller.
const TOLERANCE_MINOR: i64 = 5;
/// Minor units of the campaigns' owner at the start.
pub(crate) const DEPOSIT_MINOR: i64 = 1_000_000;
const USERS: u64 = 12;
/// Duration of the faults, in the time of the world. All campaigns must end during the calm afterwards.
const TROUBLE_S: u64 = 420;
const CALM_S: u64 = 150;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) engine: SimulatedEngine,
    pub(crate) clock: Arc<SimulatedClock>,
    pub(crate) rows: Arc<Mutex<Rows>>,
    pub(crate) exchanges: Arc<Mutex<Vec<Exchange>>>,
    pub(crate) reveals: Arc<Mutex<Vec<Reveal>>>,
    /// Whether requests and replies are lost.
    pub(crate) trouble: Arc<Mutex<bool>>,
    pub(crate) numbers: Arc<Mutex<Numbers>>,
}

/// Counts of events in worlds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Claims, payments and all other calls of the engine.
    pub(crate) calls: u64,
    pub(crate) requests_lost: u64,
    pub(crate) replies_lost: u64,
    /// Lost requests to the ledger, and lost replies.
    pub(crate) ledger_lost: u64,
    /// Deaths of the process alone.
    pub(crate) deaths: u64,
    pub(crate) power_losses: u64,
    /// Jumps of the clock.
    pub(crate) jumps: u64,
    pub(crate) entries: u64,
    pub(crate) grants: u64,
    /// Orders that were not paid within their holds.
    pub(crate) expired: u64,
    /// Number of evictions of campaigns.
    pub(crate) left: u64,
    pub(crate) recalled: u64,
    /// Grants that were requested again after the end.
    pub(crate) late_retries: u64,
    /// Orders that were paid by an amount other than their price.
    pub(crate) accepted: u64,
    /// Answered cancellations of one unit of an order.
    pub(crate) parts_cancelled: u64,
    pub(crate) seeds_shown: u64,
}

impl Numbers {
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.requests_lost += other.requests_lost;
        self.replies_lost += other.replies_lost;
        self.ledger_lost += other.ledger_lost;
        self.deaths += other.deaths;
        self.power_losses += other.power_losses;
        self.jumps += other.jumps;
        self.entries += other.entries;
        self.grants += other.grants;
        self.expired += other.expired;
        self.left += other.left;
        self.recalled += other.recalled;
        self.late_retries += other.late_retries;
        self.accepted += other.accepted;
        self.parts_cancelled += other.parts_cancelled;
        self.seeds_shown += other.seeds_shown;
    }
}

/// Result of a world.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) breaches: Vec<String>,
    pub(crate) numbers: Numbers,
    /// Text of all decisions and answers.
    pub(crate) history: String,
}

fn setups(draw: &mut Draw) -> Vec<Setup> {
    let setup = |n| {
        let opens = OPENS.plus_millis(draw.below(120_000) as i64);
        let open_ms = 60_000 + draw.below(200_000) as i64;
        let builder = match n % 3 {
            0 => red_packet(1_000, 4 + draw.below(8) as u32, SplitRule::Lazy { min: 1 }),
            1 => red_packet(900, 6, SplitRule::DoubleAverage { min: 2 }),
            _ => sale(5 + draw.below(20) as u32)
                .limit(2)
                .hold_ms(40_000)
                .payment_policy(match n {
                    2 => PaymentPolicy::AcceptOver,
                    _ => PaymentPolicy::AcceptWithTolerance(TOLERANCE_MINOR),
                }),
        };
        let builder = builder.seed(draw.below(256) as u8);
        let mut setup = builder.window(opens, open_ms).setup(n);
        if let Rules::RedPacket(packet) = &mut setup.campaign.rules
            && draw.once_in(2)
        {
            let bytes = |draw: &mut Draw| [draw.below(256) as u8; 32];
            let parts = SeedParts {
                server_seed: ServerSeed::from_bytes(bytes(draw)),
                client_seed: ClientSeed::from_bytes(bytes(draw)),
            };
            *packet = RedPacket::from_parts(packet.split, packet.currency, parts);
        }
        setup.shares = setup.campaign.shares();
        setup
    };
    (1..=CAMPAIGNS).map(setup).collect()
}

/// Commitments that are published for each packet before any claim.
fn published(setups: &[Setup]) -> Vec<(CampaignId, Commitment)> {
    let commitment = |setup: &Setup| {
        let id = setup.campaign.id;
        let packet = setup.campaign.rules.red_packet()?;
        Some((id, packet.commitment(id)))
    };
    setups.iter().filter_map(commitment).collect()
}

impl World {
    pub(crate) async fn millis(draw: &mut Draw, below: u64) {
        sleep(Duration::from_millis(draw.below(below))).await;
    }

    pub(crate) fn is_troubled(&self) -> bool {
        *self.trouble.lock().unwrap()
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Numbers)) {
        count(&mut self.numbers.lock().unwrap());
    }

    fn new(draw: &mut Draw, bug: Option<Bug>) -> Self {
        let clock = Arc::new(SimulatedClock::new(bug));
        let rows = Arc::new(Mutex::new(Rows::new(bug)));
        let engine = SimulatedEngine::new(Arc::clone(&clock), Arc::clone(&rows), draw.fork(), bug);
        Self {
            engine,
            clock,
            rows,
            exchanges: Arc::default(),
            reveals: Arc::default(),
            trouble: Arc::new(Mutex::new(true)),
            numbers: Arc::default(),
        }
    }

    pub(crate) async fn run(seed: u64, bug: Option<Bug>) -> Ending {
        let mut draw = Draw::new(seed);
        let world = Self::new(&mut draw, bug);
        let setups = setups(&mut draw);
        let published = published(&setups);
        let ledger = world.ledger(&setups, draw.fork());
        let (host, settlements) = world.control(&ledger);
        let target = |setup| (Target::of(setup), setup.campaign.payment_policy);
        let targets: Vec<_> = setups.iter().map(target).collect();
        let mut people: Vec<JoinHandle<()>> = Vec::new();
        for n in 0..USERS {
            let (world, targets) = (world.clone(), targets.clone());
            people.push(tokio::spawn(world.user(n, targets, draw.fork())));
        }
        for setup in &setups {
            let (world, setup) = (world.clone(), setup.clone());
            people.push(tokio::spawn(world.seller(setup, draw.fork())));
        }
        let process = [
            tokio::spawn(world.clone().writer(draw.fork())),
            tokio::spawn(world.clone().reader(draw.fork())),
            tokio::spawn(world.clone().public(published, draw.fork())),
        ];
        let nemesis = tokio::spawn(world.clone().nemesis(draw.fork()));
        sleep(Duration::from_secs(TROUBLE_S)).await;
        *world.trouble.lock().unwrap() = false;
        nemesis.await.unwrap();
        for person in people {
            person.await.unwrap();
        }
        sleep(Duration::from_secs(CALM_S)).await;
        // All campaigns have ended, and the process has evicted all of them.
        let late = world.clone().late(draw.fork()).await;
        sleep(Duration::from_secs(10)).await;
        process.iter().for_each(JoinHandle::abort);
        for settlement in settlements {
            settlement.stop().await;
        }
        host.stop().await;
        world.judge(&setups, late)
    }

    /// Starts the reconcilers and two settlements.
    fn control(&self, ledger: &Arc<FakeLedger>) -> (Host, [Settlement; 2]) {
        let engine = Arc::new(self.engine.clone());
        let (log, ledger): (Arc<dyn EventLog>, Arc<dyn Ledger>) = (engine.clone(), ledger.clone());
        let host = Host::new("simulation");
        let opener = DraftOpener::new(Arc::clone(&ledger), engine.clone());
        host.start("drafts", DraftOpener::SCHEDULE, opener);
        let closer = PacketCloser::new(Arc::clone(&ledger), engine.clone());
        host.start("packets", PacketCloser::SCHEDULE, closer);
        let retirement = Retirement::new(engine, Arc::clone(&ledger));
        host.start("retirement", Retirement::SCHEDULE, retirement);
        // Two settlements run at once, as on two nodes for a while.
        let settle = || {
            let options = SettlementOptions::new(Box::new(|_, _, _| {}));
            Settlement::start(Arc::clone(&log), Arc::clone(&ledger), options)
        };
        (host, [settle(), settle()])
    }

    /// Every campaign is funded before it is opened, and is a draft until its opening is settled.
    fn ledger(&self, setups: &[Setup], mut draw: Draw) -> Arc<FakeLedger> {
        let mut rows = self.rows.lock().unwrap();
        rows.deposit(&user("owner"), DEPOSIT_MINOR);
        setups.iter().for_each(|setup| rows.create(setup.clone()));
        drop(rows);
        let world = self.clone();
        let weather = move || {
            let lost = world.is_troubled() && draw.once_in(6);
            world.count(|numbers| numbers.ledger_lost += u64::from(lost));
            let weather = match (lost, draw.once_in(2)) {
                (false, _) => Weather::Fine,
                (true, false) => Weather::RequestLost,
                (true, true) => Weather::ReplyLost,
            };
            (weather, Duration::from_millis(draw.below(60)))
        };
        let ledger = FakeLedger::new();
        *ledger.kept.lock().unwrap() = Some(Kept {
            rows: Arc::clone(&self.rows),
            weather: Box::new(weather),
        });
        ledger
    }
}
