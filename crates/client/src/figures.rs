//! What a node does, second by second. Scope `read:any`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{call::Call, client::Client, error::Error, values::Timestamp};

/// What a node did within a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figure {
    /// Each has one more than the one before.
    pub number: u64,
    /// The second's end.
    pub at: Timestamp,
    /// Claims that were answered.
    pub claims_per_s: f64,
    /// The same by what they ended in, without those that no claim ended in.
    pub outcomes_per_s: BTreeMap<String, f64>,
    /// How long they took, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// The part of the claims that reached whoever decides, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admitted_share: Option<f64>,
    /// Log entries that are not yet in the ledger.
    pub settlement_lag_entries: u64,
    /// Claims and commands that wait for the engine.
    pub queue_length: u64,
    /// Places in the lines that the node decides.
    pub waiting_places: u64,
}

/// How long claims took, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// Nine in ten.
    pub p90: f64,
    /// 99 in 100.
    pub p99: f64,
}

impl Client {
    /// What the node that answers did in the last 300 seconds, the earliest first: all of them, or those behind the one
    /// with this number.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn figures(&self, after: Option<u64>) -> Result<Vec<Figure>, Error> {
        #[derive(Deserialize)]
        struct Figures {
            figures: Vec<Figure>,
        }
        let after = after.unwrap_or(0);
        let all: Figures = self
            .json(Call::get(format!("/v1/figures?after={after}")))
            .await?;
        Ok(all.figures)
    }
}
