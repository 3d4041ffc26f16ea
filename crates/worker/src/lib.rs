//! Work beside the engine.
//!
//! - Reconcilers, one file each: idempotent, on a timer and a signal. [`host`] runs them.
//! - [`settlement`] carries entries from a log into the ledger; `broker` carries them over RabbitMQ.
//! - [`webhook_delivery`] sends webhook events to endpoints.

pub mod archive;
pub mod audits;
#[cfg(feature = "rabbitmq")]
pub mod broker;
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
pub mod webhook_delivery;
pub mod webhooks;
