//! The `Engine` port.

use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Answer, Claimed, Engine, EngineError, Ticket},
};

use crate::{Embedded, queue::Full, task::Task};

impl Embedded {
    pub(crate) fn enqueue<T>(
        &self,
        ticket: (Answer<T>, Ticket<T>),
        task: impl FnOnce(Answer<T>) -> Task,
    ) -> Ticket<T> {
        let (answer, ticket) = ticket;
        self.push(task(answer));
        ticket
    }

    /// Queues a task, or answers it at once that it cannot be.
    pub(crate) fn push(&self, task: Task) {
        if let Err((full, task)) = self.shared.queue.push(task) {
            task.refuse(&match full {
                Full::Overloaded => EngineError::Overloaded,
                Full::Closed => EngineError::Stopping,
            });
        }
    }

    fn check_granting(&self) -> Result<(), EngineError> {
        match &*self.shared.stopped.read() {
            Some(reason) => Err(EngineError::Unavailable {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }
}

impl Engine for Embedded {
    fn claim(&self, claim: Claim) -> Ticket<Claimed> {
        self.enqueue(Ticket::new(), |answer| Task::Claim(claim, answer))
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        self.enqueue(Ticket::new(), |answer| Task::Command(command, answer))
    }

    /// Looks into the book, unless the writer is at it: then the claim may as well go to the writer.
    fn peek(&self, claim: &Claim) -> Option<Outcome> {
        let now = self.clock.now();
        let book = self.shared.book.try_read()?;
        let committed = self
            .shared
            .committed
            .load(std::sync::atomic::Ordering::Acquire);
        book.peek(now, claim, committed)
    }

    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        let now = self.clock.now();
        Ticket::ready(
            self.check_granting()
                .map(|()| self.shared.book.read().tally(now, campaign)),
        )
    }

    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>> {
        Ticket::ready(
            self.check_granting()
                .map(|()| self.shared.book.read().order(order)),
        )
    }

    fn probe(&self) -> Ticket<()> {
        self.enqueue(Ticket::new(), Task::Probe)
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Memory, AckLevel::Fsync, AckLevel::Ledger]
    }
}
