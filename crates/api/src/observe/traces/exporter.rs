//! Queues spans and exports them: the SDK's batch processor and OTLP exporter, with our counters around them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::Counter;
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{Protocol, RetryPolicy, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
        SpanExporter, SpanProcessor,
    },
};

use super::collector::Collector;
use crate::{
    config::TracesConfig,
    observe::metrics::{Metrics, SpanMetrics},
};

/// The version of the semantic conventions.
pub(super) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// Pause between exports, unless a batch is full.
const EXPORT_EVERY: Duration = Duration::from_secs(1);
/// Spans per request.
const BATCH_MAX: usize = 512;
/// Retries of a batch before its spans are dropped.
const RETRIES_MAX: usize = 4;
/// Pause before the first retry. Each retry doubles it.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(16);
/// Time for the last spans when the service stops.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Makes the provider of tracers, on the current runtime. `None` without an endpoint.
///
/// # Errors
/// [`UsageError`](crate::UsageError) that names the key; other errors if a file cannot be read, or if a variable of
/// the SDK's environment holds no valid value.
pub(super) fn provider(
    config: &TracesConfig,
    metrics: &Metrics,
) -> anyhow::Result<Option<SdkTracerProvider>> {
    let Some(endpoint) = config.collector()? else {
        return Ok(None);
    };
    let rejected = Arc::<AtomicU64>::default();
    let collector = Collector::new(config, &endpoint, Arc::clone(&rejected))?;
    let retries = RetryPolicy::default()
        .with_max_retries(RETRIES_MAX)
        .with_initial_delay(RETRY_PAUSE)
        .with_max_delay(RETRY_PAUSE_MAX);
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(collector)
        .with_endpoint(endpoint.to_string())
        .with_protocol(Protocol::HttpBinary)
        // The collector's client limits each attempt, the policy their number.
        .with_timeout(Duration::MAX)
        .with_retry_policy(retries)
        .build()?;
    let counters = SpanMetrics::new(metrics);
    let (queued, queue_max) = (Arc::<AtomicUsize>::default(), config.queue_max as usize);
    let dropped = counters.dropped.clone();
    let exporter = CountingExporter {
        exporter,
        queued: Arc::clone(&queued),
        rejected,
        counters,
    };
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(queue_max)
        .with_max_export_batch_size(BATCH_MAX.min(queue_max))
        .with_scheduled_delay(EXPORT_EVERY)
        .build();
    let processor = CountingProcessor {
        processor: BatchSpanProcessor::new(exporter, batches),
        queued,
        queue_max,
        dropped,
    };
    let ratio = Sampler::TraceIdRatioBased(config.sample_ratio);
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(ratio)))
        .with_resource(resource(config))
        .with_span_processor(processor)
        .build();
    Ok(Some(provider))
}

fn resource(config: &TracesConfig) -> Resource {
    let instance = uuid::Uuid::from_bytes(rand::random()).to_string();
    let attributes = [
        KeyValue::new("service.name", config.service_name.clone()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", instance),
    ];
    // Without the detectors that read the environment.
    let resource = Resource::builder_empty();
    resource.with_schema_url(attributes, SCHEMA_URL).build()
}

/// Ends exports when the service stops.
pub(crate) struct Exporting(SdkTracerProvider);

impl Exporting {
    pub(super) fn new(provider: SdkTracerProvider) -> Self {
        Self(provider)
    }

    /// Exports queued spans, for at most [`FLUSH_MAX`].
    pub(crate) async fn finish(self) {
        // It blocks, and the collector's connection needs this runtime.
        let flush = move || self.0.shutdown_with_timeout(FLUSH_MAX);
        let flushed = tokio::task::spawn_blocking(flush).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("the collector of traces did not accept the last spans in time");
        }
    }
}

/// Bounds the queue of the batch processor, which drops spans without counting them for us.
#[derive(Debug)]
struct CountingProcessor {
    processor: BatchSpanProcessor,
    /// Spans that wait or are being exported.
    queued: Arc<AtomicUsize>,
    queue_max: usize,
    dropped: Counter,
}

impl SpanProcessor for CountingProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.processor.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queued.fetch_add(1, Ordering::Relaxed) < self.queue_max {
            self.processor.on_end(span);
        } else {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            self.dropped.increment(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.processor.set_resource(resource);
    }
}

/// Counts exported and failed spans.
#[derive(Debug)]
struct CountingExporter {
    exporter: opentelemetry_otlp::SpanExporter,
    /// Shared with [`CountingProcessor`].
    queued: Arc<AtomicUsize>,
    /// Spans of an accepted request that the collector rejected.
    rejected: Arc<AtomicU64>,
    counters: SpanMetrics,
}

impl SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let count = spans as u64;
        let result = self.exporter.export(batch).await;
        self.queued.fetch_sub(spans, Ordering::Relaxed);
        let rejected = self.rejected.swap(0, Ordering::Relaxed);
        let failed = match &result {
            Ok(()) => rejected.min(count),
            Err(error) => {
                tracing::warn!(spans, %error, "the collector did not accept spans; they are dropped");
                count
            }
        };
        self.counters.exported.increment(count - failed);
        self.counters.failed.increment(failed);
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
