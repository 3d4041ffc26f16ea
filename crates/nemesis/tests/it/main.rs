//! Tests of the program `qiang-nemesis`, and the model of a partition's protocol.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod plan;
mod protocol;
