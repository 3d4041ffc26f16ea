//! Entries in quarantine, as rows of `set_aside`.

use super::{Contradiction, Value};
use crate::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::QuarantinedEntry,
    time::Timestamp,
};

/// How much of a reason is kept, in characters.
const REASON_MAX: usize = 2_000;

/// An entry that goes into quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineRow {
    /// Its place in the log.
    pub seq: i64,
    /// Its campaign's id, which the ledger may not have.
    pub campaign: String,
    /// The entry as text.
    pub entry: String,
    /// Why it is there.
    pub reason: String,
    /// The entry that it waits for; none if it was refused itself.
    pub waits_for: Option<i64>,
    /// When, in milliseconds.
    pub at: i64,
}

impl QuarantineRow {
    /// An entry that the ledger refused.
    pub fn refused(entry: &Entry, reason: &str, now: Timestamp) -> Self {
        Self {
            seq: entry.seq as i64,
            campaign: entry.campaign.to_string(),
            entry: entry.to_text(),
            // What a database says may be long, and have characters that another one does not take.
            reason: reason
                .chars()
                .filter(|character| !character.is_control())
                .take(REASON_MAX)
                .collect(),
            waits_for: None,
            at: now.as_millis(),
        }
    }

    /// An entry that waits for another one.
    pub fn waiting(entry: &Entry, before: Seq) -> Self {
        Self {
            waits_for: Some(before as i64),
            ..Self::refused(entry, &format!("it waits for entry {before}"), entry.at)
        }
    }

    /// The columns `partition`, `seq`, `campaign`, `entry`, `reason`, `waits_for` and `at`.
    pub fn columns(&self, partition: PartitionId) -> [Value<'_>; 7] {
        [
            i64::from(partition.0).into(),
            self.seq.into(),
            self.campaign.as_str().into(),
            self.entry.as_str().into(),
            self.reason.as_str().into(),
            self.waits_for.into(),
            self.at.into(),
        ]
    }

    /// The row of a partition as the port gives it.
    ///
    /// # Errors
    /// When a column holds what was never written.
    pub fn listed(self, partition: i64) -> Result<QuarantinedEntry, Contradiction> {
        let partition = u16::try_from(partition);
        Ok(QuarantinedEntry {
            partition: PartitionId(partition.map_err(|_| bad(self.seq, "has a bad partition"))?),
            entry: entry_of(self.seq, &self.entry)?,
            reason: self.reason,
            waits_for: self.waits_for.map(|seq| seq as Seq),
            at: Timestamp::from_millis(self.at),
        })
    }
}

/// What the text of a campaign's grant with this number is `LIKE`.
#[must_use]
pub fn like_grant(campaign: CampaignId, number: u32) -> String {
    format!("% {campaign} granted {number} %")
}

/// The entry that was kept as text.
///
/// # Errors
/// When it is not the entry of that place.
pub fn entry_of(seq: i64, text: &str) -> Result<Entry, Contradiction> {
    let entry = Entry::from_text(text).ok();
    let entry = entry.filter(|entry| entry.seq as i64 == seq);
    entry.ok_or_else(|| bad(seq, "is no entry"))
}

fn bad(seq: i64, what: &str) -> Contradiction {
    Contradiction::new(format!("entry {seq}, which is in quarantine, {what}"))
}
