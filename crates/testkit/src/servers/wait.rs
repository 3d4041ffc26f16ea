//! Waiting for something to become true: polled, and bounded.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks. A look is cheap: a request on loopback or a file in `/proc`.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Looks until there is something to see, and returns it.
///
/// # Panics
/// When there is still nothing after `bound`; `what` says what was waited for.
pub fn wait_for<T>(what: &str, bound: Duration, look: impl FnMut() -> Option<T>) -> T {
    poll(bound, look).unwrap_or_else(|| panic!("waited {bound:.1?} in vain for {what}"))
}

/// The same, with nothing after `bound`.
pub(super) fn poll<T>(bound: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if started.elapsed() >= bound {
            return None;
        }
        thread::sleep(POLL_EVERY);
    }
}
