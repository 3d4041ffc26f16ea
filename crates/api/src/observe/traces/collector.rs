//! Client of the collector: sends spans over HTTP.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Request, StatusCode, Uri,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT},
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;

use crate::{
    config::{TracesConfig, UsageError},
    http::https,
};

/// Maximum size of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Longest pause that `Retry-After` of a collector can cause.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Reason why spans were not accepted.
#[derive(Debug)]
pub(super) enum Refusal {
    /// They may be sent again after this time.
    NotNow(String, Duration),
    /// They must not be sent again.
    Never(String),
}

/// Client of the collector.
pub(super) struct Collector {
    uri: Uri,
    headers: HeaderMap,
    timeout: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Collector {
    /// Client of the configured collector; `None` if there is no endpoint. Connects when there are spans.
    ///
    /// # Errors
    /// [`UsageError`] that names the key; other errors if a file cannot be read.
    pub(super) fn new(config: &TracesConfig) -> anyhow::Result<Option<Self>> {
        let Some(uri) = config.collector()? else {
            return Ok(None);
        };
        let connector = https::connector(uri.scheme_str())?;
        let mut headers = HeaderMap::new();
        if !config.headers_file.as_os_str().is_empty() {
            headers = read_headers(&config.headers_file)?;
        }
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        );
        let agent = concat!("qiang/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        Ok(Some(Self {
            uri,
            headers,
            timeout: Duration::from_millis(config.timeout_ms),
            client: Client::builder(TokioExecutor::new())
                .pool_max_idle_per_host(1)
                .build(connector),
        }))
    }

    /// Sends a request with spans; returns how many of them the collector rejected.
    pub(super) async fn send(&self, body: Bytes) -> Result<u64, Refusal> {
        let sent = tokio::time::timeout(self.timeout, self.exchange(body)).await;
        let late = || Refusal::NotNow("no answer in time".to_owned(), Duration::ZERO);
        sent.map_err(|_| late())?
    }

    async fn exchange(&self, body: Bytes) -> Result<u64, Refusal> {
        let not_now = |why: String| Refusal::NotNow(why, Duration::ZERO);
        let mut request = Request::post(self.uri.clone())
            .body(Full::new(body))
            .map_err(|error| Refusal::Never(error.to_string()))?;
        *request.headers_mut() = self.headers.clone();
        let response = self.client.request(request).await;
        let response = response.map_err(|error| not_now(chain(&error)))?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(seconds);
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        // If the body cannot be read, the status is enough.
        let body = body.collect().await.map(|body| body.to_bytes());
        match status {
            status if status.is_success() => Ok(body.map_or(0, |body| rejected(&body))),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Refusal::NotNow(
                format!("status {}", status.as_u16()),
                after.unwrap_or_default().min(RETRY_AFTER_MAX),
            )),
            status => Err(Refusal::Never(format!("status {}", status.as_u16()))),
        }
    }
}

/// Rejected spans of a request that was accepted.
fn rejected(body: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    u64::try_from(partial.rejected_spans).unwrap_or_default()
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    let seconds = value.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Reads a file of headers, one `name: value` per line; empty lines and lines that start with `#` are ignored. Values
/// may be secret, so errors name only the line.
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
