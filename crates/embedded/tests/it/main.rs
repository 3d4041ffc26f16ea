//! Tests of the embedded engine on real files.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod clock;
mod cold;
mod conformance;
mod copies;
mod crash;
mod creations;
mod downtimes;
mod fail_stop;
mod ledger;
mod ledger_ack;
mod live_set;
mod model;
mod moved_files;
mod one_file;
mod opening;
mod ordered_claims;
mod other_amounts;
mod quarantine;
mod restores;
mod settling;
mod standalone;
