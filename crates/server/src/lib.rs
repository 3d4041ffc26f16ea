//! The server: HTTP API, configuration, wiring, command line.

mod audit;
pub mod cli;
pub mod config;
mod http;
mod load;
pub mod serve;
