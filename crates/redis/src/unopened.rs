//! What a ledger says of a campaign that is to be opened: see `lua/unopened.lua`.

use qiang_core::event::Seq;

/// That a ledger does not have a campaign's part as open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unopened {
    /// Up to which entry; 0 where it was not asked.
    pub(crate) upto: Seq,
    /// Over how many partitions the campaign is spread, if other parts are open.
    pub(crate) parts: Option<u16>,
}
