//! Sampling and recording of spans.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Request, StatusCode};
use metrics::Counter;
use qiang_core::{ports::Clock, trace_context::TraceContext};
use tokio::sync::mpsc;

pub(crate) use super::exporter::Exporting;
use super::{
    collector::Collector,
    exporter::Exporter,
    span::{Span, known},
};
use crate::{
    config::TracesConfig,
    http::{request_id::RequestId, traffic::Traffic},
    observe::metrics::{Metrics, Route, SpanMetrics},
};

/// Starts spans.
pub(crate) struct Tracer {
    /// Share of the requests without a trace that start one.
    ratio: f64,
    spans: mpsc::Sender<Box<Span>>,
    dropped: Counter,
}

impl Tracer {
    /// Tracer of this configuration, with the task that sends spans; `None` if there is no endpoint.
    ///
    /// # Errors
    /// [`UsageError`](crate::UsageError) that names the key; other errors if a file cannot be read.
    pub(crate) fn start(
        config: &TracesConfig,
        metrics: &Arc<Metrics>,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Option<(Arc<Self>, Exporting)>> {
        config.check()?;
        let Some(collector) = Collector::new(config)? else {
            return Ok(None);
        };
        let (spans, queue) = mpsc::channel(config.queue_max as usize);
        let counters = SpanMetrics::new(metrics);
        let tracer = Self {
            ratio: config.sample_ratio,
            spans,
            dropped: counters.dropped.clone(),
        };
        let (metrics, clock) = (Arc::clone(metrics), Arc::clone(clock));
        let exporter = Exporter::new(config, queue, collector, (metrics, counters), clock);
        Ok(Some((Arc::new(tracer), exporter.start())))
    }

    /// Starts the span of a request, if its trace is sampled; the request then belongs to the span. Health checks and
    /// scrapes start no trace.
    pub(crate) fn begin<B>(
        self: &Arc<Self>,
        id: &mut RequestId,
        request: &Request<B>,
        (route, over_tls): (Route, bool),
        began: Instant,
    ) -> Option<OpenSpan> {
        let (parent, context) = match id.trace() {
            Some(above) if above.is_sampled() => {
                (Some(above.span()), above.in_span(rand::random(), true)?)
            }
            Some(_) => return None,
            None => {
                let is_kept = rand::random::<f64>() < self.ratio;
                let asked = (request.method(), request.uri().path());
                if !is_kept || Traffic::of(asked.0, asked.1).is_none() {
                    return None;
                }
                (
                    None,
                    TraceContext::new(rand::random(), rand::random(), true)?,
                )
            }
        };
        let context = Arc::new(context);
        id.belongs_to(Arc::clone(&context));
        Some(OpenSpan {
            tracer: Arc::clone(self),
            span: Some(Box::new(Span {
                context,
                parent,
                method: known(request.method()),
                route,
                version: request.version(),
                over_tls,
                began,
                took: Duration::ZERO,
                status: None,
            })),
        })
    }
}

/// Span of a request in progress. If it is dropped without an answer, the client has disconnected.
pub(crate) struct OpenSpan {
    tracer: Arc<Tracer>,
    span: Option<Box<Span>>,
}

impl OpenSpan {
    pub(crate) fn answered(mut self, status: StatusCode) {
        if let Some(span) = &mut self.span {
            span.status = Some(status);
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let Some(mut span) = self.span.take() else {
            return;
        };
        span.took = span.began.elapsed();
        // No answer waits for space in the queue.
        if self.tracer.spans.try_send(span).is_err() {
            self.tracer.dropped.increment(1);
        }
    }
}
