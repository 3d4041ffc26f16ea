//! Tests of the program `qiang-bench`.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

#[cfg(feature = "servers")]
mod admission;
mod anonymous;
mod cold;
mod costs;
mod killed;
#[cfg(feature = "servers")]
mod reads;
#[cfg(feature = "servers")]
mod schemes;
mod soak;

/// Lock of the program's runs. A run whose results are compared with those of an idle machine runs alone.
static RUNS: RwLock<()> = RwLock::new(());

/// Guard of a run whose results do not depend on other runs.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    RUNS.read().unwrap_or_else(PoisonError::into_inner)
}
