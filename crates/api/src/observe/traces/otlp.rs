//! Spans in the form of the OpenTelemetry protocol, with the attributes of its conventions for HTTP servers.

use std::time::Instant;

use axum::http::{StatusCode, Version};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span as Written, SpanFlags, Status, span::SpanKind,
        status::StatusCode as SpanStatus,
    },
};

use super::span::{OTHER_METHOD, Span};
use crate::observe::metrics::Metrics;

/// Replaces a path without a known route, because it may name a user.
const REDACTED: &str = "REDACTED";
/// Error type of a request whose client disconnected before the answer.
const CLIENT_GONE: &str = "client_gone";
/// Version of the conventions.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.37.0";

/// Resource that describes this process.
pub(super) fn resource(service_name: &str, instance: &str) -> Resource {
    Resource {
        attributes: vec![
            text("service.name", service_name),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", instance),
        ],
        ..Resource::default()
    }
}

/// Export request with these spans. `at` converts an instant to nanoseconds since 1970.
pub(super) fn request(
    resource: &Resource,
    spans: &[Box<Span>],
    metrics: &Metrics,
    at: impl Fn(Instant) -> u64,
) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let write = |span: &Span| {
        let route = span.route.is_known().then(|| metrics.template(span.route));
        written(span, route, &at)
    };
    let of_scope = ScopeSpans {
        scope: Some(scope),
        spans: spans.iter().map(|span| write(span)).collect(),
        schema_url: SCHEMA_URL.to_owned(),
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![of_scope],
            schema_url: SCHEMA_URL.to_owned(),
        }],
    }
}

fn written(span: &Span, route: Option<&str>, at: &impl Fn(Instant) -> u64) -> Written {
    let start = at(span.began);
    let took = u64::try_from(span.took.as_nanos()).unwrap_or(u64::MAX);
    let method = match span.method {
        OTHER_METHOD => "HTTP",
        known => known,
    };
    let mut attributes = vec![
        text("http.request.method", span.method),
        text("url.scheme", if span.over_tls { "https" } else { "http" }),
        text("url.path", route.unwrap_or(REDACTED)),
        text("network.protocol.version", version(span.version)),
    ];
    attributes.extend(route.map(|route| text("http.route", route)));
    if let Some(status) = span.status {
        let value = Value::IntValue(status.as_u16().into());
        attributes.push(attribute("http.response.status_code", value));
    }
    let error = match span.status {
        None => Some(CLIENT_GONE.to_owned()),
        Some(status) if status.is_server_error() => Some(error_type(status)),
        Some(_) => None,
    };
    let status = Status {
        code: match error {
            Some(_) => SpanStatus::Error,
            None => SpanStatus::Unset,
        } as i32,
        ..Status::default()
    };
    attributes.extend(error.map(|error| text("error.type", &error)));
    let mut flags = SpanFlags::ContextHasIsRemoteMask as u32 | 1;
    if span.parent.is_some() {
        flags |= SpanFlags::ContextIsRemoteMask as u32;
    }
    let parent = span.parent.map(|parent| parent.to_be_bytes().to_vec());
    Written {
        trace_id: span.context.trace().to_be_bytes().to_vec(),
        span_id: span.context.span().to_be_bytes().to_vec(),
        trace_state: span.context.tracestate().to_owned(),
        parent_span_id: parent.unwrap_or_default(),
        flags,
        name: match route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        },
        kind: SpanKind::Server as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(took),
        attributes,
        status: Some(status),
        ..Written::default()
    }
}

fn error_type(status: StatusCode) -> String {
    status.as_str().to_owned()
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
