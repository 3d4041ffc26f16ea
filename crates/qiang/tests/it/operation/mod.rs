//! The processes as operators run them: how they start when something is missing, what they show, which signals they
//! take, and what they log.

mod admin;
mod audience;
mod backup;
mod control;
mod crowd;
mod deploy;
mod failures;
mod keys;
mod logs;
mod maintenance;
mod over_http;
pub(crate) mod program;
mod signals;
mod start;
mod stopping;
mod upgrade;
mod worker;
