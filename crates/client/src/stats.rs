//! Statistics of a node, one record per second. Scope `read:any`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{call::RepeatableCall, client::Client, error::Error, values::Timestamp};

/// Statistics of one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// Number of the record; consecutive.
    pub number: u64,
    /// End of the second.
    pub at: Timestamp,
    /// Answered claims.
    pub claims_per_s: f64,
    /// Answered claims by outcome. Outcomes with no claim are absent.
    pub outcomes_per_s: BTreeMap<String, f64>,
    /// Latency of claims; `None` if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<ClaimLatency>,
    /// Fraction of claims that passed the gate and reached the engine; `None` if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate_pass_ratio: Option<f64>,
    /// Log entries that are not in the ledger yet.
    pub settlement_lag_entries: u64,
    /// Claims and commands that wait for the engine.
    pub queue_length: u64,
    /// Queue entries in the queues that the node decides.
    pub queue_entries: u64,
}

/// Latency of claims, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClaimLatency {
    /// 50th percentile.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Client {
    /// Statistics of the last 300 seconds of the node that answers, oldest first. `after` omits records up to that
    /// number.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stats(&self, after: Option<u64>) -> Result<Vec<Stats>, Error> {
        #[derive(Deserialize)]
        struct StatsList {
            stats: Vec<Stats>,
        }
        let after = after.unwrap_or(0);
        let all: StatsList = self
            .json(RepeatableCall::get(format!("/v1/stats?after={after}")))
            .await?;
        Ok(all.stats)
    }
}
