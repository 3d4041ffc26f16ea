//! What a ledger keeps of repairs: it outlives an engine that is lost as a whole.

use async_trait::async_trait;

use super::{Action, LedgerError, RepairAttempt};
use crate::{
    event::{PartitionId, Seq},
    id::CampaignId,
    reconcile::{CampaignFacts, DeletedOrders, PartFacts},
    time::Timestamp,
};

/// A repair of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairRecord {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch under which the partition goes on.
    pub epoch: String,
    /// The epoch before; empty where the engine had lost everything.
    pub follows: String,
    /// When the repair began, by the engine's clock.
    pub at: Timestamp,
    /// The first entry that was lost, and that the ledger did not have.
    pub lost_from: Seq,
    /// The last one that somebody had observed; below the first one where nothing was lost.
    pub lost_to: Seq,
    /// Entries among them that nobody can name.
    pub unnamed: u64,
    /// Why the partition had halted.
    pub reason: String,
    /// The last entry of the log after the repair; none until all that it withholds is written down.
    pub upto: Option<Seq>,
}

/// Some numbers of grants: each `step`-th from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberRange {
    /// The first one.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// From one to the next; 1 unless the campaign is spread.
    pub step: u32,
}

impl NumberRange {
    /// The numbers themselves.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.step.max(1) as usize)
    }

    /// Numbers that ascend as ranges.
    #[must_use]
    pub fn of(numbers: impl IntoIterator<Item = u32>, step: u32) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some(range) if range.last.checked_add(step) == Some(number) => range.last = number,
                _ => ranges.push(Self {
                    first: number,
                    last: number,
                    step,
                }),
            }
        }
        ranges
    }
}

/// What a repair withholds of a campaign, or of the part of it that the partition has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldRecord {
    /// The partition.
    pub partition: PartitionId,
    /// The repair's epoch.
    pub epoch: String,
    /// The campaign.
    pub campaign: CampaignId,
    /// Units that are not handed out.
    pub units: u64,
    /// What they are worth, where they are shares.
    pub amount_minor: i64,
    /// Numbers of grants that nobody can name: of an order, they are never given again.
    pub numbers: Vec<NumberRange>,
    /// Since when the units can be had again, or have been returned.
    pub released_at: Option<Timestamp>,
}

/// A repair of a campaign's row: the ledger takes over facts of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restatement {
    /// The campaign.
    pub campaign: CampaignId,
    /// The partition of its first part.
    pub partition: PartitionId,
    /// The position at which the row was read, and the last entry of the log that was applied.
    pub settled: (Seq, Seq),
    /// The row as it was read.
    pub seen: CampaignFacts,
    /// The row as it becomes. Kind, money and revision of the terms stay.
    pub becomes: CampaignFacts,
    /// Its record: `at` is when the row changes.
    pub action: Action,
}

/// The ledger's record of repairs.
///
/// Methods that take a [`RepairAttempt`] return [`LedgerError::StaleRepairAttempt`], and change nothing, unless it is
/// the partition's last one.
#[async_trait]
pub trait RepairStore: Send + Sync + 'static {
    /// Number of the last attempt at a repair of a partition; 0 if there was none. A process reads it before it takes
    /// the repair in the engine, so that it cannot claim an attempt after another process has taken over.
    async fn last_attempt(&self, partition: PartitionId) -> Result<u64, LedgerError>;

    /// Makes this attempt the partition's last one. A process does so before it reads what it repairs from. Returns
    /// [`LedgerError::StaleRepairAttempt`] unless the number follows the last attempt's, or this is the last attempt
    /// already.
    async fn claim_repair(&self, attempt: &RepairAttempt) -> Result<(), LedgerError>;

    /// Records a repair as unfinished, before it changes anything. A repair that was recorded before begins again. If
    /// it is finished and has no more to repair, nothing changes.
    /// What unfinished repairs of the partition withhold is dropped: this one finds it again. Their records stay
    /// unfinished until a repair is finished, so that a further loss in between knows which entries they miss.
    async fn begin_repair(
        &self,
        repair: &RepairRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Writes down what a repair withholds of a campaign, before it does so, in place of what was written down for
    /// this repair and campaign. Nothing changes if the repair is finished.
    async fn withhold(
        &self,
        withheld: &WithheldRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Sets the count of units that users have of a campaign, or of the part that the partition has of it, to what the
    /// rows say: rows that were deleted or changed by hand are still counted as they were. A repair does so before it
    /// adds rows, which are counted when they are settled. Units returned by a closed campaign change by the opposite
    /// amount. `units` is what users had of the part when its rows were read; orders are counted anew by the ledger
    /// where that differs. Counts that agree already need no attempt.
    async fn recount(
        &self,
        part: PartFacts,
        units: u64,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Puts back the rows of orders that were settled and deleted by hand: the order, its payments, and postings that
    /// the journal lacks. Rows that are there stay. Counts stay as well: [`recount`](Self::recount) follows. An account
    /// moves by a posting if its balance is what its postings say; otherwise its balance still has the money.
    ///
    /// # Errors
    /// [`LedgerError::StaleRepairAttempt`] if another attempt was claimed since.
    async fn restore_orders(
        &self,
        deleted: &DeletedOrders,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Sets a campaign's row, and its terms of the same revision, to other facts, and records the action, in one
    /// transaction. The campaign's time of change becomes the action's unless it is later already. Returns whether it
    /// was done: nothing changes if the row is not as it was seen, or if the partition's position is not in the range.
    async fn restate(&self, restatement: &Restatement) -> Result<bool, LedgerError>;

    /// Records that everything which a repair withholds is recorded and done: the log ends at `upto`. Other unfinished
    /// repairs of the partition end with it, at their `lost_to`.
    async fn finish_repair(
        &self,
        epoch: &str,
        upto: Seq,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Writes down that everything which is withheld in a partition can be had again. Where a campaign closes,
    /// settlement writes down that what was withheld of it is returned.
    async fn release_withheld(&self, partition: PartitionId) -> Result<(), LedgerError>;

    /// The last `limit` repairs of a partition, newest first.
    async fn repairs(
        &self,
        partition: PartitionId,
        limit: u32,
    ) -> Result<Vec<RepairRecord>, LedgerError>;

    /// What repairs have withheld in a partition, whether they still do or not.
    async fn withheld(&self, partition: PartitionId) -> Result<Vec<WithheldRecord>, LedgerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges_and_come_back() {
        let check = |numbers: &[u32], step: u32, ranges: usize| {
            let made = NumberRange::of(numbers.iter().copied(), step);
            assert_eq!(made.len(), ranges, "{made:?}");
            let back: Vec<u32> = made.into_iter().flat_map(NumberRange::iter).collect();
            assert_eq!(back, numbers);
        };
        check(&[], 1, 0);
        check(&[7], 3, 1);
        check(&[1, 2, 3, 5, 6], 1, 2);
        check(&[2, 5, 8, 14], 3, 2);
        check(&[u32::MAX - 1, u32::MAX], 1, 1);
    }
}
