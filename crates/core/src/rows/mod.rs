//! Rows of the ledger in plain types. They define the columns and values that the SQL of every database uses, and
//! contain no SQL.

mod account;
mod action;
mod campaign;
mod delivery;
mod history;
mod metadata;
mod payout;
mod quarantine;
mod repair;
mod restatement;
mod settled;
mod value;
mod webhook;

pub(crate) use self::value::columns;
pub use self::{
    account::{AccountKey, AccountPurpose, DIRECT, OUTSIDE, PostingRow},
    action::{ActionColumns, action_of},
    campaign::{CampaignRow, LiveRow, NewCampaign, has_fixed_shares, live_page, setup_of},
    delivery::{AttemptColumns, AttemptNames, BacklogColumns, RetryColumns},
    history::{
        DepositColumns, MovementColumns, OldestColumns, PaymentColumns, PostingColumns,
        UserOrderColumns, deposit_of, movement_of, payment_of, posting_of, read_from,
        user_account_of, user_order_of,
    },
    metadata::{METADATA_MARK, add_metadata_value, metadata_reference},
    payout::{
        MovedColumns, OwedColumns, OwedOrderColumns, PaidOutColumns, PostedRefund, Spend, owed_of,
        owed_order_of, paid_out_of,
    },
    quarantine::{
        DiscardState, DiscardedOrder, QuarantineRow, discarded_orders, entry_of, like_grant,
        with_discarded, with_discarded_of_user, with_discarded_payments, with_discarded_returns,
    },
    repair::{RepairColumns, WithheldColumns, WithheldNumbersColumns},
    settled::{SettledPaymentColumns, SettledReturnColumns, SettledRowColumns},
    value::Value,
    webhook::{ConditionColumns, EventCondition, EventRow, WebhookColumns, WebhookEventColumns},
};
use crate::{campaign::Phase, ports::LedgerError};

/// Rows, or rows and log entries, that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Contradiction {
    /// Description of the contradiction.
    pub reason: String,
}

impl Contradiction {
    /// Creates a contradiction with a description for the operator.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

impl From<Contradiction> for LedgerError {
    fn from(Contradiction { reason }: Contradiction) -> Self {
        Self::Damaged { reason }
    }
}

/// Phase with this name. `live` is never stored, because it follows from the window.
pub fn phase_of(name: &str) -> Option<Phase> {
    Phase::from_name(name).filter(|phase| *phase != Phase::Live)
}
