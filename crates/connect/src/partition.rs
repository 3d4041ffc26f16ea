//! What this node knows of one partition: the term in which calls are carried out, and what this node has observed.
//!
//! A term is the time for which one server is the partition's primary. Everything here is read and changed under one
//! lock: an answer counts as observed in the term in which it was asked for, or it does not count at all.

use std::{
    fmt,
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use qiang_core::event::{PartitionId, Seq};
use tokio::{sync::Notify, time::Instant};

use crate::replies::{Replies, Unkept};

/// How often a node says that it is there, if the grace of terms is not so short that it has to be more often.
const PRESENCE_EVERY: Duration = Duration::from_millis(500);
/// So many times within the grace at least: a call that is late must not cost anything.
const PRESENCES_A_GRACE: u32 = 4;
/// The same while the partition is not open.
const PRESENCE_SOON: Duration = Duration::from_millis(50);
/// A partition that has not answered for this long is unreachable. A failover may take as long as it likes: calls go on
/// trying until their own time is over.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(1);
/// Why a call was not carried out, while nodes report.
const GATHERING: &str =
    "the partition's primary has changed, and nodes report what they have observed";
/// Why a call was not carried out, while this node does not know whether its term still runs.
const SILENT: &str = "the partition has not answered for longer than its terms wait for a node";

/// Whether a partition decides anything, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionState {
    /// Calls are carried out.
    Open,
    /// A new term has begun, and nodes report what they have observed in earlier ones.
    Gathering,
    /// Nothing is decided until somebody has repaired it.
    Halted {
        /// Why, for the operator.
        reason: String,
        /// The entries that were lost; none where it was halted by hand.
        lost: Option<RangeInclusive<Seq>>,
    },
    /// No primary answers.
    Unreachable {
        /// Why, for the operator.
        reason: String,
    },
}

impl fmt::Display for PartitionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Gathering => f.write_str("gathering"),
            Self::Halted { reason, .. } => write!(f, "halted: {reason}"),
            Self::Unreachable { reason } => write!(f, "unreachable: {reason}"),
        }
    }
}

/// The time for which one server is a partition's primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// The state's epoch: another one continues it after a repair, or has taken its place.
    pub(crate) epoch: String,
    /// Terms of an epoch are numbered.
    pub(crate) number: u64,
    /// The beginning of the primary's replication id.
    pub(crate) server: String,
    /// Where the log ended when the term began.
    pub(crate) began: Seq,
}

impl Term {
    /// As calls state it.
    fn token(&self) -> Arc<str> {
        format!("{}.{}.{}", self.epoch, self.number, self.server).into()
    }
}

/// What a presence call says.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// When it was put together: before it is sent.
    pub(crate) at: Instant,
    pub(crate) term: Option<Term>,
    /// The earlier term in which it was observed, until that was reported.
    pub(crate) before: Option<Term>,
    pub(crate) observed: Seq,
    pub(crate) settled: Seq,
    /// Whether there may be a new state.
    pub(crate) fresh: bool,
    /// For how long only terms were found that are earlier than the one that is known.
    pub(crate) stale_for: Duration,
}

/// What a presence call was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    /// None where the state is gone.
    pub(crate) term: Option<Term>,
    pub(crate) state: PartitionState,
}

/// What follows from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learned {
    /// Nothing.
    Known,
    /// The term is new: what was observed is to be reported in it.
    NewTerm,
    /// The server has an earlier term than the one that is known: it is none of this partition's any more.
    Stale,
}

/// One partition, as this node sees it.
pub struct Partition {
    /// Which one.
    pub id: PartitionId,
    view: Mutex<View>,
    /// Whether calls are carried out may have changed.
    changed: Notify,
    /// A presence call is wanted at once.
    wanted: Notify,
    /// Something has spoken against the server that presence calls go to.
    suspected: AtomicBool,
    /// Whether the last read of the log ended where replicas do.
    awaiting: AtomicBool,
    replies: Arc<Replies>,
    presence_every: Duration,
}

struct View {
    term: Option<Term>,
    /// The term as calls state it.
    token: Arc<str>,
    before: Option<Term>,
    /// As the partition says, however long ago.
    state: PartitionState,
    /// Why presence calls fail, and since when.
    failing: Option<(String, Instant)>,
    /// When a presence call was answered last.
    answered: Instant,
    /// For how long a new term waits for this node after its last presence call; none if it does not wait.
    grace: Option<Duration>,
    /// When the last presence call was sent that was answered. Until a grace later no other term grants anything behind
    /// this node's back: an answer that is read after that may be of a term that is over, from a buffer.
    sent: Option<Instant>,
    /// Since when only earlier terms are found.
    stale: Option<Instant>,
    /// The last log entry that this node has answered for, or that it has read for settlement.
    observed: Seq,
    /// Up to where the ledger has the partition.
    settled: Seq,
    /// The last log entry that replicas are known to have, in this term.
    replicated: Seq,
    fresh: bool,
}

impl Partition {
    /// A partition of which nothing is known but how far the ledger has it, and whether nothing was ever in it. New
    /// terms wait for a silent node for the `grace`.
    pub(crate) fn new(id: PartitionId, settled: Seq, fresh: bool, grace: Duration) -> Self {
        let view = View {
            term: None,
            token: Arc::from(""),
            before: None,
            state: PartitionState::Gathering,
            failing: None,
            answered: Instant::now(),
            grace: (!grace.is_zero()).then_some(grace),
            sent: None,
            stale: None,
            observed: 0,
            settled,
            replicated: 0,
            fresh,
        };
        Self {
            id,
            view: Mutex::new(view),
            changed: Notify::new(),
            wanted: Notify::new(),
            suspected: AtomicBool::new(false),
            awaiting: AtomicBool::new(false),
            replies: Arc::default(),
            presence_every: match grace.is_zero() {
                true => PRESENCE_EVERY,
                false => PRESENCE_EVERY.min(grace / PRESENCES_A_GRACE),
            },
        }
    }

    /// Whether calls are carried out, and why not.
    pub fn state(&self) -> PartitionState {
        let view = self.view.lock();
        match (&view.state, &view.failing) {
            (PartitionState::Halted { .. }, _) | (_, None) => view.state.clone(),
            (_, Some((reason, since)))
                if view.term.is_none() || since.elapsed() >= UNREACHABLE_AFTER =>
            {
                let reason = reason.clone();
                PartitionState::Unreachable { reason }
            }
            _ => view.state.clone(),
        }
    }

    /// Why nobody waits for the partition any more, if it has not answered for `silent_max`.
    pub(crate) fn given_up(&self, silent_max: Duration) -> Option<String> {
        let view = self.view.lock();
        let (reason, _) = view.failing.as_ref()?;
        let silent = view.answered.elapsed();
        let since = || format!("it has not answered for {} s: {reason}", silent.as_secs());
        (silent >= silent_max).then(since)
    }

    /// Whether calls are carried out.
    pub fn is_open(&self) -> bool {
        self.view.lock().state == PartitionState::Open
    }

    /// The term for a call, as soon as calls are carried out.
    ///
    /// # Errors
    /// Why there is none until then: the partition has halted, or time is up.
    pub async fn open_term(&self, until: Instant) -> Result<Arc<str>, String> {
        loop {
            if let Some(admitted) = self.view.lock().admit() {
                return admitted;
            }
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(admitted) = self.view.lock().admit() {
                return admitted;
            }
            if tokio::time::timeout_at(until, changed).await.is_err() {
                return Err(self.view.lock().closed());
            }
        }
    }

    /// The term as calls state it, while they are carried out.
    pub fn current_term(&self) -> Option<Arc<str>> {
        let view = self.view.lock();
        (view.state == PartitionState::Open).then(|| Arc::clone(&view.token))
    }

    /// The term, as calls state it.
    pub fn term(&self) -> Arc<str> {
        Arc::clone(&self.view.lock().token)
    }

    /// Where the log ended when the present term began: after a repair, behind all that it has appended.
    pub fn began(&self) -> Seq {
        let view = self.view.lock();
        view.term.as_ref().map_or(0, |term| term.began)
    }

    /// The epoch, once it is known.
    pub fn epoch(&self) -> Option<String> {
        let view = self.view.lock();
        view.term.as_ref().map(|term| term.epoch.clone())
    }

    /// The last entry of which this node knows: a server whose log ends before it is not the partition's primary, or
    /// has lost something.
    pub fn min_head(&self) -> Seq {
        let view = self.view.lock();
        view.observed.max(view.settled)
    }

    /// An answer has come to what was asked in a term; `relied_on` is the entry up to which somebody is about to rely
    /// on the log. False where the term is over, or may be because the partition has not been heard of for the grace:
    /// the answer counts as lost, and nobody may be told it.
    #[must_use]
    pub fn accept(&self, term: &str, relied_on: Option<Seq>) -> bool {
        let mut view = self.view.lock();
        let current = *view.token == *term && view.is_heard();
        if current && let Some(seq) = relied_on {
            view.observed = view.observed.max(seq);
        }
        current
    }

    /// As [`Partition::accept`], for the reply to a call; none where the term is over. The count is taken under the
    /// lock under which a term ends, so that a repair which waits for [`Partition::all_kept`] misses no reply.
    pub(crate) fn accept_reply(&self, term: &str, relied_on: Option<Seq>) -> Option<Unkept> {
        let mut view = self.view.lock();
        if *view.token != *term || !view.is_heard() {
            return None;
        }
        if let Some(seq) = relied_on {
            view.observed = view.observed.max(seq);
        }
        Some(Replies::unkept(&self.replies))
    }

    /// Returns once every reply that was accepted is kept. No more come where the partition has halted.
    pub async fn all_kept(&self) {
        self.replies.all_kept().await;
    }

    /// The ledger has the partition up to this entry.
    pub fn note_settled(&self, seq: Seq) {
        let mut view = self.view.lock();
        view.settled = view.settled.max(seq);
    }

    /// The last log entry that replicas are known to have.
    pub fn replicated(&self) -> Seq {
        self.view.lock().replicated
    }

    /// Whether the last read of the log ended where replicas do.
    pub fn awaits_replicas(&self) -> bool {
        self.awaiting.load(Ordering::Relaxed)
    }

    /// Notes whether the last read of the log ended where replicas do.
    pub fn note_awaiting(&self, awaiting: bool) {
        self.awaiting.store(awaiting, Ordering::Relaxed);
    }

    /// Replicas have the log up to this entry of the term.
    pub fn note_replicated(&self, term: &str, seq: Seq) {
        let mut view = self.view.lock();
        if *view.token == *term {
            view.replicated = view.replicated.max(seq);
        }
    }

    /// A call was refused in this term: whether it still runs has to be asked.
    pub(crate) fn refused(&self, term: &str) {
        let mut view = self.view.lock();
        if *view.token == *term && view.state == PartitionState::Open {
            view.state = PartitionState::Gathering;
        }
        drop(view);
        self.suspect();
    }

    /// Something speaks against the server: the next presence call looks the primary up anew, and comes at once.
    pub fn suspect(&self) {
        self.suspected.store(true, Ordering::Release);
        self.wanted.notify_one();
    }

    /// Whether something has spoken against the server since the last look.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.suspected.swap(false, Ordering::AcqRel)
    }

    /// Returns when it is time for a presence call.
    pub async fn presence_due(&self) {
        let every = match self.view.lock().admit() {
            Some(Ok(_)) => self.presence_every,
            _ => self.presence_every.min(PRESENCE_SOON),
        };
        // Either way it is time.
        let _ = tokio::time::timeout(every, self.wanted.notified()).await;
    }

    /// What this node has to say of the partition.
    pub(crate) fn report(&self) -> Report {
        let view = self.view.lock();
        Report {
            at: Instant::now(),
            term: view.term.clone(),
            before: view.before.clone(),
            observed: view.observed,
            settled: view.settled,
            fresh: view.fresh,
            stale_for: view.stale.map_or(Duration::ZERO, |since| since.elapsed()),
        }
    }

    /// The answer to a presence call.
    pub(crate) fn learn(&self, report: &Report, answer: Answer) -> Learned {
        let mut view = self.view.lock();
        let earlier = view.state.clone();
        let learned = view.learn(report, answer);
        self.tell(&earlier, &view.state);
        drop(view);
        self.changed.notify_waiters();
        learned
    }

    /// A presence call has failed.
    pub fn note_failure(&self, reason: String) {
        self.view.lock().fail(reason);
    }

    /// The partition is not of this node's engine: nothing is carried out, and no answer that comes counts.
    pub(crate) fn refuse(&self, reason: String) {
        let mut view = self.view.lock();
        view.fail(reason.clone());
        view.state = PartitionState::Unreachable { reason };
        view.sent = None;
    }

    /// Logs what operators have to know of.
    fn tell(&self, earlier: &PartitionState, state: &PartitionState) {
        let partition = self.id.0;
        match state {
            PartitionState::Halted { reason, .. } if earlier != state => {
                tracing::error!(partition, reason, "a partition has stopped granting");
            }
            PartitionState::Open if matches!(earlier, PartitionState::Halted { .. }) => {
                tracing::info!(partition, "a partition grants again");
            }
            _ => {}
        }
    }
}

impl View {
    /// The term for a call, or why there is none; nothing where that has to be waited for.
    fn admit(&self) -> Option<Result<Arc<str>, String>> {
        match &self.state {
            PartitionState::Open => self.is_heard().then(|| Ok(Arc::clone(&self.token))),
            PartitionState::Halted { reason, .. } => Some(Err(reason.clone())),
            PartitionState::Gathering | PartitionState::Unreachable { .. } => None,
        }
    }

    /// Whether a new term would still wait for what this node has to say of the present one.
    fn is_heard(&self) -> bool {
        match (self.grace, self.sent) {
            (Some(grace), Some(sent)) => sent.elapsed() < grace,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// Why no call was carried out.
    fn closed(&self) -> String {
        let failing = self.failing.as_ref().map(|(reason, _)| reason.clone());
        let reason = match self.state {
            PartitionState::Open => SILENT,
            _ => GATHERING,
        };
        failing.unwrap_or_else(|| reason.to_owned())
    }

    fn fail(&mut self, reason: String) {
        let since = self.failing.take().map(|(_, since)| since);
        self.failing = Some((reason, since.unwrap_or_else(Instant::now)));
    }

    fn learn(&mut self, report: &Report, answer: Answer) -> Learned {
        let Some(term) = answer.term else {
            self.failing = None;
            self.answered = Instant::now();
            self.state = answer.state;
            return Learned::Known;
        };
        if self
            .term
            .as_ref()
            .is_some_and(|known| term.number < known.number)
        {
            self.stale.get_or_insert_with(Instant::now);
            self.fail(
                "the server that was found is not the partition's primary any more".to_owned(),
            );
            return Learned::Stale;
        }
        (self.failing, self.stale) = (None, None);
        self.answered = Instant::now();
        self.sent = Some(report.at);
        if report.term.as_ref() == Some(&term) {
            self.before = None;
            self.state = answer.state;
            return Learned::Known;
        }
        // From here on no answer of an earlier term counts, so that the report says everything.
        self.token = term.token();
        let earlier = self.term.replace(term);
        self.before = self.before.take().or(earlier);
        self.replicated = 0;
        self.fresh = false;
        self.state = PartitionState::Gathering;
        Learned::NewTerm
    }
}

#[cfg(test)]
mod tests;
