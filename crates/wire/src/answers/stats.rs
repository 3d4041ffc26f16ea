//! Bodies of answers about the statistics of a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::values::Timestamp;

/// Statistics of one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "service"), non_exhaustive)]
pub struct Stats {
    /// Number of the record; consecutive.
    pub number: u64,
    /// End of the second.
    pub at: Timestamp,
    /// Answered claims.
    pub claims_per_s: f64,
    /// Answered claims by outcome. Outcomes with no claim are absent.
    pub outcomes_per_s: BTreeMap<String, f64>,
    /// Latency of claims; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<ClaimLatency>,
    /// Fraction of claims that passed the gate and reached the engine; absent if there were none.
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
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "service"), non_exhaustive)]
pub struct ClaimLatency {
    /// 50th percentile.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}
