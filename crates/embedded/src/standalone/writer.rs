//! Writer of a standalone ledger: runs the waiting jobs in one transaction and answers them after its commit.
//!
//! Jobs that settle nothing (a deposit, a key, a campaign) run at once. Jobs that settle take long, so a transaction
//! runs as many as fit a bounded time, in order of arrival. No partition waits for another one's backlog, and no caller
//! for more than one transaction.

use std::{
    collections::VecDeque,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{Clock, EngineError},
};

use super::LedgerShared;
use crate::{
    error::DataFileError,
    fence::FencedConnection,
    file::{self, DataFileKind},
    job::{JobResult, LedgerJob, run_again, run_jobs},
    ledger::{list_index::UnlistedRows, settle},
    queue::TakeResult,
    transaction::{ChangeIsolation, TransactionContext},
    watch::FileWatch,
};

/// Time after which a transaction adds no further settling job.
const TURN_MAX: Duration = Duration::from_millis(20);
/// Maximum sleep without work. After it, the writer checks that its files are still in place.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Idle time before the writer lists new rows.
const IDLE_BEFORE_LISTING: Duration = Duration::from_secs(1);
/// Interval between the repair attempts of a stopped writer.
const REPAIR_EVERY: Duration = Duration::from_millis(250);

pub(super) struct LedgerWriter {
    path: PathBuf,
    shared: Arc<LedgerShared>,
    clock: Arc<dyn Clock>,
    conn: FencedConnection,
    watch: FileWatch,
    settling: VecDeque<Box<dyn LedgerJob>>,
    /// After a failed commit: time of the next repair attempt.
    repair_at: Option<Instant>,
    unlisted: UnlistedRows,
}

fn each(jobs: &mut [Box<dyn LedgerJob>]) -> impl Iterator<Item = &mut dyn LedgerJob> {
    jobs.iter_mut()
        .map(|job| job.as_mut() as &mut dyn LedgerJob)
}

impl LedgerWriter {
    pub(super) fn new(
        path: PathBuf,
        shared: Arc<LedgerShared>,
        clock: Arc<dyn Clock>,
        conn: FencedConnection,
    ) -> Result<Self, DataFileError> {
        let watch = FileWatch::from_path(&path, &conn)?;
        let writer = Self {
            path,
            shared,
            clock,
            conn,
            watch,
            settling: VecDeque::new(),
            repair_at: None,
            unlisted: UnlistedRows::default(),
        };
        writer.publish(&settle::positions(&writer.conn)?);
        Ok(writer)
    }

    fn publish(&self, moved: &[(PartitionId, Seq)]) {
        for (partition, seq) in moved {
            self.shared.positions.advance(*partition, *seq);
        }
    }

    /// Works until the queue is closed and empty. If the writer panics, the ledger makes no further change.
    pub(super) fn run_until_closed(self) {
        let shared = Arc::clone(&self.shared);
        if panic::catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            let reason = "the writer failed; restart the service".to_owned();
            tracing::error!(reason, "the ledger is closed for good");
            *shared.stopped.write() = Some(reason.clone());
            let unavailable = EngineError::Unavailable { reason };
            for job in shared.queue.abort() {
                job.answer(Err(&unavailable));
            }
        }
    }

    fn run(mut self) {
        let mut inbox = Vec::new();
        loop {
            let taken = self.shared.queue.take(&mut inbox, 0, self.wait_max());
            let is_idle = taken == TakeResult::Nothing && self.settling.is_empty();
            if let Some(repair_at) = self.repair_at {
                self.turn_away(&mut inbox);
                if repair_at <= Instant::now() {
                    self.try_repair();
                }
            } else {
                self.turn(&mut inbox);
                if is_idle && self.repair_at.is_none() {
                    self.look_at_files();
                    self.list();
                }
            }
            if taken == TakeResult::Closed && self.settling.is_empty() {
                break;
            }
        }
        if self.repair_at.is_none() {
            self.watch.close(&self.conn);
        }
    }

    fn wait_max(&self) -> Duration {
        match self.repair_at {
            Some(repair_at) => repair_at.saturating_duration_since(Instant::now()),
            None if !self.settling.is_empty() => Duration::ZERO,
            None if self.unlisted.waits() => IDLE_BEFORE_LISTING,
            None => IDLE_WAIT_MAX,
        }
    }

    /// Runs one transaction and answers all its jobs.
    fn turn(&mut self, inbox: &mut Vec<Box<dyn LedgerJob>>) {
        let mut jobs = Vec::with_capacity(inbox.len());
        for job in inbox.drain(..) {
            if job.entries() == 0 {
                jobs.push(job);
            } else {
                self.settling.push_back(job);
            }
        }
        if jobs.is_empty() && self.settling.is_empty() {
            return;
        }
        match self.commit(&mut jobs) {
            Ok(moved) => {
                self.publish(&moved);
                for job in jobs {
                    job.answer(Ok(()));
                }
            }
            Err(error) => {
                let reason = error.chain();
                self.stop(&error);
                // A failed commit may have been stored: only the file can tell.
                let uncertain = EngineError::Uncertain { reason };
                for job in jobs {
                    job.answer(Err(&uncertain));
                }
            }
        }
    }

    /// Runs `jobs`. Adds the settling jobs that fit the time.
    fn commit(
        &mut self,
        jobs: &mut Vec<Box<dyn LedgerJob>>,
    ) -> Result<Vec<(PartitionId, Seq)>, DataFileError> {
        let (began, now) = (Instant::now(), self.clock.now());
        let (mut apart, mut done) = (ChangeIsolation::default(), JobResult::default());
        let mut tx = self.conn.begin()?;
        run_jobs(
            TransactionContext::new(&tx, now),
            each(jobs),
            &mut apart,
            &mut done,
        )?;
        let mut settles = false;
        loop {
            if apart.is_mixed() {
                (tx, apart, done) = run_again((&self.conn, now), false, tx, each(jobs))?;
            }
            // At least one, however long the other jobs took.
            if settles && began.elapsed() >= TURN_MAX {
                break;
            }
            let Some(job) = self.settling.pop_front() else {
                break;
            };
            // Into `jobs` first, so that it is answered with them in every case.
            let before = jobs.len();
            jobs.push(job);
            settles = true;
            run_jobs(
                TransactionContext::new(&tx, now),
                each(&mut jobs[before..]),
                &mut apart,
                &mut done,
            )?;
        }
        self.unlisted.has_changed();
        if self.unlisted.is_due(&tx, false) {
            self.unlisted.write(&tx)?;
        }
        self.watch.commit(&self.conn, tx)?;
        Ok(done.moved)
    }

    /// Lists new rows while there is no other work. Otherwise each transaction writes a slice.
    fn list(&mut self) {
        while self.repair_at.is_none()
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
        if let Err(error) = self.watch.check(&self.conn) {
            self.stop(&error);
        }
    }

    fn list_slice(&mut self) -> Result<(), DataFileError> {
        let tx = self.conn.begin()?;
        self.unlisted.write(&tx)?;
        self.watch.commit(&self.conn, tx)
    }

    fn stop(&mut self, error: &DataFileError) {
        // A missing file is the cause of the other errors.
        let cause = self.watch.check(&self.conn).err();
        let error = cause.as_ref().unwrap_or(error);
        let reason = error.chain();
        tracing::error!(reason, "the ledger is stopped: a commit failed");
        self.watch.save(&self.conn, error);
        self.unlisted.has_failed();
        *self.shared.stopped.write() = Some(reason);
        self.repair_at = Some(Instant::now() + REPAIR_EVERY);
    }

    fn turn_away(&mut self, inbox: &mut Vec<Box<dyn LedgerJob>>) {
        let reason = self.shared.stopped.read().clone().unwrap_or_default();
        let unavailable = EngineError::Unavailable { reason };
        for job in inbox.drain(..).chain(self.settling.drain(..)) {
            job.answer(Err(&unavailable));
        }
    }

    fn try_repair(&mut self) {
        match self.repair() {
            Ok(()) => {
                self.repair_at = None;
                *self.shared.stopped.write() = None;
                tracing::warn!("the ledger works again");
            }
            Err(error) => {
                let reason = error.chain();
                tracing::debug!(reason, "not repaired yet");
                *self.shared.stopped.write() = Some(reason);
                self.repair_at = Some(Instant::now() + REPAIR_EVERY);
            }
        }
    }

    /// Reopens the file, proves with a commit that it is writable, and reads the settled positions.
    fn repair(&mut self) -> Result<(), DataFileError> {
        self.watch.check(&self.conn)?;
        self.conn = file::reopen_writer(&self.path, DataFileKind::Ledger, &self.conn)?;
        self.watch.commit_probe(&self.conn, self.clock.now())?;
        self.watch.check(&self.conn)?;
        self.publish(&settle::positions(&self.conn)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::RwLock;
    use qiang_core::{
        ports::LedgerError,
        time::{Clock as _, Timestamp},
    };

    use super::*;
    use crate::{
        job::{Job, JobContext},
        positions::PartitionPositions,
        queue::TaskQueue,
    };

    #[test]
    fn a_turn_settles_something_whatever_is_refused_in_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let clock = qiang_testkit::ManualClock::new(Timestamp::from_millis(0));
        let conn = file::open_writer(&path, DataFileKind::Ledger, clock.now()).unwrap();
        let shared = LedgerShared {
            queue: TaskQueue::new(1),
            positions: PartitionPositions::default(),
            stopped: RwLock::new(None),
        };
        let mut writer = LedgerWriter::new(path, Arc::new(shared), clock, conn).unwrap();
        let put = |context: &mut JobContext<'_, '_>, id: i64| {
            let sql = "INSERT INTO settled (partition, seq) VALUES (?1, 1)";
            context.conn.execute(sql, [id]).unwrap();
        };
        let (refused, _) = Job::boxed(0, move |context| {
            put(context, 7);
            Err::<(), _>(DataFileError::Refused(LedgerError::IdUsed))
        });
        for partition in [8, 9] {
            let (settles, _) = Job::boxed(1, move |context| {
                put(context, partition);
                std::thread::sleep(TURN_MAX);
                Ok(())
            });
            writer.settling.push_back(settles);
        }
        let mut jobs = vec![refused];
        writer.commit(&mut jobs).unwrap();
        assert_eq!((jobs.len(), writer.settling.len()), (2, 1));
        let settled = settle::positions(&writer.conn).unwrap();
        let settled: Vec<_> = settled
            .into_iter()
            .map(|(partition, _)| partition.0)
            .collect();
        assert_eq!(settled, [8]);
    }

    #[test]
    fn the_earlier_of_two_ledgers_on_one_file_changes_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let clock = qiang_testkit::ManualClock::new(Timestamp::from_millis(0));
        // Neither takes the lock of the file.
        let open = || {
            let conn = file::open_writer(&path, DataFileKind::Ledger, clock.now()).unwrap();
            let shared = Arc::new(LedgerShared {
                queue: TaskQueue::new(1),
                positions: PartitionPositions::default(),
                stopped: RwLock::new(None),
            });
            LedgerWriter::new(path.clone(), shared, clock.clone(), conn).unwrap()
        };
        let put = |writer: &mut LedgerWriter, id: i64| {
            let (job, mut answered) = Job::boxed(0, move |context: &mut JobContext<'_, '_>| {
                let sql = "INSERT INTO settled (partition, seq) VALUES (?1, 1)";
                Ok(context.conn.execute(sql, [id])?)
            });
            writer.turn(&mut vec![job]);
            answered.try_recv().unwrap().is_ok()
        };
        let (mut first, mut second) = (open(), open());
        assert!(!put(&mut first, 1));
        assert!(put(&mut second, 2));
        for _ in 0..2 {
            first.try_repair();
            let reason = first.shared.stopped.read().clone().unwrap();
            assert!(reason.contains("another process serves"), "{reason}");
        }
        assert!(put(&mut second, 3));
        let settled = settle::positions(&second.conn).unwrap();
        assert_eq!(settled.len(), 2);
    }

    #[test]
    fn what_is_new_is_listed_once_there_is_enough_of_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let clock = qiang_testkit::ManualClock::new(Timestamp::from_millis(0));
        let conn = file::open_writer(&path, DataFileKind::Ledger, clock.now()).unwrap();
        let shared = Arc::new(LedgerShared {
            queue: TaskQueue::new(1),
            positions: PartitionPositions::default(),
            stopped: RwLock::new(None),
        });
        let writer = LedgerWriter::new(path.clone(), Arc::clone(&shared), clock, conn).unwrap();
        let (job, _) = Job::boxed(0, |context: &mut JobContext<'_, '_>| {
            // As after thousands of other postings.
            let sql = "INSERT INTO postings (source, seq, kind, debit, credit, amount, at) \
                       VALUES (-1, 8192, 'fund', 7, 8, 1, 0)";
            context.conn.execute(sql, []).unwrap();
            Ok(())
        });
        assert!(shared.queue.push(job).is_ok());
        shared.queue.close();
        writer.run_until_closed();
        let conn = file::open_reader(&path).unwrap();
        let listed = "SELECT count(*) FROM funds JOIN listed ON posting = seq WHERE account = 7";
        let listed: i64 = conn.query_row(listed, [], |row| row.get(0)).unwrap();
        assert_eq!(listed, 1);
    }
}
