//! What tests of more than one crate share: a clock that is set by hand, campaigns made in one line, the suite that
//! every engine and ledger must pass, an auditor that checks a history against the invariants by its own arithmetic,
//! and real servers to start, kill and start again.
//!
//! Only for `dev-dependencies`. A panic is a report here.

pub mod auditor;
pub mod campaign;
pub mod clock;
pub mod conformance;
pub mod servers;

pub use clock::ManualClock;
