//! Bounds of the checked histories.

use super::*;

/// Bounds of the checked histories.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Users that each node calls for, one call after the other.
    pub(super) users: [&'static [u8]; NODES],
    pub(super) shares: u8,
    pub(super) failovers: u8,
    pub(super) repairs: u8,
    /// Maximum repeated calls in total.
    pub(super) resends: u8,
    /// Whether one user may have many shares, so that each call makes a new grant.
    pub(super) many_a_user: bool,
    pub(super) settles: bool,
}

impl Bounds {
    pub(crate) const ONE_FAILOVER: Self = Self {
        users: [&[0, 1], &[2, 0]],
        shares: 2,
        failovers: 1,
        repairs: 1,
        resends: 0,
        many_a_user: false,
        settles: true,
    };
    pub(crate) const TWO_FAILOVERS: Self = Self {
        users: [&[0, 1], &[1]],
        shares: 2,
        failovers: 2,
        repairs: 1,
        resends: 0,
        many_a_user: false,
        settles: false,
    };
    /// The second failover may happen during a repair, which must then be repeated.
    pub(crate) const TWO_REPAIRS: Self = Self {
        repairs: 2,
        ..Self::TWO_FAILOVERS
    };
    pub(crate) const CALLS: Self = Self {
        users: [&[0], &[0]],
        shares: 3,
        failovers: 1,
        repairs: 0,
        resends: 2,
        many_a_user: true,
        settles: false,
    };
}
