//! Tests of the programs `qiang-nemesis` and `qiang-fuzz`, and the model of a partition's protocol.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod fuzz;
mod plan;
mod protocol;
