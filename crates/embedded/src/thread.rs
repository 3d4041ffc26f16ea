//! The writer's thread.

use std::{io, thread::JoinHandle};

use parking_lot::Mutex;

use crate::file::WriterLock;

/// A running writer. Its thread has the file's lock and keeps it until its last word: whoever opens the file next
/// finds nobody else writing.
pub(crate) struct WriterThread {
    /// Tells the writer to come to its end.
    close: Box<dyn Fn() + Send + Sync>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterThread {
    pub(crate) fn start(
        lock: WriterLock,
        run: impl FnOnce() + Send + 'static,
        close: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || {
                run();
                drop(lock);
            })?;
        Ok(Self {
            close: Box::new(close),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Tells the writer to come to its end, and waits for it.
    pub(crate) fn stop(&self) {
        (self.close)();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the writer has been reported by its hook; nothing is left to do about it here.
            drop(thread.join());
        }
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.stop();
    }
}
