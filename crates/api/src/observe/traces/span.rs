//! Recorded data of a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Method, StatusCode, Version};
use qiang_core::trace_context::TraceContext;

use crate::observe::metrics::Route;

/// Name of an unknown method in the conventions.
pub(super) const OTHER_METHOD: &str = "_OTHER";

/// A request that was answered, or whose client disconnected.
pub(super) struct Span {
    pub(super) context: Arc<TraceContext>,
    /// Parent span in another service.
    pub(super) parent: Option<u64>,
    pub(super) method: &'static str,
    pub(super) route: Route,
    pub(super) version: Version,
    pub(super) over_tls: bool,
    pub(super) began: Instant,
    pub(super) took: Duration,
    /// `None` if the client disconnected before the answer.
    pub(super) status: Option<StatusCode>,
}

/// Name of a method; one name for all unknown methods, because clients can invent them.
pub(super) fn known(method: &Method) -> &'static str {
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
