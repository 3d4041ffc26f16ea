//! Queue of campaigns to open together. Requests that arrive during a call of their partition form the next call.

use std::collections::VecDeque;

use parking_lot::Mutex;
use qiang_core::{campaign::AckLevel, event::PartitionId, ports::EngineError};
use tokio::sync::oneshot;

/// Maximum campaigns that one call opens.
const CAMPAIGNS_MAX: usize = 256;
/// Maximum shares that one call writes, except those of a single campaign; Redis does nothing else during the call.
const SHARES_MAX: usize = 10_000;
/// Maximum waiting campaigns of a partition; further ones are refused as overload.
const WAITING_MAX: usize = 65_536;

/// Result of opening a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpeningResult {
    /// This call opened it.
    Now,
    /// It was open already.
    Before,
    /// It cannot be opened together with others.
    Otherwise,
}

/// Request to open a campaign.
pub(crate) struct Opening {
    pub(crate) ack: AckLevel,
    pub(crate) shares: usize,
    /// Keys as in open_many.lua.
    pub(crate) keys: [String; 4],
    pub(crate) arguments: Vec<String>,
    pub(crate) answer: oneshot::Sender<Result<OpeningResult, EngineError>>,
}

/// Waiting campaigns by partition.
pub(crate) struct OpeningQueue(Vec<PartitionOpenings>);

/// Waiting campaigns of one partition.
#[derive(Default)]
pub(crate) struct PartitionOpenings {
    waiting: Mutex<VecDeque<Opening>>,
    /// The holder of this lock opens all waiting campaigns, including those of other callers.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl OpeningQueue {
    pub(crate) fn new(partitions: usize) -> Self {
        let lines = std::iter::repeat_with(PartitionOpenings::default);
        Self(lines.take(partitions).collect())
    }

    pub(crate) fn line(&self, partition: PartitionId) -> &PartitionOpenings {
        &self.0[usize::from(partition.0)]
    }
}

impl PartitionOpenings {
    pub(crate) fn enter(&self, opening: Opening) -> Result<(), EngineError> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            return Err(EngineError::Overloaded);
        }
        waiting.push_back(opening);
        Ok(())
    }

    #[cfg(all(test, feature = "servers"))]
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Removes the requests for the next call.
    pub(crate) fn next(&self) -> Vec<Opening> {
        let (mut batch, mut shares) = (Vec::new(), 0);
        let mut waiting = self.waiting.lock();
        while let Some(opening) = waiting.pop_front_if(|opening| {
            shares += opening.shares;
            batch.len() < CAMPAIGNS_MAX && (shares <= SHARES_MAX || batch.is_empty())
        }) {
            batch.push(opening);
        }
        batch
    }
}
