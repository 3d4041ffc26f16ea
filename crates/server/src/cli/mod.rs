//! The subcommands.

pub(crate) mod bench;
pub(crate) mod split;
