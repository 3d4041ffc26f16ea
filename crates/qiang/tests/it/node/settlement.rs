//! Settlement between an engine in memory with spread campaigns and a ledger in a file.

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::Phase,
    event::{PartitionId, Seq},
    money::Money,
    outcome::Outcome,
    ports::{AccountStore as _, CampaignStore as _, Engine, EventLog, SettlementStore as _},
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_testkit::{
    ManualClock,
    auditor::{History, assert_sound},
    campaign::{Builder, HOLD_MS, OPENS, OWNER, Target, currency, red_packet, sale, user},
    conformance::settled,
    engine::BookEngine,
};
use qiang_worker::settlement::{Settlement, SettlementOptions};
use tempfile::TempDir;
use uuid::Uuid;

/// Maximum wait. No step takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Claims per campaign in one round, each of another user.
const CLAIMS: u32 = 400;

type Reports = Arc<Mutex<Vec<(PartitionId, Seq, Seq)>>>;

struct World {
    clock: Arc<ManualClock>,
    engine: BookEngine,
    ledger: SqliteLedger,
    history: History,
    reports: Reports,
}

impl World {
    fn new(path: &Path) -> Self {
        let clock = ManualClock::new(OPENS);
        Self {
            engine: engine(&clock),
            ledger: open(path, &clock),
            clock,
            history: History::default(),
            reports: Reports::default(),
        }
    }

    fn settlement(&self) -> Settlement {
        let reports = Arc::clone(&self.reports);
        let options = SettlementOptions {
            entries_max: 64,
            ..SettlementOptions::new(Box::new(move |partition, settled, head| {
                reports.lock().unwrap().push((partition, settled, head));
            }))
        };
        let log: Arc<dyn EventLog> = Arc::new(self.engine.clone());
        Settlement::start(log, Arc::new(self.ledger.clone()), options)
    }

    async fn open(&mut self, n: u64, builder: Builder) -> Target {
        let setup = builder.setup(n);
        let minor = setup.campaign.funded_minor();
        if minor > 0 {
            let amount = Money::new(minor, currency());
            let id = Uuid::from_u128(u128::from(n));
            self.ledger.deposit(id, &user(OWNER), amount).await.unwrap();
            self.history.deposits.push((user(OWNER), minor));
        }
        self.ledger.create(&setup).await.unwrap();
        let open = Command::Open(Box::new(setup.clone()));
        self.engine.submit(open).await.unwrap();
        let target = Target::of(&setup);
        self.history.setups.push(setup);
        target
    }

    async fn claim(&self, target: Target, n: u32) -> Outcome {
        let claim = target.one(&format!("u{n}"));
        self.engine.claim(claim).await.unwrap().outcome
    }

    async fn heads(&self) -> Vec<(PartitionId, Seq)> {
        let mut heads = Vec::new();
        for partition in self.engine.partitions() {
            heads.push((partition, self.engine.head(partition).await.unwrap()));
        }
        heads.sort_unstable();
        heads
    }

    /// Waits until all entries are settled.
    async fn all_settled(&self) {
        for (partition, head) in self.heads().await {
            let settled = self.ledger.await_settled(partition, head, PATIENCE);
            assert_eq!(settled.await, Ok(true), "partition {}", partition.0);
        }
    }

    /// Compares the ledger with the logs.
    async fn compare(&self) {
        let mut history = self.history.clone();
        for partition in self.engine.partitions() {
            let log = self.engine.read(partition, 0, usize::MAX).await.unwrap();
            history.logs.push(log);
        }
        settled::compare(&self.ledger, &assert_sound(&history)).await;
    }
}

fn open(path: &Path, clock: &Arc<ManualClock>) -> SqliteLedger {
    let clock = Arc::clone(clock);
    SqliteLedger::open(path, clock).unwrap_or_else(|error| panic!("{error}"))
}

fn engine(clock: &Arc<ManualClock>) -> BookEngine {
    let partitions = [4, 0, 9].map(PartitionId).to_vec();
    BookEngine::new(Arc::clone(clock), partitions)
}

async fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_granted_is_in_the_books_across_stops_and_restarts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let mut world = World::new(&path);
    let packet = red_packet(100_000, 1_000, SplitRule::DoubleAverage { min: 1 });
    let packet = world.open(1, packet).await;
    let lazy = world
        .open(2, red_packet(90_000, 1_000, SplitRule::Lazy { min: 1 }))
        .await;
    let sale = world.open(3, sale(900)).await;
    let mut settlement = world.settlement();
    for round in 0..3 {
        for n in 0..CLAIMS {
            for target in [packet, lazy, sale] {
                world.claim(target, round * CLAIMS / 2 + n).await;
            }
            for partition in world.engine.partitions() {
                settlement.wake(partition);
            }
        }
        // Settlement stops in the middle of its work, and the ledger closes.
        settlement.stop().await;
        world.ledger.close();
        world.ledger = open(&path, &world.clock);
        settlement = world.settlement();
    }
    world.clock.set(OPENS.plus_millis(HOLD_MS));
    let events_max = usize::MAX / 2;
    world
        .engine
        .submit(Command::Tick { events_max })
        .await
        .unwrap();
    for target in [packet, lazy, sale] {
        let (campaign, action) = (target.id, CampaignAction::Close);
        let closed = Command::Act { campaign, action };
        world.engine.submit(closed).await.unwrap();
    }
    world.all_settled().await;
    world.compare().await;
    let record = world.ledger.campaign(packet.id).await.unwrap().unwrap();
    assert_eq!(record.phase, Phase::Closed);
    until("the statuses show no lag", || {
        settlement
            .statuses()
            .iter()
            .all(|(position, _)| position.lag() == 0)
    })
    .await;
    assert_eq!(
        (settlement.stuck(), world.reports.lock().unwrap().len()),
        (None, 0)
    );
    assert_eq!(world.ledger.positions().await.unwrap(), world.heads().await);
    settlement.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_has_forgotten_everything_is_not_followed() {
    let folder = TempDir::new().unwrap();
    let mut world = World::new(&folder.path().join("ledger.db"));
    let target = world.open(1, sale(50)).await;
    for n in 0..30 {
        world.claim(target, n).await;
    }
    let settlement = world.settlement();
    world.all_settled().await;
    world.compare().await;
    settlement.stop().await;

    let positions = world.ledger.positions().await.unwrap();
    world.engine = engine(&world.clock);
    let settlement = world.settlement();
    until("the rollback is reported", || {
        world.reports.lock().unwrap().len() == 3
    })
    .await;
    // No further grant of this engine is settled.
    let setup = world.history.setups[0].clone();
    world
        .engine
        .submit(Command::Open(Box::new(setup)))
        .await
        .unwrap();
    for n in 0..50 {
        world.claim(target, n).await;
        for partition in world.engine.partitions() {
            settlement.wake(partition);
        }
    }
    assert!(settlement.stuck().is_some());
    settlement.stop().await;
    assert_eq!(world.ledger.positions().await.unwrap(), positions);
    let reports = world.reports.lock().unwrap().clone();
    let mut reported: Vec<_> = reports.iter().map(|report| (report.0, report.1)).collect();
    reported.sort_unstable();
    assert_eq!(reported, positions);
}
