//! Tests of the program `qiang-bench`.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[cfg(feature = "servers")]
mod admission;
mod cold;
mod killed;
#[cfg(feature = "servers")]
mod reads;
#[cfg(feature = "servers")]
mod schemes;
