//! Tests of the audit: sound and broken ledgers, files, databases and archives.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod archives;
mod audit;
#[cfg(feature = "servers")]
mod audit_sql;
mod outcome;
mod standalone_history;
