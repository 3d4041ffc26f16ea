//! Bodies of answers about the audits.

use crate::{bodies::bodies, ids::Id, values::Timestamp, words::AuditStatus};

bodies! {
    /// Audit of the node that was asked, with its status.
    #[cfg_attr(feature = "service", schema(as = Audit))]
    NodeAudit {
        /// Its id.
        id: Id,
        /// Its status.
        status: AuditStatus,
        /// The user who requested it.
        actor: String,
        /// Time of its start.
        started_at: Timestamp,
        /// Time of its end.
        #[serde(skip_serializing_if = "Option::is_none")]
        ended_at: Option<Timestamp>,
        /// Error of a failed audit.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Its report; absent in lists.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<AuditReport>,
    }
    /// Findings of an audit.
    AuditReport {
        /// The audited data.
        subject: String,
        /// Unsettled entries in the engine's log; absent if no engine was audited.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_flight: Option<u64>,
        /// Entries that the ledger refused.
        refused: u64,
        /// Entries that wait for refused ones.
        waiting: u64,
        /// All checks, in order of execution.
        checks: Vec<AuditCheck>,
    }
    /// Result of one check.
    AuditCheck {
        /// Name of the check.
        name: String,
        /// Whether the check found no breach; absent if it does not apply here.
        #[serde(skip_serializing_if = "Option::is_none")]
        ok: Option<bool>,
        /// Reason why the check does not apply.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_applicable: Option<String>,
        /// Number of rows examined.
        examined: u64,
        /// The first breaches, one line each.
        offending: Vec<String>,
        /// Total number of breaches.
        offending_total: u64,
        /// Remedy for operators; absent unless there are breaches.
        #[serde(skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    }
}
