//! Batching: claims that arrive while a partition's connections are busy are decided together in the next call.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
};

use parking_lot::Mutex;
use qiang_core::{
    book::Claim,
    campaign::CampaignKind,
    id::CampaignId,
    ports::{Claimed, EngineError, ReplySender},
};
use tokio::sync::{Notify, futures::Notified};

use crate::intake::admission_permits::Admission;

/// Maximum claims of one call. More save Redis nothing, and delay others.
pub(crate) const BATCH_MAX: usize = 512;
/// Maximum red packets with claims in one call; they take Redis a millisecond.
pub(crate) const PACKETS_MAX: usize = 64;

/// A claim that waits for its decision.
pub(crate) struct PendingClaim {
    pub(crate) claim: Claim,
    pub(crate) answer: ReplySender<Claimed>,
    /// Time of submission, in milliseconds of the node's own time.
    pub(crate) since_ms: u64,
    pub(crate) admission: Admission,
    /// Number of reloads of its campaign for this claim.
    pub(crate) recalls: u8,
}

/// Key of claims that are decided together.
pub(crate) type Group = (CampaignId, CampaignKind);
/// Claims that are decided together.
pub(crate) type Batch = (Group, Vec<PendingClaim>);

/// Next work of a connection.
enum NextBatch<'a> {
    Decide(Vec<Batch>),
    Closed,
    /// No work, until this ends.
    Idle(Pin<Box<Notified<'a>>>),
}

/// The claims that wait for one partition.
#[derive(Default)]
pub(crate) struct ClaimBatcher {
    waiting: Mutex<BatchQueue>,
    wake: Notify,
}

#[derive(Default)]
struct BatchQueue {
    groups: HashMap<Group, Vec<PendingClaim>>,
    /// Order in which groups are decided.
    turns: VecDeque<Group>,
    /// Claims of all groups.
    count: usize,
    /// Number of connections without work.
    idle: usize,
    closed: bool,
}

impl ClaimBatcher {
    /// Queues a claim if fewer than `room` wait. Otherwise, and after the close, answers it with a refusal. Returns
    /// whether it was queued.
    pub(crate) fn push(&self, pending: PendingClaim, room: usize) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.count >= room {
            let error = match waiting.closed {
                true => EngineError::Stopping,
                false => EngineError::Overloaded,
            };
            drop(waiting);
            pending.answer.send(Err(error));
            return false;
        }
        waiting.add(pending);
        if waiting.idle > 0 {
            waiting.idle -= 1;
            drop(waiting);
            self.wake.notify_one();
        }
        true
    }

    /// Queues claims of one campaign as one call: no connection takes some of them before the last one is there. Claims
    /// without room in the queue, or in the call that has the first one, are answered that they were refused. Returns
    /// the number of the others.
    pub(crate) fn push_together(&self, mut pending: Vec<PendingClaim>, room: usize) -> usize {
        let mut waiting = self.waiting.lock();
        let (error, free) = match waiting.closed {
            true => (EngineError::Stopping, 0),
            false => {
                let room = room.saturating_sub(waiting.count);
                let in_call = pending
                    .first()
                    .map_or(0, |it| waiting.room_in_call(&it.claim));
                (EngineError::Overloaded, room.min(in_call))
            }
        };
        let refused = pending.split_off(free.min(pending.len()));
        let queued = pending.len();
        for pending in pending {
            waiting.add(pending);
        }
        let wakes = queued > 0 && waiting.idle > 0;
        waiting.idle -= usize::from(wakes);
        drop(waiting);
        if wakes {
            self.wake.notify_one();
        }
        for pending in refused {
            pending.answer.send(Err(error.clone()));
        }
        queued
    }

    /// Next claims to decide: of one sale, or of several red packets, each of them once. `None` after the close.
    pub(crate) async fn take(&self) -> Option<Vec<Batch>> {
        loop {
            match self.next() {
                NextBatch::Decide(batches) => return Some(batches),
                NextBatch::Closed => return None,
                NextBatch::Idle(woken) => woken.await,
            }
        }
    }

    fn next(&self) -> NextBatch<'_> {
        let mut waiting = self.waiting.lock();
        let batches = waiting.take_next();
        if !batches.is_empty() {
            return NextBatch::Decide(batches);
        }
        if waiting.closed {
            return NextBatch::Closed;
        }
        waiting.idle += 1;
        let mut woken = Box::pin(self.wake.notified());
        // Registered here, not at its first poll. Otherwise two wakes for two connections would count as one.
        woken.as_mut().enable();
        NextBatch::Idle(woken)
    }

    /// Accepts no further claims; waiting claims are still decided.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_waiters();
    }

    /// Answers claims that have waited since before `before_ms` and removes them. Returns their number.
    pub(crate) fn refuse(&self, before_ms: u64, error: impl FnOnce() -> EngineError) -> usize {
        let late = self.waiting.lock().extract(before_ms);
        if late.is_empty() {
            return 0;
        }
        let (count, error) = (late.len(), error());
        for pending in late {
            pending.answer.send(Err(error.clone()));
        }
        count
    }
}

impl BatchQueue {
    fn add(&mut self, pending: PendingClaim) {
        self.count += 1;
        let group = (pending.claim.campaign, pending.claim.kind);
        let queue = self.groups.entry(group).or_default();
        queue.push(pending);
        if queue.len() == 1 {
            self.turns.push_back(group);
        }
    }

    /// Number of further claims like this one that the call with the next one takes.
    fn room_in_call(&self, claim: &Claim) -> usize {
        let group = (claim.campaign, claim.kind);
        let waiting = self.groups.get(&group).map_or(0, Vec::len);
        BATCH_MAX - waiting % BATCH_MAX
    }

    /// Claims of the next groups: of one sale, or of as many packets as one call decides.
    fn take_next(&mut self) -> Vec<Batch> {
        let (mut batches, mut count) = (Vec::new(), 0);
        while let Some(group) = self.turns.front().copied() {
            let length = self.groups.get(&group).map_or(0, Vec::len);
            let fits = group.1 == CampaignKind::RedPacket
                && batches.len() < PACKETS_MAX
                && count + length <= BATCH_MAX;
            if !batches.is_empty() && !fits {
                break;
            }
            self.turns.pop_front();
            batches.push((group, self.take(group)));
            count += length;
            if group.1 == CampaignKind::Sale {
                break;
            }
        }
        batches
    }

    fn take(&mut self, group: Group) -> Vec<PendingClaim> {
        let Some(queue) = self.groups.get_mut(&group) else {
            return Vec::new();
        };
        let batch = if queue.len() <= BATCH_MAX {
            self.groups.remove(&group).unwrap_or_default()
        } else {
            let rest = queue.split_off(BATCH_MAX);
            self.turns.push_back(group);
            std::mem::replace(queue, rest)
        };
        self.count -= batch.len();
        batch
    }

    /// Removes claims submitted before `before_ms`. A queue with a younger first claim is skipped, because a
    /// resubmitted claim is checked again before it is sent.
    fn extract(&mut self, before_ms: u64) -> Vec<PendingClaim> {
        let is_late = |pending: &PendingClaim| pending.since_ms < before_ms;
        let mut late = Vec::new();
        for queue in self.groups.values_mut() {
            if queue.first().is_some_and(is_late) {
                late.extend(queue.extract_if(.., |pending| is_late(pending)));
            }
        }
        if !late.is_empty() {
            self.count -= late.len();
            self.groups.retain(|_, queue| !queue.is_empty());
            self.turns.retain(|group| self.groups.contains_key(group));
        }
        late
    }
}

/// Claims in the form of a batcher's result, and their tickets.
#[cfg(all(test, feature = "servers"))]
pub(crate) fn submitted(
    claims: &[Claim],
) -> (Vec<Batch>, Vec<qiang_core::ports::PendingReply<Claimed>>) {
    let mut batches: Vec<Batch> = Vec::new();
    let mut tickets = Vec::new();
    for claim in claims {
        let (answer, ticket) = qiang_core::ports::PendingReply::new();
        tickets.push(ticket);
        let pending = PendingClaim {
            // Keeps them together.
            admission: Admission::Free,
            claim: claim.clone(),
            answer,
            since_ms: 0,
            recalls: 0,
        };
        let group = (claim.campaign, claim.kind);
        match batches.iter_mut().find(|(of, _)| *of == group) {
            Some((_, batch)) => batch.push(pending),
            None => batches.push((group, vec![pending])),
        }
    }
    (batches, tickets)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use qiang_core::{id::UserId, ports::PendingReply};
    use uuid::Uuid;

    use super::*;

    fn pending(campaign: u128) -> PendingClaim {
        submitted(campaign, 0).0
    }

    /// A claim submitted at that time, and its ticket.
    fn submitted(campaign: u128, since_ms: u64) -> (PendingClaim, PendingReply<Claimed>) {
        let bits = campaign | (0x7 << 76) | (0x2 << 62);
        let (answer, ticket) = PendingReply::new();
        let claim = Claim {
            campaign: CampaignId::new(Uuid::from_u128(bits)).expect("the version is 7"),
            kind: CampaignKind::Sale,
            user: UserId::new("ann").expect("a good id"),
            quantity: 1,
            key: None,
        };
        let pending = PendingClaim {
            claim,
            answer,
            since_ms,
            admission: Admission::Asked,
            recalls: 0,
        };
        (pending, ticket)
    }

    fn answer_of(ticket: PendingReply<Claimed>) -> Option<EngineError> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(ticket).poll(&mut context) {
            Poll::Ready(answer) => Some(answer.expect_err("nothing is granted here")),
            Poll::Pending => None,
        }
    }

    fn sizes(batches: &[Batch]) -> Vec<usize> {
        batches.iter().map(|(_, batch)| batch.len()).collect()
    }

    /// Claims of red packets share a call up to its bounds, each packet once. Claims of a sale have their own call.
    #[test]
    fn a_call_has_claims_of_many_packets_or_of_one_sale() {
        let batcher = ClaimBatcher::default();
        let push = |campaign: u128, kind: CampaignKind, count: usize| {
            for _ in 0..count {
                let mut pending = pending(campaign);
                pending.claim.kind = kind;
                assert!(batcher.push(pending, usize::MAX));
            }
        };
        let (packet, sale) = (CampaignKind::RedPacket, CampaignKind::Sale);
        for n in 0..PACKETS_MAX as u128 + 1 {
            push(n, packet, 2);
        }
        push(1_000, sale, 3);
        push(1_001, packet, BATCH_MAX + 7);
        push(1_002, packet, 5);
        push(1_003, packet, BATCH_MAX - 5);
        push(1_004, sale, 1);
        push(1_005, packet, 1);
        let mut calls = Vec::new();
        while let NextBatch::Decide(batches) = batcher.next() {
            let groups: std::collections::HashSet<_> = batches.iter().map(|it| it.0).collect();
            assert_eq!(groups.len(), batches.len());
            calls.push(sizes(&batches));
        }
        let expected = [
            vec![2; PACKETS_MAX],
            vec![2],
            vec![3],
            vec![BATCH_MAX],
            vec![5, BATCH_MAX - 5],
            vec![1],
            vec![1, 7],
        ];
        assert_eq!(calls, expected);
        assert_eq!(batcher.waiting.lock().count, 0);
    }

    fn idle<'a>(batcher: &'a ClaimBatcher) -> Pin<Box<Notified<'a>>> {
        match batcher.next() {
            NextBatch::Idle(woken) => woken,
            _ => panic!("there is something to do"),
        }
    }

    /// Two connections that have found no work, and do not sleep yet, are both woken when two groups arrive.
    #[test]
    fn every_idle_connection_is_woken() {
        let batcher = ClaimBatcher::default();
        let mut context = Context::from_waker(std::task::Waker::noop());
        for round in 0..3 {
            let mut connections = [idle(&batcher), idle(&batcher)];
            for n in 0..2 {
                assert!(batcher.push(pending(2 * round + n), 2));
            }
            for connection in &mut connections {
                assert!(connection.as_mut().poll(&mut context).is_ready());
                assert!(matches!(batcher.next(), NextBatch::Decide(..)));
            }
        }
        let mut connections = [idle(&batcher), idle(&batcher)];
        batcher.close();
        for connection in &mut connections {
            assert!(connection.as_mut().poll(&mut context).is_ready());
            assert!(matches!(batcher.next(), NextBatch::Closed));
        }
    }

    /// Two connections have nothing to do. Claims that come together are one call of one of them, in their order.
    #[test]
    fn claims_that_come_together_are_one_call() {
        let batcher = ClaimBatcher::default();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut connections = [idle(&batcher), idle(&batcher)];
        let all = (0..BATCH_MAX as u64).map(|since_ms| submitted(1, since_ms));
        let (pending, tickets): (Vec<_>, Vec<_>) = all.unzip();
        assert_eq!(batcher.push_together(pending, BATCH_MAX), BATCH_MAX);
        let mut woken = 0;
        for connection in &mut connections {
            woken += usize::from(connection.as_mut().poll(&mut context).is_ready());
        }
        assert_eq!(woken, 1);
        let NextBatch::Decide(batches) = batcher.next() else {
            panic!("there is something to do");
        };
        let order = batches[0].1.iter().map(|pending| pending.since_ms);
        assert!(batches.len() == 1 && order.eq(0..BATCH_MAX as u64));
        drop((batches, tickets));
        // The first ones have room.
        let (pending, tickets): (Vec<_>, Vec<_>) = (0..3).map(|n| submitted(1, n)).unzip();
        assert_eq!(batcher.push_together(pending, 2), 2);
        let last = tickets.into_iter().next_back().expect("a ticket");
        assert_eq!(answer_of(last), Some(EngineError::Overloaded));
        // The call has other claims already. No claim of the order follows in the next one.
        let batcher = ClaimBatcher::default();
        for _ in 0..10 {
            assert!(batcher.push(self::pending(1), usize::MAX));
        }
        let all = (0..BATCH_MAX as u64).map(|since_ms| submitted(1, since_ms));
        let (pending, mut tickets): (Vec<_>, Vec<_>) = all.unzip();
        let queued = batcher.push_together(pending, usize::MAX);
        assert_eq!(queued, BATCH_MAX - 10);
        for ticket in tickets.split_off(queued) {
            assert_eq!(answer_of(ticket), Some(EngineError::Overloaded));
        }
        batcher.close();
        let (pending, ticket) = submitted(1, 0);
        assert_eq!(batcher.push_together(vec![pending], 9), 0);
        assert_eq!(answer_of(ticket), Some(EngineError::Stopping));
    }

    /// Late claims are answered, younger ones stay, and no turn remains for a group without claims.
    #[test]
    fn late_claims_are_refused_and_young_ones_decided() {
        let batcher = ClaimBatcher::default();
        let mut tickets = Vec::new();
        for (campaign, since_ms) in [(1, 10), (1, 20), (1, 30), (2, 10), (3, 30)] {
            let (pending, ticket) = submitted(campaign, since_ms);
            assert!(batcher.push(pending, 5));
            tickets.push((since_ms, ticket));
        }
        let (one_more, ticket) = submitted(4, 30);
        assert!(!batcher.push(one_more, 5));
        assert_eq!(answer_of(ticket), Some(EngineError::Overloaded));
        assert_eq!(batcher.refuse(10, || EngineError::Stopping), 0);
        assert_eq!(batcher.refuse(21, || EngineError::Stopping), 3);
        for (since_ms, ticket) in tickets {
            let late = (since_ms <= 20).then_some(EngineError::Stopping);
            assert_eq!(answer_of(ticket), late, "submitted at {since_ms}");
        }
        for _ in 0..2 {
            let NextBatch::Decide(batches) = batcher.next() else {
                panic!("two groups have a claim each");
            };
            assert_eq!(sizes(&batches), [1]);
        }
        assert!(matches!(batcher.next(), NextBatch::Idle(_)));
    }
}
