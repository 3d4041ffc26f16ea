//! This node's view of one partition: its leadership term, and what this node has observed.
//!
//! A leadership term is the time for which one server is the partition's primary. One lock guards the whole view. So an
//! answer either counts as observed in the term in which it was requested, or does not count at all.

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

use crate::connection::replies::{Replies, ReplyGuard};

/// Longest interval between presence calls; a short grace of terms makes it shorter.
const PRESENCE_EVERY: Duration = Duration::from_millis(500);
/// Minimum number of presence calls within the grace, so that a late call has no effect.
const PRESENCES_A_GRACE: u32 = 4;
/// Interval between presence calls while the partition is not open.
const PRESENCE_SOON: Duration = Duration::from_millis(50);
/// Time without an answer after which a partition counts as unreachable. A failover may take longer: calls are retried
/// until their own time limit.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(1);
/// Reason of a refused call while nodes report to a new term.
const GATHERING: &str =
    "the partition's primary has changed, and nodes are still reporting what they observed";
/// Reason of a refused call while this node does not know whether its term still runs.
const SILENT: &str = "the partition has not answered for longer than the grace of its terms";

/// State of a partition, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionHealth {
    /// Calls are carried out.
    Open,
    /// A new term has begun, and nodes report what they observed in earlier terms.
    Gathering,
    /// Nothing is decided until a repair.
    Halted {
        /// The reason, for the operator.
        reason: String,
        /// The lost entries; `None` if an operator halted the partition.
        lost: Option<RangeInclusive<Seq>>,
    },
    /// No primary answers.
    Unreachable {
        /// The reason, for the operator.
        reason: String,
    },
}

impl fmt::Display for PartitionHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Gathering => f.write_str("gathering"),
            Self::Halted { reason, .. } => write!(f, "halted: {reason}"),
            Self::Unreachable { reason } => write!(f, "unreachable: {reason}"),
        }
    }
}

/// Time for which one server is a partition's primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// Epoch of the state. A different epoch continues or replaces it after a repair.
    pub(crate) epoch: String,
    /// Number of the term within its epoch.
    pub(crate) number: u64,
    /// The first characters of the primary's replication id.
    pub(crate) server: String,
    /// The last log entry before the term.
    pub(crate) began: Seq,
}

impl Term {
    /// The term as calls state it.
    fn token(&self) -> Arc<str> {
        format!("{}.{}.{}", self.epoch, self.number, self.server).into()
    }
}

/// Content of a presence call.
#[derive(Debug, Clone)]
pub(crate) struct PresenceReport {
    /// When the report was assembled, which is before it is sent.
    pub(crate) at: Instant,
    pub(crate) term: Option<Term>,
    /// The earlier term of what was observed, until it is reported.
    pub(crate) before: Option<Term>,
    pub(crate) observed: Seq,
    pub(crate) settled: Seq,
    /// Whether the call may create a new state.
    pub(crate) fresh: bool,
    /// How long only terms earlier than the known one were found.
    pub(crate) stale_for: Duration,
}

/// Answer to a presence call.
#[derive(Debug)]
pub(crate) struct PresenceReply {
    /// The term; `None` if the state is lost.
    pub(crate) term: Option<Term>,
    pub(crate) state: PartitionHealth,
}

/// Consequence of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermCheck {
    /// The term is known already.
    Known,
    /// The term is new: the node must report in it what it observed.
    NewTerm,
    /// The server is in an earlier term than the known one, so it is no longer the partition's primary.
    Stale,
}

/// One partition, as this node sees it.
pub(crate) struct PartitionHandle {
    /// The partition's number.
    pub id: PartitionId,
    view: Mutex<PartitionLock>,
    /// Notifies when calls may be accepted or refused again.
    changed: Notify,
    /// Requests a presence call at once.
    wanted: Notify,
    /// Whether the server of presence calls is under suspicion.
    suspected: AtomicBool,
    /// Whether the last read of the log stopped at the replicas' position.
    awaiting: AtomicBool,
    replies: Arc<Replies>,
    presence_every: Duration,
}

struct PartitionLock {
    term: Option<Term>,
    /// The term as calls state it.
    token: Arc<str>,
    before: Option<Term>,
    /// The state that the partition last reported, of any age.
    state: PartitionHealth,
    /// The error of failing presence calls, and when they began to fail.
    failing: Option<(String, Instant)>,
    /// When a presence call was last answered.
    answered: Instant,
    /// How long a new term waits for this node after its last presence call; `None` if it does not wait.
    grace: Option<Duration>,
    /// When the last answered presence call was sent. For a grace after that, no other term grants anything without
    /// this node's report. An answer that is read later may come from a buffer and belong to a term that is over.
    sent: Option<Instant>,
    /// When the server was first found in an earlier term only.
    stale: Option<Instant>,
    /// The last log entry that this node has answered for or read for settlement.
    observed: Seq,
    /// The ledger's position of the partition.
    settled: Seq,
    /// The last log entry that replicas are known to have in this term.
    replicated: Seq,
    fresh: bool,
}

impl PartitionHandle {
    /// View of a partition of which only the ledger's position and whether it was ever used (`fresh`) are known. New
    /// terms wait `grace` for a silent node.
    pub(crate) fn new(id: PartitionId, settled: Seq, fresh: bool, grace: Duration) -> Self {
        let view = PartitionLock {
            term: None,
            token: Arc::from(""),
            before: None,
            state: PartitionHealth::Gathering,
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

    /// State of the partition, and the reason if calls are not carried out.
    pub(crate) fn state(&self) -> PartitionHealth {
        let view = self.view.lock();
        match (&view.state, &view.failing) {
            (PartitionHealth::Halted { .. }, _) | (_, None) => view.state.clone(),
            (_, Some((reason, since)))
                if view.term.is_none() || since.elapsed() >= UNREACHABLE_AFTER =>
            {
                let reason = reason.clone();
                PartitionHealth::Unreachable { reason }
            }
            _ => view.state.clone(),
        }
    }

    /// Reason why no call waits for the partition: it has not answered for `silent_max`. `None` if it has.
    pub(crate) fn given_up(&self, silent_max: Duration) -> Option<String> {
        let view = self.view.lock();
        let (reason, _) = view.failing.as_ref()?;
        let silent = view.answered.elapsed();
        let since = || format!("no answer for {} s: {reason}", silent.as_secs());
        (silent >= silent_max).then(since)
    }

    /// Whether calls are carried out.
    pub(crate) fn is_open(&self) -> bool {
        self.view.lock().state == PartitionHealth::Open
    }

    /// Term for a call. Waits until calls are carried out.
    ///
    /// # Errors
    /// The reason if there is no term until then: the partition halted, or the time is up.
    pub(crate) async fn open_term(&self, until: Instant) -> Result<Arc<str>, String> {
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

    /// The term as calls state it; `None` if calls are not carried out.
    pub(crate) fn current_term(&self) -> Option<Arc<str>> {
        let view = self.view.lock();
        (view.state == PartitionHealth::Open).then(|| Arc::clone(&view.token))
    }

    /// The term as calls state it, in any state.
    pub(crate) fn term(&self) -> Arc<str> {
        Arc::clone(&self.view.lock().token)
    }

    /// The last log entry before the current term. After a repair this is the last entry that the repair appended.
    pub(crate) fn began(&self) -> Seq {
        let view = self.view.lock();
        view.term.as_ref().map_or(0, |term| term.began)
    }

    /// The epoch; `None` until it is known.
    pub(crate) fn epoch(&self) -> Option<String> {
        let view = self.view.lock();
        view.term.as_ref().map(|term| term.epoch.clone())
    }

    /// The last entry that this node knows. A server whose log ends before it is not the primary, or has lost entries.
    pub(crate) fn min_head(&self) -> Seq {
        let view = self.view.lock();
        view.observed.max(view.settled)
    }

    /// Accepts an answer of a term. `relied_on` is the last log entry on which the caller will rely.
    ///
    /// Returns false if the term is over, or may be because the partition was silent for the grace. Then the answer
    /// counts as lost and must not be passed on.
    #[must_use]
    pub(crate) fn accept(&self, term: &str, relied_on: Option<Seq>) -> bool {
        let mut view = self.view.lock();
        let current = *view.token == *term && view.is_heard();
        if current && let Some(seq) = relied_on {
            view.observed = view.observed.max(seq);
        }
        current
    }

    /// Accepts the reply to a call, as [`PartitionHandle::accept`] does; `None` if the term is over. The reply is
    /// counted under the lock that also ends a term. So a repair that waits for [`PartitionHandle::all_kept`] misses
    /// no reply.
    pub(crate) fn accept_reply(&self, term: &str, relied_on: Option<Seq>) -> Option<ReplyGuard> {
        let mut view = self.view.lock();
        if *view.token != *term || !view.is_heard() {
            return None;
        }
        if let Some(seq) = relied_on {
            view.observed = view.observed.max(seq);
        }
        Some(Replies::unkept(&self.replies))
    }

    /// Waits until every accepted reply is stored. A halted partition accepts no further ones.
    pub(crate) async fn all_kept(&self) {
        self.replies.all_kept().await;
    }

    /// Records the ledger's position of the partition.
    pub(crate) fn note_settled(&self, seq: Seq) {
        let mut view = self.view.lock();
        view.settled = view.settled.max(seq);
    }

    /// The last log entry that replicas are known to have.
    pub(crate) fn replicated(&self) -> Seq {
        self.view.lock().replicated
    }

    /// Whether the last read of the log stopped at the replicas' position.
    pub(crate) fn awaits_replicas(&self) -> bool {
        self.awaiting.load(Ordering::Relaxed)
    }

    /// Records whether the last read of the log stopped at the replicas' position.
    pub(crate) fn note_awaiting(&self, awaiting: bool) {
        self.awaiting.store(awaiting, Ordering::Relaxed);
    }

    /// Records that replicas have the log of a term up to an entry.
    pub(crate) fn note_replicated(&self, term: &str, seq: Seq) {
        let mut view = self.view.lock();
        if *view.token == *term {
            view.replicated = view.replicated.max(seq);
        }
    }

    /// Handles a call that was refused in this term: a presence call must find out whether the term still runs.
    pub(crate) fn refused(&self, term: &str) {
        let mut view = self.view.lock();
        if *view.token == *term && view.state == PartitionHealth::Open {
            view.state = PartitionHealth::Gathering;
        }
        drop(view);
        self.suspect();
    }

    /// Requests a presence call at once, which looks the primary up again.
    pub(crate) fn suspect(&self) {
        self.suspected.store(true, Ordering::Release);
        self.wanted.notify_one();
    }

    /// Whether [`suspect`](Self::suspect) was called since the last call of this function.
    pub(crate) fn take_suspicion(&self) -> bool {
        self.suspected.swap(false, Ordering::AcqRel)
    }

    /// Waits until a presence call is due.
    pub(crate) async fn presence_due(&self) {
        let every = match self.view.lock().admit() {
            Some(Ok(_)) => self.presence_every,
            _ => self.presence_every.min(PRESENCE_SOON),
        };
        // A presence call is due in both cases.
        let _ = tokio::time::timeout(every, self.wanted.notified()).await;
    }

    /// The report for the next presence call.
    pub(crate) fn report(&self) -> PresenceReport {
        let view = self.view.lock();
        PresenceReport {
            at: Instant::now(),
            term: view.term.clone(),
            before: view.before.clone(),
            observed: view.observed,
            settled: view.settled,
            fresh: view.fresh,
            stale_for: view.stale.map_or(Duration::ZERO, |since| since.elapsed()),
        }
    }

    /// Applies the answer to a presence call.
    pub(crate) fn learn(&self, report: &PresenceReport, answer: PresenceReply) -> TermCheck {
        let mut view = self.view.lock();
        let earlier = view.state.clone();
        let learned = view.learn(report, answer);
        self.log_transition(&earlier, &view.state);
        drop(view);
        self.changed.notify_waiters();
        learned
    }

    /// Records that a presence call failed.
    pub(crate) fn note_failure(&self, reason: String) {
        self.view.lock().fail(reason);
    }

    /// Refuses all calls and answers, because the partition does not belong to this node's engine.
    pub(crate) fn refuse(&self, reason: String) {
        let mut view = self.view.lock();
        view.fail(reason.clone());
        view.state = PartitionHealth::Unreachable { reason };
        view.sent = None;
    }

    /// Logs changes of state that operators must know.
    fn log_transition(&self, earlier: &PartitionHealth, state: &PartitionHealth) {
        let partition = self.id.0;
        if earlier != state {
            tracing::debug!(partition, before = %earlier, now = %state, "partition changed");
        }
        match state {
            PartitionHealth::Halted { reason, .. } if earlier != state => {
                tracing::error!(partition, reason, "partition halted: nothing is granted");
            }
            PartitionHealth::Open if matches!(earlier, PartitionHealth::Halted { .. }) => {
                tracing::info!(partition, "partition grants again");
            }
            _ => {}
        }
    }
}

impl PartitionLock {
    /// Term for a call, or the reason why there is none; `None` if the call has to wait.
    fn admit(&self) -> Option<Result<Arc<str>, String>> {
        match &self.state {
            PartitionHealth::Open => self.is_heard().then(|| Ok(Arc::clone(&self.token))),
            PartitionHealth::Halted { reason, .. } => Some(Err(reason.clone())),
            PartitionHealth::Gathering | PartitionHealth::Unreachable { .. } => None,
        }
    }

    /// Whether a new term would still wait for this node's report about the current term.
    fn is_heard(&self) -> bool {
        match (self.grace, self.sent) {
            (Some(grace), Some(sent)) => sent.elapsed() < grace,
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// Reason why no call was carried out.
    fn closed(&self) -> String {
        let failing = self.failing.as_ref().map(|(reason, _)| reason.clone());
        let reason = match self.state {
            PartitionHealth::Open => SILENT,
            _ => GATHERING,
        };
        failing.unwrap_or_else(|| reason.to_owned())
    }

    fn fail(&mut self, reason: String) {
        let since = self.failing.take().map(|(_, since)| since);
        self.failing = Some((reason, since.unwrap_or_else(Instant::now)));
    }

    fn learn(&mut self, report: &PresenceReport, answer: PresenceReply) -> TermCheck {
        let Some(term) = answer.term else {
            self.failing = None;
            self.answered = Instant::now();
            self.state = answer.state;
            return TermCheck::Known;
        };
        if self
            .term
            .as_ref()
            .is_some_and(|known| term.number < known.number)
        {
            self.stale.get_or_insert_with(Instant::now);
            self.fail(
                "the server that was found is no longer the primary of the partition".to_owned(),
            );
            return TermCheck::Stale;
        }
        (self.failing, self.stale) = (None, None);
        self.answered = Instant::now();
        self.sent = Some(report.at);
        if report.term.as_ref() == Some(&term) {
            self.before = None;
            self.state = answer.state;
            return TermCheck::Known;
        }
        // From here on no answer of an earlier term counts, so the report is complete.
        self.token = term.token();
        let earlier = self.term.replace(term);
        self.before = self.before.take().or(earlier);
        self.replicated = 0;
        self.fresh = false;
        self.state = PartitionHealth::Gathering;
        TermCheck::NewTerm
    }
}

#[cfg(test)]
mod tests;
