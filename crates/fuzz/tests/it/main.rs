//! Tests of the program `qiang-fuzz`.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod program;
