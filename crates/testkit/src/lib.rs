//! What tests of more than one crate share: a clock that is set by hand, campaigns made in one line, random histories,
//! the suites that every engine and ledger must pass, an engine in memory for ledgers to be tried with, an auditor that
//! checks a history against the invariants by its own arithmetic, real servers to start, kill and start again, and a
//! proxy that fails on command.
//!
//! Only for `dev-dependencies`. A panic is a report here.

pub mod auditor;
pub mod campaign;
pub mod clock;
pub mod conformance;
pub mod engine;
pub mod histories;
pub mod proxy;
pub mod servers;
pub mod spread;

pub use clock::ManualClock;
