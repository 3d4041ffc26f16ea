//! Quarantine: entries that the ledger refused, and entries that wait for them. Scope `admin`.

use futures_util::Stream;

use crate::{
    answers::{QuarantinedEntry, Redriven},
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::Id,
    paths::encoded,
};

const ALL: &str = "/v1/quarantine";

impl Client {
    /// Entries in quarantine of all partitions or of one, ordered by partition and position. The stream loads one page
    /// after another as it is read.
    pub fn quarantine(
        &self,
        partition: Option<u16>,
    ) -> impl Stream<Item = Result<QuarantinedEntry, Error>> + Send + use<> {
        let query = partition.map_or_else(String::new, |number| format!("partition={number}"));
        self.pages(ALL, &query)
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
