//! Bounded waiting for a condition, by polling.

use std::thread;
use std::time::{Duration, Instant};

/// Time between two checks. A check is cheap: a request on loopback or a file in `/proc`.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Calls `check` until it returns a value, and returns that.
///
/// # Panics
/// If there is no value after `bound`. The message says `what` was awaited.
pub fn wait_for<T>(what: &str, bound: Duration, check: impl FnMut() -> Option<T>) -> T {
    poll(bound, check).unwrap_or_else(|| panic!("waited {bound:.1?} in vain for {what}"))
}

/// The same, but `None` after `bound`.
pub(super) fn poll<T>(bound: Duration, mut check: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = check() {
            return Some(found);
        }
        if started.elapsed() >= bound {
            return None;
        }
        thread::sleep(POLL_EVERY);
    }
}
