//! Counters of a campaign.

use super::{Phase, SaleSettings};

/// Counters of a campaign at one moment. Always `supply = granted + remaining + returned + withheld` and `funded =
/// claimed + money_remaining + refunded + money_withheld`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Phase of the campaign.
    pub phase: Phase,
    /// Total shares or units.
    pub supply: u64,
    /// Shares or units that users have: shares granted, orders held and paid.
    pub granted: u64,
    /// Shares or units that can still be claimed.
    pub remaining: u64,
    /// Shares or units that went back to the owner at the close.
    pub returned: u64,
    /// Shares or units that repairs withhold: a user may have been granted them, so no other user gets them.
    pub withheld: u64,
    /// Minor units put into escrow; 0 for a sale.
    pub funded_minor: i64,
    /// Minor units granted from escrow.
    pub claimed_minor: i64,
    /// Minor units in escrow that can still be claimed.
    pub remaining_minor: i64,
    /// Minor units that went back to the sender.
    pub refunded_minor: i64,
    /// Minor units in escrow that repairs withhold.
    pub withheld_minor: i64,
    /// Number of grants, including those later cancelled or expired. 0 for a closed sale that was evicted from Redis,
    /// because the ledger does not count them.
    pub grants: u32,
    /// Current terms of a sale, if the engine reports them.
    pub terms: Option<SaleSettings>,
}

impl Tally {
    /// Whether no unit and no money was created or lost (invariant 3).
    #[must_use]
    pub fn conserves(&self) -> bool {
        let units = [self.granted, self.remaining, self.returned, self.withheld].map(u128::from);
        let money = self
            .claimed_minor
            .checked_add(self.remaining_minor)
            .and_then(|m| m.checked_add(self.refunded_minor))
            .and_then(|m| m.checked_add(self.withheld_minor));
        units.iter().sum::<u128>() == u128::from(self.supply) && money == Some(self.funded_minor)
    }
}
