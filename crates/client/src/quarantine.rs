//! Quarantine: entries that the ledger refused, and entries that wait for them. Scope `admin`.

use futures_util::Stream;

use crate::{
    bodies::bodies,
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{CampaignId, Id, encoded},
    values::Timestamp,
};

const ALL: &str = "/v1/quarantine";

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
        /// Position of the entry that it waits for; `None` if it was refused.
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

impl Client {
    /// Entries in quarantine of all partitions or of one, ordered by partition and position. The stream loads one page
    /// after another as it is read.
    pub fn quarantine(
        &self,
        partition: Option<u16>,
    ) -> impl Stream<Item = Result<QuarantinedEntry, Error>> + Send + use<> {
        let query = partition.map_or_else(String::new, |number| format!("partition={number}"));
        self.pages(ALL, &query, "entries")
    }

    /// Entry in quarantine.
    ///
    /// # Errors
    /// `not-quarantined` if it is settled or does not exist; see [`Error`].
    pub async fn quarantined(&self, entry: &Id) -> Result<QuarantinedEntry, Error> {
        self.json(RepeatableCall::get(path(entry, ""))).await
    }

    /// Settles an entry again, after its cause is repaired.
    ///
    /// # Errors
    /// `still-refused`; `not-quarantined`, also if an earlier attempt without an answer has settled it; see [`Error`].
    pub async fn redrive_entry(&self, entry: &Id) -> Result<Redriven, Error> {
        self.json(RepeatableCall::post(path(entry, "/redrive")).changing())
            .await
    }
}

fn path(entry: &Id, rest: &str) -> String {
    format!("{ALL}/{}{rest}", encoded(entry.as_str()))
}
