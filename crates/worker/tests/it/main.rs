//! Tests of reconcilers and settlement, on fakes and in simulated worlds, and of webhook requests.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod archive;
mod drafts;
mod fake_engine;
mod fakes;
mod host;
mod packets;
mod queue_order;
mod repair;
mod settlement;
mod settlement_log;
mod simulation;
mod waiting;
mod webhook_delivery;
