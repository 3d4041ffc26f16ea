//! Which requests have a span, and what is written down of them.

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

/// Begins spans.
pub(crate) struct Tracer {
    /// Of requests that name no trace, this share begins one.
    ratio: f64,
    spans: mpsc::Sender<Box<Span>>,
    dropped: Counter,
}

impl Tracer {
    /// As configured, with the task that sends spans; none where there is no endpoint.
    ///
    /// # Errors
    /// [`UsageError`](crate::UsageError) that names the key; others when a file cannot be read.
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

    /// Begins the span of a request, if its trace is kept: from here on the request belongs to it. What operators'
    /// machines ask begins no trace.
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

/// The span of a request that is being answered. Dropped without an answer, its client has gone.
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
        // Whoever is answered does not wait for room.
        if self.tracer.spans.try_send(span).is_err() {
            self.tracer.dropped.increment(1);
        }
    }
}
