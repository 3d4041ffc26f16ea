//! Decides which requests have a span, and fills the spans.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::http::{Method, Request, StatusCode, Version};
use opentelemetry::{
    Context, InstrumentationScope, KeyValue,
    trace::{
        Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, TraceFlags, Tracer as _,
        TracerProvider as _,
    },
};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use qiang_core::{ports::Clock, trace_context::TraceContext};

pub(crate) use super::exporter::Exporting;
use super::exporter::{self, SCHEMA_URL};
use crate::{
    config::TracesConfig,
    http::{request_id::RequestId, traffic::Traffic},
    observe::metrics::{Metrics, Route},
};

/// Replaces a path that fits no route: it may name a user.
const REDACTED: &str = "REDACTED";
/// Name that the conventions give to an unknown method.
const OTHER_METHOD: &str = "_OTHER";
/// Error type of a request whose client left before the answer.
const CLIENT_GONE: &str = "client_gone";

/// Begins spans.
pub(crate) struct Tracer {
    tracer: SdkTracer,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
}

impl Tracer {
    /// Returns the tracer of this configuration and the handle of its exporter; `None` without an endpoint.
    ///
    /// # Errors
    /// [`UsageError`](crate::UsageError) that names the key; other errors if a file cannot be read.
    pub(crate) fn start(
        config: &TracesConfig,
        metrics: &Arc<Metrics>,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Option<(Arc<Self>, Exporting)>> {
        config.check()?;
        let Some(provider) = exporter::provider(config, metrics)? else {
            return Ok(None);
        };
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SCHEMA_URL)
            .build();
        let tracer = Self {
            tracer: provider.tracer_with_scope(scope),
            metrics: Arc::clone(metrics),
            clock: Arc::clone(clock),
        };
        Ok(Some((Arc::new(tracer), Exporting::new(provider))))
    }

    /// Begins the span of a request if its trace is sampled. The request then belongs to the span. Requests of
    /// operators' machines begin no trace.
    pub(crate) fn begin<B>(
        &self,
        id: &mut RequestId,
        request: &Request<B>,
        (route, over_tls): (Route, bool),
        began: Instant,
    ) -> Option<OpenSpan> {
        let (method, path) = (request.method(), request.uri().path());
        let parent = match id.trace() {
            Some(above) if !above.is_sampled() => return None,
            Some(above) => Context::new().with_remote_span_context(remote(above)),
            None => {
                Traffic::from_request(method, path)?;
                Context::new()
            }
        };
        let start = self.now();
        let builder = self.tracer.span_builder("");
        let builder = builder.with_kind(SpanKind::Server).with_start_time(start);
        let mut span = self.tracer.build_with_context(builder, &parent);
        if !span.is_recording() {
            return None;
        }
        let route = route.is_known().then(|| self.metrics.template(route));
        describe(&mut span, request, route, over_tls);
        id.belongs_to(Arc::new(context(span.span_context(), id.trace())?));
        Some(OpenSpan {
            span,
            start,
            began,
            status: None,
        })
    }

    fn now(&self) -> SystemTime {
        let millis = u64::try_from(self.clock.now().as_millis()).unwrap_or_default();
        UNIX_EPOCH + Duration::from_millis(millis)
    }
}

/// The span of a request in progress. If it is dropped without an answer, the client has left.
pub(crate) struct OpenSpan {
    span: Span,
    start: SystemTime,
    began: Instant,
    status: Option<StatusCode>,
}

impl OpenSpan {
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let mut error = None;
        match self.status {
            None => error = Some(CLIENT_GONE.to_owned()),
            Some(status) => {
                let code = i64::from(status.as_u16());
                let attribute = KeyValue::new("http.response.status_code", code);
                self.span.set_attribute(attribute);
                if status.is_server_error() {
                    error = Some(status.as_str().to_owned());
                }
            }
        }
        if let Some(error) = error {
            self.span.set_attribute(KeyValue::new("error.type", error));
            self.span.set_status(Status::error(""));
        }
        self.span
            .end_with_timestamp(self.start + self.began.elapsed());
    }
}

/// Sets name and attributes that the [conventions](https://opentelemetry.io/docs/specs/semconv/http/http-spans/) give
/// to a server's span. All are bounded, and none names a user.
fn describe<B>(span: &mut Span, request: &Request<B>, route: Option<&str>, over_tls: bool) {
    let method = method_name(request.method());
    let named = if method == OTHER_METHOD {
        "HTTP"
    } else {
        method
    };
    let scheme = if over_tls { "https" } else { "http" };
    let path = route.unwrap_or(REDACTED).to_owned();
    span.set_attributes([
        KeyValue::new("http.request.method", method),
        KeyValue::new("url.scheme", scheme),
        KeyValue::new("url.path", path),
        KeyValue::new("network.protocol.version", version(request.version())),
    ]);
    match route {
        Some(route) => {
            span.update_name(format!("{named} {route}"));
            span.set_attribute(KeyValue::new("http.route", route.to_owned()));
        }
        None => span.update_name(named),
    }
}

/// Returns the method's name. Unknown methods share one name, because clients invent them.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::CONNECT => "CONNECT",
        Method::DELETE => "DELETE",
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::TRACE => "TRACE",
        _ => OTHER_METHOD,
    }
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

/// The parent of a span, as the SDK takes it.
fn remote(above: &TraceContext) -> SpanContext {
    let (trace, span) = (above.trace().into(), above.span().into());
    let state = above.tracestate().parse().unwrap_or_default();
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, state)
}

/// The context that a request passes on, with the state of `above`.
fn context(span: &SpanContext, above: Option<&TraceContext>) -> Option<TraceContext> {
    let trace = u128::from_be_bytes(span.trace_id().to_bytes());
    let id = u64::from_be_bytes(span.span_id().to_bytes());
    match above {
        Some(above) => above.in_span(id, true),
        None => TraceContext::new(trace, id, true),
    }
}
