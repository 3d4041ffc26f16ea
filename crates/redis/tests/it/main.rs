//! Tests of the engine on Redis and Valkey.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[cfg(feature = "servers")]
mod conformance;
#[cfg(feature = "servers")]
mod invalidation;
#[cfg(feature = "servers")]
mod reads;
#[cfg(feature = "servers")]
mod redis_faults;
