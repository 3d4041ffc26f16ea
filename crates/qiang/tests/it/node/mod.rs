//! Tests of a node: its HTTP API, the client of that API, and its wiring on real servers.

#[cfg(feature = "servers")]
mod alarms;
#[cfg(feature = "servers")]
mod back_pressure;
mod client;
#[cfg(feature = "servers")]
mod conformance;
#[cfg(feature = "servers")]
mod corrections;
#[cfg(feature = "servers")]
mod disasters;
#[cfg(feature = "servers")]
mod engine_binding;
pub(crate) mod http;
#[cfg(feature = "servers")]
mod ledger_ack;
#[cfg(feature = "servers")]
mod ledger_outage;
#[cfg(feature = "servers")]
mod ledgers;
#[cfg(feature = "servers")]
mod levels;
#[cfg(feature = "servers")]
mod older_ledger;
#[cfg(feature = "servers")]
mod recalls;
#[cfg(feature = "servers")]
mod repairs;
mod settlement;
#[cfg(feature = "servers")]
mod transport_metrics;
#[cfg(feature = "servers")]
mod transports;
#[cfg(feature = "servers")]
mod waiting;
