//! The `Engine` port of the embedded engine.

use qiang_core::{
    book::{Book, Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::{PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, GateAnswers, PendingReply, ProbeResult, ReplySender},
};

use crate::{Embedded, deferred_read::DeferredRead, task::WriterTask};

impl Embedded {
    fn enqueue<T>(&self, task: impl FnOnce(ReplySender<T>) -> WriterTask) -> PendingReply<T> {
        let (answer, ticket) = PendingReply::new();
        self.push(task(answer));
        ticket
    }

    /// Queues a task, or refuses it at once.
    pub(crate) fn push(&self, task: WriterTask) {
        if self.shared.under_way.hangs_for(self.commit_hangs_after) {
            return self.refuse_while_it_hangs(task);
        }
        let mut task = task;
        loop {
            let queue = &self.shared.queue;
            let pushed = match task {
                WriterTask::Read(_) => queue.push_aside(task),
                _ => queue.push(task),
            };
            let Err((error, back)) = pushed else { return };
            match self.shared.refusal(error) {
                Some(refusal) => return back.refuse(&refusal),
                // The queue took no tasks, and takes them again by now.
                None => task = back,
            }
        }
    }

    /// Refuses a task and all waiting tasks while a commit hangs, because the disk may never answer. Reloaded campaigns
    /// stay queued, because the writer waits for them.
    fn refuse_while_it_hangs(&self, task: WriterTask) {
        let after = self.commit_hangs_after.as_secs_f32();
        let reason = format!("a commit has been under way for more than {after} s");
        let unavailable = EngineError::Unavailable { reason };
        let is_awaited = |task: &mut WriterTask| !matches!(task, WriterTask::Recalled(..));
        for waiting in self.shared.queue.extract(is_awaited) {
            waiting.refuse(&unavailable);
        }
        task.refuse(&unavailable);
    }

    /// Position of the last committed entry.
    fn committed(&self) -> Seq {
        self.shared
            .committed
            .load(std::sync::atomic::Ordering::Acquire)
    }

    /// Reads a campaign in the book, or reloads it first if it was evicted. Refuses if granting has stopped.
    ///
    /// If the book is ahead of the file, the writer answers after its commit: a change that it rolls back is never
    /// visible.
    fn read<T>(
        &self,
        campaign: CampaignId,
        read: impl FnOnce(&Book) -> T,
        errand: impl FnOnce(ReplySender<T>) -> DeferredRead,
    ) -> PendingReply<T> {
        if let Some(reason) = self.shared.stopped.read().clone() {
            return PendingReply::ready(Err(EngineError::Unavailable { reason }));
        }
        let book = self.shared.book.read();
        if !book.has(campaign) {
            drop(book);
            return self.recall(errand);
        }
        if book.is_committed(campaign, self.committed()) {
            return PendingReply::ready(Ok(read(&book)));
        }
        drop(book);
        self.enqueue(|answer| WriterTask::Read(errand(answer)))
    }

    fn recall<T>(&self, errand: impl FnOnce(ReplySender<T>) -> DeferredRead) -> PendingReply<T> {
        let (answer, ticket) = PendingReply::new();
        self.shared.send_for(errand(answer));
        ticket
    }
}

impl Engine for Embedded {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.enqueue(|answer| WriterTask::Claim(claim, answer))
    }

    fn claim_in_order(&self, claims: Vec<Claim>) -> Vec<PendingReply<Claimed>> {
        let asked = claims.into_iter().map(|claim| {
            let (answer, ticket) = PendingReply::new();
            ((claim, answer), ticket)
        });
        let (claims, tickets): (Vec<_>, Vec<_>) = asked.unzip();
        if !claims.is_empty() {
            self.push(WriterTask::Claims(claims));
        }
        tickets
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        self.enqueue(|answer| WriterTask::Command(command, answer))
    }

    fn partition_for(&self, _: &Claim) -> Option<PartitionId> {
        Some(crate::PARTITION)
    }

    /// Reads the book without waiting. If the writer holds the lock, returns `None`: the claim then goes to the writer.
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        let now = self.clock.now();
        let book = self.shared.book.try_read()?;
        let is_here = book.has(claim.campaign);
        is_here
            .then(|| book.try_gate_outcome(now, claim, self.committed()))
            .flatten()
    }

    fn gate_outcome(&self, claim: &Claim) -> PendingReply<Option<Outcome>> {
        let now = self.clock.now();
        let read = |book: &Book| book.try_gate_outcome(now, claim, self.committed());
        self.read(claim.campaign, read, |answer| {
            DeferredRead::Look(claim.clone(), answer)
        })
    }

    fn has_opened(&self, campaign: CampaignId) -> bool {
        let is_stopped = self.shared.stopped.read().is_some();
        !is_stopped
            && self
                .shared
                .book
                .read()
                .has_opened(campaign, self.committed())
    }

    fn gate_answers(&self) -> GateAnswers {
        self.shared.gate_answers.read()
    }

    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        let now = self.clock.now();
        let read = |book: &Book| book.tally(now, campaign);
        self.read(campaign, read, |answer| {
            DeferredRead::Tally(campaign, answer)
        })
    }

    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        let read = |book: &Book| book.order(order);
        self.read(order.campaign, read, |answer| {
            DeferredRead::Order(order, answer)
        })
    }

    /// One probe covers all partitions.
    fn probe(&self, _: PartitionId) -> PendingReply<ProbeResult> {
        self.enqueue(WriterTask::Probe)
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Memory, AckLevel::Fsync, AckLevel::Ledger]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::{EngineShared, queue::PushError};

    const ROUNDS: usize = 20_000;

    /// A caller that reads that granting continues may send tasks at once. A caller whose task came just before learns
    /// the reason, or sends it again.
    #[test]
    fn tasks_are_queued_once_granting_continues() {
        let (shared, turn) = (EngineShared::new(Book::new()), Barrier::new(2));
        let task = || WriterTask::Probe(PendingReply::new().0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    turn.wait();
                    shared.resume(Book::new());
                    turn.wait();
                }
            });
            let mut refused = 0;
            for round in 0..ROUNDS {
                shared.stop("full");
                turn.wait();
                if round % 2 == 0 {
                    while shared.stopped.read().is_some() {
                        std::hint::spin_loop();
                    }
                    refused += u32::from(shared.queue.push(task()).is_err());
                } else if let Err((error, _)) = shared.queue.push(task())
                    && shared.refusal(error).is_none()
                {
                    assert_eq!(error, PushError::Halted);
                    refused += u32::from(shared.queue.push(task()).is_err());
                }
                turn.wait();
            }
            assert_eq!(refused, 0, "of {ROUNDS}");
        });
    }
}
