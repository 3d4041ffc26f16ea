//! Deciding queues, with scripted reads of queues, and an engine that decides in its own order.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::fakes::FakeLedger;
use async_trait::async_trait;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId, UserId},
    outcome::Outcome,
    ports::{
        ActiveQueues, Claimed, Engine, EngineError, PendingReply, ProbeResult, QueueHead,
        ReplySender, WaitingRoom,
    },
    queue_entry::{QueueDecision, QueueEntry, QueueLimits, QueueStatus},
    time::Timestamp,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, id, sale},
    engine::BookEngine,
};
use qiang_worker::{
    host::{Host, Schedule},
    waiting::{QueuePorts, QueueProcessor},
};
use tokio::time::sleep;

const LIMITS: QueueLimits = QueueLimits {
    entries_max: 9,
    partition_entries_max: 9,
    result_ttl_ms: 1_000,
};

/// Scripted result of reading a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Well,
    WithoutRecord,
    Fails,
    Panics,
}

/// Queues of one partition.
struct FakeRoom {
    places: Mutex<Vec<QueueEntry>>,
    decided: Mutex<Vec<(QueueEntry, QueueDecision)>>,
    /// Result of reading the queue of the first campaign.
    first: Mutex<Read>,
    /// Whether no other process has the lease.
    own: Mutex<bool>,
}

impl FakeRoom {
    fn new(places: Vec<QueueEntry>) -> Self {
        Self {
            places: Mutex::new(places),
            decided: Mutex::default(),
            first: Mutex::new(Read::Well),
            own: Mutex::new(true),
        }
    }

    fn waiting(&self) -> usize {
        self.places.lock().unwrap().len()
    }
}

#[async_trait]
impl WaitingRoom for FakeRoom {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PartitionId(0)]
    }

    async fn enter(
        &self,
        _: &Claim,
        _: Timestamp,
        _: QueueLimits,
    ) -> Result<Option<QueueStatus>, EngineError> {
        Err(EngineError::Stopping)
    }

    async fn standing(
        &self,
        _: CampaignId,
        _: &UserId,
    ) -> Result<Option<QueueStatus>, EngineError> {
        Err(EngineError::Stopping)
    }

    async fn lines(&self, _: PartitionId, _: Duration) -> Result<ActiveQueues, EngineError> {
        let (places, own) = (self.places.lock().unwrap(), *self.own.lock().unwrap());
        let mut campaigns: Vec<_> = places.iter().map(|it| it.claim.campaign).collect();
        campaigns.dedup();
        Ok(ActiveQueues {
            leased: own && !campaigns.is_empty(),
            campaigns,
            own,
        })
    }

    async fn head(&self, campaign: CampaignId, limit: usize) -> Result<QueueHead, EngineError> {
        let read = *self.first.lock().unwrap();
        match read {
            Read::Fails if campaign == id(1) => return Err(EngineError::Overloaded),
            Read::Panics if campaign == id(1) => panic!("a planted panic"),
            _ => {}
        }
        let mut places = self.places.lock().unwrap().clone();
        places.retain(|it| it.claim.campaign == campaign);
        let waiting = places.len() as u64;
        places.truncate(limit);
        Ok(QueueHead { waiting, places })
    }

    async fn record(
        &self,
        campaign: CampaignId,
        decided: &[(QueueEntry, QueueDecision)],
        _: Timestamp,
        _: QueueLimits,
    ) -> Result<(), EngineError> {
        if campaign == id(1) && *self.first.lock().unwrap() == Read::WithoutRecord {
            return Err(EngineError::Overloaded);
        }
        let is_decided = |place: &QueueEntry| decided.iter().any(|(other, _)| other == place);
        self.places.lock().unwrap().retain(|it| !is_decided(it));
        self.decided.lock().unwrap().extend_from_slice(decided);
        Ok(())
    }

    fn rebuilt(&self) -> u64 {
        0
    }
}

type UnderWay = Vec<(Claim, ReplySender<Claimed>)>;

/// An engine that decides concurrent claims together, the last one first.
#[derive(Clone)]
struct LastFirst {
    book: BookEngine,
    under_way: Arc<Mutex<UnderWay>>,
}

impl Engine for LastFirst {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        let (answer, ticket) = PendingReply::new();
        self.under_way.lock().unwrap().push((claim, answer));
        let engine = self.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(1)).await;
            let under_way = std::mem::take(&mut *engine.under_way.lock().unwrap());
            for (claim, answer) in under_way.into_iter().rev() {
                answer.send(engine.book.claim(claim).await);
            }
        });
        ticket
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        self.book.submit(command)
    }

    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.book.try_gate_outcome(claim)
    }

    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.book.tally(campaign)
    }

    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.book.order(order)
    }

    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.book.probe(partition)
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        self.book.ack_levels()
    }
}

/// Ports that decide the queues of a room.
fn ports(room: &Arc<FakeRoom>, engine: Arc<dyn Engine>, clock: Arc<ManualClock>) -> QueuePorts {
    QueuePorts {
        room: room.clone(),
        engine,
        ledger: FakeLedger::new(),
        clock,
        monitor: Arc::default(),
        limits: LIMITS,
    }
}

/// Two queues in one partition, and ports that decide them.
async fn two_lines() -> (Arc<FakeRoom>, QueuePorts) {
    let clock = ManualClock::new(OPENS);
    let engine = BookEngine::new(clock.clone(), vec![PartitionId(0)]);
    let mut places = Vec::new();
    for n in 1..=2 {
        let setup = sale(5).setup(n);
        let claim = Target::of(&setup).one("a");
        let open = Command::Open(Box::new(setup));
        engine.submit(open).await.unwrap();
        places.push(QueueEntry {
            number: n,
            entered_at: OPENS.plus_millis(n as i64),
            claim,
        });
    }
    let room = Arc::new(FakeRoom::new(places));
    let ports = ports(&room, Arc::new(engine), clock);
    (room, ports)
}

/// The grants are those of claims that are decided one after the other, for any order in which the engine decides
/// concurrent claims. The claims are for one unit, for several, and for more than are left.
#[tokio::test(start_paused = true)]
async fn the_line_is_decided_in_its_order_by_an_engine_that_has_another() {
    const STOCK: u32 = 60;
    let clock = ManualClock::new(OPENS);
    let engine = LastFirst {
        book: BookEngine::new(clock.clone(), vec![PartitionId(0)]),
        under_way: Arc::default(),
    };
    let setup = sale(STOCK).limit(STOCK).setup(1);
    let target = Target::of(&setup);
    let open = Command::Open(Box::new(setup));
    engine.submit(open).await.unwrap();
    let wants = |n: u32| [1, 3, 2, 1, 40][n as usize % 5];
    let place = |n: u32| QueueEntry {
        number: n.into(),
        entered_at: OPENS,
        claim: target.units(&format!("u{n}"), wants(n)),
    };
    let room = Arc::new(FakeRoom::new((0..100).map(place).collect()));
    let decider = QueueProcessor::new(ports(&room, Arc::new(engine), clock), PartitionId(0));
    while room.waiting() > 0 {
        assert!(decider.decide_all().await.unwrap() > 0);
    }
    let mut decided = room.decided.lock().unwrap().clone();
    decided.sort_by_key(|(place, _)| place.number);
    let is_granted = |decision: &QueueDecision| decision.name() == "granted";
    let granted =
        |(place, decision): &(QueueEntry, QueueDecision)| (place.number, is_granted(decision));
    let decided: Vec<_> = decided.iter().map(granted).collect();
    let mut left = STOCK;
    let expected = (0..100).map(|n| {
        let rest = left.checked_sub(wants(n));
        left = rest.unwrap_or(left);
        (u64::from(n), rest.is_some())
    });
    assert_eq!(decided, expected.collect::<Vec<_>>());
}

/// A process that was paused, or did not reach Redis, for longer than its lease may have decided the same queues as
/// another one. That is harmless, but it is counted. A lease without entries in the queues does not count as lost.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_counted() {
    const LEASE: Duration = Duration::from_secs(5);
    let (room, ports) = two_lines().await;
    let monitor = Arc::clone(&ports.monitor);
    let decider = QueueProcessor::new(ports, PartitionId(0));
    *room.first.lock().unwrap() = Read::WithoutRecord;
    let look = async || drop(decider.decide_all().await);
    look().await;
    sleep(LEASE - Duration::from_millis(1)).await;
    look().await;
    assert_eq!(monitor.leases_lost(), 0, "the lease was renewed in time");
    sleep(LEASE).await;
    look().await;
    assert_eq!(monitor.leases_lost(), 1, "the lease was renewed late");
    *room.own.lock().unwrap() = false;
    look().await;
    assert_eq!(monitor.leases_lost(), 2, "another process has the lease");
    sleep(2 * LEASE).await;
    look().await;
    assert_eq!(monitor.leases_lost(), 2, "there is no lease to lose");
    *room.own.lock().unwrap() = true;
    *room.first.lock().unwrap() = Read::Well;
    look().await;
    assert_eq!(room.waiting(), 0);
    look().await;
    sleep(2 * LEASE).await;
    look().await;
    assert_eq!(monitor.leases_lost(), 2, "the queues are empty");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_cannot_be_decided_is_stuck_and_holds_up_no_other() {
    for read in [Read::Fails, Read::Panics] {
        let (room, ports) = two_lines().await;
        *room.first.lock().unwrap() = read;
        let host = Host::new("upkeep");
        let decider = QueueProcessor::new(ports, PartitionId(0));
        let Schedule { interval, .. } = QueueProcessor::SCHEDULE;
        host.start("lines", QueueProcessor::SCHEDULE, decider);
        sleep(interval / 2).await;
        let left = room.places.lock().unwrap().clone();
        assert_eq!(left.len(), 1, "{read:?}: the other queue is decided");
        let stuck = host.stuck().unwrap_or_default();
        assert!(stuck.contains(&id(1).to_string()), "{read:?}: {stuck}");
        *room.first.lock().unwrap() = Read::Well;
        sleep(interval).await;
        assert_eq!((host.stuck(), room.places.lock().unwrap().len()), (None, 0));
        host.stop().await;
    }
}

/// An unreadable queue keeps the length of its last read.
#[tokio::test]
async fn a_line_that_cannot_be_read_does_not_look_empty() {
    let (room, ports) = two_lines().await;
    let monitor = Arc::clone(&ports.monitor);
    let decider = QueueProcessor::new(ports, PartitionId(0));
    for read in [Read::WithoutRecord, Read::Fails, Read::Panics] {
        *room.first.lock().unwrap() = read;
        decider.decide_all().await.unwrap_err();
        assert_eq!(
            monitor.waiting(),
            (1, Some(OPENS.plus_millis(1))),
            "{read:?}"
        );
    }
    *room.first.lock().unwrap() = Read::Well;
    decider.decide_all().await.unwrap();
    assert_eq!(monitor.waiting(), (0, None));
}
