//! Tests of webhook requests.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod sending;
