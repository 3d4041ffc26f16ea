//! Who changed what. Scope `read:any`.

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

/// The subject of what was done to partitions, to what is in quarantine, and to everything.
pub const THE_SERVICE: &str = "the service";

bodies! {
    /// A change that somebody asked for. What an engine decides was written down before: its refusal is not.
    Action {
        /// Its id.
        id: Id,
        /// When.
        at: Timestamp,
        /// Whose token it was; or who is named on the command line.
        actor: String,
        /// What was done.
        action: ActionKind,
        /// What it was done to.
        subject: String,
        /// The id of the request; empty for what was done from the command line.
        request_id: String,
        /// What was asked for.
        detail: Value,
    }
}

impl Client {
    /// What was asked for about something, in the order of time, page after page as the stream is read: a campaign's
    /// id, an order's, a webhook's, the user whose account it is, or [`THE_SERVICE`].
    pub fn actions(
        &self,
        subject: &str,
    ) -> impl Stream<Item = Result<Action, Error>> + Send + use<> {
        let query = format!("subject={}", encoded(subject));
        self.pages("/v1/actions", &query, "actions")
    }
}
