//! Guard that closes slow connections without a timer per request. A connection records its stage and the start of
//! it, and one sweeper checks all connections a few times a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::config::ServerConfig;

/// Interval of the sweeper, and so the precision of the limits.
pub(super) const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// Stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No request is in progress.
    Idle = 0,
    /// A request's head is arriving.
    Head = 1,
    /// A request is being answered.
    Busy = 2,
}

/// Stage of one connection and its start, in one word: milliseconds since the start of the guard × 4 + stage.
#[derive(Debug)]
pub(super) struct StageMark {
    start: Instant,
    word: AtomicU64,
}

impl StageMark {
    pub(super) fn enter(&self, stage: Stage, now: Instant) {
        let millis = now.saturating_duration_since(self.start).as_millis() as u64;
        self.word
            .store(millis << 2 | stage as u64, Ordering::Relaxed);
    }

    /// Records received bytes: on an idle connection, a head starts.
    pub(super) fn received(&self) {
        if self.stage_since().0 == Stage::Idle as usize {
            self.enter(Stage::Head, Instant::now());
        }
    }

    fn stage_since(&self) -> (usize, Duration) {
        let word = self.word.load(Ordering::Relaxed);
        ((word & 3) as usize, Duration::from_millis(word >> 2))
    }
}

/// Open connections, and connections that have ended since the last sweep.
#[derive(Debug)]
pub(super) struct Guard {
    start: Instant,
    limits: [Duration; 3],
    connections: Mutex<Vec<(Arc<StageMark>, AbortHandle)>>,
}

impl Guard {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let idle = Duration::from_millis(config.idle_timeout_ms);
        let head = Duration::from_millis(config.header_timeout_ms);
        Self {
            start: Instant::now(),
            limits: [idle, head, config.request_timeout() * 2],
            connections: Mutex::default(),
        }
    }

    /// Progress of a new, idle connection.
    pub(super) fn progress(&self) -> Arc<StageMark> {
        let progress = StageMark {
            start: self.start,
            word: AtomicU64::new(0),
        };
        progress.enter(Stage::Idle, Instant::now());
        Arc::new(progress)
    }

    /// Watches a connection until its task ends.
    pub(super) fn opened(&self, progress: Arc<StageMark>, task: AbortHandle) {
        self.connections.lock().push((progress, task));
    }

    pub(super) fn sweep(&self) {
        let now = self.start.elapsed();
        self.connections.lock().retain(|(progress, task)| {
            let (stage, since) = progress.stage_since();
            let over = now.saturating_sub(since) > self.limits[stage.min(2)];
            if over {
                task.abort();
            }
            !over && !task.is_finished()
        });
    }

    pub(super) fn abort_all(&self) {
        for (_, task) in self.connections.lock().drain(..) {
            task.abort();
        }
    }
}
