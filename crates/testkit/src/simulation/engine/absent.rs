//! Campaigns that the simulated engine does not have in memory. They are evicted when idle and reloaded from the
//! ledger's rows. The rows are read at one moment and used at a later one, so they may be stale.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    book::{Book, CampaignSnapshot, InvalidRows},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{Clock as _, EngineError, Ledger, RetireEngine, RetireResult},
    time::Timestamp,
};

use super::{PARTITION, SimulatedEngine, State, Task};
use crate::simulation::{Bug, Loaded};

/// Maximum campaigns read for one tick.
const RECALLED_MAX: usize = 256;

/// Tasks that wait for campaigns that the book does not have.
pub(super) struct Absent {
    idle_campaign_ttl_ms: i64,
    /// In the order of arrival.
    waiting: Vec<(CampaignId, Task)>,
    /// Campaigns read for these tasks.
    read: Vec<(CampaignId, Result<Loaded, InvalidRows>)>,
    left: u64,
    recalled: u64,
}

impl Absent {
    pub(super) fn new(idle_campaign_ttl_ms: i64) -> Self {
        Self {
            idle_campaign_ttl_ms,
            waiting: Vec::new(),
            read: Vec::new(),
            left: 0,
            recalled: 0,
        }
    }

    pub(super) fn wait(&mut self, id: CampaignId, task: Task) {
        self.waiting.push((id, task));
    }

    /// Drops all waiting tasks, because the process has died.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        self.read.clear();
    }

    pub(super) fn left_and_recalled(&self) -> (u64, u64) {
        (self.left, self.recalled)
    }

    fn take(&mut self, id: CampaignId) -> Vec<Task> {
        let mine = self.waiting.extract_if(.., |(of, _)| *of == id);
        mine.map(|(_, task)| task).collect()
    }

    fn refuse(&mut self, id: CampaignId, reason: &str) {
        for task in self.take(id) {
            task.refuse(EngineError::unavailable(reason));
        }
    }
}

impl State {
    fn recall(&mut self, now: Timestamp, restored: CampaignSnapshot) -> bool {
        let before = self.book.len();
        let is_here = self.book.recall(now, restored);
        self.absent.recalled += (self.book.len() - before) as u64;
        is_here
    }
}

impl SimulatedEngine {
    /// Reads the settled state of all campaigns that tasks wait for.
    pub fn read_absent(&self) {
        let mut state = self.state();
        let wanted: BTreeSet<_> = state.absent.waiting.iter().map(|(id, _)| *id).collect();
        let rows = self.rows();
        let read = wanted.into_iter().map(|id| (id, rows.load(id)));
        state.absent.read = read.collect();
    }

    /// Enters the read campaigns in the book and decides the tasks that wait for them. Stale rows are read again.
    pub fn take_in_absent(&self) {
        let times = self.times();
        let mut state = self.state();
        for (id, read) in std::mem::take(&mut state.absent.read) {
            match read {
                Err(unsound) => state.absent.refuse(id, &unsound.to_string()),
                Ok(Loaded::Opened(_)) if self.bug == Some(Bug::NeverRecalls) => {
                    state.absent.refuse(id, "it is not in memory");
                }
                Ok(Loaded::Opened(restored)) => {
                    let restored = match self.bug {
                        Some(Bug::RetiresUnsettled) => restored.known_upto(Seq::MAX),
                        _ => *restored,
                    };
                    if !state.recall(times.0, restored) {
                        continue;
                    }
                }
                Ok(Loaded::Draft(_) | Loaded::Unknown) => {}
            }
            for task in state.absent.take(id) {
                state.decide(task, times, self.bug);
            }
        }
    }

    /// Reloads campaigns with due work.
    pub(super) fn recall_due(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        for id in state.book.due_and_absent(now, RECALLED_MAX) {
            let loaded = self.rows().load(id);
            if let Ok(Loaded::Opened(restored)) = loaded {
                state.recall(Timestamp::default(), *restored);
            } else {
                state.book.dismiss(now, id);
            }
        }
    }

    /// Reads a campaign from the book, or from the rows if the book does not have it.
    pub(super) fn read<T>(
        &self,
        campaign: CampaignId,
        in_book: impl FnOnce(&Book) -> Option<T>,
        in_rows: impl FnOnce(&CampaignSnapshot) -> Option<T>,
    ) -> Result<Option<T>, EngineError> {
        let state = self.state();
        if !state.is_up {
            return Err(EngineError::unavailable("the process is dead"));
        }
        if state.book.has(campaign) {
            return Ok(in_book(&state.book));
        }
        match self.rows().load(campaign) {
            Ok(Loaded::Opened(restored)) => Ok(in_rows(&restored)),
            Ok(Loaded::Draft(_) | Loaded::Unknown) => Ok(None),
            Err(unsound) => Err(EngineError::unavailable(unsound.to_string())),
        }
    }
}

#[async_trait]
impl RetireEngine for SimulatedEngine {
    fn recall_from(&self, _: Arc<dyn Ledger>) {}

    async fn leads_retiring(&self, _: PartitionId, _: Duration) -> Result<bool, EngineError> {
        Ok(self.is_up())
    }

    async fn retire(
        &self,
        _: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<RetireResult, EngineError> {
        let settled = ledger.settled(PARTITION).await;
        let settled = settled.map_err(|error| EngineError::unavailable(error.to_string()))?;
        let now = self.clock.now();
        let mut state = self.state();
        let settled = match self.bug {
            Some(Bug::RetiresUnsettled) => state.book.head(),
            _ => settled,
        };
        let idle_before = now.plus_millis(-state.absent.idle_campaign_ttl_ms);
        let book = &state.book;
        let is_idle = |id: &CampaignId| book.idle_since(*id).is_some_and(|at| at <= idle_before);
        let idle: BTreeSet<_> = book.campaigns().filter(is_idle).collect();
        let mut campaigns = 0;
        for id in idle {
            campaigns += u64::from(state.book.retire(id, settled).is_some());
        }
        state.absent.left += campaigns;
        Ok(RetireResult {
            campaigns,
            more: false,
        })
    }
}
