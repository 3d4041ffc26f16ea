//! The subcommands.

pub(crate) mod split;
