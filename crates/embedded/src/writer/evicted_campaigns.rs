//! Evicted campaigns: tasks of small ones wait until the campaign is reloaded. [`super::absent_tasks`] decides tasks of
//! large ones. Idle campaigns are evicted.

use std::{
    collections::{HashMap, HashSet, VecDeque},
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

use super::{Writer, absent_tasks::AbsentTasks};
use crate::{
    EmbeddedOptions, QUEUED_TASKS_MAX, cold_rows,
    deferred_read::DeferredRead,
    error::DataFileError,
    queue::PushError,
    recall::{self, LoadedCampaign, ROWS_AT_ONCE},
    task::{RecallTask, WriterTask},
};

/// Interval between two sweeps for idle campaigns.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// Number of sweeps that cover all campaigns.
const SWEEPS: usize = 600;
/// Minimum campaigns per sweep.
const SWEPT_MIN: usize = 64;
/// Maximum campaigns reloaded for one tick.
const RECALLED_MAX: usize = 256;
/// Rows reloaded for one tick; the remaining campaigns wait for the next tick.
const RECALLED_ROWS_MAX: u64 = 2 * ROWS_AT_ONCE;
/// Delay before a due campaign is reloaded again after a failure, in milliseconds.
const DUE_AGAIN_MS: i64 = 1_000;

/// Large due campaigns in order of arrival, each once: a campaign whose entries were made twice from the same rows
/// would have each of them twice.
#[derive(Default)]
pub(super) struct DueByRows {
    queue: VecDeque<(CampaignId, Instant)>,
    ids: HashSet<CampaignId>,
}

impl DueByRows {
    /// Adds a campaign, unless it waits already.
    pub(super) fn push(&mut self, id: CampaignId) {
        if self.ids.insert(id) {
            self.queue.push_back((id, Instant::now()));
        }
    }

    /// The campaign that has waited for longest, and since when.
    pub(super) fn first(&self) -> Option<(CampaignId, Instant)> {
        self.queue.front().copied()
    }

    pub(super) fn pop(&mut self) -> Option<CampaignId> {
        let (id, _) = self.queue.pop_front()?;
        self.ids.remove(&id);
        Some(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.ids.clear();
    }

    /// Makes the first campaign look as if it had waited for this long.
    #[cfg(test)]
    pub(super) fn age_first(&mut self, waited: Duration) {
        self.queue.front_mut().unwrap().1 -= waited;
    }
}

/// Tasks and reloads of campaigns that are not in the book.
pub(super) struct EvictedCampaigns {
    /// Tasks of such campaigns that a batch found; empty between batches.
    pub(super) found: Vec<(CampaignId, WriterTask)>,
    /// Campaigns whose reload is requested.
    pub(super) waiting: HashMap<CampaignId, WaitingTasks>,
    /// Tasks of large campaigns that are decided from rows found by key.
    pub(super) asked: AbsentTasks,
    /// Tasks that wait no longer. The next batch begins with them.
    pub(super) ready: Vec<WriterTask>,
    /// Number of tasks that wait for their campaign.
    tasks: usize,
    /// Number of these campaigns that are due.
    due: usize,
    /// Large due campaigns whose entries are made from rows found by key, and since when they wait for that.
    pub(super) by_rows: DueByRows,
    /// Rows above which a campaign is a large one.
    pub(super) large_rows: u64,
    /// Ticks that wait until all due campaigns are reloaded or ticked.
    ticks: Vec<WriterTask>,
    /// Time without use after which a campaign is evicted.
    idle_campaign_ttl: Duration,
    /// Campaigns to check next.
    sweep: VecDeque<CampaignId>,
    swept_at: Instant,
}

/// Tasks that wait for a campaign.
#[derive(Default)]
pub(super) struct WaitingTasks {
    /// In order of arrival.
    tasks: Vec<WriterTask>,
    /// Whether a due time of the campaign has come.
    is_due: bool,
}

impl EvictedCampaigns {
    pub(super) fn new(options: EmbeddedOptions) -> Self {
        Self {
            found: Vec::new(),
            waiting: HashMap::new(),
            asked: AbsentTasks::default(),
            ready: Vec::new(),
            tasks: 0,
            due: 0,
            by_rows: DueByRows::default(),
            large_rows: options.small_campaign_max,
            ticks: Vec::new(),
            idle_campaign_ttl: options.idle_campaign_ttl,
            sweep: VecDeque::new(),
            swept_at: Instant::now(),
        }
    }

    fn take(&mut self, id: CampaignId) -> WaitingTasks {
        let waiting = self.waiting.remove(&id).unwrap_or_default();
        self.tasks -= waiting.tasks.len();
        self.due -= usize::from(waiting.is_due);
        waiting
    }

    /// Whether a tick must wait for due campaigns.
    pub(super) fn awaits_due(&self) -> bool {
        self.due > 0 || !self.by_rows.is_empty()
    }

    /// Adds a tick that waits for them.
    pub(super) fn hold_tick(&mut self, tick: WriterTask) {
        self.ticks.push(tick);
    }

    /// Whether there are tasks that need no reload.
    pub(super) fn has_tasks(&self) -> bool {
        !self.asked.is_empty() || !self.ready.is_empty()
    }

    /// Takes these tasks.
    pub(super) fn take_undecided(&mut self) -> Vec<WriterTask> {
        let mut tasks = std::mem::take(&mut self.ready);
        tasks.append(&mut self.asked.take_all());
        tasks
    }

    /// Refuses all waiting tasks.
    pub(super) fn refuse_all(&mut self, error: &EngineError) {
        (self.tasks, self.due) = (0, 0);
        self.by_rows.clear(); // the repair expects all due times again
        let undecided = self.take_undecided();
        let waiting = self.waiting.drain().flat_map(|(_, waiting)| waiting.tasks);
        let waiting = waiting.chain(undecided);
        let found = self.found.drain(..).map(|(_, task)| task);
        for task in waiting.chain(found).chain(self.ticks.drain(..)) {
            task.refuse(error);
        }
    }
}

impl Writer {
    /// Keeps the tasks that a batch could not decide. Those of large campaigns are decided from rows, and the other
    /// campaigns are requested. If the reload threads have ended because the engine is closing, reloads these here and
    /// adds the tasks to `inbox`.
    pub(super) fn send_for_absent(&mut self, inbox: &mut Vec<WriterTask>) {
        for (id, task) in std::mem::take(&mut self.absent.found) {
            if self.absent.tasks + self.absent.asked.len() >= QUEUED_TASKS_MAX {
                task.refuse(&EngineError::Overloaded);
            } else if self.absent.asked.takes(&task) && self.is_by_rows(id) {
                self.absent.asked.push(id, task);
            } else {
                let mut tasks = self.absent.asked.take_all_of(id);
                tasks.push(task);
                self.await_whole(id, tasks, inbox);
            }
        }
    }

    /// Whether tasks of a campaign are decided from rows: it is large, its rows have all its entries, and its reload is
    /// not requested.
    fn is_by_rows(&self, id: CampaignId) -> bool {
        if self.absent.waiting.contains_key(&id) || self.absent.asked.is_busy(id) {
            return false;
        }
        if self.absent.asked.has(id) {
            return true;
        }
        let rows = cold_rows::rows_to_read(&self.conn, id);
        // The reload reports errors.
        rows.is_ok_and(|rows| rows > self.absent.large_rows && rows != cold_rows::ROWS_OF_LOG)
    }

    /// Requests a campaign for tasks, which wait for it.
    pub(super) fn await_whole(
        &mut self,
        id: CampaignId,
        tasks: Vec<WriterTask>,
        inbox: &mut Vec<WriterTask>,
    ) {
        self.absent.tasks += tasks.len();
        let is_sent_for = self.absent.waiting.contains_key(&id);
        self.absent
            .waiting
            .entry(id)
            .or_default()
            .tasks
            .extend(tasks);
        if !is_sent_for {
            self.fetch(id, inbox);
        }
    }

    fn fetch(&mut self, id: CampaignId, inbox: &mut Vec<WriterTask>) {
        match self.shared.recalls.push(DeferredRead::Fetch(id)) {
            Ok(()) => {}
            Err((PushError::Full | PushError::Halted, _)) => {
                self.receive(id, RecallTask::Failed(EngineError::Overloaded), inbox);
            }
            Err((PushError::Closed, _)) => {
                let is_awaited = |waiting: &WaitingTasks| !waiting.tasks.is_empty();
                if !self.absent.waiting.get(&id).is_some_and(is_awaited) {
                    // The next start records due times again.
                    self.receive(id, RecallTask::NotOpen, inbox);
                    return;
                }
                self.shared.recalls.reads_whole();
                let recalled = match recall::load(&self.conn, id, &mut || {}) {
                    Ok(loaded) => loaded.into(),
                    Err(error) => RecallTask::Failed(EngineError::unavailable(error.chain())),
                };
                self.receive(id, recalled, inbox);
            }
        }
    }

    /// Moves reloaded campaigns from `inbox` into the book, and puts their waiting tasks before the other ones.
    pub(super) fn receive_recalled(&mut self, inbox: &mut Vec<WriterTask>) {
        if !inbox
            .iter()
            .any(|task| matches!(task, WriterTask::Recalled(..)))
        {
            return;
        }
        let mut rest = std::mem::take(inbox);
        for task in rest.extract_if(.., |task| matches!(task, WriterTask::Recalled(..))) {
            if let WriterTask::Recalled(id, recalled) = task {
                self.receive(id, recalled, inbox);
            }
        }
        inbox.append(&mut rest);
    }

    fn receive(&mut self, id: CampaignId, recalled: RecallTask, inbox: &mut Vec<WriterTask>) {
        let now = self.clock.now();
        let is_here = match recalled {
            RecallTask::Unreadable(error) => {
                self.refuse_waiting(id, &error, None);
                false
            }
            RecallTask::Failed(error) => {
                self.refuse_waiting(id, &error, Some(now.plus_millis(DUE_AGAIN_MS)));
                false
            }
            RecallTask::Opened(restored) => {
                if !self.shared.book.write().recall(now, *restored) {
                    // The campaign was reloaded and evicted in the meantime.
                    if self.absent.waiting.contains_key(&id) {
                        self.fetch(id, inbox);
                    }
                    return;
                }
                self.absent.asked.forget(id);
                true
            }
            RecallTask::NotOpen => self.shared.book.read().has(id),
        };
        let mut tasks = self.absent.take(id).tasks;
        if is_here {
            inbox.append(&mut tasks);
            inbox.append(&mut self.absent.asked.take_all_of(id));
        }
        for task in tasks {
            self.answer_unknown(now, task);
        }
        self.release_ticks(inbox);
    }

    /// Adds the waiting ticks to `inbox`, if no due campaign is left.
    pub(super) fn release_ticks(&mut self, inbox: &mut Vec<WriterTask>) {
        if !self.absent.awaits_due() {
            inbox.append(&mut self.absent.ticks);
        }
    }

    /// Refuses the tasks of a campaign that could not be reloaded. If it was due, it is due again at `again`.
    fn refuse_waiting(&mut self, id: CampaignId, error: &EngineError, again: Option<Timestamp>) {
        let waiting = self.absent.take(id);
        if let Some(again) = again.filter(|_| waiting.is_due) {
            self.shared.book.write().expect(again, id);
        }
        for task in waiting.tasks {
            task.refuse(error);
        }
    }

    /// Answers a task of a campaign that does not exist or was not opened.
    fn answer_unknown(&mut self, now: Timestamp, task: WriterTask) {
        match task {
            WriterTask::Claim(_, answer) => {
                let (outcome, ack) = (Outcome::UnknownCampaign, AckLevel::Fsync);
                answer.send(Ok(Claimed { outcome, ack }));
            }
            WriterTask::Claims(claims) => {
                for (claim, answer) in claims {
                    self.answer_unknown(now, WriterTask::Claim(claim, answer));
                }
            }
            WriterTask::Command(command, answer) => {
                let mut entries = Vec::new();
                let result = self.shared.book.write().apply(now, &command, &mut entries);
                debug_assert!(entries.is_empty(), "nothing happens to what is not there");
                answer.send(result.map_err(EngineError::from));
            }
            other => other.refuse(&EngineError::unavailable("there is no such campaign")),
        }
    }

    /// Reloads due campaigns. A large one is ticked from few of its rows once the log is settled. If its log must be
    /// read, it is requested from the reload thread, so that no other task waits for it. The periodic tick skips it; a
    /// tick command waits for it.
    pub(super) fn recall_due(
        &mut self,
        now: Timestamp,
        inbox: &mut Vec<WriterTask>,
    ) -> Result<(), DataFileError> {
        let due = self.shared.book.read().due_and_absent(now, RECALLED_MAX);
        let mut read = 0;
        for id in due {
            let rows = match self.absent.waiting.contains_key(&id) {
                true => cold_rows::ROWS_OF_LOG, // its reload is requested
                false => cold_rows::rows_to_read(&self.conn, id)?,
            };
            if rows > self.absent.large_rows {
                self.shared.book.write().dismiss(now, id);
                if self.absent.waiting.contains_key(&id) || rows == cold_rows::ROWS_OF_LOG {
                    self.send_for_due(id, inbox);
                } else {
                    self.absent.by_rows.push(id);
                }
                continue;
            }
            read += rows;
            if read > RECALLED_ROWS_MAX {
                return Ok(());
            }
            self.shared.recalls.reads_whole();
            let loaded = recall::load(&self.conn, id, &mut || {})?;
            let mut book = self.shared.book.write();
            match loaded {
                LoadedCampaign::Opened(restored) => {
                    let taken = book.recall(Timestamp::default(), *restored);
                    debug_assert!(taken, "the writer reads what it has committed");
                }
                LoadedCampaign::Draft(_) | LoadedCampaign::Unknown => book.dismiss(now, id),
                LoadedCampaign::Unreadable(reason) => {
                    recall::say_unreadable(id, &reason);
                    book.dismiss(now, id);
                }
            }
        }
        Ok(())
    }

    pub(super) fn send_for_due(&mut self, id: CampaignId, inbox: &mut Vec<WriterTask>) {
        let is_sent_for = self.absent.waiting.contains_key(&id);
        let waiting = self.absent.waiting.entry(id).or_default();
        self.absent.due += usize::from(!std::mem::replace(&mut waiting.is_due, true));
        if !is_sent_for {
            self.fetch(id, inbox);
        }
    }

    /// Evicts idle, fully settled campaigns. A campaign that is due within the idle time stays, because it would be
    /// reloaded for that.
    pub(super) fn retire_idle(&mut self) {
        let keeps_none = self.absent.idle_campaign_ttl.is_zero();
        if self.repair_at.is_some() || (self.absent.swept_at.elapsed() < SWEEP_EVERY && !keeps_none)
        {
            return;
        }
        self.absent.swept_at = Instant::now();
        let kept_ms = i64::try_from(self.absent.idle_campaign_ttl.as_millis()).unwrap_or(i64::MAX);
        let now = self.clock.now();
        let (idle_before, due_before) = (now.plus_millis(-kept_ms), now.plus_millis(kept_ms));
        let book = self.shared.book.read();
        if self.absent.sweep.is_empty() {
            self.absent.sweep.extend(book.campaigns());
        }
        let swept = SWEPT_MIN.max(book.len() / SWEEPS + 1);
        let swept = self.absent.sweep.len().min(swept);
        let is_idle = |id: &CampaignId| {
            book.idle_since(*id).is_some_and(|at| at <= idle_before)
                && book.due_of(*id).is_none_or(|due| due > due_before)
        };
        let idle: Vec<_> = self.absent.sweep.drain(..swept).filter(is_idle).collect();
        drop(book);
        if idle.is_empty() {
            return;
        }
        // The rows of a campaign with quarantined entries are incomplete.
        let asks = recall::anything_set_aside(&self.conn).unwrap_or(true);
        for id in idle {
            if !asks || !recall::has_set_aside(&self.conn, id).unwrap_or(true) {
                self.retire(id, self.settled);
            }
        }
    }

    fn retire(&mut self, id: CampaignId, settled: Seq) {
        let retired = self.shared.book.write().retire(id, settled);
        if let Some(retired) = retired {
            self.refs.forget(id);
            self.last_ack.take_if(|last| last.0 == id);
            self.shared.recalls.free(retired);
        }
    }
}

#[cfg(test)]
mod tests;
