//! Log of changes that users and operators requested. Scope `read:any`.

use futures_util::Stream;
use serde_json::Value;

use crate::{
    bodies::bodies,
    client::Client,
    error::Error,
    ids::{Id, encoded},
    values::Timestamp,
    words::ActionKind,
};

/// Subject of actions on partitions, on the quarantine, and on the whole service.
pub const THE_SERVICE: &str = "the service";

bodies! {
    /// Change that a user or operator requested. It is recorded before the engine decides, so it may have been refused.
    Action {
        /// Its id.
        id: Id,
        /// Time of the request.
        at: Timestamp,
        /// Subject of the request's token, or the name given on the command line.
        actor: String,
        /// Kind of action.
        action: ActionKind,
        /// Id of the changed object.
        subject: String,
        /// Id of the request; empty for actions from the command line.
        request_id: String,
        /// Content of the request.
        detail: Value,
    }
}

impl Client {
    /// Actions on a subject, oldest first. The stream loads one page after another as it is read. A subject is the id
    /// of a campaign, an order or a webhook, the user of an account, or [`THE_SERVICE`].
    pub fn actions(
        &self,
        subject: &str,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = format!("subject={}", encoded(subject));
        self.pages("/v1/operation-log", &query, "actions")
    }

    /// Actions on all subjects, oldest first, of one kind or of all. The stream loads one page after another as it is
    /// read.
    pub fn action_log(
        &self,
        kind: Option<ActionKind>,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = kind.map_or_else(String::new, |kind| format!("action={kind}"));
        self.pages("/v1/operation-log", &query, "actions")
    }

    /// Refused payment reports, newest first. The stream loads one page after another as it is read.
    pub fn refused_payment_reports(
        &self,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = "action=pay&outcome=refused&order=newest";
        self.pages("/v1/operation-log", query, "actions")
    }
}
