//! Submits queue entries to the engine in the order of entry, and records each outcome.
//!
//! A crash between the two is harmless: the engine answers the same claim with the same grant. Two processes may decide
//! the same queue without harm; the lease only avoids double work. If a campaign has nothing left to grant, the
//! engine's gate or its largest batches answer the whole queue at once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use qiang_core::{
    book::Refusal,
    campaign::{AckLevel, Phase},
    event::PartitionId,
    id::CampaignId,
    outcome::Outcome,
    ports::{
        ActiveQueues, Clock, Engine, EngineError, Ledger, LedgerError, WaitingMonitor, WaitingRoom,
    },
    queue_entry::{QueueDecision, QueueEntry, QueueLimits},
    time::Timestamp,
};
use tokio::{task::JoinSet, time::Instant};

use crate::host::{Host, NextRun, ReconcileError, Reconciler, Schedule, Waker};

/// Interval between two reads of a partition's queues if no entry wakes the processor.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time for which a process keeps the lease of a partition's queues after its last renewal.
const LEASE: Duration = Duration::from_secs(5);
/// Maximum pause after failures.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Maximum queue entries that are submitted to the engine together.
const FLIGHT_MAX: usize = 512;
/// Maximum flights of one queue per run. Afterwards the queues are listed again.
const FLIGHTS_MAX: usize = 64;

/// Ports that queue processing uses.
#[derive(Clone)]
pub struct QueuePorts {
    /// Queues.
    pub room: Arc<dyn WaitingRoom>,
    /// Engine that decides the claims.
    pub engine: Arc<dyn Engine>,
    /// Ledger that knows the campaigns that the engine does not have.
    pub ledger: Arc<dyn Ledger>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Figures for operators.
    pub monitor: Arc<WaitingMonitor>,
    /// Limits, such as the retention time of results.
    pub limits: QueueLimits,
}

/// Reason why a queue entry is not decided.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The engine or the queue did not answer, or the campaign is not open on the engine now.
    #[error("cannot decide the queue of campaign {0}: {1}")]
    Engine(CampaignId, EngineError),
    /// The queues of a partition could not be listed.
    #[error("cannot list queues: {0}")]
    Lines(EngineError),
    /// The ledger could not report the phase of a campaign that the engine does not have.
    #[error("campaign {0} is missing in the engine and cannot be read from the ledger: {1}")]
    Ledger(CampaignId, LedgerError),
    /// The task has panicked. This is a bug.
    #[error("deciding campaign {0} has panicked")]
    Panicked(CampaignId),
}

/// Length of a queue, and the time of its oldest entry that can be decided.
type Head = (u64, Option<Timestamp>);

/// A queue that still has entries.
#[derive(Debug)]
pub struct BlockedQueue {
    /// Campaign of the queue.
    pub campaign: CampaignId,
    /// Entries in the queue.
    pub waiting: u64,
    /// Reason why they are not decided.
    pub why: &'static str,
}

/// Decides the queues of one partition.
pub struct QueueProcessor {
    ports: QueuePorts,
    partition: PartitionId,
    /// Last known head of each queue. A queue that cannot be read keeps its last head, so it does not look empty.
    heads: Arc<Mutex<BTreeMap<CampaignId, Head>>>,
    /// Time at which this process requested the lease that it has; `None` without a lease.
    leased_at: Mutex<Option<Instant>>,
}

/// Starts one decider per partition, so a partition that does not answer delays no other. Needs a tokio runtime.
pub fn start_all(host: &Host, ports: &QueuePorts) {
    let start = |partition: PartitionId| {
        let decider = QueueProcessor::new(ports.clone(), partition);
        let name = format!("waiting rooms of partition {}", partition.0);
        host.start(&name, QueueProcessor::SCHEDULE, decider)
    };
    let wakers: Vec<Waker> = ports.room.partitions().into_iter().map(start).collect();
    ports
        .monitor
        .on_entry(move || wakers.iter().for_each(Waker::wake));
}

impl QueueProcessor {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule {
        backoff_max: BACKOFF_MAX,
        ..Schedule::every(LOOK_EVERY)
    };

    /// Creates a decider for the queues of this partition.
    #[must_use]
    pub fn new(ports: QueuePorts, partition: PartitionId) -> Self {
        Self {
            ports,
            partition,
            heads: Arc::default(),
            leased_at: Mutex::default(),
        }
    }

    /// Decides all entries that can be decided now, of all queues of the partition at once. Returns their number.
    ///
    /// # Errors
    /// The first error that occurred. The other queues are still decided.
    pub async fn decide_all(&self) -> Result<u64, QueueError> {
        let asked_at = Instant::now();
        let lines = self.lines().await?;
        self.note_lease(asked_at, &lines);
        self.ports.monitor.show_rebuilt(self.ports.room.rebuilt());
        let ActiveQueues { campaigns, own, .. } = lines;
        // If this process does not own the queues, another process decides them.
        let lines: Vec<CampaignId> = campaigns.into_iter().filter(|_| own).collect();
        let unlisted: Vec<_> = {
            let mut heads = self.heads.lock();
            let unlisted = heads.extract_if(.., |campaign, _| !lines.contains(campaign));
            unlisted.collect()
        };
        for (campaign, (waiting, _)) in unlisted {
            // A queue that was not empty is missing if the list was damaged. Its read lists it again.
            if own && waiting > 0 {
                drop(self.ports.room.head(campaign, 1).await);
            }
        }
        let (mut deciding, mut campaigns) = (JoinSet::new(), HashMap::new());
        for campaign in lines {
            let (ports, heads) = (self.ports.clone(), Arc::clone(&self.heads));
            let task = deciding.spawn(async move {
                let line = CampaignQueue { ports, campaign };
                line.decide(|waiting, oldest| {
                    heads.lock().insert(campaign, (waiting, oldest));
                })
                .await
            });
            campaigns.insert(task.id(), campaign);
        }
        let (mut decided, mut failed) = (0, None);
        while let Some(line) = deciding.join_next_with_id().await {
            let error = match line {
                Ok((_, Ok(count))) => {
                    decided += count;
                    continue;
                }
                Ok((_, Err(error))) => error,
                Err(ended) => QueueError::Panicked(campaigns[&ended.id()]),
            };
            failed = failed.or(Some(error));
        }
        let heads = self.heads.lock();
        let oldest = heads.values().filter_map(|(_, at)| *at).min();
        let waiting = heads.values().map(|(waiting, _)| waiting).sum();
        self.ports.monitor.show(self.partition, waiting, oldest);
        failed.map_or(Ok(decided), Err)
    }

    /// Queues of this partition that still have entries. Decides nothing.
    ///
    /// # Errors
    /// If the queues cannot be read.
    pub async fn blocked_queues(&self) -> Result<Vec<BlockedQueue>, QueueError> {
        let ActiveQueues { campaigns, own, .. } = self.lines().await?;
        let mut left = Vec::new();
        for campaign in campaigns {
            let failed = |error| QueueError::Engine(campaign, error);
            let head = self.ports.room.head(campaign, 1).await.map_err(failed)?;
            let tally = self.ports.engine.tally(campaign).await.map_err(failed)?;
            let why = match tally.map(|tally| tally.phase) {
                _ if !own => "another process decides them",
                None => "the engine does not have the campaign",
                Some(Phase::Paused) => "the campaign is paused",
                Some(Phase::Draft | Phase::Scheduled) => "the campaign has not started",
                Some(Phase::Live | Phase::Ended | Phase::Closed) => "they entered a moment ago",
            };
            left.extend((head.waiting > 0).then_some(BlockedQueue {
                campaign,
                waiting: head.waiting,
                why,
            }));
        }
        Ok(left)
    }

    async fn lines(&self) -> Result<ActiveQueues, QueueError> {
        let lines = self.ports.room.lines(self.partition, LEASE).await;
        lines.map_err(QueueError::Lines)
    }

    /// Counts a lease that was not renewed in time: another process may have decided the same queues.
    fn note_lease(&self, asked_at: Instant, lines: &ActiveQueues) {
        let leased_at = lines.leased.then_some(asked_at);
        let Some(since) = std::mem::replace(&mut *self.leased_at.lock(), leased_at) else {
            return;
        };
        let age = asked_at.duration_since(since);
        if age < LEASE && lines.own {
            return;
        }
        self.ports.monitor.lease_lost();
        let (partition, taken) = (self.partition.0, !lines.own);
        tracing::warn!(
            partition,
            ?age,
            taken,
            "lease of a partition's queues expired"
        );
    }
}

impl Reconciler for QueueProcessor {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        match self.decide_all().await {
            Ok(0) => Ok(NextRun::Wait),
            Ok(_) => Ok(NextRun::Again),
            Err(error) => Err(ReconcileError(error.to_string())),
        }
    }
}

/// The queue of one campaign.
struct CampaignQueue {
    ports: QueuePorts,
    campaign: CampaignId,
}

/// Result of deciding one batch of queue entries.
enum FlightOutcome {
    /// All entries of the batch are decided.
    All,
    /// The campaign is paused or has not started.
    Held,
    /// No further entry can be decided for now.
    Stop,
}

impl CampaignQueue {
    /// Decides entries, beginning at the head of the queue. Reports the length of the queue and the time of its first
    /// entry to `show`. The time is `None` while the campaign is paused or has not started, because no entry is due.
    async fn decide(&self, show: impl Fn(u64, Option<Timestamp>)) -> Result<u64, QueueError> {
        let failed = |error| QueueError::Engine(self.campaign, error);
        let mut count = 0;
        for _ in 0..FLIGHTS_MAX {
            let head = self.ports.room.head(self.campaign, FLIGHT_MAX).await;
            let head = head.map_err(failed)?;
            show(head.waiting, head.places.first().map(|it| it.entered_at));
            if head.places.is_empty() {
                break;
            }
            let mut decided = Vec::new();
            let landed = self.fly(head.places, &mut decided).await;
            if !decided.is_empty() {
                let QueuePorts {
                    room,
                    clock,
                    monitor,
                    limits,
                    ..
                } = &self.ports;
                let recorded = room.record(self.campaign, &decided, clock.now(), *limits);
                recorded.await.map_err(failed)?;
                count += decided.len() as u64;
                for (_, decision) in &decided {
                    monitor.decided(decision);
                }
            }
            match landed? {
                FlightOutcome::All => {}
                FlightOutcome::Held => {
                    show(head.waiting, None);
                    break;
                }
                FlightOutcome::Stop => break,
            }
        }
        Ok(count)
    }

    /// Submits the first entries to the engine, and collects the outcomes.
    ///
    /// The engine decides the claims of a flight in order, even if the process dies. The shards of a spread campaign do
    /// so independently of each other. So a flight has only entries whose outcomes do not depend on the order: entries
    /// that the remaining units cover, and entries that want more than all that remains.
    async fn fly(
        &self,
        places: Vec<QueueEntry>,
        decided: &mut Vec<(QueueEntry, QueueDecision)>,
    ) -> Result<FlightOutcome, QueueError> {
        let engine = &self.ports.engine;
        let tally = engine.tally(self.campaign).await;
        let tally = tally.map_err(|error| QueueError::Engine(self.campaign, error))?;
        let remaining = tally.map_or(0, |tally| tally.remaining);
        let (mut free, mut landed) = (remaining, FlightOutcome::All);
        let (mut flying, mut claims) = (Vec::new(), Vec::new());
        // The gate may be slightly out of date, so it is used only if nothing remains or the campaign is over.
        let is_over = |phase| matches!(phase, Phase::Ended | Phase::Closed);
        let hopeless = tally.is_some_and(|it| it.remaining == 0 || is_over(it.phase));
        for place in places {
            let claim = place.keyed_claim();
            if hopeless
                && let Some(outcome) = engine.try_gate_outcome(&claim)
                && is_refusal(&outcome)
            {
                // The durability of a refusal does not matter: a repeated claim is decided again.
                let ack = engine.ack_levels().first().copied();
                let ack = ack.unwrap_or(AckLevel::Memory);
                decided.push((place, QueueDecision::Claimed(outcome, ack)));
                continue;
            }
            match free.checked_sub(claim.quantity.into()) {
                Some(left) => free = left,
                None if u64::from(claim.quantity) > remaining => {}
                None => break,
            }
            flying.push(place);
            claims.push(claim);
        }
        let tickets = engine.claim_in_order(claims);
        let (mut first_error, mut unknown) = (None, Vec::new());
        for (place, ticket) in flying.into_iter().zip(tickets) {
            match ticket.await {
                Ok(claimed) => match claimed.outcome {
                    Outcome::Paused | Outcome::NotStarted { .. } => landed = FlightOutcome::Held,
                    Outcome::UnknownCampaign => unknown.push((place, claimed.ack)),
                    outcome => decided.push((place, QueueDecision::Claimed(outcome, claimed.ack))),
                },
                Err(EngineError::Refused(Refusal::KeyReused)) => {
                    decided.push((place, QueueDecision::KeyReused));
                }
                Err(error) => {
                    let error = QueueError::Engine(self.campaign, error);
                    first_error = first_error.or(Some(error));
                }
            }
        }
        if !unknown.is_empty() {
            match self.if_unknown().await {
                Ok(Some(outcome)) => {
                    let of = |(place, ack)| (place, QueueDecision::Claimed(outcome, ack));
                    decided.extend(unknown.into_iter().map(of));
                }
                Ok(None) => landed = FlightOutcome::Stop,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            // The first ones had room. The others follow in the next flight.
            Some(QueueError::Engine(_, EngineError::Overloaded)) if !decided.is_empty() => {
                Ok(landed)
            }
            Some(error) => Err(error),
            None => Ok(landed),
        }
    }

    /// Outcome of claims of a campaign that the engine does not have. `None` if the entries must keep waiting.
    async fn if_unknown(&self) -> Result<Option<Outcome>, QueueError> {
        let record = self.ports.ledger.campaign(self.campaign).await;
        let record = record.map_err(|error| QueueError::Ledger(self.campaign, error))?;
        Ok(match record.map(|record| record.phase) {
            None => Some(Outcome::UnknownCampaign),
            // The engine has evicted it because it is over.
            Some(Phase::Ended | Phase::Closed) => Some(Outcome::Ended),
            // The engine has lost it, and a repair will restore it.
            Some(_) => None,
        })
    }
}

/// Whether the gate's answer is a final refusal.
fn is_refusal(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Ended | Outcome::LimitReached { .. } | Outcome::SoldOut { .. } => true,
        Outcome::UnknownCampaign
        | Outcome::AlreadyGranted(_)
        | Outcome::Paused
        | Outcome::NotStarted { .. }
        | Outcome::Granted(_) => false,
    }
}
