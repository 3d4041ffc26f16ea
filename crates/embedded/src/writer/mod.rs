//! Writer thread: the only one that changes the book and the file.
//!
//! One turn takes all waiting tasks, decides them in the book, writes the entries and the ledger jobs in one
//! transaction, and answers after the commit. Between batches the writer settles and writes the shares of large new
//! packets. Without waiting claims it does so all the time; under load, for a bounded share of the time.
//!
//! Architecture invariant (fail-stop): after a failed commit, nothing is granted until the book has been rebuilt from
//! the file and a commit has succeeded.

mod absent_tasks;
mod admission;
mod batch;
mod claims;
mod creation_backlog;
mod decided_task;
mod due;
mod evicted_campaigns;
mod ledger_ack_queue;
#[cfg(test)]
mod manual_engine;
mod pause;
mod repair;
mod settling;
mod share_staging;
#[cfg(test)]
mod superseded;

use std::{
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use qiang_core::{
    event::{Entry, Seq},
    ports::{Clock, EngineError},
    time::Timestamp,
};

use self::{
    creation_backlog::CreationBacklog,
    decided_task::DecidedTask,
    evicted_campaigns::EvictedCampaigns,
    ledger_ack_queue::{LastAck, LedgerAckQueue},
    share_staging::ShareStaging,
};
use crate::{
    EmbeddedOptions, EngineShared, PARTITION,
    error::DataFileError,
    fence::FencedConnection,
    grant_positions::Place,
    ledger::{self, known::KnownCampaigns, list_index::UnlistedRows},
    log::EventRefs,
    pace::Pace,
    queue::TakeResult,
    task::WriterTask,
    watch::FileWatch,
};

/// Maximum sleep while there is no work and nothing is due.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Entries settled since the last checkpoint of the write-ahead log after which an idle writer makes another: about a
/// thousand pages, six milliseconds. This leaves room in the log for the first few hundred thousand claims of a peak.
const CHECKPOINT_ENTRIES: u64 = 10_000;
/// Interval at which an engine without commits records that it is up, while something is due.
const UP_EVERY: Duration = Duration::from_secs(10);
/// Time without a claim after which the writer spends all its time on settlement and on the shares of new packets.
const IDLE_BEFORE_SETTLING: Duration = Duration::from_millis(2);

pub(crate) struct Writer {
    path: PathBuf,
    shared: Arc<EngineShared>,
    clock: Arc<dyn Clock>,
    conn: FencedConnection,
    watch: FileWatch,
    /// Time of the last check of the files.
    watched_at: Instant,
    refs: EventRefs,
    settled: Seq,
    /// Cache of campaign rows that settlement has read.
    known: KnownCampaigns,
    /// Settled position at the last checkpoint of the write-ahead log.
    checkpointed: Seq,
    pace: Pace,
    entries: Vec<Entry>,
    /// Tasks that a batch leaves until after its commit; empty between batches.
    held_back: Vec<WriterTask>,
    /// Tasks and reloads of evicted campaigns.
    absent: EvictedCampaigns,
    /// New campaigns for which the last batch had no room.
    left_over: CreationBacklog,
    /// Campaigns whose many shares are written before they are entered.
    preparing: ShareStaging,
    /// Grants that wait for the ledger's commit.
    parked: LedgerAckQueue,
    last_ack: LastAck,
    /// While granting is stopped: time of the next repair attempt.
    repair_at: Option<Instant>,
    /// Time of the next attempt after settlement failed.
    settle_again_at: Option<Instant>,
    /// Time of the last look for commits, and the last entry then.
    up_at: (Instant, Seq),
    /// The last moment at which this thread worked, by the steady clock and by the engine's.
    alive: (Instant, Timestamp),
    /// Time of the next count of the quarantine; `None` while it is empty.
    count_quarantine_at: Option<Instant>,
    unlisted: UnlistedRows,
}

impl Writer {
    pub(crate) fn new(
        path: &Path,
        shared: &Arc<EngineShared>,
        clock: &Arc<dyn Clock>,
        (conn, refs, places): (FencedConnection, EventRefs, Vec<Place>),
        options: EmbeddedOptions,
    ) -> Result<Self, DataFileError> {
        let settled = ledger::settle::position(&conn, PARTITION)?;
        let head = shared.committed.load(Ordering::Acquire);
        shared.positions.advance(PARTITION, settled);
        let mut writer = Self {
            path: path.to_owned(),
            shared: Arc::clone(shared),
            clock: Arc::clone(clock),
            watch: FileWatch::from_path(path, &conn)?,
            watched_at: Instant::now(),
            conn,
            refs,
            settled,
            known: KnownCampaigns::default(),
            checkpointed: settled,
            pace: Pace::new(options.backlog_max, (head, settled)),
            entries: Vec::new(),
            held_back: Vec::new(),
            absent: EvictedCampaigns::new(options),
            left_over: CreationBacklog::default(),
            preparing: ShareStaging::default(),
            parked: LedgerAckQueue::new(options.ledger_waits_max, options.ledger_wait, places),
            last_ack: None,
            repair_at: None,
            settle_again_at: None,
            up_at: (Instant::now(), head),
            alive: (Instant::now(), clock.now()),
            count_quarantine_at: Some(Instant::now()),
            unlisted: UnlistedRows::default(),
        };
        writer.count_quarantine();
        Ok(writer)
    }

    /// Works until the queue is closed and empty. If the writer panics, granting stops for good and all waiting tasks
    /// are refused.
    pub(crate) fn run_until_closed(self) {
        let shared = Arc::clone(&self.shared);
        if panic::catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            let reason = "the writer failed; restart the service".to_owned();
            tracing::error!(reason, "stopped granting for good");
            shared.stop(&reason);
        }
    }

    fn run(mut self) {
        let (mut inbox, mut decided) = (Vec::new(), Vec::new());
        while self.turn(&mut inbox, &mut decided) {}
        self.end();
    }

    /// Runs one batch, if tasks wait, and the work between batches. Returns false if the queue is closed and empty.
    fn turn(&mut self, inbox: &mut Vec<WriterTask>, decided: &mut Vec<DecidedTask>) -> bool {
        let (expected, wait_max) = (self.pace.expected(), self.wait_max());
        let taken = self.shared.queue.take(inbox, expected, wait_max);
        self.notice_pause();
        let has_more = !self.left_over.is_empty() || self.absent.has_tasks();
        if has_more && self.shared.queue.is_aborted() {
            self.left_over.refuse_all(&EngineError::Stopping);
            for task in self.absent.take_undecided() {
                task.refuse(&EngineError::Stopping);
            }
        }
        inbox.splice(..0, self.absent.ready.drain(..));
        let is_idle = inbox.is_empty() && self.left_over.is_empty();
        match taken {
            TakeResult::Nothing if is_idle => self.pace.idle(),
            TakeResult::Closed if is_idle && !self.absent.has_tasks() => return false,
            TakeResult::Closed if is_idle => self.pace.idle(),
            // While granting is stopped, the queue is halted and has no tasks.
            _ => {
                self.answer_reads(inbox);
                if !inbox.is_empty() || !self.left_over.is_empty() {
                    self.serve(inbox, decided);
                }
            }
        }
        self.housekeeping();
        true
    }

    fn serve(&mut self, inbox: &mut Vec<WriterTask>, decided: &mut Vec<DecidedTask>) {
        let (tasks, parked) = (inbox.len() + self.left_over.len(), self.parked.total);
        let asked = self.absent.asked.len();
        self.refuse_too_far_behind(inbox);
        self.left_over.begin();
        self.batch(inbox, decided);
        // Callers that wait for the ledger or for the next batch send no further task before that.
        let asked = self.absent.asked.len().saturating_sub(asked);
        let waiting = (self.parked.total - parked) as usize + self.left_over.len() + asked;
        let answered = tasks.saturating_sub(waiting);
        if answered == 0 && self.shared.queue.len() == 0 {
            self.pace.idle();
        } else {
            self.pace.served(answered);
        }
    }

    /// Finishes the work of the thread before it ends.
    fn end(mut self) {
        self.end_preparing();
        self.settle_parked();
        // The next start records due times again.
        self.absent.refuse_all(&EngineError::Stopping);
        if self.repair_at.is_none() {
            if let Err(error) = self.watch.commit_probe(&self.conn, self.clock.now()) {
                let reason = error.chain();
                tracing::warn!(reason, "the next start will not know until when it was up");
            }
            self.watch.close(&self.conn);
        }
    }

    fn wait_max(&self) -> Duration {
        if let Some(repair_at) = self.repair_at {
            return repair_at.saturating_duration_since(Instant::now());
        }
        let is_ready = !self.left_over.is_empty() || !self.absent.ready.is_empty();
        if is_ready || self.may_tick_absent() || self.may_decide_absent() {
            return Duration::ZERO;
        }
        let settles = self.backlog() > 0 && self.settle_again_at.is_none();
        if settles || self.preparing.has_work() {
            return if self.pace.is_idle() {
                Duration::ZERO
            } else {
                IDLE_BEFORE_SETTLING
            };
        }
        if !self.absent.asked.is_empty() {
            return IDLE_BEFORE_SETTLING; // they wait for a bounded time
        }
        if let Some(again_at) = self.settle_again_at {
            let again = again_at.saturating_duration_since(Instant::now());
            return match self.may_tick() {
                true => again.min(self.until_due()),
                false => again,
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

    /// Records that the engine is up. At the next start, holds pause from the last recorded time on.
    fn say_that_it_is_up(&mut self) {
        if self.up_at.0.elapsed() < UP_EVERY || self.repair_at.is_some() {
            return;
        }
        let head = self.shared.committed.load(Ordering::Acquire);
        let (_, before) = std::mem::replace(&mut self.up_at, (Instant::now(), head));
        if head > before || self.shared.book.read().next_due().is_none() {
            return;
        }
        let said = {
            let _commit = self.shared.under_way.begin();
            self.watch.commit_probe(&self.conn, self.clock.now())
        };
        if let Err(error) = said {
            self.stop(&error);
        }
    }

    /// Lists new rows while there is no other work. Otherwise batches write slices of them.
    fn list(&mut self) {
        while self.repair_at.is_none()
            && self.pace.is_idle()
            && self.shared.queue.len() == 0
            && self.unlisted.is_due(&self.conn, true)
        {
            if let Err(error) = self.list_slice() {
                self.stop(&error);
            }
        }
    }

    /// Stops if a file was moved while nothing was committed.
    fn look_at_files(&mut self) {
        if self.watched_at.elapsed() < IDLE_WAIT_MAX {
            return;
        }
        self.watched_at = Instant::now();
        if let Err(error) = self.watch.check(&self.conn) {
            self.stop(&error);
        }
    }

    fn list_slice(&mut self) -> Result<(), DataFileError> {
        let _commit = self.shared.under_way.begin();
        let tx = self.conn.begin()?;
        self.unlisted.write(&tx)?;
        self.watch.commit(&self.conn, tx)
    }

    fn follow(&mut self) {
        let head = self.shared.committed.load(Ordering::Acquire);
        let awaited = !self.parked.is_empty() || !self.absent.asked.is_empty();
        self.pace.follow(head, self.settled, awaited);
    }

    /// Handles due times, repair, settlement and maintenance.
    fn housekeeping(&mut self) {
        if self.repair_at.is_none() {
            self.look_at_files();
        }
        if self.repair_at.is_some() {
            self.try_repair();
            return;
        }
        if self.may_tick() {
            self.tick();
        }
        self.parked.expire();
        self.follow();
        while self.repair_at.is_none() && self.may_settle() {
            let started = Instant::now();
            match self.settle_slice() {
                Ok(()) => self.settling_goes_on(),
                Err(error) if error.is_io() => self.stop(&error),
                Err(error) => self.settling_is_stuck(&error),
            }
            self.pace.settled(started.elapsed());
            self.follow();
            self.checkpoint_in_the_quiet();
            if !self.pace.owes() {
                break;
            }
        }
        self.tick_absent();
        self.decide_absent();
        self.checkpoint_in_the_quiet(); // // batches settle some entries too
        self.prepare();
        self.list();
        self.count_quarantine();
        self.retire_idle();
        self.say_that_it_is_up();
    }
}
