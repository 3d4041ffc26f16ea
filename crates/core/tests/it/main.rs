//! Tests of the split rules: golden values, properties, statistics.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod split_golden;
mod split_properties;
mod split_statistics;
