//! Tools shared by the tests of several crates.
//!
//! - a clock that the test sets, builders of campaigns, and random histories;
//! - the suites that every engine, transport and ledger must pass, and an engine in memory for ledgers;
//! - an auditor that checks a history against the invariants with its own arithmetic;
//! - real servers that tests start, kill and restart, and a proxy that fails on command.
//!
//! Only for `dev-dependencies`: it panics to report a failure.

pub mod auditor;
pub mod campaign;
pub mod clock;
pub mod conformance;
pub mod engine;
pub mod histories;
pub mod proxy;
pub mod servers;
pub mod simulation;
pub mod spread;

pub use clock::ManualClock;

/// Variables that turn off the limits per user and per address, for a node whose whole load comes from one program. The
/// node then also listens on one port only.
pub const NO_LIMITS: [(&str, &str); 9] = [
    ("QIANG__ADMIN__LISTEN", "server"),
    ("QIANG__LIMITS__CLAIMS_PER_USER_PER_SECOND", "0"),
    ("QIANG__LIMITS__CLAIMS_PER_ADDRESS_PER_SECOND", "0"),
    ("QIANG__LIMITS__READS_PER_USER_PER_SECOND", "0"),
    ("QIANG__LIMITS__READS_PER_ADDRESS_PER_SECOND", "0"),
    ("QIANG__LIMITS__CONNECTIONS_PER_ADDRESS_MAX", "0"),
    ("QIANG__LIMITS__CREATIONS_PER_USER_PER_MINUTE", "0"),
    ("QIANG__LIMITS__SHARES_PER_USER_PER_MINUTE", "0"),
    ("QIANG__LIMITS__CHANGES_PER_CAMPAIGN_PER_MINUTE", "0"),
];
