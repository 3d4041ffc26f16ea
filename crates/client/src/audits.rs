//! Audits of a node. Scope `admin`.

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    client::Client,
    error::Error,
    ids::{Id, encoded},
    values::Timestamp,
    words::AuditStatus,
};

const ALL: &str = "/v1/audits";

/// An audit of the node that was asked, and how it stands. What it has found, check by check, is on the operators' desk
/// and in the API's document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Audit {
    /// Its id.
    pub id: Id,
    /// How it stands.
    pub status: AuditStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
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

    /// An audit of the node that answers: other nodes do not know of it.
    ///
    /// # Errors
    /// `not-found`, also after seven more audits; see [`Error`].
    pub async fn audit(&self, id: &Id) -> Result<Audit, Error> {
        let path = format!("{ALL}/{}", encoded(id.as_str()));
        self.json(Call::get(path)).await
    }
}
