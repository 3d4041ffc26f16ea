//! Audits of a node. Scope `admin`.

use crate::{
    answers::NodeAudit, call::RepeatableCall, client::Client, error::Error, ids::Id, lists::List,
    paths::encoded,
};

const ALL: &str = "/v1/audits";

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
        let all: List<NodeAudit> = self.json(RepeatableCall::get(ALL)).await?;
        Ok(all.data)
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
