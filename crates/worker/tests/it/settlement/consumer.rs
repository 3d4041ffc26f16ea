//! The consumer of one partition, on a scripted transport.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{
        Delivery, DeliveryBatch, DeliveryTag, EventLog, LedgerError, Transport, TransportStatus,
    },
};
use qiang_worker::settlement::PartitionConsumer;
use tokio::time::{Instant, sleep};

use crate::fakes::{FakeLog, broken, entry};

const PARTITION: PartitionId = PartitionId(3);
const WAIT: Duration = Duration::from_millis(100);
const DELAY: Duration = Duration::from_secs(2);

/// A transport of one partition.
#[derive(Default)]
struct FakeTransport {
    brings: Mutex<VecDeque<DeliveryBatch>>,
    acked: Mutex<Vec<DeliveryTag>>,
    fails: Mutex<bool>,
    delay_max: Option<Duration>,
}

impl FakeTransport {
    fn brings(&self, received: DeliveryBatch) {
        self.brings.lock().unwrap().push_back(received);
    }

    /// Next scripted result, if it may be delivered for this limit.
    fn due(&self, limit: usize) -> Option<DeliveryBatch> {
        let mut brings = self.brings.lock().unwrap();
        match brings.front()? {
            DeliveryBatch::Deliveries(_) if limit == 0 => None,
            _ => brings.pop_front(),
        }
    }

    fn well(&self) -> Result<(), LedgerError> {
        match *self.fails.lock().unwrap() {
            true => Err(broken()),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Transport for FakeTransport {
    async fn receive(
        &self,
        _: PartitionId,
        _: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError> {
        self.well()?;
        let due = self.due(limit);
        if due.is_none() && limit > 0 {
            sleep(wait_max).await;
        }
        Ok(due.unwrap_or(DeliveryBatch::Deliveries(Vec::new())))
    }

    async fn ack(&self, _: PartitionId, tags: &mut Vec<DeliveryTag>) -> Result<(), LedgerError> {
        self.well()?;
        self.acked.lock().unwrap().append(tags);
        Ok(())
    }

    fn delay_max(&self) -> Option<Duration> {
        self.delay_max
    }

    fn status(&self, _: PartitionId) -> TransportStatus {
        TransportStatus::default()
    }
}

fn delivery(tag: DeliveryTag, seqs: std::ops::RangeInclusive<Seq>) -> Delivery {
    let entries = seqs.map(entry).collect();
    Delivery { tag, entries }
}

struct Fixture {
    transport: Arc<FakeTransport>,
    log: Arc<FakeLog>,
    consumer: PartitionConsumer,
}

impl Fixture {
    fn new(delay_max: Option<Duration>, head: Seq) -> Self {
        let transport = Arc::new(FakeTransport {
            delay_max,
            ..FakeTransport::default()
        });
        let log = FakeLog::new(&[PARTITION.0]);
        log.ends_at(PARTITION.0, head);
        let consumer = PartitionConsumer::new(
            Arc::clone(&transport) as Arc<dyn Transport>,
            Arc::clone(&log) as Arc<dyn EventLog>,
            PARTITION,
        );
        Self {
            transport,
            log,
            consumer,
        }
    }

    /// Positions of the entries that a take returns.
    async fn take(&mut self, after: Seq) -> Result<Vec<Seq>, LedgerError> {
        let taken = self.consumer.take(after, 10, WAIT).await?;
        Ok(taken.iter().map(|entry| entry.seq).collect())
    }

    fn refilled(&self) -> u64 {
        self.consumer.status().get().refilled
    }

    fn stuck(&self) -> bool {
        self.consumer.status().get().stuck.is_some()
    }

    fn acked(&self) -> Vec<DeliveryTag> {
        self.transport.acked.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_settled_is_acknowledged_and_released() {
    let mut fixture = Fixture::new(None, 5);
    let deliveries = vec![delivery(7, 1..=3), delivery(8, 4..=5)];
    fixture
        .transport
        .brings(DeliveryBatch::Deliveries(deliveries));
    assert_eq!(fixture.take(0).await, Ok(vec![1, 2, 3, 4, 5]));
    assert_eq!(
        fixture.take(0).await,
        Ok(vec![1, 2, 3, 4, 5]),
        "not settled"
    );
    assert_eq!(fixture.consumer.ack(4).await, Ok(()));
    assert_eq!(fixture.acked(), [7]);
    assert_eq!(fixture.log.released(PARTITION.0), [4]);
    let status = fixture.consumer.status().get();
    assert_eq!((status.waiting, status.unacknowledged), (1, 1));
    assert_eq!(
        fixture.take(5).await,
        Ok(Vec::new()),
        "another worker settled 5"
    );
    assert_eq!(fixture.acked(), [7, 8]);
    assert_eq!(fixture.refilled(), 0);
}

/// While a worker waits, its position becomes outdated. A gap counts if the position is the same again.
#[tokio::test(start_paused = true)]
async fn gaps_are_read_from_the_log_once_they_are_confirmed() {
    let mut fixture = Fixture::new(None, 6);
    let bring = |seqs| DeliveryBatch::Deliveries(vec![delivery(1, seqs)]);
    fixture.transport.brings(bring(4..=6));
    assert_eq!(fixture.take(1).await, Ok(Vec::new()));
    assert_eq!(
        fixture.take(2).await,
        Ok(Vec::new()),
        "the position was outdated"
    );
    assert_eq!(fixture.take(2).await, Ok(vec![3, 4, 5, 6]));
    assert_eq!(fixture.refilled(), 1);
    // The transport delivers nothing, although the log has entries.
    fixture.log.ends_at(PARTITION.0, 8);
    assert_eq!(fixture.take(6).await, Ok(Vec::new()));
    assert_eq!(fixture.take(6).await, Ok(vec![7, 8]));
    assert_eq!(fixture.refilled(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_transport_has_its_time() {
    let mut fixture = Fixture::new(Some(DELAY), 2);
    let began = Instant::now();
    while fixture.take(0).await.unwrap().is_empty() {
        assert!(began.elapsed() < 2 * DELAY);
    }
    assert!(began.elapsed() >= DELAY, "{:?}", began.elapsed());
    assert_eq!(fixture.refilled(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_everything_comes_again() {
    let mut fixture = Fixture::new(None, 3);
    let received = DeliveryBatch::Deliveries(vec![delivery(1, 1..=2), delivery(2, 3..=3)]);
    fixture.transport.brings(received);
    assert_eq!(fixture.take(0).await, Ok(vec![1, 2, 3]));
    let received = DeliveryBatch::Restarted(vec![delivery(9, 1..=2)]);
    fixture.transport.brings(received);
    assert_eq!(
        fixture.take(0).await,
        Ok(vec![1, 2]),
        "3 must be delivered again"
    );
    assert_eq!(fixture.consumer.ack(3).await, Ok(()));
    assert_eq!(fixture.acked(), [9], "old tags mean nothing");
    fixture.transport.brings(DeliveryBatch::NotOwner);
    assert_eq!(fixture.take(0).await, Ok(Vec::new()));
    assert_eq!(fixture.consumer.status().get().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn the_log_stands_in_for_a_transport_that_fails() {
    let mut fixture = Fixture::new(Some(DELAY), 4);
    *fixture.transport.fails.lock().unwrap() = true;
    let began = Instant::now();
    while fixture.take(0).await.is_err() {
        assert!(fixture.stuck());
        sleep(WAIT).await;
    }
    assert!(began.elapsed() >= DELAY && began.elapsed() < 2 * DELAY);
    assert_eq!(fixture.consumer.ack(4).await, Ok(()));
    assert_eq!((fixture.refilled(), fixture.stuck()), (4, true));
    // The transport is not used for a while, and the log is not read in a tight loop.
    *fixture.transport.fails.lock().unwrap() = false;
    fixture.log.ends_at(PARTITION.0, 5);
    assert_eq!(fixture.take(4).await, Ok(vec![5]));
    assert_eq!(fixture.refilled(), 5);
    let began = Instant::now();
    assert_eq!(fixture.take(5).await, Ok(Vec::new()));
    assert_eq!(began.elapsed(), WAIT);
    sleep(DELAY).await;
    assert_eq!(fixture.take(5).await, Ok(Vec::new()));
    assert!(!fixture.stuck(), "it works again");
}

/// A transport that is part of the log's server fails with it, so the log cannot replace it.
#[tokio::test(start_paused = true)]
async fn without_a_delay_a_failure_is_a_failure() {
    let mut fixture = Fixture::new(None, 4);
    *fixture.transport.fails.lock().unwrap() = true;
    for _ in 0..10 {
        assert_eq!(fixture.take(0).await, Err(broken()));
        sleep(DELAY).await;
    }
    assert!(fixture.stuck());
    assert_eq!(fixture.refilled(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_ends_too_early_is_lost() {
    let mut fixture = Fixture::new(None, 4);
    assert_eq!(fixture.take(7).await, Err(LedgerError::LogLost { head: 4 }));
}

/// If the log replaces a transport, only its head shows that entries are missing.
#[tokio::test(start_paused = true)]
async fn log_without_its_last_entries_is_not_taken_for_settled() {
    let mut fixture = Fixture::new(Some(DELAY), 4);
    *fixture.transport.fails.lock().unwrap() = true;
    while fixture.take(0).await.is_err() {
        sleep(WAIT).await;
    }
    assert_eq!(fixture.take(2).await, Ok(vec![3, 4]));
    *fixture.log.trimmed_to.lock().unwrap() = 4;
    assert_eq!(fixture.take(2).await, Ok(Vec::new()), "it may be settled");
    let gone = Err(LedgerError::LogGone { first: 3, last: 4 });
    assert_eq!(fixture.take(2).await, gone);
}
