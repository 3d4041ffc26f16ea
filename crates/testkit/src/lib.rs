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
pub mod simulation;
pub mod spread;

pub use clock::ManualClock;

/// Variables that turn off the limits of users and addresses of a node whose whole load is one program's, and have it
/// listen on one port alone.
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
