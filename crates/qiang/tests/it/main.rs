//! Tests of the program `qiang`, and of nodes inside the test process.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[cfg(feature = "servers")]
mod api_page;
mod archive;
mod audit;
mod batches;
mod command_line;
mod common;
#[cfg(feature = "servers")]
mod crash_matrix;
mod demo;
#[cfg(feature = "servers")]
mod distributed;
#[cfg(feature = "servers")]
mod first_sale;
mod histories;
mod http_crash;
mod moving_in;
mod node;
#[cfg(feature = "servers")]
mod operation;
#[cfg(feature = "servers")]
mod quarantine;
#[cfg(feature = "servers")]
mod requirements;
mod sample_shop;
mod serve;
mod service_commands;
mod split_cli;
mod tokens;
mod top;
#[cfg(feature = "servers")]
mod waiting;
#[cfg(feature = "servers")]
mod webhooks;
