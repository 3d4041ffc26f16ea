//! Tests of the ledger on PostgreSQL and MariaDB.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[cfg(feature = "servers")]
mod common;
#[cfg(feature = "servers")]
mod conformance;
#[cfg(feature = "servers")]
mod disasters;
#[cfg(feature = "servers")]
mod mysql_functions;
#[cfg(feature = "servers")]
mod opening;
#[cfg(feature = "servers")]
mod outages;
#[cfg(feature = "servers")]
mod rates;
#[cfg(feature = "servers")]
mod settling;
