//! The ledger's tables. All functions here run inside a transaction that the caller opens and commits.

pub(crate) mod accounts;
pub(crate) mod actions;
pub(crate) mod audiences;
pub(crate) mod bindings;
mod bound_values;
pub(crate) mod campaign_insert;
pub(crate) mod campaigns;
pub(crate) mod deliveries;
pub(crate) mod discards;
pub(crate) mod histories;
pub(crate) mod keys;
pub(crate) mod known;
pub(crate) mod list_index;
pub(crate) mod listing;
mod made_changes;
pub(crate) mod metadata;
pub(crate) mod order_restoration;
pub(crate) mod payouts;
pub(crate) mod preparations;
pub(crate) mod quarantine;
pub(crate) mod reconcile;
pub(crate) mod repairs;
pub(crate) mod restatements;
pub(crate) mod settle;
pub(crate) mod waiting_rooms;
pub(crate) mod webhooks;
