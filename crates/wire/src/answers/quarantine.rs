//! Bodies of answers about the quarantine.

use crate::{
    bodies::bodies,
    ids::{CampaignId, Id},
    values::Timestamp,
};

bodies! {
    /// An entry in quarantine.
    QuarantinedEntry {
        /// Its partition and position, such as `0-17`.
        entry: Id,
        /// Its partition.
        partition: u16,
        /// Its position in the partition's log.
        seq: u64,
        /// The campaign of the entry.
        campaign: CampaignId,
        /// Its text in the log.
        event: String,
        /// Time of the refusal; for a waiting entry the time of the decision.
        at: Timestamp,
        /// Reason why it was not settled.
        reason: String,
        /// Position of the entry that it waits for; absent if it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        waits_for: Option<u64>,
        /// Whether the entry is a grant that is being discarded.
        discarding: bool,
    }
    /// Result of settling an entry again.
    Redriven {
        /// The entry.
        entry: Id,
        /// Whether it is settled now.
        settled: bool,
    }
}
