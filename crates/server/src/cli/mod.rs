//! The subcommands.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod split;
