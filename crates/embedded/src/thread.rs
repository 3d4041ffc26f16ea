//! The writer's thread.

use std::{io, thread::JoinHandle};

use parking_lot::Mutex;

use crate::data_file::WriterLock;

/// Niceness of the writer, if the system permits it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = -5;

/// Running writer. Its thread holds the file's lock until it ends, so the next process to open the file is the only
/// writer.
pub(crate) struct WriterThread {
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

    /// Asks the writer to end, and waits for it.
    pub(crate) fn stop(&self) {
        (self.close)();
        if let Some(thread) = self.thread.lock().take() {
            // The panic hook has reported a panic of the writer.
            drop(thread.join());
        }
    }
}

/// Raises the priority of this thread. The writer uses little time and all callers wait for it. Without the priority,
/// the system may leave it without a core for milliseconds after each short sleep. Needs `CAP_SYS_NICE` or a limit on
/// niceness; otherwise the normal priority stays.
#[cfg(target_os = "linux")]
pub(crate) fn raise_priority() {
    use rustix::{process::setpriority_process, thread::gettid};

    // On Linux, niceness belongs to a thread.
    if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
        tracing::debug!(%error, "the writer may not go before other threads");
    }
}

/// Does nothing: on other systems niceness belongs to the process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn raise_priority() {}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.stop();
    }
}
