//! Audits of a node. Scope `admin`.

use serde::{Deserialize, Serialize};

use crate::{
    bodies::bodies,
    call::Call,
    client::Client,
    error::Error,
    ids::{Id, encoded},
    values::Timestamp,
    words::AuditStatus,
};

const ALL: &str = "/v1/audits";

/// An audit of the node that was asked, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// Its id.
    pub id: Id,
    /// How it stands.
    pub status: AuditStatus,
    /// Who asked for it.
    pub actor: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it has found; not in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<AuditReport>,
}

bodies! {
    /// What an audit has found.
    AuditReport {
        /// What was audited.
        subject: String,
        /// Entries in the engine's log that are not settled yet, where an engine was looked at.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_flight: Option<u64>,
        /// Entries that the ledger refused.
        refused: u64,
        /// Entries that wait for these.
        waiting: u64,
        /// All checks, in the order in which they were made.
        checks: Vec<AuditCheck>,
    }
    /// What one check has found.
    AuditCheck {
        /// What it checks.
        name: String,
        /// Whether nothing offends; none for a check that cannot be made here.
        #[serde(skip_serializing_if = "Option::is_none")]
        ok: Option<bool>,
        /// Why it cannot be made.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_applicable: Option<String>,
        /// How many rows it looked at.
        examined: u64,
        /// What offends, a line each: the first of them.
        offending: Vec<String>,
        /// How many offend.
        offending_total: u64,
    }
}

impl Client {
    /// Has the node that answers audit everything that it works on, beside its engine. While one audit runs, it is the
    /// answer.
    ///
    /// # Errors
    /// `not-for-engine` where nothing can be audited from there; see [`Error`].
    pub async fn start_audit(&self) -> Result<Audit, Error> {
        self.json(Call::post(ALL)).await
    }

    /// The last audits of the node that answers, newest first, without what they have found.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn audits(&self) -> Result<Vec<Audit>, Error> {
        #[derive(Deserialize)]
        struct Audits {
            audits: Vec<Audit>,
        }
        let all: Audits = self.json(Call::get(ALL)).await?;
        Ok(all.audits)
    }

    /// An audit of the node that answers: other nodes do not know of it.
    ///
    /// # Errors
    /// `not-found`, also after seven more audits; see [`Error`].
    pub async fn audit(&self, id: &Id) -> Result<Audit, Error> {
        let path = format!("{ALL}/{}", encoded(id.as_str()));
        self.json(Call::get(path)).await
    }
}
