//! The Redis engine under faults: what a crowd on two nodes was told must be what the log says, whatever breaks.
//!
//! One file a theme. Tests share servers where they break nothing; each has keys of its own.
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

mod access;
mod batches;
mod clock;
mod failover;
mod flush;
mod gate;
mod harness;
mod log;
mod lost;
mod network;
mod replicas;
mod spread;
