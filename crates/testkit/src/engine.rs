//! Engine in memory: a book with a lock. Tests of a ledger use it instead of a real engine.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{
        Claimed, Clock, Engine, EngineError, EventLog, LedgerError, PendingReply, ProbeResult,
    },
};

use crate::{ManualClock, spread::SpreadBook};

/// Book that answers at once and has readable logs. Clones share the same book.
#[derive(Debug, Clone)]
pub struct BookEngine {
    book: Arc<Mutex<SpreadBook>>,
    clock: Arc<ManualClock>,
}

impl BookEngine {
    /// Creates an empty engine that spreads every campaign over these partitions.
    #[must_use]
    pub fn new(clock: Arc<ManualClock>, partitions: Vec<PartitionId>) -> Self {
        Self {
            book: Arc::new(Mutex::new(SpreadBook::new(partitions))),
            clock,
        }
    }

    fn book(&self) -> MutexGuard<'_, SpreadBook> {
        self.book.lock().expect("a book does not panic")
    }
}

impl Engine for BookEngine {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        let ack = AckLevel::Memory;
        let outcome = self.book().claim(self.clock.now(), &claim);
        PendingReply::ready(match outcome {
            Ok(outcome) => Ok(Claimed { outcome, ack }),
            Err(refusal) => Err(EngineError::Refused(refusal)),
        })
    }

    fn submit(&self, command: Command) -> PendingReply<Reply> {
        let reply = self.book().apply(self.clock.now(), &command);
        PendingReply::ready(reply.map_err(EngineError::from))
    }

    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.book().peek(self.clock.now(), claim)
    }

    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        PendingReply::ready(Ok(self.book().tally(self.clock.now(), campaign)))
    }

    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        PendingReply::ready(Ok(self.book().order(order)))
    }

    fn probe(&self, _: PartitionId) -> PendingReply<ProbeResult> {
        PendingReply::ready(Ok(ProbeResult::Ready))
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Memory]
    }
}

#[async_trait]
impl EventLog for BookEngine {
    fn partitions(&self) -> Vec<PartitionId> {
        self.book().partitions().to_vec()
    }

    async fn epoch(&self, _partition: PartitionId) -> Result<String, LedgerError> {
        Ok(String::new())
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.book().log(partition).len() as Seq)
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let book = self.book();
        let entries = book.log(partition).iter().skip(after as usize);
        Ok(entries.take(limit).cloned().collect())
    }
}
