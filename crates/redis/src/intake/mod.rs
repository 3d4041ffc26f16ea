//! Claims before a decision: the gate, admission and batches. Answers that the ledger does not have yet.

pub(crate) mod admission;
pub(crate) mod admission_permits;
pub(crate) mod batcher;
pub(crate) mod gate;
pub(crate) mod opening_queue;
pub(crate) mod reload_queue;
pub(crate) mod settled_reads;
pub(crate) mod unconfirmed_grants;
pub(crate) mod unsettled_answers;
