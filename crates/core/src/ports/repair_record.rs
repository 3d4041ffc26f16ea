//! Records of repairs in the ledger. They survive the loss of a whole engine.

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
    /// Epoch of the partition after the repair.
    pub epoch: String,
    /// Previous epoch; empty if the engine had lost everything.
    pub follows: String,
    /// Start of the repair, by the engine's clock.
    pub at: Timestamp,
    /// First entry that was lost and that the ledger lacked.
    pub lost_from: Seq,
    /// Last lost entry that a node had observed; below `lost_from` if nothing was lost.
    pub lost_to: Seq,
    /// Lost entries whose content is unknown.
    pub unnamed: u64,
    /// Reason why the partition had halted.
    pub reason: String,
    /// Last entry of the log after the repair; `None` until all withheld units are recorded.
    pub upto: Option<Seq>,
}

/// Range of grant numbers: each `step`-th number from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberRange {
    /// The first one.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// Difference between neighbours; 1 unless the campaign has shards.
    pub step: u32,
}

impl NumberRange {
    /// Iterates over the numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.step.max(1) as usize)
    }

    /// Whether it has a number.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        let step = self.step.max(1);
        (self.first..=self.last).contains(&number) && (number - self.first).is_multiple_of(step)
    }

    /// Ranges of ascending numbers.
    #[must_use]
    pub fn from_numbers(numbers: impl IntoIterator<Item = u32>, step: u32) -> Vec<Self> {
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

/// Units that a repair withholds of a campaign, or of its shard on the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldRecord {
    /// The partition.
    pub partition: PartitionId,
    /// The repair's epoch.
    pub epoch: String,
    /// The campaign.
    pub campaign: CampaignId,
    /// Units that cannot be claimed.
    pub units: u64,
    /// Their amount, if they are shares.
    pub amount_minor: i64,
    /// Numbers of grants whose content is unknown. The number of an order is never reused.
    pub numbers: Vec<NumberRange>,
    /// Time since which the units can be claimed again, or at which they were returned.
    pub released_at: Option<Timestamp>,
}

/// Repair of a campaign's row, which takes over facts of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restatement {
    /// The campaign.
    pub campaign: CampaignId,
    /// The partition of its first shard.
    pub partition: PartitionId,
    /// The settled position at which the row was read, and the last entry of the log that was applied.
    pub settled: (Seq, Seq),
    /// The row before the change.
    pub seen: CampaignFacts,
    /// The row after the change. Kind, money and terms revision do not change.
    pub becomes: CampaignFacts,
    /// Recorded action; its `at` is the time of the change.
    pub action: Action,
}

/// Store of the records of repairs.
///
/// Methods that take a [`RepairAttempt`] return [`LedgerError::StaleRepairAttempt`], and change nothing, unless it is
/// the partition's last one.
#[async_trait]
pub trait RepairStore: Send + Sync + 'static {
    /// Number of the last attempt at a repair of a partition; 0 if there was none. A process reads it before it claims
    /// the repair in the engine. So it cannot claim an attempt after another process has taken over.
    async fn last_attempt(&self, partition: PartitionId) -> Result<u64, LedgerError>;

    /// Makes this attempt the partition's last one. A process does so before it reads the facts that its repair needs.
    /// Returns [`LedgerError::StaleRepairAttempt`] unless the number follows the last attempt's, or this attempt
    /// already is the last one.
    async fn claim_repair(&self, attempt: &RepairAttempt) -> Result<(), LedgerError>;

    /// Records a repair as unfinished, before it changes anything. A recorded repair starts again. If it is finished
    /// and nothing is left to repair, nothing changes.
    ///
    /// Drops the withheld units of the partition's unfinished repairs, because this repair finds them again. Their
    /// records stay unfinished until a repair is finished. So after a further loss, the next repair knows which entries
    /// they miss.
    async fn begin_repair(
        &self,
        repair: &RepairRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Records the units that a repair withholds of a campaign, before it withholds them. Replaces the earlier record
    /// of this repair and campaign. Nothing changes if the repair is finished.
    async fn withhold(
        &self,
        withheld: &WithheldRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Sets the number of granted units of a campaign, or of its shard on the partition, to the sum of its rows. Rows
    /// that were deleted or changed by hand are still included in the old number. A repair calls it before it adds
    /// rows, which settlement counts. Returned units of a closed campaign change by the opposite amount.
    ///
    /// `units` is the sum of the shard's rows when they were read. If it differs from the number, the ledger sums up
    /// the orders again. If it does not, the attempt is not checked.
    async fn recount(
        &self,
        part: PartFacts,
        units: u64,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Restores rows of settled orders and shares that were deleted by hand: the order, its payments, the share with
    /// its user, and missing postings. Existing rows stay, and so do the counts: [`recount`](Self::recount) follows.
    /// If the accounts' balances equal the sums of their postings, the restored postings change them. Otherwise the
    /// balances still include the money, and stay.
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
    /// did so. Nothing changes if the row differs from the row that was read, or if the partition's position is outside
    /// the range.
    async fn restate(&self, restatement: &Restatement) -> Result<bool, LedgerError>;

    /// Records that the repair has withheld and recorded all units, and that the log ends at `upto`. It also ends other
    /// unfinished repairs of the partition, at their `lost_to`.
    async fn finish_repair(
        &self,
        epoch: &str,
        upto: Seq,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError>;

    /// Records that all withheld units of a partition can be claimed again. When a campaign closes, settlement records
    /// its withheld units as returned.
    async fn release_withheld(&self, partition: PartitionId) -> Result<(), LedgerError>;

    /// The last `limit` repairs of a partition, newest first.
    async fn repairs(
        &self,
        partition: PartitionId,
        limit: u32,
    ) -> Result<Vec<RepairRecord>, LedgerError>;

    /// Units that repairs have withheld in a partition, including released ones.
    async fn withheld(&self, partition: PartitionId) -> Result<Vec<WithheldRecord>, LedgerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges_and_come_back() {
        let check = |numbers: &[u32], step: u32, ranges: usize| {
            let made = NumberRange::from_numbers(numbers.iter().copied(), step);
            assert_eq!(made.len(), ranges, "{made:?}");
            let back: Vec<u32> = made.into_iter().flat_map(NumberRange::iter).collect();
            assert_eq!(back, numbers);
            let ranges = NumberRange::from_numbers(numbers.iter().copied(), step);
            let is_in = |number: &u32| ranges.iter().any(|range| range.contains(*number));
            assert!(numbers.iter().all(is_in));
            assert!((0..20).all(|number| is_in(&number) == numbers.contains(&number)));
        };
        check(&[], 1, 0);
        check(&[7], 3, 1);
        check(&[1, 2, 3, 5, 6], 1, 2);
        check(&[2, 5, 8, 14], 3, 2);
        check(&[u32::MAX - 1, u32::MAX], 1, 1);
    }
}
