//! Audits of a node. Scope `admin`.

use serde::{Deserialize, Serialize};

use crate::{
    bodies::bodies,
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{Id, encoded},
    values::Timestamp,
    words::AuditStatus,
};

const ALL: &str = "/v1/audits";

/// Audit of the node that was asked, with its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeAudit {
    /// Its id.
    pub id: Id,
    /// Its status.
    pub status: AuditStatus,
    /// The user who requested it.
    pub actor: String,
    /// Time of its start.
    pub started_at: Timestamp,
    /// Time of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Error of a failed audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its report; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<AuditReport>,
}

bodies! {
    /// Findings of an audit.
    AuditReport {
        /// The audited data.
        subject: String,
        /// Unsettled entries in the engine's log; `None` if no engine was audited.
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
        /// Whether the check found no breach; `None` if it does not apply here.
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
    }
}

impl Client {
    /// Starts an audit of all data of the node that answers, beside its engine. If an audit is running already, returns
    /// that one.
    ///
    /// # Errors
    /// `not-for-engine` if that node cannot audit anything; see [`Error`].
    pub async fn start_audit(&self) -> Result<NodeAudit, Error> {
        self.json(RepeatableCall::post(ALL)).await
    }

    /// Last audits of the node that answers, newest first, without reports.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn audits(&self) -> Result<Vec<NodeAudit>, Error> {
        #[derive(Deserialize)]
        struct AuditList {
            audits: Vec<NodeAudit>,
        }
        let all: AuditList = self.json(RepeatableCall::get(ALL)).await?;
        Ok(all.audits)
    }

    /// Audit of the node that answers. Other nodes do not know it.
    ///
    /// # Errors
    /// `not-found`, also after seven more audits; see [`Error`].
    pub async fn audit(&self, id: &Id) -> Result<NodeAudit, Error> {
        let path = format!("{ALL}/{}", encoded(id.as_str()));
        self.json(RepeatableCall::get(path)).await
    }
}
