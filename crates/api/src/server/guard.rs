//! Closes connections that take too long, without a timer for each request: a connection records its stage and since
//! when, and one sweeper checks all of them a few times a second.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    task::AbortHandle,
};

use crate::config::ServerConfig;

/// How often the sweeper looks, and so how exact the limits are.
pub(super) const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been asked, or everything is answered.
    Idle = 0,
    /// A request's head is arriving.
    Head = 1,
    /// A request is being answered.
    Busy = 2,
}

/// One connection's stage and since when, in one word: milliseconds since the start × 4 + stage.
#[derive(Debug)]
pub(super) struct Progress {
    start: Instant,
    word: AtomicU64,
}

impl Progress {
    fn new(start: Instant) -> Arc<Self> {
        let progress = Self {
            start,
            word: AtomicU64::new(0),
        };
        progress.enter(Stage::Idle, Instant::now());
        Arc::new(progress)
    }

    fn enter(&self, stage: Stage, now: Instant) {
        let millis = now.saturating_duration_since(self.start).as_millis() as u64;
        self.word
            .store(millis << 2 | stage as u64, Ordering::Relaxed);
    }

    /// A head is complete; the request is being answered.
    pub(super) fn busy(&self, now: Instant) {
        self.enter(Stage::Busy, now);
    }

    /// The answer is ready.
    pub(super) fn idle(&self, now: Instant) {
        self.enter(Stage::Idle, now);
    }

    fn received(&self) {
        if self.word.load(Ordering::Relaxed) & 3 == Stage::Idle as u64 {
            self.enter(Stage::Head, Instant::now());
        }
    }

    fn stage_since(&self) -> (u64, Duration) {
        let word = self.word.load(Ordering::Relaxed);
        (word & 3, Duration::from_millis(word >> 2))
    }
}

/// How long each stage may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    idle: Duration,
    head: Duration,
    busy: Duration,
}

/// All open connections.
#[derive(Debug)]
pub(super) struct Guard {
    start: Instant,
    limits: Limits,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, (Arc<Progress>, AbortHandle)>,
}

impl Guard {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let limits = Limits {
            idle: Duration::from_millis(config.idle_timeout_ms),
            head: Duration::from_millis(config.header_timeout_ms),
            busy: config.request_timeout() * 2,
        };
        Self {
            start: Instant::now(),
            limits,
            open: Mutex::default(),
        }
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Progress::new(self.start)
    }

    /// Watches a connection until [`Guard::closed`].
    pub(super) fn opened(&self, progress: Arc<Progress>, task: AbortHandle) -> u64 {
        let mut open = self.open.lock();
        open.next += 1;
        let id = open.next;
        open.connections.insert(id, (progress, task));
        id
    }

    pub(super) fn closed(&self, id: u64) {
        self.open.lock().connections.remove(&id);
    }

    /// Closes the connections that have taken too long.
    pub(super) fn sweep(&self) {
        let now = self.start.elapsed();
        self.open.lock().connections.retain(|_, (progress, task)| {
            let (stage, since) = progress.stage_since();
            let limit =
                [self.limits.idle, self.limits.head, self.limits.busy][(stage as usize).min(2)];
            let over = now.saturating_sub(since) > limit;
            if over {
                task.abort();
            }
            !over
        });
    }

    /// Closes all connections.
    pub(super) fn abort_all(&self) {
        for (_, (_, task)) in self.open.lock().connections.drain() {
            task.abort();
        }
    }
}

/// A connection that notes when a head begins to arrive.
#[derive(Debug)]
pub(super) struct GuardedStream {
    pub(super) stream: TcpStream,
    pub(super) progress: Arc<Progress>,
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buf);
        if buf.filled().len() > before {
            self.progress.received();
        }
        polled
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
