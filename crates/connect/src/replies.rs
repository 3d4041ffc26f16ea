//! Replies to calls on their way from where they are accepted to where they are kept, counted.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

/// Replies that were accepted and are on their way to where they are kept.
#[derive(Default)]
pub(crate) struct Replies {
    unkept: AtomicUsize,
    /// There are none any more.
    kept: Notify,
}

/// A reply that was accepted. Whoever keeps it does so before this is dropped.
pub struct Unkept(Arc<Replies>);

impl Replies {
    /// Counts one more.
    pub(crate) fn unkept(replies: &Arc<Self>) -> Unkept {
        replies.unkept.fetch_add(1, Ordering::AcqRel);
        Unkept(Arc::clone(replies))
    }

    /// Returns once every reply that was accepted is kept.
    pub(crate) async fn all_kept(&self) {
        loop {
            let kept = self.kept.notified();
            tokio::pin!(kept);
            kept.as_mut().enable();
            if self.unkept.load(Ordering::Acquire) == 0 {
                return;
            }
            kept.await;
        }
    }
}

impl fmt::Debug for Unkept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unkept")
    }
}

impl Drop for Unkept {
    fn drop(&mut self) {
        if self.0.unkept.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.kept.notify_waiters();
        }
    }
}
