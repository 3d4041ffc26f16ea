//! Shards of campaigns: their numbers, rows and transfers between them.

pub(crate) mod settled_record;
pub(crate) mod skipped;
pub(crate) mod snapshot;
pub(crate) mod sums;
pub(crate) mod tally;
pub(crate) mod transfer;
