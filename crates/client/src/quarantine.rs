//! Entries that the ledger refused, and those that wait for them. Scope `admin`.

use futures_util::Stream;

use crate::{
    bodies::bodies,
    call::Call,
    client::Client,
    error::Error,
    ids::{CampaignId, Id, encoded},
    values::Timestamp,
};

const ALL: &str = "/v1/quarantine";

bodies! {
    /// An entry in quarantine.
    QuarantinedEntry {
        /// Its partition and its place, such as `0-17`.
        entry: Id,
        /// Its partition.
        partition: u16,
        /// Its place in the partition's log.
        seq: u64,
        /// The campaign that it is about.
        campaign: CampaignId,
        /// What it says, as it stands in the log.
        event: String,
        /// When it was refused, or when it was decided if it waits.
        at: Timestamp,
        /// Why it could not be settled.
        reason: String,
        /// The place of the entry that it waits for, if it was not refused itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        waits_for: Option<u64>,
        /// Whether it is a grant that is being discarded.
        discarding: bool,
    }
    /// What came of trying an entry again.
    Redriven {
        /// The entry.
        entry: Id,
        /// Whether it is settled now.
        settled: bool,
    }
}

impl Client {
    /// What is in quarantine, by partition and place, of all partitions or of one, page after page as the stream is
    /// read.
    pub fn quarantine(
        &self,
        partition: Option<u16>,
    ) -> impl Stream<Item = Result<QuarantinedEntry, Error>> + Send + use<> {
        let query = partition.map_or_else(String::new, |number| format!("partition={number}"));
        self.pages(ALL, &query, "entries")
    }

    /// An entry in quarantine.
    ///
    /// # Errors
    /// `not-quarantined` where it is settled, or there is none; see [`Error`].
    pub async fn quarantined(&self, entry: &Id) -> Result<QuarantinedEntry, Error> {
        self.json(Call::get(path(entry, ""))).await
    }

    /// Settles an entry, once the cause is repaired.
    ///
    /// # Errors
    /// `still-refused`; `not-quarantined`, also where an attempt without an answer has settled it; see [`Error`].
    pub async fn redrive_entry(&self, entry: &Id) -> Result<Redriven, Error> {
        self.json(Call::post(path(entry, "/redrive")).changing())
            .await
    }
}

fn path(entry: &Id, rest: &str) -> String {
    format!("{ALL}/{}{rest}", encoded(entry.as_str()))
}
