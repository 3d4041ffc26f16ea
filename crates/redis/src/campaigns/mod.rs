//! Operations on campaigns: opening, claims, orders and changes.

pub(crate) mod agenda;
pub(crate) mod claims;
pub(crate) mod commands;
pub(crate) mod damaged_keys;
pub(crate) mod group_opening;
pub(crate) mod opening;
pub(crate) mod orders;
pub(crate) mod sale_terms;
pub(crate) mod unopened_shards;
