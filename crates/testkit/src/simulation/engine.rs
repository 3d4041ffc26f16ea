//! An engine whose memory and whose disk can be lost: the real book, and a log of which only a part is durable.
//!
//! As the embedded engine does, it starts at the settled position with what the ledger's rows have, lets campaigns
//! leave that nobody asks for, and has them read back when somebody does.

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
        Answer, Claimed, Clock as _, Engine, EngineError, EventLog, LedgerError, Probed, Ticket,
    },
    time::Timestamp,
};

use self::absent::Absent;
use super::{
    Bug, Draw, SimulatedClock,
    rows::{Loaded, Rows},
};

const PARTITION: PartitionId = PartitionId(0);

/// For so long orders are kept for payments that are reported late, from their hold's end or a later start on.
pub const GRACE_MS: i64 = 30_000;
/// An engine that has nothing to commit says so often that it is up.
pub const SAYS_UP_EVERY_MS: i64 = 5_000;

/// What is lost with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The process alone: what it wrote is there, synced or not.
    Process,
    /// The power: what was not synced is gone.
    Power,
}

/// What an engine is asked.
enum Task {
    Claim(Claim, Answer<Claimed>),
    Command(Command, Answer<Reply>),
}

impl Task {
    /// The campaign that the book needs for it; none for an opening, which brings its own.
    fn campaign(&self) -> Option<CampaignId> {
        match self {
            Self::Claim(claim, _) => Some(claim.campaign),
            Self::Command(command, _) => match command {
                Command::Open(_) | Command::Tick { .. } => None,
                Command::Pay { order, .. }
                | Command::Cancel { order }
                | Command::Return { order, .. } => Some(order.campaign),
                Command::Act { campaign, .. }
                | Command::SetStock { campaign, .. }
                | Command::SetTerms { campaign, .. }
                | Command::Correct { campaign, .. } => Some(*campaign),
            },
        }
    }

    fn refuse(self, error: EngineError) {
        match self {
            Self::Claim(_, answer) => answer.send(Err(error)),
            Self::Command(_, answer) => answer.send(Err(error)),
        }
    }
}

/// An answer that waits for its entries to be durable.
enum Waiting {
    Claim(Answer<Claimed>, Result<Outcome, EngineError>),
    Command(Answer<Reply>, Result<Reply, EngineError>),
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
    /// What was decided.
    log: Vec<Entry>,
    /// When each entry was decided in truth.
    truths: Vec<Timestamp>,
    /// How much of the log a process that starts finds in its file.
    written: usize,
    /// How much of it survives a loss of power.
    synced: usize,
    /// How much of it the process takes for durable.
    trusted: usize,
    waiting: Vec<Waiting>,
    absent: Absent,
    is_up: bool,
    /// When it was up last, as its file says.
    said_up: Timestamp,
    /// When it was down, as its file says.
    downtimes: Vec<Downtime>,
    /// When it was down in truth; the last one is under way while it is.
    outages: Vec<(Timestamp, Timestamp)>,
    draw: Draw,
}

impl State {
    /// Decides something. What made no entry, and rests on none that is not durable, is answered at once.
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

/// The engine. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct SimulatedEngine {
    state: Arc<Mutex<State>>,
    clock: Arc<SimulatedClock>,
    rows: Arc<Mutex<Rows>>,
    bug: Option<Bug>,
}

/// What was decided in a world, and when.
pub struct Decided {
    /// The log.
    pub log: Vec<Entry>,
    /// When each of its entries was decided in truth.
    pub truths: Vec<Timestamp>,
    /// From when to when the engine was down.
    pub outages: Vec<(Timestamp, Timestamp)>,
    /// How often a campaign has left memory, and how often one has come back.
    pub left_and_recalled: (u64, u64),
}

impl SimulatedEngine {
    /// An engine in which nothing has happened, beside a ledger. A campaign leaves its memory that nobody has asked for
    /// in so many milliseconds.
    #[must_use]
    pub fn new(
        clock: Arc<SimulatedClock>,
        rows: Arc<Mutex<Rows>>,
        mut draw: Draw,
        bug: Option<Bug>,
    ) -> Self {
        let keep_idle_ms = if draw.once_in(2) { 0 } else { 45_000 };
        let state = State {
            book: Book::new(),
            log: Vec::new(),
            truths: Vec::new(),
            written: 0,
            synced: 0,
            trusted: 0,
            waiting: Vec::new(),
            absent: Absent::new(keep_idle_ms),
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

    /// Writes what was decided, as one transaction, and does not sync it yet.
    pub fn write(&self) {
        let mut state = self.state();
        if state.is_up {
            state.written = state.log.len();
        }
    }

    /// Writes and syncs what was decided, if anything was, and answers all that waits for it.
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

    /// Does what is due.
    pub fn tick(&self) {
        self.recall_due();
        let events_max = 1_000;
        drop(self.submit(Command::Tick { events_max }));
    }

    /// The process dies. Nobody who waits is answered.
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
                // What was written and not synced may be there after all.
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

    /// It starts, and finds what is written: what the ledger has in its rows, and what it does not have in the log.
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
        for (id, at, hold_ms) in rows.dues() {
            let due = hold_ms.map_or(at, |hold_ms| book.expires_at(at, hold_ms));
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

    /// Whether it runs.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state().is_up
    }

    /// Whether something was decided, or else even written, that a loss of power would take.
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

    /// All that was decided.
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

    /// Decides a task, or has it wait for its campaign.
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

    /// What the rows make of an opening, if the book does not have the campaign.
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
            Some(false) => Some(Ok(Reply::Opened)), // it opened before, and is not here
            None => Some(Err(Refusal::UnknownCampaign.into())),
        }
    }
}

impl Engine for SimulatedEngine {
    fn claim(&self, claim: Claim) -> Ticket<Claimed> {
        let (answer, ticket) = Ticket::new();
        self.push(Task::Claim(claim, answer));
        ticket
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        if let Some(reply) = self.without_opening(&command)
            && self.is_up()
        {
            return Ticket::ready(reply);
        }
        let (answer, ticket) = Ticket::new();
        self.push(Task::Command(command, answer));
        ticket
    }

    fn peek(&self, claim: &Claim) -> Option<Outcome> {
        let state = self.state();
        let committed = state.trusted as Seq;
        let is_here = state.is_up && state.book.has(claim.campaign);
        let peek = || state.book.peek(self.clock.now(), claim, committed);
        is_here.then(peek).flatten()
    }

    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        let now = self.clock.now();
        Ticket::ready(self.read(
            campaign,
            |book| book.tally(now, campaign),
            |restored| Some(restored.tally(now)),
        ))
    }

    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>> {
        Ticket::ready(self.read(
            order.campaign,
            |book| book.order(order),
            |restored| restored.order(order.number),
        ))
    }

    fn probe(&self, _: PartitionId) -> Ticket<Probed> {
        Ticket::ready(Ok(Probed::Ready))
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
