//! Waiting for something to become true: polled, and bounded.

use std::thread;
use std::time::{Duration, Instant};

/// The time between two checks. A check is cheap: a request on loopback or a file in `/proc`.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Calls `check` until it returns something, and returns that.
///
/// # Panics
/// When there is still nothing after `bound`; `what` says what the caller waited for.
pub fn wait_for<T>(what: &str, bound: Duration, check: impl FnMut() -> Option<T>) -> T {
    poll(bound, check).unwrap_or_else(|| panic!("waited {bound:.1?} in vain for {what}"))
}

/// The same, with nothing after `bound`.
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
