//! An engine whose memory and whose disk can be lost: the real book, and a log of which only a part is durable.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use qiang_core::{
    book::{Book, Claim, Command, Grace, OrderView, Reply, Setup},
    campaign::{AckLevel, Tally},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{
        Answer, Claimed, Clock as _, Engine, EngineError, EventLog, LedgerError, Probed, Ticket,
    },
    time::Timestamp,
};

use super::{Bug, Draw, SimulatedClock};

const PARTITION: PartitionId = PartitionId(0);

/// What is lost with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The process alone: what it wrote is there, synced or not.
    Process,
    /// The power: what was not synced is gone.
    Power,
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
    /// Every campaign that it was ever told to open: the ledger has them.
    setups: Vec<Setup>,
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
    is_up: bool,
    draw: Draw,
}

/// The engine. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct SimulatedEngine {
    state: Arc<Mutex<State>>,
    clock: Arc<SimulatedClock>,
    bug: Option<Bug>,
}

impl SimulatedEngine {
    /// An engine in which nothing has happened.
    #[must_use]
    pub fn new(clock: Arc<SimulatedClock>, draw: Draw, bug: Option<Bug>) -> Self {
        let state = State {
            book: Book::new(),
            setups: Vec::new(),
            log: Vec::new(),
            truths: Vec::new(),
            written: 0,
            synced: 0,
            trusted: 0,
            waiting: Vec::new(),
            is_up: true,
            draw,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            clock,
            bug,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a book does not panic")
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
        let mut state = self.state();
        if state.is_up && state.log.len() > state.trusted {
            state.written = state.log.len();
            state.synced = state.written;
            state.trusted = state.synced;
            state.waiting.drain(..).for_each(Waiting::send);
        }
    }

    /// Does what is due.
    pub fn tick(&self) {
        let events_max = 1_000;
        drop(self.submit(Command::Tick { events_max }));
    }

    /// The process dies. Nobody who waits is answered.
    pub fn die(&self, loss: Loss) {
        let mut state = self.state();
        state.is_up = false;
        state.waiting.clear();
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

    /// It starts, and finds what is written.
    pub fn start(&self) {
        let mut state = self.state();
        let since = self.clock.now();
        let mut book = Book::with_grace(Grace { ms: 30_000, since });
        for setup in &state.setups {
            let id = setup.campaign.id;
            let opens =
                |entry: &Entry| entry.campaign == id && matches!(entry.event, Event::Opened { .. });
            if state.log.iter().any(opens) {
                book.restore(setup.clone());
            }
        }
        state.log.iter().for_each(|entry| book.replay(entry));
        state.book = book;
        if self.bug != Some(Bug::NoProbe) {
            state.synced = state.log.len();
        }
        state.trusted = state.log.len();
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

    /// The log, and when each of its entries was decided in truth.
    #[must_use]
    pub fn history(&self) -> (Vec<Entry>, Vec<Timestamp>) {
        let state = self.state();
        (state.log.clone(), state.truths.clone())
    }

    /// Decides something. What made no entry, and rests on none that is not durable, is answered at once.
    fn decide<T>(
        &self,
        decide: impl FnOnce(&mut Book, Timestamp, &mut Vec<Entry>) -> T,
        waiting: impl FnOnce(T) -> Waiting,
    ) {
        let (now, truth) = (self.clock.now(), self.clock.truth());
        let mut state = self.state();
        let State { book, log, .. } = &mut *state;
        let waiting = waiting(decide(book, now, log));
        let decided = state.log.len();
        state.truths.resize(decided, truth);
        if self.bug == Some(Bug::AnswersEarly) || decided == state.trusted {
            waiting.send();
        } else {
            state.waiting.push(waiting);
        }
    }

    fn down() -> EngineError {
        EngineError::unavailable("the process is dead")
    }
}

impl Engine for SimulatedEngine {
    fn claim(&self, claim: Claim) -> Ticket<Claimed> {
        if !self.is_up() {
            return Ticket::ready(Err(Self::down()));
        }
        let (answer, ticket) = Ticket::new();
        self.decide(
            |book, now, log| book.claim(now, &claim, log).map_err(EngineError::from),
            |outcome| Waiting::Claim(answer, outcome),
        );
        ticket
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        if !self.is_up() {
            return Ticket::ready(Err(Self::down()));
        }
        if let Command::Open(setup) = &command {
            let mut state = self.state();
            if !state.setups.contains(setup) {
                state.setups.push(Setup::clone(setup));
            }
        }
        let (answer, ticket) = Ticket::new();
        self.decide(
            |book, now, log| book.apply(now, &command, log).map_err(EngineError::from),
            |reply| Waiting::Command(answer, reply),
        );
        ticket
    }

    fn peek(&self, claim: &Claim) -> Option<Outcome> {
        let state = self.state();
        let committed = state.trusted as Seq;
        state.book.peek(self.clock.now(), claim, committed)
    }

    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        Ticket::ready(Ok(self.state().book.tally(self.clock.now(), campaign)))
    }

    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>> {
        Ticket::ready(Ok(self.state().book.order(order)))
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
