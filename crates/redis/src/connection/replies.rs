//! Counts of accepted replies that are not stored yet.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

/// Counter of accepted replies that are not stored yet.
#[derive(Default)]
pub(crate) struct Replies {
    unkept: AtomicUsize,
    /// Notifies when the count reaches zero.
    kept: Notify,
}

/// Guard of an accepted reply. Its owner stores the reply before it drops the guard.
pub(crate) struct ReplyGuard(Arc<Replies>);

impl Replies {
    /// Counts one more reply.
    pub(crate) fn unkept(replies: &Arc<Self>) -> ReplyGuard {
        replies.unkept.fetch_add(1, Ordering::AcqRel);
        ReplyGuard(Arc::clone(replies))
    }

    /// Waits until every accepted reply is stored.
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

impl fmt::Debug for ReplyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unkept")
    }
}

impl Drop for ReplyGuard {
    fn drop(&mut self) {
        if self.0.unkept.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.kept.notify_waiters();
        }
    }
}
