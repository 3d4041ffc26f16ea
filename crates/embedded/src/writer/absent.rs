//! Campaigns that the book does not have: what is about them waits until they are read, and those that nobody asks for
//! leave.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use qiang_core::{
    campaign::AckLevel,
    event::Seq,
    id::CampaignId,
    outcome::Outcome,
    ports::{Claimed, EngineError},
    time::Timestamp,
};

use super::Writer;
use crate::{
    QUEUED_TASKS_MAX,
    errand::Errand,
    error::StoreError,
    queue::PushError,
    recall::{self, Loaded},
    task::{Recalled, Task},
};

/// How often the book is looked through for campaigns that nobody asks for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// In how many sweeps all campaigns are looked at.
const SWEEPS: usize = 600;
/// At least so many are looked at in a sweep.
const SWEPT_MIN: usize = 64;
/// Campaigns that are read for one tick.
const RECALLED_MAX: usize = 256;

/// What the writer knows of campaigns that the book does not have.
pub(super) struct Absent {
    /// Tasks that a batch found to be about such campaigns; empty between batches.
    pub(super) found: Vec<(CampaignId, Task)>,
    /// Tasks that wait for their campaign, in their order.
    waiting: HashMap<CampaignId, Vec<Task>>,
    tasks: usize,
    /// How long a campaign is kept that nobody asks for.
    keep_idle: Duration,
    /// Campaigns that are looked at next.
    sweep: VecDeque<CampaignId>,
    swept_at: Instant,
}

impl Absent {
    pub(super) fn new(keep_idle: Duration) -> Self {
        Self {
            found: Vec::new(),
            waiting: HashMap::new(),
            tasks: 0,
            keep_idle,
            sweep: VecDeque::new(),
            swept_at: Instant::now(),
        }
    }

    fn take(&mut self, id: CampaignId) -> Vec<Task> {
        let tasks = self.waiting.remove(&id).unwrap_or_default();
        self.tasks -= tasks.len();
        tasks
    }

    /// Refuses everything that waits.
    pub(super) fn refuse_all(&mut self, error: &EngineError) {
        self.tasks = 0;
        let waiting = self.waiting.drain().flat_map(|(_, tasks)| tasks);
        for task in waiting.chain(self.found.drain(..).map(|(_, task)| task)) {
            task.refuse(error);
        }
    }
}

impl Writer {
    /// Sends for the campaigns of tasks that a batch could not decide. Where nobody reads any more, because the engine
    /// is closing, they are read here, and the tasks are put into `inbox`.
    pub(super) fn send_for_absent(&mut self, inbox: &mut Vec<Task>) {
        for (id, task) in std::mem::take(&mut self.absent.found) {
            if self.absent.tasks >= QUEUED_TASKS_MAX {
                task.refuse(&EngineError::Overloaded);
                continue;
            }
            self.absent.tasks += 1;
            let waiting = self.absent.waiting.entry(id).or_default();
            waiting.push(task);
            if waiting.len() == 1 {
                self.fetch(id, inbox);
            }
        }
    }

    fn fetch(&mut self, id: CampaignId, inbox: &mut Vec<Task>) {
        match self.shared.recalls.push(Errand::Fetch(id)) {
            Ok(()) => {}
            Err((PushError::Full | PushError::Halted, _)) => {
                for task in self.absent.take(id) {
                    task.refuse(&EngineError::Overloaded);
                }
            }
            Err((PushError::Closed, _)) => {
                let recalled = match recall::load(&self.conn, id) {
                    Ok(Loaded::Opened(restored)) => Ok(Some(restored)),
                    Ok(Loaded::Draft(_) | Loaded::Unknown) => Ok(None),
                    Ok(Loaded::Unreadable(reason)) => Err(EngineError::unavailable(reason)),
                    Err(error) => Err(EngineError::unavailable(error.chain())),
                };
                self.receive(id, recalled, inbox);
            }
        }
    }

    /// Takes campaigns that were sent for out of `inbox` into the book, and puts what waited for them before the rest.
    pub(super) fn receive_recalled(&mut self, inbox: &mut Vec<Task>) {
        if !inbox.iter().any(|task| matches!(task, Task::Recalled(..))) {
            return;
        }
        let mut rest = std::mem::take(inbox);
        for task in rest.extract_if(.., |task| matches!(task, Task::Recalled(..))) {
            if let Task::Recalled(id, recalled) = task {
                self.receive(id, recalled, inbox);
            }
        }
        inbox.append(&mut rest);
    }

    fn receive(&mut self, id: CampaignId, recalled: Recalled, inbox: &mut Vec<Task>) {
        let now = self.clock.now();
        let is_here = match recalled {
            Err(error) => {
                for task in self.absent.take(id) {
                    task.refuse(&error);
                }
                return;
            }
            Ok(Some(restored)) => {
                if !self.shared.book.write().recall(now, *restored) {
                    // It was here and has left since it was read.
                    self.fetch(id, inbox);
                    return;
                }
                true
            }
            Ok(None) => self.shared.book.read().has(id),
        };
        let mut tasks = self.absent.take(id);
        if is_here {
            inbox.append(&mut tasks);
            return;
        }
        for task in tasks {
            self.answer_unknown(now, task);
        }
    }

    /// Answers what is about a campaign that does not exist, or has not opened.
    fn answer_unknown(&mut self, now: Timestamp, task: Task) {
        match task {
            Task::Claim(_, answer) => {
                let (outcome, ack) = (Outcome::UnknownCampaign, AckLevel::Fsync);
                answer.send(Ok(Claimed { outcome, ack }));
            }
            Task::Command(command, answer) => {
                let mut entries = Vec::new();
                let result = self.shared.book.write().apply(now, &command, &mut entries);
                debug_assert!(entries.is_empty(), "nothing happens to what is not there");
                answer.send(result.map_err(EngineError::from));
            }
            other => other.refuse(&EngineError::unavailable("there is no such campaign")),
        }
    }

    /// Brings campaigns back whose time has come.
    pub(super) fn recall_due(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let due = self.shared.book.read().due_and_absent(now, RECALLED_MAX);
        for id in due {
            let loaded = recall::load(&self.conn, id)?;
            let mut book = self.shared.book.write();
            match loaded {
                Loaded::Opened(restored) => {
                    let taken = book.recall(Timestamp::default(), *restored);
                    debug_assert!(taken, "the writer reads what it has committed");
                }
                Loaded::Draft(_) | Loaded::Unknown => book.dismiss(now, id),
                Loaded::Unreadable(reason) => {
                    recall::say_unreadable(id, &reason);
                    book.dismiss(now, id);
                }
            }
        }
        Ok(())
    }

    /// Lets campaigns go that nobody has asked for in a while, and of which the ledger has everything.
    pub(super) fn retire_idle(&mut self) {
        let keeps_none = self.absent.keep_idle.is_zero();
        if self.repair_at.is_some() || (self.absent.swept_at.elapsed() < SWEEP_EVERY && !keeps_none)
        {
            return;
        }
        self.absent.swept_at = Instant::now();
        let kept_ms = i64::try_from(self.absent.keep_idle.as_millis()).unwrap_or(i64::MAX);
        let idle_before = self.clock.now().plus_millis(-kept_ms);
        let book = self.shared.book.read();
        if self.absent.sweep.is_empty() {
            self.absent.sweep.extend(book.campaigns());
        }
        let swept = SWEPT_MIN.max(book.len() / SWEEPS + 1);
        let swept = self.absent.sweep.len().min(swept);
        let is_idle = |id: &CampaignId| book.idle_since(*id).is_some_and(|at| at <= idle_before);
        let idle: Vec<_> = self.absent.sweep.drain(..swept).filter(is_idle).collect();
        drop(book);
        if idle.is_empty() {
            return;
        }
        // The rows of a campaign with entries set aside do not have all of it.
        let asks = recall::anything_set_aside(&self.conn).unwrap_or(true);
        for id in idle {
            if !asks || !recall::has_set_aside(&self.conn, id).unwrap_or(true) {
                self.retire(id, self.settled);
            }
        }
    }

    fn retire(&mut self, id: CampaignId, settled: Seq) {
        let retired = self.shared.book.write().retire(id, settled);
        if retired.is_some() {
            self.refs.forget(id);
            self.last_ack.take_if(|last| last.0 == id);
        }
        drop(retired); // its memory, after the lock
    }
}
