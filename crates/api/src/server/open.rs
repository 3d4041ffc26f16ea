//! Open requests of an HTTP/2 connection, and open connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use metrics::Gauge;

use super::guard::{Stage, StageMark};

/// Open requests of an HTTP/2 connection. While there is one, the connection is busy, so that its pings and windows
/// do not count as a slow head.
pub(super) struct Streams {
    open: AtomicU32,
    progress: Arc<StageMark>,
}

impl Streams {
    pub(super) fn new(progress: Arc<StageMark>) -> Arc<Self> {
        let open = AtomicU32::new(0);
        Arc::new(Self { open, progress })
    }
}

pub(super) struct OpenStream(Arc<Streams>);

impl OpenStream {
    pub(super) fn new(streams: &Arc<Streams>) -> Self {
        streams.open.fetch_add(1, Ordering::Relaxed);
        streams.progress.enter(Stage::Busy, Instant::now());
        Self(Arc::clone(streams))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let Streams { open, progress } = &*self.0;
        let stage = match open.fetch_sub(1, Ordering::Relaxed) {
            1 => Stage::Idle,
            _ => Stage::Busy,
        };
        progress.enter(stage, Instant::now());
    }
}

/// Counts an open connection until it is dropped, however it ended.
pub(super) struct CountedStream<'a>(&'a Gauge);

impl<'a> CountedStream<'a> {
    pub(super) fn new(open: &'a Gauge) -> Self {
        open.increment(1.0);
        Self(open)
    }
}

impl Drop for CountedStream<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
