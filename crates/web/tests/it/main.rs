//! Tests of the pages.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod every_page;
