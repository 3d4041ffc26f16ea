//! Log of changes that users and operators requested. Scope `read:any`.

use futures_util::Stream;

use crate::{answers::Action, client::Client, error::Error, paths::encoded, words::ActionKind};

impl Client {
    /// Actions on a subject, oldest first. The stream loads one page after another as it is read. A subject is the id
    /// of a campaign, an order or a webhook, the user of an account, or [`THE_SERVICE`].
    pub fn actions(
        &self,
        subject: &str,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = format!("subject={}", encoded(subject));
        self.pages("/v1/operation-log", &query)
    }

    /// Actions on all subjects, oldest first, of one kind or of all. The stream loads one page after another as it is
    /// read.
    pub fn action_log(
        &self,
        kind: Option<ActionKind>,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = kind.map_or_else(String::new, |kind| format!("action={kind}"));
        self.pages("/v1/operation-log", &query)
    }

    /// Refused payment reports, newest first. The stream loads one page after another as it is read.
    pub fn refused_payment_reports(
        &self,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = "action=pay&outcome=refused&order=newest";
        self.pages("/v1/operation-log", query)
    }
}
