//! The `Engine` port.

use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Answer, Claimed, Engine, EngineError, Ticket},
};

use crate::{Embedded, task::Task};

impl Embedded {
    fn enqueue<T>(&self, task: impl FnOnce(Answer<T>) -> Task) -> Ticket<T> {
        let (answer, ticket) = Ticket::new();
        self.push(task(answer));
        ticket
    }

    /// Queues a task, or refuses it at once.
    pub(crate) fn push(&self, task: Task) {
        if let Err((error, task)) = self.shared.queue.push(task) {
            task.refuse(&error.into());
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
        self.enqueue(|answer| Task::Claim(claim, answer))
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        self.enqueue(|answer| Task::Command(command, answer))
    }

    /// Reads the book, unless the writer is changing it: then the claim goes to the writer.
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
        self.enqueue(Task::Probe)
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Memory, AckLevel::Fsync, AckLevel::Ledger]
    }
}
