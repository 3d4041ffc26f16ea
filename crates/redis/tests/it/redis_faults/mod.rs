//! The Redis engine under faults: what concurrent users of two nodes are answered must agree with the log, whatever
//! breaks.
//!
//! One file a theme. Tests share servers where they break nothing; each has keys of its own.

mod access;
mod actions;
mod admission;
mod batches;
mod bounds;
mod clock;
mod cluster_move;
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
mod stock;
mod terms;
