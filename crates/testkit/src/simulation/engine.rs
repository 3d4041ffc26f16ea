//! Simulated engine that can lose its memory and its disk: the real book, and a log of which only a part is durable.
//!
//! Like the embedded engine, it starts at the settled position with the ledger's rows. It evicts idle campaigns and
//! reloads them on a request.

mod absent;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use qiang_core::{
    book::{Book, Claim, Command, Downtime, Grace, OrderView, Refusal, Reply},
    campaign::{AckLevel, Tally},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{
        Claimed, Clock as _, Engine, EngineError, EventLog, LedgerError, PendingReply, ProbeResult,
        ReplySender,
    },
    time::Timestamp,
};

use self::absent::Absent;
use super::{
    Bug, Draw, SimulatedClock,
    rows::{Loaded, Rows},
};

const PARTITION: PartitionId = PartitionId(0);

/// Retention of orders for late payments, from the end of the hold, or from a later start of the engine.
pub const GRACE_MS: i64 = 30_000;
/// Interval at which an engine without commits records that it is up.
pub const SAYS_UP_EVERY_MS: i64 = 5_000;

/// Data lost with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The process only: all its writes stay, synced or not.
    Process,
    /// The power: writes that were not synced are lost.
    Power,
}

/// Request to an engine.
enum Task {
    Claim(Claim, ReplySender<Claimed>),
    Command(Command, ReplySender<Reply>),
}

impl Task {
    /// The campaign that the book needs for the task; `None` for an opening, which contains its campaign.
    fn campaign(&self) -> Option<CampaignId> {
        match self {
            Self::Claim(claim, _) => Some(claim.campaign),
            Self::Command(Command::Open(_), _) => None,
            Self::Command(command, _) => command.campaign(),
        }
    }

    fn refuse(self, error: EngineError) {
        match self {
            Self::Claim(_, answer) => answer.send(Err(error)),
            Self::Command(_, answer) => answer.send(Err(error)),
        }
    }
}

/// Answer that waits until its entries are durable.
enum Waiting {
    Claim(ReplySender<Claimed>, Result<Outcome, EngineError>),
    Command(ReplySender<Reply>, Result<Reply, EngineError>),
}

impl Waiting {
    fn send(self) {
        let ack = AckLevel::Fsync;
        match self {
            Self::Claim(answer, outcome) => {
                answer.send(outcome.map(|outcome| Claimed { outcome, ack }));
            }
            Self::Command(answer, reply) => answer.send(reply),
        }
    }
}

struct State {
    book: Book,
    /// All decided entries.
    log: Vec<Entry>,
    /// True time of each entry's decision.
    truths: Vec<Timestamp>,
    /// Entries that a starting process finds in its file.
    written: usize,
    /// Entries that survive a loss of power.
    synced: usize,
    /// Entries that the process considers durable.
    trusted: usize,
    waiting: Vec<Waiting>,
    absent: Absent,
    is_up: bool,
    /// Last time that the engine was up, as recorded in its file.
    said_up: Timestamp,
    /// Downtimes, as recorded in its file.
    downtimes: Vec<Downtime>,
    /// True downtimes. While the engine is down, the last one continues.
    outages: Vec<(Timestamp, Timestamp)>,
    draw: Draw,
}

impl State {
    /// Decides a task. The answer is sent at once if the decision made no entry and depends only on durable entries.
    fn decide(&mut self, task: Task, (now, truth): (Timestamp, Timestamp), bug: Option<Bug>) {
        let (book, log) = (&mut self.book, &mut self.log);
        let waiting = match task {
            Task::Claim(claim, answer) => {
                let outcome = book.claim(now, &claim, log);
                Waiting::Claim(answer, outcome.map_err(EngineError::from))
            }
            Task::Command(command, answer) => {
                let reply = book.apply(now, &command, log);
                Waiting::Command(answer, reply.map_err(EngineError::from))
            }
        };
        let decided = self.log.len();
        self.truths.resize(decided, truth);
        if bug == Some(Bug::AnswersEarly) || decided == self.trusted {
            waiting.send();
        } else {
            self.waiting.push(waiting);
        }
    }
}

/// The engine. Clones share the same state.
#[derive(Clone)]
pub struct SimulatedEngine {
    state: Arc<Mutex<State>>,
    clock: Arc<SimulatedClock>,
    rows: Arc<Mutex<Rows>>,
    bug: Option<Bug>,
}

/// Entries decided in a simulated world, with their times.
pub struct Decided {
    /// The log.
    pub log: Vec<Entry>,
    /// True time of each entry's decision.
    pub truths: Vec<Timestamp>,
    /// Start and end of each downtime.
    pub outages: Vec<(Timestamp, Timestamp)>,
    /// Number of evictions and of reloads.
    pub left_and_recalled: (u64, u64),
}

impl SimulatedEngine {
    /// Creates an empty engine with a ledger. A campaign is evicted after this many milliseconds without a request.
    #[must_use]
    pub fn new(
        clock: Arc<SimulatedClock>,
        rows: Arc<Mutex<Rows>>,
        mut draw: Draw,
        bug: Option<Bug>,
    ) -> Self {
        let idle_campaign_ttl_ms = if draw.once_in(2) { 0 } else { 45_000 };
        let state = State {
            book: Book::new(),
            log: Vec::new(),
            truths: Vec::new(),
            written: 0,
            synced: 0,
            trusted: 0,
            waiting: Vec::new(),
            absent: Absent::new(idle_campaign_ttl_ms),
            is_up: true,
            said_up: clock.now(),
            downtimes: Vec::new(),
            outages: Vec::new(),
            draw,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            clock,
            rows,
            bug,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a book does not panic")
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().expect("rows do not panic")
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.clock.now(), self.clock.truth())
    }

    /// Writes all decided entries as one transaction, without a sync.
    pub fn write(&self) {
        let mut state = self.state();
        if state.is_up {
            state.written = state.log.len();
        }
    }

    /// Writes and syncs all decided entries, if there are any, and sends the answers that wait for them.
    pub fn commit(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        let is_new = state.log.len() > state.trusted;
        if state.is_up && (is_new || now.millis_since(state.said_up) >= SAYS_UP_EVERY_MS) {
            state.written = state.log.len();
            state.synced = state.written;
            state.trusted = state.synced;
            state.said_up = state.said_up.max(now);
            state.waiting.drain(..).for_each(Waiting::send);
        }
    }

    /// Does all due work.
    pub fn tick(&self) {
        self.recall_due();
        let events_max = 1_000;
        drop(self.submit(Command::Tick { events_max }));
    }

    /// Ends the process. Waiting requests get no answers.
    pub fn die(&self, loss: Loss) {
        let truth = self.clock.truth();
        let mut state = self.state();
        state.is_up = false;
        state.outages.push((truth, truth));
        state.waiting.clear();
        state.absent.forget();
        let left = match loss {
            Loss::Process => state.written,
            Loss::Power => {
                // Writes that were not synced may survive.
                let is_there = state.draw.once_in(4);
                if is_there {
                    state.written
                } else {
                    state.synced
                }
            }
        };
        state.log.truncate(left);
        state.truths.truncate(left);
        state.written = left;
        state.trusted = left;
        state.synced = match loss {
            Loss::Process => state.synced.min(left),
            Loss::Power => left,
        };
    }

    /// Starts the process with the written data: settled entries from the ledger's rows, the others from the log.
    pub fn start(&self) {
        let (now, truth) = self.times();
        let mut state = self.state();
        let downtime = Downtime {
            began: state.said_up,
            ended: now,
        };
        state.said_up = now;
        state.downtimes.push(downtime);
        let mut book = Book::with_grace(Grace {
            ms: GRACE_MS,
            since: match self.bug {
                Some(Bug::NeverExpires) => Timestamp::MAX,
                _ => now,
            },
        });
        if self.bug != Some(Bug::ForgetsDowntimes) {
            state.downtimes.iter().for_each(|it| book.was_down(*it));
        }
        let rows = self.rows();
        book.begin_at(rows.position());
        for (id, at, hold) in rows.dues() {
            let due = hold.map_or(at, |(hold_ms, extension_ms)| {
                book.extended_expires_at(at, hold_ms, extension_ms)
            });
            book.expect(due, id);
        }
        let unsettled = |entry: &&Entry| entry.seq > rows.position();
        for entry in state.log.iter().filter(unsettled) {
            if !book.has(entry.campaign)
                && let Ok(Loaded::Opened(restored) | Loaded::Draft(restored)) =
                    rows.load(entry.campaign)
            {
                book.recall(Timestamp::default(), *restored);
            }
            book.replay(entry);
        }
        drop(rows);
        state.book = book;
        if self.bug != Some(Bug::NoProbe) {
            state.synced = state.log.len();
        }
        state.trusted = state.log.len();
        if let Some(outage) = state.outages.last_mut() {
            outage.1 = truth;
        }
        state.is_up = true;
    }

    /// Whether the engine runs.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state().is_up
    }

    /// Whether a loss of power would lose decided entries; with `is_written`, whether it would lose written ones.
    #[must_use]
    pub fn is_at_stake(&self, is_written: bool) -> bool {
        let state = self.state();
        let reached = if is_written {
            state.written
        } else {
            state.log.len()
        };
        state.synced < reached
    }

    /// All entries decided so far.
    #[must_use]
    pub fn decided(&self) -> Decided {
        let state = self.state();
        Decided {
            log: state.log.clone(),
            truths: state.truths.clone(),
            outages: state.outages.clone(),
            left_and_recalled: state.absent.left_and_recalled(),
        }
    }

    /// Decides a task, or queues it until its campaign is loaded.
    fn push(&self, task: Task) {
        let times = self.times();
        let mut state = self.state();
        if !state.is_up {
            return task.refuse(EngineError::unavailable("the process is dead"));
        }
        match task.campaign() {
            Some(id) if !state.book.has(id) => state.absent.wait(id, task),
            _ => state.decide(task, times, self.bug),
        }
    }

    /// Reply to an opening from the rows, if the book does not have the campaign.
    fn without_opening(&self, command: &Command) -> Option<Result<Reply, EngineError>> {
        let Command::Open(setup) = command else {
            return None;
        };
        let id = setup.campaign.id;
        if self.state().book.has(id) {
            return None;
        }
        match self.rows().is_draft(id) {
            Some(true) => None,
            Some(false) => Some(Ok(Reply::Opened)), // it opened before and was evicted
            None => Some(Err(Refusal::UnknownCampaign.into())),
        }
    }
}

impl Engine for SimulatedEngine {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        let (answer, ticket) = PendingReply::new();
        self.push(Task::Claim(claim, answer));
        ticket
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        if let Some(reply) = self.without_opening(&command)
            && self.is_up()
        {
            return PendingReply::ready(reply);
        }
        let (answer, ticket) = PendingReply::new();
        self.push(Task::Command(command, answer));
        ticket
    }

    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        let state = self.state();
        let committed = state.trusted as Seq;
        let is_here = state.is_up && state.book.has(claim.campaign);
        let peek = || {
            state
                .book
                .try_gate_outcome(self.clock.now(), claim, committed)
        };
        is_here.then(peek).flatten()
    }

    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        let now = self.clock.now();
        PendingReply::ready(self.read(
            campaign,
            |book| book.tally(now, campaign),
            |restored| Some(restored.tally(now)),
        ))
    }

    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        PendingReply::ready(self.read(
            order.campaign,
            |book| book.order(order),
            |restored| restored.order(order.number),
        ))
    }

    fn probe(&self, _: PartitionId) -> PendingReply<ProbeResult> {
        PendingReply::ready(Ok(ProbeResult::Ready))
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Fsync]
    }
}

#[async_trait]
impl EventLog for SimulatedEngine {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PARTITION]
    }

    async fn epoch(&self, _: PartitionId) -> Result<String, LedgerError> {
        Ok(String::new())
    }

    async fn head(&self, _: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.state().trusted as Seq)
    }

    async fn read(
        &self,
        _: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let state = self.state();
        let durable = state.log[..state.trusted].iter().skip(after as usize);
        Ok(durable.take(limit).cloned().collect())
    }
}
