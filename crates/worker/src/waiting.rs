//! Decides those who wait in line: puts them to the engine in the order of entry, and records what became of them.
//!
//! A crash between the two is harmless: the engine answers the same claim with the same grant. So is a second process
//! that decides the same line; the lease only saves double work. Where nothing can be had any more, all who are in line
//! are answered by the engine's gate or in its largest batches, and hear so at once.

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
    ports::{Clock, Engine, EngineError, Ledger, LedgerError, Lines, WaitingMonitor, WaitingRoom},
    time::Timestamp,
    waiting::{Decision, Place, WaitingLimits},
};
use tokio::{task::JoinSet, time::Instant};

use crate::host::{Host, Next, Reconciler, Schedule, Stuck, Waker};

/// How often a partition's lines are looked at where nobody says that somebody has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// For so long a process decides the lines of a partition after it was heard of last.
const LEASE: Duration = Duration::from_secs(5);
/// The longest pause after failures.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Places that are put to the engine together.
const FLIGHT_MAX: usize = 512;
/// Flights of one line in a run; then the lines are looked up again.
const FLIGHTS_MAX: usize = 64;

/// What lines are decided with.
#[derive(Clone)]
pub struct WaitingPorts {
    /// Where they are.
    pub room: Arc<dyn WaitingRoom>,
    /// Who decides claims.
    pub engine: Arc<dyn Engine>,
    /// Says what became of campaigns that the engine does not have.
    pub ledger: Arc<dyn Ledger>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What operators observe.
    pub monitor: Arc<WaitingMonitor>,
    /// How long results are kept.
    pub limits: WaitingLimits,
}

/// Why somebody in line is not decided.
#[derive(Debug, thiserror::Error)]
pub enum WaitingError {
    /// The engine or the line did not answer, or the campaign is not open on the engine at the moment.
    #[error("campaign {0} is not decided: {1}")]
    Engine(CampaignId, EngineError),
    /// The lines of a partition were not listed.
    #[error("lines cannot be listed: {0}")]
    Lines(EngineError),
    /// The ledger did not say what became of a campaign.
    #[error("campaign {0} is not known to the engine: {1}")]
    Ledger(CampaignId, LedgerError),
    /// This is a bug.
    #[error("deciding campaign {0} has panicked")]
    Panicked(CampaignId),
}

/// How many wait in a line, and since when the first of them does, if it can be decided.
type Head = (u64, Option<Timestamp>);

/// A line in which somebody waits.
#[derive(Debug)]
pub struct LineLeft {
    /// Whose line it is.
    pub campaign: CampaignId,
    /// How many wait.
    pub waiting: u64,
    /// Why they are not decided.
    pub why: &'static str,
}

/// Decides the lines of one partition.
pub struct LineDecider {
    ports: WaitingPorts,
    partition: PartitionId,
    /// What was seen last: a line that cannot be read does not look empty.
    heads: Arc<Mutex<BTreeMap<CampaignId, Head>>>,
    /// When this process asked for the lease that it has; none where it has none.
    leased_at: Mutex<Option<Instant>>,
}

/// Starts a decider for every partition: one that does not answer holds up no other. Needs a tokio runtime around it.
pub fn start_all(host: &Host, ports: &WaitingPorts) {
    let start = |partition: PartitionId| {
        let decider = LineDecider::new(ports.clone(), partition);
        let name = format!("waiting rooms of partition {}", partition.0);
        host.start(&name, LineDecider::SCHEDULE, decider)
    };
    let wakers: Vec<Waker> = ports.room.partitions().into_iter().map(start).collect();
    ports
        .monitor
        .on_entry(move || wakers.iter().for_each(Waker::wake));
}

impl LineDecider {
    /// When it looks.
    pub const SCHEDULE: Schedule = Schedule {
        backoff_max: BACKOFF_MAX,
        ..Schedule::every(LOOK_EVERY)
    };

    /// Decides the lines of this partition.
    #[must_use]
    pub fn new(ports: WaitingPorts, partition: PartitionId) -> Self {
        Self {
            ports,
            partition,
            heads: Arc::default(),
            leased_at: Mutex::default(),
        }
    }

    /// Decides everybody who can be decided now; returns how many that were. All lines of the partition at once.
    ///
    /// # Errors
    /// The first that was met; the other lines are decided.
    pub async fn decide_all(&self) -> Result<u64, WaitingError> {
        let asked_at = Instant::now();
        let lines = self.lines().await?;
        self.note_lease(asked_at, &lines);
        let Lines { campaigns, own, .. } = lines;
        // Another process decides them otherwise.
        let lines: Vec<CampaignId> = campaigns.into_iter().filter(|_| own).collect();
        let waits = |campaign: &CampaignId, _: &mut Head| lines.contains(campaign);
        self.heads.lock().retain(waits);
        let (mut deciding, mut campaigns) = (JoinSet::new(), HashMap::new());
        for campaign in lines {
            let (ports, heads) = (self.ports.clone(), Arc::clone(&self.heads));
            let task = deciding.spawn(async move {
                let line = Line { ports, campaign };
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
                Err(ended) => WaitingError::Panicked(campaigns[&ended.id()]),
            };
            failed = failed.or(Some(error));
        }
        let heads = self.heads.lock();
        let oldest = heads.values().filter_map(|(_, at)| *at).min();
        let waiting = heads.values().map(|(waiting, _)| waiting).sum();
        self.ports.monitor.show(self.partition, waiting, oldest);
        failed.map_or(Ok(decided), Err)
    }

    /// The lines of this partition in which somebody waits still. It decides nothing.
    ///
    /// # Errors
    /// When the lines cannot be read.
    pub async fn left(&self) -> Result<Vec<LineLeft>, WaitingError> {
        let Lines { campaigns, own, .. } = self.lines().await?;
        let mut left = Vec::new();
        for campaign in campaigns {
            let failed = |error| WaitingError::Engine(campaign, error);
            let head = self.ports.room.head(campaign, 1).await.map_err(failed)?;
            let tally = self.ports.engine.tally(campaign).await.map_err(failed)?;
            let why = match tally.map(|tally| tally.phase) {
                _ if !own => "another process decides them",
                None => "the engine does not have the campaign",
                Some(Phase::Paused) => "the campaign is paused",
                Some(Phase::Draft | Phase::Scheduled) => "the campaign has not started",
                Some(Phase::Live | Phase::Ended | Phase::Closed) => "they came meanwhile",
            };
            left.extend((head.waiting > 0).then_some(LineLeft {
                campaign,
                waiting: head.waiting,
                why,
            }));
        }
        Ok(left)
    }

    async fn lines(&self) -> Result<Lines, WaitingError> {
        let lines = self.ports.room.lines(self.partition, LEASE).await;
        lines.map_err(WaitingError::Lines)
    }

    /// Counts a lease that was not renewed in time: this process may have decided lines that another one decides.
    fn note_lease(&self, asked_at: Instant, lines: &Lines) {
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
            "the lease of a partition's lines has run out"
        );
    }
}

impl Reconciler for LineDecider {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.decide_all().await {
            Ok(0) => Ok(Next::Wait),
            Ok(_) => Ok(Next::Again),
            Err(error) => Err(Stuck(error.to_string())),
        }
    }
}

/// One line.
struct Line {
    ports: WaitingPorts,
    campaign: CampaignId,
}

/// How a flight ended.
enum Landed {
    /// Everybody in it is decided.
    All,
    /// The campaign is paused or has not started.
    Held,
    /// Nobody further can be decided for now.
    Stop,
}

impl Line {
    /// Decides from the head of the line on. `show` is told how many wait, and since when the first of them does;
    /// none where the campaign is held, so that nobody should be decided.
    async fn decide(&self, show: impl Fn(u64, Option<Timestamp>)) -> Result<u64, WaitingError> {
        let failed = |error| WaitingError::Engine(self.campaign, error);
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
                let WaitingPorts {
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
                Landed::All => {}
                Landed::Held => {
                    show(head.waiting, None);
                    break;
                }
                Landed::Stop => break,
            }
        }
        Ok(count)
    }

    /// Puts the first places to the engine, and collects what became of them.
    ///
    /// Claims that are under way together may be decided in any order. So those go together whose outcomes do not
    /// depend on it: as many as there are units for, and those who ask for more than is left whatever the others get.
    async fn fly(
        &self,
        places: Vec<Place>,
        decided: &mut Vec<(Place, Decision)>,
    ) -> Result<Landed, WaitingError> {
        let engine = &self.ports.engine;
        let tally = engine.tally(self.campaign).await;
        let tally = tally.map_err(|error| WaitingError::Engine(self.campaign, error))?;
        let remaining = tally.map_or(0, |tally| tally.remaining);
        let (mut free, mut flight, mut landed) = (remaining, Vec::new(), Landed::All);
        // What the gate knows may be a moment old: it is asked where there is nothing to be had.
        let is_over = |phase| matches!(phase, Phase::Ended | Phase::Closed);
        let hopeless = tally.is_some_and(|it| it.remaining == 0 || is_over(it.phase));
        for place in places {
            let claim = place.keyed_claim();
            if hopeless
                && let Some(outcome) = engine.peek(&claim)
                && is_refusal(&outcome)
            {
                // What a refusal survives is of no interest: asked again, it is decided again.
                let ack = engine.ack_levels().first().copied();
                let ack = ack.unwrap_or(AckLevel::Memory);
                decided.push((place, Decision::Claimed(outcome, ack)));
                continue;
            }
            match free.checked_sub(claim.quantity.into()) {
                Some(left) => free = left,
                None if u64::from(claim.quantity) > remaining => {}
                None => break,
            }
            flight.push((place, engine.claim(claim)));
        }
        let (mut first_error, mut unknown) = (None, Vec::new());
        for (place, ticket) in flight {
            match ticket.await {
                Ok(claimed) => match claimed.outcome {
                    Outcome::Paused | Outcome::NotStarted { .. } => landed = Landed::Held,
                    Outcome::UnknownCampaign => unknown.push((place, claimed.ack)),
                    outcome => decided.push((place, Decision::Claimed(outcome, claimed.ack))),
                },
                Err(EngineError::Refused(Refusal::KeyReused)) => {
                    decided.push((place, Decision::KeyReused));
                }
                Err(error) => {
                    let error = WaitingError::Engine(self.campaign, error);
                    first_error = first_error.or(Some(error));
                }
            }
        }
        if !unknown.is_empty() {
            match self.if_unknown().await {
                Ok(Some(outcome)) => {
                    let of = |(place, ack)| (place, Decision::Claimed(outcome, ack));
                    decided.extend(unknown.into_iter().map(of));
                }
                Ok(None) => landed = Landed::Stop,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        first_error.map_or(Ok(landed), Err)
    }

    /// The outcome of claims of a campaign that the engine does not have; none where their users wait on.
    async fn if_unknown(&self) -> Result<Option<Outcome>, WaitingError> {
        let record = self.ports.ledger.campaign(self.campaign).await;
        let record = record.map_err(|error| WaitingError::Ledger(self.campaign, error))?;
        Ok(match record.map(|record| record.phase) {
            None => Some(Outcome::UnknownCampaign),
            // The engine has dropped it because it is over.
            Some(Phase::Ended | Phase::Closed) => Some(Outcome::Ended),
            // The engine has lost it, and is repaired.
            Some(_) => None,
        })
    }
}

/// Whether the gate's answer is one that a claim ends in for good.
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
