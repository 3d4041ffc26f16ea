//! The processes as operators run them: how they start when something is missing, what they show, which signals they
//! take, and what they log.
#![allow(clippy::unwrap_used, reason = "a test's panic is its report")]

mod admin;
mod audience;
mod backup;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod crowd;
mod deploy;
mod failures;
mod keys;
mod maintenance;
mod over_http;
mod program;
mod signals;
mod start;
mod upgrade;
mod worker;
