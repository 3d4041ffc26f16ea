//! The server: HTTP API, configuration, wiring, command line.

pub mod cli;
pub mod config;
mod http;
pub mod serve;
