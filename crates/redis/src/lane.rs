//! The combiner: claims that arrive while a partition's slots are busy are decided together in the next call.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use qiang_core::{
    book::Claim,
    campaign::Kind,
    id::CampaignId,
    ports::{Answer, Claimed, EngineError},
};
use tokio::sync::Notify;

/// Claims of one call at most. More save Redis nothing, and hold up others.
pub(crate) const BATCH_MAX: usize = 512;

/// A claim that waits for its decision.
pub(crate) struct Asked {
    pub(crate) claim: Claim,
    pub(crate) answer: Answer<Claimed>,
}

/// What one call can decide together.
pub(crate) type Group = (CampaignId, Kind);

/// The claims that wait for one partition.
#[derive(Default)]
pub(crate) struct Lane {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    groups: HashMap<Group, Vec<Asked>>,
    /// Groups take turns.
    turns: VecDeque<Group>,
    /// Slots that have nothing to do.
    idle: usize,
    closed: bool,
}

impl Lane {
    /// Puts a claim in line. After the close it comes back.
    pub(crate) fn push(&self, asked: Asked) -> Result<(), Asked> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(asked);
        }
        let group = (asked.claim.campaign, asked.claim.kind);
        let line = waiting.groups.entry(group).or_default();
        line.push(asked);
        if line.len() == 1 {
            waiting.turns.push_back(group);
        }
        if waiting.idle > 0 {
            waiting.idle -= 1;
            drop(waiting);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// The next claims to decide, of one campaign. None after the close.
    pub(crate) async fn take(&self) -> Option<(Group, Vec<Asked>)> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if let Some(group) = waiting.turns.pop_front() {
                    return Some((group, waiting.take(group)));
                }
                if waiting.closed {
                    return None;
                }
                waiting.idle += 1;
            }
            self.wake.notified().await;
        }
    }

    /// Takes nothing more in; what waits is still decided.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_waiters();
        // One permit each for slots that are just about to wait.
        self.wake.notify_one();
    }

    /// Answers all that wait, when no slot will.
    pub(crate) fn abandon(&self, error: &EngineError) -> usize {
        let mut waiting = self.waiting.lock();
        waiting.turns.clear();
        let lost: Vec<_> = waiting.groups.drain().flat_map(|(_, line)| line).collect();
        drop(waiting);
        let count = lost.len();
        for asked in lost {
            asked.answer.send(Err(error.clone()));
        }
        count
    }
}

impl Waiting {
    fn take(&mut self, group: Group) -> Vec<Asked> {
        let Some(line) = self.groups.get_mut(&group) else {
            return Vec::new();
        };
        if line.len() <= BATCH_MAX {
            return self.groups.remove(&group).unwrap_or_default();
        }
        let rest = line.split_off(BATCH_MAX);
        let batch = std::mem::replace(line, rest);
        self.turns.push_back(group);
        batch
    }
}
