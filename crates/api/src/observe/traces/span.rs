//! What is written down of a request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{Method, StatusCode, Version};
use qiang_core::trace_context::TraceContext;

use crate::observe::metrics::Route;

/// What the conventions call a method that is not known.
pub(super) const OTHER_METHOD: &str = "_OTHER";

/// A request that was answered, or whose client has gone.
pub(super) struct Span {
    pub(super) context: Arc<TraceContext>,
    /// The span that it happened in, elsewhere.
    pub(super) parent: Option<u64>,
    pub(super) method: &'static str,
    pub(super) route: Route,
    pub(super) version: Version,
    pub(super) over_tls: bool,
    pub(super) began: Instant,
    pub(super) took: Duration,
    /// None where the client had gone before.
    pub(super) status: Option<StatusCode>,
}

/// A method's name; one for all that are not among the known ones, because clients make them up.
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
