//! The HTTP client of the exporter: hyper with our TLS.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Uri,
    header::{HeaderName, HeaderValue, USER_AGENT},
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use tokio::runtime::Handle;

use crate::{
    config::{TracesConfig, UsageError},
    http::https,
};

/// Maximum length of an answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The server that receives spans.
#[derive(Debug)]
pub(super) struct Collector {
    headers: HeaderMap,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// The exporter runs on a thread outside of the runtime that connections need.
    runtime: Handle,
    /// Spans of accepted requests that the collector rejected.
    rejected: Arc<AtomicU64>,
}

impl Collector {
    /// A client of the collector at `endpoint`, on the current runtime. It connects at the first request.
    ///
    /// # Errors
    /// [`UsageError`] that names the key; other errors if a file cannot be read.
    pub(super) fn new(
        config: &TracesConfig,
        endpoint: &Uri,
        rejected: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        let connector = https::connector(endpoint.scheme_str())?;
        let mut headers = HeaderMap::new();
        if !config.headers_file.as_os_str().is_empty() {
            headers = read_headers(&config.headers_file)?;
        }
        let agent = concat!("qiang/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        Ok(Self {
            headers,
            timeout: Duration::from_millis(config.timeout_ms),
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(1)
                .build(connector),
            runtime: Handle::current(),
            rejected,
        })
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.exchange(request).await.inspect_err(|error| {
            // The exporter's own error has no cause.
            tracing::warn!(
                error = format!("{error:#}"),
                "no answer from the collector of traces"
            );
        })?;
        if response.status().is_success() {
            let rejected = rejected_spans(response.body());
            self.rejected.fetch_add(rejected, Ordering::Relaxed);
        }
        Ok(response)
    }
}

impl Collector {
    async fn exchange(&self, request: Request<Bytes>) -> anyhow::Result<Response<Bytes>> {
        let mut request = request.map(Full::new);
        request.headers_mut().extend(self.headers.clone());
        let (client, timeout) = (self.client.clone(), self.timeout);
        let exchange = async move {
            let (head, body) = client.request(request).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            // The status suffices if the rest cannot be read.
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            anyhow::Ok(Response::from_parts(head, body))
        };
        let timed = async move { tokio::time::timeout(timeout, exchange).await };
        self.runtime.spawn(timed).await??
    }
}

/// Counts the spans that an answer rejects.
fn rejected_spans(body: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    u64::try_from(partial.rejected_spans).unwrap_or_default()
}

/// Reads a file of headers, `name: value` per line. Empty lines and lines that begin with `#` are ignored. Values may
/// be secret: errors name the line only.
fn read_headers(file: &Path) -> anyhow::Result<HeaderMap> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("traces.headers_file: read {}", file.display()))?;
    let mut headers = HeaderMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let header = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            let mut value = HeaderValue::try_from(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let (name, value) = header.ok_or_else(|| {
            let (file, number) = (file.display(), number + 1);
            UsageError::new(format!(
                "traces.headers_file: {file}:{number} is not `name: value`"
            ))
        })?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_line_by_line_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("headers");
        std::fs::write(
            &file,
            "# for the collector\n\nAuthorization: Bearer a:b\nx-tenant:t \n",
        )
        .unwrap();
        let headers = read_headers(&file).unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert_eq!(headers["x-tenant"], "t");
        assert!(!format!("{headers:?}").contains("Bearer"));
        for wrong in ["x\nhunter2", "a b: hunter2", "x: hunter2\u{1}"] {
            std::fs::write(&file, wrong).unwrap();
            let error = read_headers(&file).unwrap_err();
            assert!(error.is::<UsageError>());
            let error = error.to_string();
            assert!(
                error.contains("headers:1") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
