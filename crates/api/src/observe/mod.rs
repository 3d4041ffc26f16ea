//! Data for operators: metrics, traces, readiness, gauges.

pub(crate) mod audit_runs;
pub(crate) mod claim_log;
pub(crate) mod gauges;
pub(crate) mod last_minutes;
pub(crate) mod metrics;
pub(crate) mod readiness;
pub(crate) mod traces;
