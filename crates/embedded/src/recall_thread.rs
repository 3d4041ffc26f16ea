//! Threads that reload evicted campaigns, so that no other task waits for it.
//!
//! The first thread answers reads that need only a few rows, and reloads small campaigns for the writer. The second
//! thread reloads large campaigns, the smallest first, and interrupts a reload for much smaller ones.

use std::{
    collections::BTreeMap,
    io,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use qiang_core::{
    book::{CampaignSnapshot, Excerpt},
    id::CampaignId,
    outcome::Outcome,
    ports::{Clock, EngineError},
    time::Timestamp,
};
use rusqlite::Connection;

use crate::{
    EngineShared,
    cold_rows::{self, ColdRows},
    deferred_read::DeferredRead,
    error::DataFileError,
    file,
    queue::{PushError, TakeResult, TaskQueue},
    recall::{self, LoadedCampaign, ROWS_AT_ONCE, say_unreadable},
    task::{RecallTask, WriterTask},
};

/// Idle time after which a thread closes its connection.
const KEPT: Duration = Duration::from_secs(60);
/// A reload of many rows pauses for one of at most this fraction.
const MUCH_SMALLER: u64 = 8;

/// Work queues of the two threads.
pub(crate) struct RecallQueues {
    errands: TaskQueue<DeferredRead>,
    large: TaskQueue<LargeCampaigns>,
    /// Number of campaigns that were reloaded whole.
    whole: AtomicU64,
}

/// Task of a large campaign.
enum LargeCampaigns {
    /// Reload with about this number of rows.
    Read(u64, DeferredRead),
    /// Evicted campaign whose memory is freed.
    Free(Box<CampaignSnapshot>),
}

impl RecallQueues {
    pub(crate) fn new(errands_max: usize) -> Self {
        Self {
            errands: TaskQueue::new(errands_max),
            large: TaskQueue::new(errands_max),
            whole: AtomicU64::new(0),
        }
    }

    pub(crate) fn push(&self, errand: DeferredRead) -> Result<(), (PushError, DeferredRead)> {
        self.errands.push(errand)
    }

    /// Frees the memory of an evicted campaign: a small one at once, a large one on the second thread.
    pub(crate) fn free(&self, retired: CampaignSnapshot) {
        if u64::from(retired.len()) > ROWS_AT_ONCE {
            drop(self.large.push(LargeCampaigns::Free(Box::new(retired))));
        }
    }

    /// Number of campaigns that were reloaded whole.
    pub(crate) fn whole(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
    }

    /// Counts a campaign that is reloaded whole.
    pub(crate) fn reads_whole(&self) {
        self.whole.fetch_add(1, Ordering::Relaxed);
    }

    /// Refuses further reads. Waiting ones still run.
    pub(crate) fn close(&self) {
        self.errands.close();
    }

    /// Refuses further reads and returns the waiting ones.
    pub(crate) fn abort(&self) -> Vec<DeferredRead> {
        let mut errands = self.errands.abort();
        errands.extend(
            self.large
                .abort()
                .into_iter()
                .filter_map(LargeCampaigns::errand),
        );
        errands
    }

    #[cfg(test)]
    pub(crate) fn take(&self) -> Vec<DeferredRead> {
        self.errands.extract(|_| true)
    }
}

impl LargeCampaigns {
    fn errand(self) -> Option<DeferredRead> {
        match self {
            Self::Read(_, errand) => Some(errand),
            Self::Free(_) => None,
        }
    }
}

/// The two reload threads.
pub(crate) struct RecallThreads {
    shared: Arc<EngineShared>,
    threads: parking_lot::Mutex<Option<[JoinHandle<()>; 2]>>,
}

impl RecallThreads {
    pub(crate) fn start(
        path: &Path,
        shared: &Arc<EngineShared>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let reader = RecallReader {
            path: path.to_owned(),
            shared: Arc::clone(shared),
            clock: Arc::clone(clock),
        };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let large = reader.clone();
        let small = named("recall").spawn(move || reader.run())?;
        let large = named("recall-large").spawn(move || LargeReader::new(large).run());
        let Ok(large) = large else {
            shared.recalls.close();
            drop(small.join());
            return large.map(|_| unreachable!("it is no thread"));
        };
        Ok(Self {
            shared: Arc::clone(shared),
            threads: parking_lot::Mutex::new(Some([small, large])),
        })
    }

    /// Waits until both threads end, after the queue was closed.
    pub(crate) fn join(&self) {
        if let Some([small, large]) = self.threads.lock().take() {
            drop(small.join());
            self.shared.recalls.large.close();
            drop(large.join());
        }
    }
}

/// Context of a reload thread.
#[derive(Clone)]
struct RecallReader {
    path: PathBuf,
    shared: Arc<EngineShared>,
    clock: Arc<dyn Clock>,
}

impl RecallReader {
    fn run(self) {
        let (mut inbox, mut conn) = (Vec::new(), None);
        loop {
            match self.shared.recalls.errands.take(&mut inbox, 0, KEPT) {
                TakeResult::Tasks => {}
                TakeResult::Nothing => {
                    conn = None;
                    continue;
                }
                TakeResult::Closed => return,
            }
            for errand in inbox.drain(..) {
                self.serve(&mut conn, errand);
            }
        }
    }

    fn serve(&self, conn: &mut Option<Connection>, errand: DeferredRead) {
        let id = errand.campaign();
        let find = AssertUnwindSafe(|| cold_rows::find(self.connect(conn)?, &errand));
        let found = match panic::catch_unwind(find) {
            Ok(Ok(found)) => found,
            Ok(Err(error)) if error.is_io() => {
                *conn = None;
                let failed = EngineError::unavailable(error.chain());
                return self.deliver(id, RecallTask::Failed(failed), vec![errand]);
            }
            Ok(Err(error)) => return self.refuse_unreadable(errand, error.chain()),
            Err(_) => return self.refuse_unreadable(errand, panicked(id)),
        };
        match found {
            ColdRows::Excerpt(excerpt) => answer(self.clock.now(), &excerpt, errand),
            ColdRows::NotOpen => self.deliver(id, RecallTask::NotOpen, vec![errand]),
            ColdRows::Whole(rows) if rows > ROWS_AT_ONCE => self.hand_over(rows, errand),
            ColdRows::Whole(_) => {
                let load = AssertUnwindSafe(|| recall::load(self.connect(conn)?, id, &mut || {}));
                let loaded = panic::catch_unwind(load);
                if matches!(loaded, Ok(Err(_))) {
                    *conn = None;
                }
                self.deliver(id, self.recalled(id, loaded), vec![errand]);
            }
        }
    }

    fn connect<'a>(
        &self,
        conn: &'a mut Option<Connection>,
    ) -> Result<&'a Connection, DataFileError> {
        Ok(match conn {
            Some(conn) => conn,
            None => conn.insert(file::open_reader(&self.path)?),
        })
    }

    fn hand_over(&self, rows: u64, errand: DeferredRead) {
        let pushed = self
            .shared
            .recalls
            .large
            .push(LargeCampaigns::Read(rows, errand));
        if let Err((error, LargeCampaigns::Read(_, errand))) = pushed {
            let failed = RecallTask::Failed(error.into());
            self.deliver(errand.campaign(), failed, vec![errand]);
        }
    }

    fn refuse_unreadable(&self, errand: DeferredRead, reason: String) {
        let id = errand.campaign();
        say_unreadable(id, &reason);
        let unreadable = RecallTask::Unreadable(EngineError::unavailable(reason));
        self.deliver(id, unreadable, vec![errand]);
    }

    fn recalled(
        &self,
        id: CampaignId,
        loaded: std::thread::Result<Result<LoadedCampaign, DataFileError>>,
    ) -> RecallTask {
        self.shared.recalls.reads_whole();
        match loaded {
            Ok(Ok(loaded)) => {
                if let LoadedCampaign::Unreadable(reason) = &loaded {
                    say_unreadable(id, reason);
                }
                loaded.into()
            }
            Ok(Err(error)) => RecallTask::Failed(EngineError::unavailable(error.chain())),
            Err(_) => {
                let reason = panicked(id);
                say_unreadable(id, &reason);
                RecallTask::Unreadable(EngineError::unavailable(reason))
            }
        }
    }

    /// Answers deferred reads, and sends the campaign to the writer if it waits for it. A campaign that was reloaded
    /// whole for reads also enters the book, because it is never evicted again: the next read finds it.
    fn deliver(&self, id: CampaignId, recalled: RecallTask, errands: Vec<DeferredRead>) {
        let now = self.clock.now();
        let mut is_wanted = matches!(recalled, RecallTask::Opened(_));
        for errand in errands {
            match errand {
                DeferredRead::Fetch(_) => is_wanted = true,
                errand => answer_whole(now, &recalled, errand),
            }
        }
        let task = WriterTask::Recalled(id, recalled);
        if is_wanted && let Err((_, task)) = self.shared.queue.push_beyond(task) {
            task.refuse(&EngineError::Stopping);
        }
    }
}

fn panicked(id: CampaignId) -> String {
    format!("the program failed to read campaign {id}")
}

fn answer(now: Timestamp, excerpt: &Excerpt, errand: DeferredRead) {
    match errand {
        DeferredRead::Fetch(_) => debug_assert!(false, "the writer needs all of it"),
        DeferredRead::Tally(_, answer) => answer.send(Ok(Some(excerpt.tally(now)))),
        DeferredRead::Order(order, answer) => answer.send(Ok(excerpt.order(order.number))),
        DeferredRead::Look(claim, answer) => answer.send(Ok(excerpt.try_gate_outcome(now, &claim))),
    }
}

fn answer_whole(now: Timestamp, recalled: &RecallTask, errand: DeferredRead) {
    let opened = match recalled {
        RecallTask::Opened(restored) => Some(&**restored),
        RecallTask::NotOpen => None,
        RecallTask::Unreadable(error) | RecallTask::Failed(error) => return errand.refuse(error),
    };
    match errand {
        DeferredRead::Fetch(_) => {}
        DeferredRead::Tally(_, answer) => answer.send(Ok(opened.map(|opened| opened.tally(now)))),
        DeferredRead::Order(order, answer) => {
            answer.send(Ok(opened.and_then(|opened| opened.order(order.number))));
        }
        DeferredRead::Look(claim, answer) => {
            let unknown = Some(Outcome::UnknownCampaign);
            answer.send(Ok(
                opened.map_or(unknown, |opened| opened.try_gate_outcome(now, &claim))
            ));
        }
    }
}

/// Thread that reloads large campaigns.
struct LargeReader {
    reader: RecallReader,
    inbox: Vec<LargeCampaigns>,
    /// Waiting reads by (rows, campaign).
    waiting: BTreeMap<(u64, CampaignId), Vec<DeferredRead>>,
}

impl LargeReader {
    fn new(reader: RecallReader) -> Self {
        Self {
            reader,
            inbox: Vec::new(),
            waiting: BTreeMap::new(),
        }
    }

    fn run(mut self) {
        loop {
            match self.take(KEPT) {
                TakeResult::Tasks => self.read_up_to(u64::MAX),
                TakeResult::Nothing => {}
                TakeResult::Closed => return,
            }
        }
    }

    fn take(&mut self, wait_max: Duration) -> TakeResult {
        let taken = self
            .reader
            .shared
            .recalls
            .large
            .take(&mut self.inbox, 0, wait_max);
        for large in self.inbox.drain(..) {
            match large {
                LargeCampaigns::Read(rows, errand) => {
                    let key = (rows, errand.campaign());
                    self.waiting.entry(key).or_default().push(errand);
                }
                LargeCampaigns::Free(retired) => drop(retired),
            }
        }
        taken
    }

    /// Reloads the waiting campaigns of at most `rows_max` rows, the smallest first.
    fn read_up_to(&mut self, rows_max: u64) {
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= rows_max
        {
            let ((rows, id), errands) = first.remove_entry();
            if self.reader.shared.recalls.large.is_aborted() {
                for errand in errands {
                    errand.refuse(&EngineError::Stopping);
                }
                continue;
            }
            self.read(rows, id, errands);
            self.take(Duration::ZERO);
        }
    }

    fn read(&mut self, rows: u64, id: CampaignId, errands: Vec<DeferredRead>) {
        let path = self.reader.path.clone();
        let load = AssertUnwindSafe(|| {
            let conn = file::open_reader(&path)?;
            recall::load(&conn, id, &mut || {
                self.take(Duration::ZERO);
                self.read_up_to(rows / MUCH_SMALLER);
            })
        });
        let loaded = panic::catch_unwind(load);
        let recalled = self.reader.recalled(id, loaded);
        self.reader.deliver(id, recalled, errands);
    }
}

#[cfg(test)]
mod tests;
