//! Filters of lists of orders and of money.

use qiang_client::{MovementFilter, Timestamp, UserId};

/// Range of creation times.
#[derive(Debug, clap::Args)]
pub(crate) struct TimeArgs {
    /// Only entries from this time (RFC 3339) on.
    #[arg(long, value_name = "TIME")]
    pub(crate) created_after: Option<Timestamp>,
    /// Only entries from before this time (RFC 3339).
    #[arg(long, value_name = "TIME")]
    pub(crate) created_before: Option<Timestamp>,
}

/// Filter of deposits, withdrawals or refunds.
#[derive(Debug, clap::Args)]
pub(crate) struct MovementArgs {
    /// The user. Default: all that the token sees.
    user: Option<UserId>,
    /// Only the entry with this reference of the payment service.
    #[arg(long)]
    reference: Option<String>,
    #[command(flatten)]
    times: TimeArgs,
}

impl MovementArgs {
    pub(crate) fn filter(&self) -> MovementFilter {
        MovementFilter {
            user: self.user.clone(),
            reference: self.reference.clone(),
            created_after: self.times.created_after,
            created_before: self.times.created_before,
        }
    }
}
