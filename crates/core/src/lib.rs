//! Qiang's pure core: the words of the domain, the splitting rules, the state machine of one partition, and
//! the ports through which engines, ledgers and logs meet.
//!
//! Architecture invariant: nothing here performs IO, reads a clock, draws randomness of its own, or depends on an
//! async runtime, SQL or Redis. Everything is a function of its arguments, so that [`book::Book`] can serve as the
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
pub mod money;
pub mod order;
pub mod outcome;
pub mod payment;
pub mod ports;
pub mod quarantine;
pub mod reconcile;
pub mod rows;
pub mod settlement;
pub mod split;
pub mod time;
pub mod trace_context;
pub mod two_generations;
pub mod waiting;
pub mod web_url;
pub mod webhook;
mod words;
