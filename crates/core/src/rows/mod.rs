//! The ledger's rows in plain types: what the SQL of every database reads and writes, and what the words in its
//! columns mean. No SQL is here.

mod account;
mod campaign;
mod quarantine;
mod value;

pub use self::{
    account::{AccountKey, DIRECT, OUTSIDE, PostingRow, Purpose},
    campaign::{CampaignRow, NewCampaign, has_fixed_shares, setup_of},
    quarantine::{QuarantineRow, entry_of},
    value::Value,
};
use crate::{
    campaign::{CampaignKind, Phase},
    order::OrderState,
    ports::LedgerError,
};

/// Rows, or rows and entries of a log, that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Contradiction {
    /// What was found.
    pub reason: String,
}

impl Contradiction {
    /// A contradiction, in words for the operator.
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

/// The kind of that name.
#[must_use]
pub fn kind_of(name: &str) -> Option<CampaignKind> {
    [CampaignKind::RedPacket, CampaignKind::Sale]
        .into_iter()
        .find(|kind| kind.name() == name)
}

/// The phase of that name. `live` is never stored: it follows from the window.
#[must_use]
pub fn phase_of(name: &str) -> Option<Phase> {
    [
        Phase::Draft,
        Phase::Scheduled,
        Phase::Paused,
        Phase::Ended,
        Phase::Closed,
    ]
    .into_iter()
    .find(|phase| phase.name() == name)
}

/// The order state of that name.
#[must_use]
pub fn order_state_of(name: &str) -> Option<OrderState> {
    [
        OrderState::Held,
        OrderState::Paid,
        OrderState::Cancelled,
        OrderState::Expired,
    ]
    .into_iter()
    .find(|state| state.name() == name)
}
