//! The Redis engine under faults: the answers to concurrent users of two nodes must agree with the log
//! after every fault.
//!
//! Each file has one theme. Tests that break nothing share servers; each has its own keys.

mod access;
mod actions;
mod admission;
mod batches;
mod bounds;
mod clock;
mod cluster_move;
mod corrections;
mod downtimes;
mod empty;
mod failover;
mod flush;
mod gate;
mod harness;
mod lacking;
mod lines;
mod log;
mod lost;
mod maintained;
mod memory;
mod network;
mod operators;
mod payments;
mod places;
mod pulls;
mod reconcile;
mod repair;
mod repair_spread;
mod replicas;
mod retirement;
mod scripts;
mod sentinels;
mod setup;
mod spread;
mod starts;
mod stock;
mod terms;
