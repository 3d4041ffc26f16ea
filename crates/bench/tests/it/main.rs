//! Tests of the program `qiang-bench`.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

#[cfg(feature = "servers")]
mod admission;
mod cold;
mod killed;
#[cfg(feature = "servers")]
mod reads;
#[cfg(feature = "servers")]
mod schemes;

/// Of the runs of the program. One whose figures are compared with what an idle machine reaches is measured alone.
static RUNS: RwLock<()> = RwLock::new(());

/// A run whose figures do not depend on what else the machine does.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    RUNS.read().unwrap_or_else(PoisonError::into_inner)
}
