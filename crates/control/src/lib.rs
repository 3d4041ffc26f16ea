//! The control plane: one file a reconciler, each idempotent, each on a timer and a signal; and the host that runs
//! them.

pub mod archive;
pub mod discards;
pub mod drafts;
pub mod host;
pub mod keys;
pub mod packets;
pub mod reconcile;
pub mod repair;
pub mod retirement;
pub mod settlement;
pub mod waiting;
pub mod webhooks;
