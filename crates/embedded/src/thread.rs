//! The writer's thread.

use std::{io, thread::JoinHandle};

use parking_lot::Mutex;

use crate::file::WriterLock;

/// The writer's niceness, where the system lets it have it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = -5;

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

/// Asks the system to let this thread go first when it has something to do. It works little and the whole crowd waits
/// for it, but after each of its short sleeps the system may leave it waiting for a core for milliseconds. Without the
/// right to ask (`CAP_SYS_NICE`, or a limit on niceness) everything goes on as before, only later.
#[cfg(target_os = "linux")]
pub(crate) fn go_first() {
    use rustix::{process::setpriority_process, thread::gettid};

    // On Linux niceness belongs to a thread.
    if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
        tracing::debug!(%error, "the writer may not go before other threads");
    }
}

/// Elsewhere niceness belongs to the process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn go_first() {}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.stop();
    }
}
