//! Campaigns that wait to be taken up together: what comes while a call of their partition is under way goes into the
//! next one.

use std::collections::VecDeque;

use parking_lot::Mutex;
use qiang_core::{campaign::AckLevel, event::PartitionId, ports::EngineError};
use tokio::sync::oneshot;

/// Campaigns that one call takes up at most.
const CAMPAIGNS_MAX: usize = 256;
/// Shares that one call puts in place at most, but for those of a single campaign: so long Redis does nothing else.
const SHARES_MAX: usize = 10_000;
/// Campaigns of a partition that wait at most; further ones are turned away as overload.
const WAITING_MAX: usize = 65_536;

/// What has become of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It was taken up.
    Now,
    /// It is here already.
    Before,
    /// It is none that can be taken up together with others.
    Otherwise,
}

/// A campaign that is to be taken up.
pub(crate) struct Opening {
    pub(crate) ack: AckLevel,
    pub(crate) shares: usize,
    /// Those of open_many.lua.
    pub(crate) keys: [String; 4],
    pub(crate) arguments: Vec<String>,
    pub(crate) answer: oneshot::Sender<Result<Opened, EngineError>>,
}

/// Campaigns that wait, by partition.
pub(crate) struct Openings(Vec<Line>);

/// Those of one partition.
#[derive(Default)]
pub(crate) struct Line {
    waiting: Mutex<VecDeque<Opening>>,
    /// Whoever has it takes up those that wait, whose ever they are.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl Openings {
    pub(crate) fn new(partitions: usize) -> Self {
        let lines = std::iter::repeat_with(Line::default);
        Self(lines.take(partitions).collect())
    }

    pub(crate) fn line(&self, partition: PartitionId) -> &Line {
        &self.0[usize::from(partition.0)]
    }
}

impl Line {
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

    /// The next ones that one call takes up.
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
