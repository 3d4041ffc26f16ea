//! Task that sends spans.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use qiang_core::{ports::Clock, time::Timestamp};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    collector::{Collector, Refusal},
    otlp,
    span::Span,
};
use crate::{
    config::TracesConfig,
    observe::metrics::{Metrics, SpanMetrics},
};

/// Interval between two sends.
const EVERY: Duration = Duration::from_secs(1);
/// Longest pause after failures in a row, each of which doubles it.
const EVERY_MAX: Duration = Duration::from_secs(30);
/// Maximum number of spans in a request.
const BATCH_MAX: usize = 512;
/// Maximum number of attempts to send the same spans.
const ATTEMPTS_MAX: u32 = 5;
/// Time limit for the last spans when the service stops.
const FLUSH_MAX: Duration = Duration::from_secs(2);
/// Difference between the process's clock and the system's above which the system's time is read again. Without this
/// threshold, the clock's precision would shift spans of one trace against each other.
const DRIFT_MAX_NANOS: u64 = 5_000_000;

/// Sends spans.
pub(super) struct Exporter {
    spans: mpsc::Receiver<Box<Span>>,
    queue_max: usize,
    collector: Collector,
    resource: Resource,
    metrics: Arc<Metrics>,
    counters: SpanMetrics,
    clock: Arc<dyn Clock>,
    anchor: Anchor,
    batch: Option<Batch>,
    pause: Duration,
}

/// Spans that are being sent.
struct Batch {
    body: Bytes,
    spans: u64,
    attempts: u32,
}

/// Handle of the running task.
pub(crate) struct Exporting {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporting {
    /// Sends the remaining spans, within a time limit.
    pub(crate) async fn finish(mut self) {
        self.stop.send(()).ok();
        if timeout(FLUSH_MAX, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the collector of traces did not accept the last spans in time");
        }
    }
}

impl Exporter {
    pub(super) fn new(
        config: &TracesConfig,
        spans: mpsc::Receiver<Box<Span>>,
        collector: Collector,
        (metrics, counters): (Arc<Metrics>, SpanMetrics),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let instance = uuid::Uuid::from_bytes(rand::random());
        Self {
            spans,
            queue_max: config.queue_max as usize,
            collector,
            resource: otlp::resource(&config.service_name, &instance.to_string()),
            metrics,
            counters,
            anchor: Anchor::new(clock.now(), Instant::now()),
            clock,
            batch: None,
            pause: EVERY,
        }
    }

    pub(super) fn start(self) -> Exporting {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(self.run(stopped));
        Exporting { stop, task }
    }

    async fn run(mut self, stop: oneshot::Receiver<()>) {
        let stop = async {
            if stop.await.is_err() {
                // The handle was dropped without a stop, so the task runs until its runtime ends.
                std::future::pending::<()>().await;
            }
        };
        let mut stop = std::pin::pin!(stop);
        loop {
            let is_last = tokio::select! {
                biased;
                () = stop.as_mut() => true,
                () = sleep(self.pause) => false,
            };
            self.send_all().await;
            if is_last {
                break;
            }
        }
    }

    /// Sends at most as many spans as the queue holds, which limits the work per second.
    async fn send_all(&mut self) {
        let mut taken = 0;
        loop {
            if self.batch.is_none() && taken < self.queue_max {
                self.batch = self.next_batch();
            }
            let Some(batch) = &mut self.batch else {
                break;
            };
            batch.attempts += 1;
            let (spans, attempts) = (batch.spans, batch.attempts);
            match self.collector.send(batch.body.clone()).await {
                Ok(rejected) => {
                    let rejected = rejected.min(spans);
                    self.counters.exported.increment(spans - rejected);
                    self.counters.failed.increment(rejected);
                    if self.pause > EVERY {
                        tracing::info!("the collector of traces accepts spans again");
                    }
                    self.pause = EVERY;
                    self.batch = None;
                    taken += spans as usize;
                }
                Err(Refusal::Never(reason)) => {
                    self.give_up(spans, &reason);
                    taken += spans as usize;
                }
                Err(Refusal::NotNow(reason, after)) => {
                    if self.pause == EVERY {
                        tracing::warn!(
                            reason,
                            "the collector of traces accepts no spans; retrying"
                        );
                    }
                    if attempts >= ATTEMPTS_MAX {
                        self.give_up(spans, &reason);
                    }
                    self.pause = (self.pause * 2).min(EVERY_MAX).max(after);
                    break;
                }
            }
        }
    }

    fn give_up(&mut self, spans: u64, reason: &str) {
        tracing::warn!(spans, reason, "spans were dropped after failed attempts");
        self.counters.failed.increment(spans);
        self.batch = None;
    }

    fn next_batch(&mut self) -> Option<Batch> {
        let mut spans = Vec::new();
        while spans.len() < BATCH_MAX
            && let Ok(span) = self.spans.try_recv()
        {
            spans.push(span);
        }
        if spans.is_empty() {
            return None;
        }
        self.anchor.follow(self.clock.now(), Instant::now());
        let at = |instant| self.anchor.at(instant);
        let request = otlp::request(&self.resource, &spans, &self.metrics, at);
        Some(Batch {
            body: request.encode_to_vec().into(),
            spans: spans.len() as u64,
            attempts: 0,
        })
    }
}

/// System time at one instant of the process, in nanoseconds since 1970.
struct Anchor {
    instant: Instant,
    nanos: u64,
}

impl Anchor {
    fn new(now: Timestamp, instant: Instant) -> Self {
        let millis = u64::try_from(now.as_millis()).unwrap_or_default();
        let nanos = millis.saturating_mul(1_000_000);
        Self { instant, nanos }
    }

    /// Reads the time again, if the system's clock was set.
    fn follow(&mut self, now: Timestamp, instant: Instant) {
        let fresh = Self::new(now, instant);
        if fresh.nanos.abs_diff(self.at(instant)) > DRIFT_MAX_NANOS {
            *self = fresh;
        }
    }

    fn at(&self, instant: Instant) -> u64 {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match instant.checked_duration_since(self.instant) {
            Some(since) => self.nanos.saturating_add(nanos(since)),
            None => self.nanos.saturating_sub(nanos(self.instant - instant)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_with_the_clock_when_it_was_set_and_not_by_its_precision() {
        let start = Instant::now();
        let at = Timestamp::from_millis;
        let mut anchor = Anchor::new(at(1_000), start);
        let later = start + Duration::from_micros(2_500);
        assert_eq!(anchor.at(later), 1_002_500_000);
        anchor.follow(at(1_002), later);
        assert_eq!(anchor.at(later), 1_002_500_000);
        anchor.follow(at(9_000), later);
        assert_eq!(anchor.at(later), 9_000_000_000);
        assert_eq!(anchor.at(start), 8_997_500_000);
    }
}
