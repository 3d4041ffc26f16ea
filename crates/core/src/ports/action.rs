//! Who changed what: the record of those who lead campaigns, and of those who speak for the world outside.

use uuid::Uuid;

use crate::{id::UserId, time::Timestamp, words::words};

/// A change of money, of a campaign, of a webhook or of the service itself that somebody asked for. It is written once
/// and never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// Of version 7: its order is that of time.
    pub id: Uuid,
    /// When it was asked for.
    pub at: Timestamp,
    /// Whose token it was; or who is named on the command line, by default `cli:` and a user of that machine.
    pub actor: UserId,
    /// What was done.
    pub kind: ActionKind,
    /// What it was done to: a campaign's id, an order's, a webhook's, the user whose account it is, or
    /// [`THE_SERVICE`].
    pub subject: String,
    /// The id of the request; empty for what was done from the command line.
    pub request_id: String,
    /// A JSON object with what was asked for.
    pub detail: String,
}

/// The subject of what was done to partitions, to what is in quarantine, and to everything. No user has a blank.
pub const THE_SERVICE: &str = "the service";

/// What somebody can do to money, to a campaign, to a webhook or to the service, beside claiming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// Money from outside came into an account.
    Deposit,
    /// A campaign or a webhook was made.
    Create,
    /// Its stock, terms or details were changed, or a webhook's secret.
    Change,
    /// It was paused.
    Pause,
    /// It went on.
    Resume,
    /// It was closed.
    Close,
    /// It was archived.
    Archive,
    /// A payment for an order arrived.
    Pay,
    /// It was recorded that what is owed for an order was paid back.
    Refund,
    /// A user was paid out.
    Withdraw,
    /// A deposit was taken back.
    Reverse,
    /// An order was cancelled by somebody else than its buyer.
    Cancel,
    /// An order was taken back by somebody else than its buyer.
    Return,
    /// A webhook was deleted.
    Delete,
    /// It was to be tried again, or told again.
    Redrive,
    /// A partition was repaired.
    Repair,
    /// What repairs withheld was given back.
    Release,
    /// Everything was audited.
    Audit,
    /// A partition was held against the ledger.
    Reconcile,
    /// A grant that the ledger refused was to be taken back.
    Discard,
    /// A reconciler was run by hand.
    Run,
}

words!(ActionKind {
    Deposit = "deposit",
    Create = "create",
    Change = "change",
    Pause = "pause",
    Resume = "resume",
    Close = "close",
    Archive = "archive",
    Pay = "pay",
    Refund = "refund",
    Withdraw = "withdraw",
    Reverse = "reverse",
    Cancel = "cancel",
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
