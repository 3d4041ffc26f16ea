//! Concurrent repairs of partitions, by a paused clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, EventLog, Ledger, LedgerError, RepairEngine, RepairReport, RepairState},
    reconcile::Difference,
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
};
use tokio::time::{Instant, sleep};

use crate::fakes::{FakeLedger, FakeLog};

/// Scripted result of a partition's repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Hang,
    Fail,
    Repair,
    /// The partition needs no repair.
    Nothing,
}

struct Parts {
    log: Arc<FakeLog>,
    does: Mutex<Vec<Does>>,
    /// Partitions and times of attempted repairs.
    attempts: Mutex<Vec<(PartitionId, Instant)>>,
    repaired: Mutex<Vec<PartitionId>>,
}

impl Parts {
    fn does(&self, partition: PartitionId) -> Does {
        self.does.lock().unwrap()[usize::from(partition.0)]
    }
}

#[async_trait]
impl EventLog for Parts {
    fn partitions(&self) -> Vec<PartitionId> {
        self.log.partitions()
    }

    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError> {
        self.log.epoch(partition).await
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        self.log.head(partition).await
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        self.log.read(partition, after, limit).await
    }

    async fn release(&self, partition: PartitionId, upto: Seq) -> Result<(), LedgerError> {
        self.log.release(partition, upto).await
    }
}

#[async_trait]
impl RepairEngine for Parts {
    fn release_kept(&self, _: &[(PartitionId, Seq)]) {}

    async fn has_lost(&self, partition: PartitionId) -> Result<bool, EngineError> {
        Ok(self.does(partition) != Does::Nothing)
    }

    async fn repair(
        &self,
        partition: PartitionId,
        _: &dyn Ledger,
        at_once: bool,
    ) -> Result<RepairState, EngineError> {
        assert!(!at_once);
        let attempt = (partition, Instant::now());
        self.attempts.lock().unwrap().push(attempt);
        match self.does(partition) {
            Does::Hang => std::future::pending().await,
            Does::Fail => Err(EngineError::Unavailable {
                reason: "a planted failure".to_owned(),
            }),
            Does::Repair | Does::Nothing => {
                self.does.lock().unwrap()[usize::from(partition.0)] = Does::Nothing;
                self.repaired.lock().unwrap().push(partition);
                Ok(RepairState::Repaired(RepairReport::default()))
            }
        }
    }

    async fn live_campaigns(
        &self,
        _: PartitionId,
        _: &dyn Ledger,
    ) -> Result<Vec<CampaignId>, EngineError> {
        Ok(Vec::new())
    }

    async fn differences(
        &self,
        _: PartitionId,
        _: CampaignId,
        _: &dyn Ledger,
    ) -> Result<Vec<Difference>, EngineError> {
        Ok(Vec::new())
    }
}

/// Starts the repairs.
fn start(does: &[Does], mode: RepairMode) -> (Arc<Parts>, Host) {
    let partitions: Vec<u16> = (0..).take(does.len()).collect();
    let parts = Arc::new(Parts {
        log: FakeLog::new(&partitions),
        does: Mutex::new(does.to_vec()),
        attempts: Mutex::default(),
        repaired: Mutex::default(),
    });
    let host = Host::new("monitor");
    let (engine, ledger): (Arc<dyn RepairEngine>, Arc<dyn Ledger>) =
        (parts.clone(), FakeLedger::new());
    repair::start_all(&host, &engine, &ledger, mode);
    (parts, host)
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_takes_long_holds_up_no_other() {
    let (parts, host) = start(
        &[Does::Hang, Does::Repair, Does::Fail, Does::Repair],
        RepairMode::Automatic,
    );
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        *parts.repaired.lock().unwrap(),
        [PartitionId(1), PartitionId(3)]
    );
    // A later loss is repaired as well.
    parts.does.lock().unwrap()[3] = Does::Repair;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(parts.repaired.lock().unwrap()[2..], [PartitionId(3)]);
    host.abort();
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_fails_is_tried_again_after_pauses_that_grow_to_seconds() {
    let (parts, host) = start(&[Does::Fail], RepairMode::Automatic);
    sleep(Duration::from_secs(60)).await;
    let attempts = parts.attempts.lock().unwrap().clone();
    let pauses = attempts.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let longest = pauses.max().unwrap().as_millis();
    assert!((5_000..5_010).contains(&longest), "{longest}");
    assert!((10..25).contains(&attempts.len()), "{}", attempts.len());
    let stuck = host.stuck().unwrap();
    assert!(stuck.starts_with("repair of partition 0: "), "{stuck}");
    parts.does.lock().unwrap()[0] = Does::Repair;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(*parts.repaired.lock().unwrap(), [PartitionId(0)]);
    assert_eq!(host.stuck(), None);
    host.abort();
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_is_to_repair_is_left_to_him() {
    let (parts, host) = start(&[Does::Repair], RepairMode::Manual);
    sleep(Duration::from_secs(5)).await;
    assert!(parts.attempts.lock().unwrap().is_empty());
    host.abort();
}
