//! Tests of the test servers.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[cfg(feature = "servers")]
mod databases;
#[cfg(feature = "servers")]
mod rabbitmq;
#[cfg(feature = "servers")]
mod redis;
#[cfg(feature = "servers")]
mod versions;
