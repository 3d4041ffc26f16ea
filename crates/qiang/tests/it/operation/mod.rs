//! Processes as operators run them: starts with missing parts, metrics, signals and logs.

mod admin;
mod alarm_watch;
mod alarms;
mod audience;
mod backup;
mod claim_log;
mod crowd;
mod deploy;
mod doctor;
mod drill;
mod failures;
mod host_names;
mod keys;
mod logs;
mod maintenance;
mod managed;
mod over_http;
pub(crate) mod program;
mod reconciler;
mod redis_files;
mod signals;
mod start;
mod stopping;
mod tls_to_servers;
mod upgrade;
mod worker;
