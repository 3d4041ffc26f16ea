//! The writer thread: it alone changes the book and the file.
//!
//! One turn takes everything that has gathered, decides it in the book, writes the entries and the ledger jobs in
//! one transaction, and answers after the commit. Between batches it settles: all the time when no claim waits, and
//! a bounded share of the time under load.
//!
//! Architecture invariant (fail-stop): when a commit fails, nothing is granted until the book has been rebuilt from
//! the file and a commit has succeeded.

mod repair;
mod settling;

use std::{
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, Refusal, Reply},
    campaign::AckLevel,
    event::{Entry, Seq},
    id::CampaignId,
    outcome::Outcome,
    ports::{Answer, Claimed, Clock, EngineError},
    time::Timestamp,
};
use rusqlite::Connection;

use self::repair::Stopped;
use crate::{
    PARTITION, Shared,
    error::StoreError,
    file, ledger, log,
    log::Refs,
    pace::Pace,
    queue::Taken,
    task::{JobContext, LedgerJob, Task, run_job},
};

/// Events that one tick may make before claims get their turn again.
const TICK_EVENTS_MAX: usize = 1_024;
/// How long the writer sleeps when there is nothing to do and nothing due.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Entries settled since the last checkpoint of the write-ahead log, past which an idle writer makes another: about a
/// thousand pages, some six milliseconds. It leaves room in that log for the first few hundred thousand claims of a
/// peak.
const CHECKPOINT_ENTRIES: u64 = 10_000;
/// How long no claim may have come before the writer settles with all its time.
const IDLE_BEFORE_SETTLING: Duration = Duration::from_millis(2);

pub(crate) struct Writer {
    path: PathBuf,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    conn: Connection,
    refs: Refs,
    settled: Seq,
    /// How far it was settled at the last checkpoint of the write-ahead log.
    checkpointed: Seq,
    pace: Pace,
    entries: Vec<Entry>,
    /// Grants whose campaign asks for the ledger's commit, in the order of the log.
    parked: std::collections::VecDeque<(Seq, Answer<Claimed>, Outcome)>,
    last_ack: Option<(CampaignId, AckLevel)>,
    stopped: Option<Stopped>,
    /// When to try again to settle what could not be settled.
    settle_again_at: Option<Instant>,
}

/// A task that was decided and waits for the commit.
enum Decided {
    Claim(
        Result<Outcome, Refusal>,
        Option<CampaignId>,
        Answer<Claimed>,
    ),
    Command(Result<Reply, Refusal>, Answer<Reply>),
    Probe(Answer<()>),
    Ledger(Box<dyn LedgerJob>),
}

impl Writer {
    pub(crate) fn new(
        path: PathBuf,
        shared: Arc<Shared>,
        clock: Arc<dyn Clock>,
        conn: Connection,
        refs: Refs,
    ) -> Result<Self, StoreError> {
        let settled = ledger::settle::position(&conn, PARTITION)?;
        shared.settled.send_replace(settled);
        Ok(Self {
            path,
            shared,
            clock,
            conn,
            refs,
            settled,
            checkpointed: settled,
            pace: Pace::new(),
            entries: Vec::new(),
            parked: std::collections::VecDeque::new(),
            last_ack: None,
            stopped: None,
            settle_again_at: None,
        })
    }

    /// Works until the queue is closed and empty. If the writer itself fails, it stops granting for good and refuses
    /// every request that waits.
    pub(crate) fn run_until_closed(self) {
        let shared = Arc::clone(&self.shared);
        if panic::catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            let reason = "the writer failed; restart the service".to_owned();
            tracing::error!(reason, "stopped granting for good");
            shared.stop(&reason);
            let unavailable = EngineError::Unavailable { reason };
            for task in shared.queue.abort() {
                task.refuse(&unavailable);
            }
        }
    }

    fn run(mut self) {
        let mut inbox = Vec::new();
        let mut decided = Vec::new();
        loop {
            match self
                .shared
                .queue
                .take(&mut inbox, self.pace.expected(), self.wait_max())
            {
                Taken::Tasks if self.stopped.is_some() || self.settlement_is_too_far_behind() => {
                    self.refuse_all(&mut inbox);
                }
                Taken::Tasks => {
                    let tasks = inbox.len();
                    self.batch(&mut inbox, &mut decided);
                    self.pace.served(tasks);
                }
                Taken::Nothing => self.pace.idle(),
                Taken::Closed => break,
            }
            self.housekeeping();
        }
        self.settle_parked();
    }

    fn wait_max(&self) -> Duration {
        if let Some(stopped) = &self.stopped {
            return stopped.repair_at.saturating_duration_since(Instant::now());
        }
        if let Some(again_at) = self.settle_again_at {
            return again_at
                .saturating_duration_since(Instant::now())
                .min(self.until_due());
        }
        if self.backlog() > 0 {
            return if self.pace.is_idle() {
                Duration::ZERO
            } else {
                IDLE_BEFORE_SETTLING
            };
        }
        self.until_due()
    }

    fn until_due(&self) -> Duration {
        let due = self.shared.book.read().next_due();
        due.map_or(IDLE_WAIT_MAX, |due| {
            let millis = due.millis_since(self.clock.now()).max(0);
            IDLE_WAIT_MAX.min(Duration::from_millis(millis.unsigned_abs()))
        })
    }

    pub(super) fn backlog(&self) -> u64 {
        self.shared.committed.load(Ordering::Acquire) - self.settled
    }

    /// What the time has made due, repair, and settlement.
    fn housekeeping(&mut self) {
        if self.stopped.is_some() {
            self.try_repair();
            return;
        }
        self.tick();
        if self.stopped.is_none() && self.may_settle() {
            let started = Instant::now();
            match self.settle_slice() {
                Ok(()) => self.settling_goes_on(),
                Err(error) if error.is_io() => self.stop(&error),
                Err(error) => self.settling_is_stuck(&error),
            }
            self.pace.settled(started.elapsed());
            self.checkpoint_in_the_quiet();
        }
    }

    fn batch(&mut self, inbox: &mut Vec<Task>, decided: &mut Vec<Decided>) {
        let now = self.clock.now();
        self.decide(now, inbox, decided);
        let needs_commit = !self.entries.is_empty()
            || decided
                .iter()
                .any(|task| matches!(task, Decided::Ledger(_) | Decided::Probe(_)));
        let committed = if needs_commit {
            self.commit(now, decided)
        } else {
            Ok(())
        };
        match committed {
            Ok(()) => self.answer(decided),
            Err(error) => {
                // A failed commit may still have been kept: only the file can tell, and a retry will.
                let uncertain = EngineError::Uncertain {
                    reason: error.chain(),
                };
                self.stop(&error);
                for task in decided.drain(..) {
                    task.refuse(&uncertain);
                }
            }
        }
    }

    fn decide(&mut self, now: Timestamp, inbox: &mut Vec<Task>, decided: &mut Vec<Decided>) {
        let mut book = self.shared.book.write();
        for task in inbox.drain(..) {
            decided.push(match task {
                Task::Command(Command::Open(setup), answer)
                    if matches!(
                        self.refs.of(&self.conn, setup.campaign.id),
                        Err(StoreError::Damaged { .. })
                    ) =>
                {
                    // Its entries would belong to no campaign of the ledger.
                    Decided::Command(Err(Refusal::UnknownCampaign), answer)
                }
                Task::Claim(claim, answer) => {
                    let outcome = book.claim(now, &claim, &mut self.entries);
                    let granted = matches!(&outcome, Ok(outcome) if outcome.grant().is_some());
                    Decided::Claim(outcome, granted.then_some(claim.campaign), answer)
                }
                Task::Command(command, answer) => {
                    Decided::Command(book.apply(now, &command, &mut self.entries), answer)
                }
                Task::Probe(answer) => Decided::Probe(answer),
                Task::Ledger(job) => Decided::Ledger(job),
            });
        }
    }

    fn commit(&mut self, now: Timestamp, decided: &mut [Decided]) -> Result<(), StoreError> {
        let Self {
            conn,
            refs,
            entries,
            ..
        } = self;
        let mut moved = Vec::new();
        let tx = conn.unchecked_transaction()?;
        let mut probe = false;
        for task in decided {
            match task {
                Decided::Ledger(job) => {
                    let mut context = JobContext {
                        conn: &tx,
                        refs: &mut *refs,
                        now,
                        moved: &mut moved,
                    };
                    run_job(job.as_mut(), &mut context)?;
                }
                Decided::Probe(_) => probe = true,
                Decided::Claim(..) | Decided::Command(..) => {}
            }
        }
        if probe {
            file::probe(&tx, now)?;
        }
        log::append(&tx, refs, entries)?;
        tx.commit()?;
        if let Some(last) = entries.last() {
            self.shared.committed.store(last.seq, Ordering::Release);
        }
        entries.clear();
        if let Some((_, settled)) = moved.last() {
            self.settled = *settled;
            self.shared.settled.send_replace(*settled);
        }
        Ok(())
    }

    fn answer(&mut self, decided: &mut Vec<Decided>) {
        let head = self.shared.committed.load(Ordering::Acquire);
        for task in decided.drain(..) {
            match task {
                Decided::Claim(Err(refusal), _, answer) => answer.send(Err(refusal.into())),
                Decided::Claim(Ok(outcome), granted, answer) => {
                    match granted.map(|id| self.ack_of(id)) {
                        Some(AckLevel::Ledger) if self.settled < head => {
                            self.parked.push_back((head, answer, outcome))
                        }
                        ack => {
                            // The commit gives more than some campaigns ask for.
                            let ack = ack.map_or(AckLevel::Fsync, |ack| ack.max(AckLevel::Fsync));
                            answer.send(Ok(Claimed { outcome, ack }));
                        }
                    }
                }
                Decided::Command(result, answer) => answer.send(result.map_err(EngineError::from)),
                Decided::Probe(answer) => answer.send(Ok(())),
                Decided::Ledger(job) => job.answer(Ok(())),
            }
        }
    }

    fn ack_of(&mut self, id: CampaignId) -> AckLevel {
        match self.last_ack {
            Some((last, ack)) if last == id => ack,
            _ => {
                let ack = self.shared.book.read().ack(id).unwrap_or(AckLevel::Fsync);
                self.last_ack = Some((id, ack));
                ack
            }
        }
    }

    fn tick(&mut self) {
        let now = self.clock.now();
        if self
            .shared
            .book
            .read()
            .next_due()
            .is_none_or(|due| due > now)
        {
            return;
        }
        let command = Command::Tick {
            events_max: TICK_EVENTS_MAX,
        };
        // A tick is never refused.
        drop(
            self.shared
                .book
                .write()
                .apply(now, &command, &mut self.entries),
        );
        if let Err(error) = self.commit(now, &mut []) {
            self.stop(&error);
        }
    }
}

impl Task {
    pub(crate) fn refuse(self, error: &EngineError) {
        match self {
            Self::Claim(_, answer) => answer.send(Err(error.clone())),
            Self::Command(_, answer) => answer.send(Err(error.clone())),
            Self::Probe(answer) => answer.send(Err(error.clone())),
            Self::Ledger(job) => job.answer(Err(error)),
        }
    }
}

impl Decided {
    fn refuse(self, error: &EngineError) {
        match self {
            Self::Claim(_, _, answer) => answer.send(Err(error.clone())),
            Self::Command(_, answer) => answer.send(Err(error.clone())),
            Self::Probe(answer) => answer.send(Err(error.clone())),
            Self::Ledger(job) => job.answer(Err(error)),
        }
    }
}
