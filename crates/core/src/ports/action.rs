//! Record of changes that users, operators and services requested.

use uuid::Uuid;

use crate::{id::UserId, string_enum::string_enum, time::Timestamp};

/// A requested change of money, of a campaign, of a webhook or of the service. It is written once and never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// UUID of version 7, so that ids sort by time.
    pub id: Uuid,
    /// Time of the request.
    pub at: Timestamp,
    /// Subject of the request's token, or the name given on the command line: by default `cli:` and a user of that
    /// machine.
    pub actor: UserId,
    /// Kind of the change.
    pub kind: ActionKind,
    /// Id of the changed campaign, order or webhook, or the user of the changed account, or [`THE_SERVICE`].
    pub subject: String,
    /// Id of the request; empty for actions from the command line.
    pub request_id: String,
    /// Content of the request, as a JSON object.
    pub detail: String,
}

/// Filter and page of the operation log of all subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionQuery {
    /// Kind of the actions.
    pub kind: Option<ActionKind>,
    /// Only refused payment reports.
    pub is_refused: bool,
    /// Newest first; the oldest otherwise.
    pub newest_first: bool,
    /// Action after which the page begins.
    pub after: Option<Uuid>,
    /// Maximum number of actions.
    pub limit: u32,
}

impl ActionQuery {
    /// Text before all ids, and one after all of them.
    const ALL_IDS: (&str, &str) = ("", "g");

    /// Ids between which the page lies, both excluded.
    #[must_use]
    pub fn bounds(&self) -> (String, String) {
        let (first, last) = (Self::ALL_IDS.0.to_owned(), Self::ALL_IDS.1.to_owned());
        match self.after.map(|after| after.to_string()) {
            Some(after) if self.newest_first => (first, after),
            Some(after) => (after, last),
            None => (first, last),
        }
    }
}

/// Subject of actions on partitions, on the quarantine, and on the whole service. No user id contains a blank.
pub const THE_SERVICE: &str = "the service";

/// Kind of a change of money, of a campaign, of a webhook or of the service. Claims are not recorded as actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// Money from outside was deposited into an account.
    Deposit,
    /// A campaign or a webhook was created.
    Create,
    /// A campaign's stock, terms or details were changed, or a webhook's secret.
    Change,
    /// A campaign was paused.
    Pause,
    /// A campaign was resumed.
    Resume,
    /// A scheduled sale was started.
    Start,
    /// A campaign was closed.
    Close,
    /// A campaign was archived.
    Archive,
    /// A payment for an order was reported.
    Pay,
    /// A paid refund was recorded.
    Refund,
    /// A user withdrew money.
    Withdraw,
    /// A deposit or a recorded refund was reversed.
    Reverse,
    /// Money was moved from one user's account to another's.
    Transfer,
    /// An order was cancelled by a caller other than its buyer.
    Cancel,
    /// The hold of an order was extended.
    ExtendHold,
    /// An order was returned by a caller other than its buyer.
    Return,
    /// A webhook was deleted.
    Delete,
    /// A quarantined entry or a webhook's delivery was tried again.
    Redrive,
    /// A partition was repaired.
    Repair,
    /// Units that repairs withheld were released.
    Release,
    /// The whole service was audited.
    Audit,
    /// A partition was compared with the ledger.
    Reconcile,
    /// The discard of a refused grant was requested.
    Discard,
    /// An operator ran a reconciler.
    Run,
}

string_enum!(ActionKind {
    Deposit = "deposit",
    Create = "create",
    Change = "change",
    Pause = "pause",
    Resume = "resume",
    Start = "start",
    Close = "close",
    Archive = "archive",
    Pay = "pay",
    Refund = "refund",
    Withdraw = "withdraw",
    Reverse = "reverse",
    Transfer = "transfer",
    Cancel = "cancel",
    ExtendHold = "extend_hold",
    Return = "return",
    Delete = "delete",
    Redrive = "redrive",
    Repair = "repair",
    Release = "release",
    Audit = "audit",
    Reconcile = "reconcile",
    Discard = "discard",
    Run = "run",
});
