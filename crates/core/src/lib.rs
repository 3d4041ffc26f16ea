//! Pure core of Qiang: domain types, splitting rules, the state machine of one partition, and the ports between
//! engines, ledgers and logs.
//!
//! Architecture invariant: this crate performs no IO, reads no clock, draws no randomness of its own, and does not
//! depend on an async runtime, SQL or Redis. All results depend only on arguments, so that [`book::Book`] is the
//! reference model of every engine.

pub mod admission;
pub mod book;
pub mod campaign;
pub mod database;
pub mod error;
pub mod event;
pub mod fair_share;
pub mod gate;
pub mod hash_tags;
pub mod id;
pub mod metadata;
pub mod money;
pub mod order;
pub mod outcome;
pub mod payment;
pub mod ports;
pub mod quarantine;
pub mod queue_entry;
pub mod reconcile;
pub mod rows;
pub mod settlement;
pub mod skipped_numbers;
pub mod split;
mod string_enum;
pub mod time;
pub mod trace_context;
pub mod web_url;
pub mod webhook;
