//! The combiner: claims that arrive while a partition's connections are busy are decided together in the next call.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
};

use parking_lot::Mutex;
use qiang_core::{
    book::Claim,
    campaign::CampaignKind,
    id::CampaignId,
    ports::{Answer, Claimed, EngineError},
};
use tokio::sync::{Notify, futures::Notified};

/// Claims of one call at most. More save Redis nothing, and hold up others.
pub(crate) const BATCH_MAX: usize = 512;

/// A claim that waits for its decision.
pub(crate) struct PendingClaim {
    pub(crate) claim: Claim,
    pub(crate) answer: Answer<Claimed>,
}

/// What one call can decide together.
pub(crate) type Group = (CampaignId, CampaignKind);

/// What a connection is to do.
enum Next<'a> {
    Batch(Group, Vec<PendingClaim>),
    Closed,
    /// Nothing, until this ends.
    Idle(Pin<Box<Notified<'a>>>),
}

/// The claims that wait for one partition.
#[derive(Default)]
pub(crate) struct ClaimBatcher {
    waiting: Mutex<Waiting>,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    groups: HashMap<Group, Vec<PendingClaim>>,
    /// Groups take turns.
    turns: VecDeque<Group>,
    /// Slots that have nothing to do.
    idle: usize,
    closed: bool,
}

impl ClaimBatcher {
    /// Puts a claim in line. After the close it comes back.
    pub(crate) fn push(&self, asked: PendingClaim) -> Result<(), PendingClaim> {
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
    pub(crate) async fn take(&self) -> Option<(Group, Vec<PendingClaim>)> {
        loop {
            match self.next() {
                Next::Batch(group, batch) => return Some((group, batch)),
                Next::Closed => return None,
                Next::Idle(woken) => woken.await,
            }
        }
    }

    fn next(&self) -> Next<'_> {
        let mut waiting = self.waiting.lock();
        if let Some(group) = waiting.turns.pop_front() {
            return Next::Batch(group, waiting.take(group));
        }
        if waiting.closed {
            return Next::Closed;
        }
        waiting.idle += 1;
        let mut woken = Box::pin(self.wake.notified());
        // It waits from here on, and not from its first poll: until then, two wakes for two connections would be one.
        woken.as_mut().enable();
        Next::Idle(woken)
    }

    /// Takes nothing more in; what waits is still decided.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_waiters();
    }

    /// Answers all that wait, when no connection will.
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
    fn take(&mut self, group: Group) -> Vec<PendingClaim> {
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

#[cfg(test)]
mod tests {
    use std::{future::Future, task::Context};

    use qiang_core::{id::UserId, ports::Ticket};
    use uuid::Uuid;

    use super::*;

    fn asked(campaign: u128) -> PendingClaim {
        let bits = campaign | (0x7 << 76) | (0x2 << 62);
        let (answer, _ticket) = Ticket::new();
        let claim = Claim {
            campaign: CampaignId::new(Uuid::from_u128(bits)).expect("the version is 7"),
            kind: CampaignKind::Sale,
            user: UserId::new("ann").expect("a good id"),
            quantity: 1,
            key: None,
        };
        PendingClaim { claim, answer }
    }

    fn idle<'a>(batcher: &'a ClaimBatcher) -> Pin<Box<Notified<'a>>> {
        match batcher.next() {
            Next::Idle(woken) => woken,
            _ => panic!("there is something to do"),
        }
    }

    /// Two connections that have found nothing, and not slept yet, are both woken by two groups that come then.
    #[test]
    fn every_idle_connection_is_woken() {
        let batcher = ClaimBatcher::default();
        let mut context = Context::from_waker(std::task::Waker::noop());
        for round in 0..3 {
            let mut connections = [idle(&batcher), idle(&batcher)];
            for n in 0..2 {
                assert!(batcher.push(asked(2 * round + n)).is_ok());
            }
            for connection in &mut connections {
                assert!(connection.as_mut().poll(&mut context).is_ready());
                assert!(matches!(batcher.next(), Next::Batch(..)));
            }
        }
        let mut connections = [idle(&batcher), idle(&batcher)];
        batcher.close();
        for connection in &mut connections {
            assert!(connection.as_mut().poll(&mut context).is_ready());
            assert!(matches!(batcher.next(), Next::Closed));
        }
    }
}
