//! Queue of log lines for standard error.
//!
//! A thread writes them. If the reader of standard error stops, its pipe fills. Without the queue, every thread that
//! logs would wait, and users with it. A full queue drops lines and counts them.

use std::{
    io::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of lines that wait for the writer.
const LINES_MAX: usize = 4_096;
/// Maximum time that the end of a process waits for unwritten lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);

enum Item {
    Line(Vec<u8>),
    /// Reports that all lines before it are written.
    Flush(SyncSender<()>),
}

/// The queue of lines.
#[derive(Clone)]
pub(crate) struct LineQueue {
    items: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

impl LineQueue {
    /// Starts the thread that writes to standard error.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (items, received) = mpsc::sync_channel(LINES_MAX);
        let queue = Self {
            items,
            dropped: Arc::default(),
        };
        let dropped = Arc::clone(&queue.dropped);
        let builder = thread::Builder::new().name("log".to_owned());
        builder.spawn(move || write(&received, &dropped))?;
        Ok(queue)
    }

    /// Waits until earlier lines are written, for at most one second.
    pub(crate) fn flush(&self) {
        let (done, is_done) = mpsc::sync_channel(1);
        if self.items.try_send(Item::Flush(done)).is_ok() {
            // There is no place to report a late flush.
            let _ = is_done.recv_timeout(FLUSH_MAX);
        }
    }
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

/// Queues each write as one line.
pub(crate) struct LineWriter<'a>(&'a LineQueue);

impl io::Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.items.try_send(Item::Line(line.to_vec())).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(items: &Receiver<Item>, dropped: &AtomicU64) {
    while let Ok(item) = items.recv() {
        match item {
            // There is no place to report a closed standard error.
            Item::Line(line) => drop(io::stderr().write_all(&line)),
            Item::Flush(done) => drop(done.try_send(())),
        }
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "log lines dropped: standard error is too slow");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_lines_and_counts_them() {
        let (items, received) = mpsc::sync_channel(2);
        let queue = LineQueue {
            items,
            dropped: Arc::default(),
        };
        for _ in 0..5 {
            queue.make_writer().write_all(b"a line\n").unwrap();
        }
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 3);
        assert_eq!(received.try_iter().count(), 2);
    }
}
