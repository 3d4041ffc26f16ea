//! The client of the API, against a service in this process.

mod audits;
mod calls;
pub(crate) mod common;
mod document;
mod faults;
mod foreign_answers;
mod operation;
