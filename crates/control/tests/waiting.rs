//! Deciding lines that cannot be decided, with lines that are read as they are told.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "settlement/fakes.rs"]
mod fakes;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use fakes::FakeLedger;
use qiang_control::{
    host::{Host, Schedule},
    waiting::{LineDecider, WaitingPorts},
};
use qiang_core::{
    book::{Claim, Command},
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::{Engine as _, EngineError, LineHead, Lines, WaitingMonitor, WaitingRoom},
    time::Timestamp,
    waiting::{Decision, Place, Standing, WaitingLimits},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, id, sale},
    engine::BookEngine,
};
use tokio::time::sleep;

const LIMITS: WaitingLimits = WaitingLimits {
    places_max: 9,
    partition_max: 9,
    kept_ms: 1_000,
};

/// How a line is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Well,
    WithoutRecord,
    Fails,
    Panics,
}

/// Lines of one place each, as the campaigns' numbers say.
struct FakeRoom {
    places: Mutex<Vec<Place>>,
    /// How the line of the first campaign is read.
    first: Mutex<Read>,
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
        _: WaitingLimits,
    ) -> Result<Option<Standing>, EngineError> {
        Err(EngineError::Stopping)
    }

    async fn standing(&self, _: CampaignId, _: &UserId) -> Result<Option<Standing>, EngineError> {
        Err(EngineError::Stopping)
    }

    async fn lines(&self, _: PartitionId, _: Duration) -> Result<Lines, EngineError> {
        let places = self.places.lock().unwrap();
        Ok(Lines {
            campaigns: places.iter().map(|it| it.claim.campaign).collect(),
            own: true,
        })
    }

    async fn head(&self, campaign: CampaignId, _: usize) -> Result<LineHead, EngineError> {
        let read = *self.first.lock().unwrap();
        match read {
            Read::Fails if campaign == id(1) => return Err(EngineError::Overloaded),
            Read::Panics if campaign == id(1) => panic!("it was told to"),
            _ => {}
        }
        let mut places = self.places.lock().unwrap().clone();
        places.retain(|it| it.claim.campaign == campaign);
        let waiting = places.len() as u64;
        Ok(LineHead { waiting, places })
    }

    async fn record(
        &self,
        campaign: CampaignId,
        decided: &[(Place, Decision)],
        _: Timestamp,
        _: WaitingLimits,
    ) -> Result<(), EngineError> {
        if campaign == id(1) && *self.first.lock().unwrap() == Read::WithoutRecord {
            return Err(EngineError::Overloaded);
        }
        let is_decided = |place: &Place| decided.iter().any(|(other, _)| other == place);
        self.places.lock().unwrap().retain(|it| !is_decided(it));
        Ok(())
    }
}

/// Two lines in one partition, and what decides them.
async fn two_lines() -> (Arc<FakeRoom>, WaitingPorts) {
    let clock = ManualClock::new(OPENS);
    let engine = BookEngine::new(clock.clone(), vec![PartitionId(0)]);
    let mut places = Vec::new();
    for n in 1..=2 {
        let setup = sale(5).setup(n);
        let claim = Target::of(&setup).one("a");
        let open = Command::Open(Box::new(setup));
        engine.submit(open).await.unwrap();
        places.push(Place {
            number: n,
            entered_at: OPENS.plus_millis(n as i64),
            claim,
        });
    }
    let room = Arc::new(FakeRoom {
        places: Mutex::new(places),
        first: Mutex::new(Read::Well),
    });
    let ports = WaitingPorts {
        room: room.clone(),
        engine: Arc::new(engine),
        ledger: FakeLedger::new(),
        clock,
        monitor: Arc::new(WaitingMonitor::default()),
        limits: LIMITS,
    };
    (room, ports)
}

#[tokio::test(start_paused = true)]
async fn a_line_that_cannot_be_decided_is_stuck_and_holds_up_no_other() {
    for read in [Read::Fails, Read::Panics] {
        let (room, ports) = two_lines().await;
        *room.first.lock().unwrap() = read;
        let host = Host::new("upkeep");
        let decider = LineDecider::new(ports, PartitionId(0));
        let Schedule { interval, .. } = LineDecider::SCHEDULE;
        host.start("lines", LineDecider::SCHEDULE, decider);
        sleep(interval / 2).await;
        let left = room.places.lock().unwrap().clone();
        assert_eq!(left.len(), 1, "{read:?}: the other line is decided");
        let stuck = host.stuck().unwrap_or_default();
        assert!(stuck.contains(&id(1).to_string()), "{read:?}: {stuck}");
        *room.first.lock().unwrap() = Read::Well;
        sleep(interval).await;
        assert_eq!((host.stuck(), room.places.lock().unwrap().len()), (None, 0));
        host.stop().await;
    }
}

/// It was read once, and has not become empty since.
#[tokio::test]
async fn a_line_that_cannot_be_read_does_not_look_empty() {
    let (room, ports) = two_lines().await;
    let monitor = Arc::clone(&ports.monitor);
    let decider = LineDecider::new(ports, PartitionId(0));
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
