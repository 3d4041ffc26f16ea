//! Spans of requests, for a collector of traces that speaks OTLP over HTTP.
//!
//! A request has a span if its `traceparent` marks the trace as sampled; so has a share of the requests without a
//! trace. A span waits in a queue of fixed size, and a task sends the queue once a second. No answer waits for
//! either. Spans are of limited size and name no user: they have the route instead of the path, because paths name
//! users.

#[cfg(feature = "traces")]
mod collector;
#[cfg(feature = "traces")]
mod exporter;
#[cfg(feature = "traces")]
mod tracer;

#[cfg(not(feature = "traces"))]
mod tracer {
    //! Placeholder for a program that is built without spans.

    use std::{sync::Arc, time::Instant};

    use axum::http::{Request, StatusCode};
    use qiang_core::ports::Clock;

    use crate::{
        config::TracesConfig,
        http::request_id::RequestId,
        observe::metrics::{Metrics, Route},
    };

    pub(crate) enum Tracer {}

    pub(crate) enum OpenSpan {}

    pub(crate) enum Exporting {}

    impl Tracer {
        pub(crate) fn start(
            config: &TracesConfig,
            _: &Arc<Metrics>,
            _: &Arc<dyn Clock>,
        ) -> anyhow::Result<Option<(Arc<Self>, Exporting)>> {
            config.check()?;
            Ok(None)
        }

        pub(crate) fn begin<B>(
            self: &Arc<Self>,
            _: &mut RequestId,
            _: &Request<B>,
            _: (Route, bool),
            _: Instant,
        ) -> Option<OpenSpan> {
            match **self {}
        }
    }

    impl OpenSpan {
        pub(crate) fn answered(self, _: StatusCode) {
            match self {}
        }
    }

    impl Exporting {
        pub(crate) async fn finish(self) {
            match self {}
        }
    }
}

pub(crate) use self::tracer::{Exporting, Tracer};
