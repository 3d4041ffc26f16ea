//! Shards of campaigns: their numbers, rows and transfers between them.

pub(crate) mod snapshot;
pub(crate) mod tally;
pub(crate) mod transfer;
