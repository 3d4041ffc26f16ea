//! `[traces]` of the configuration.

use std::{ops::RangeInclusive, path::PathBuf};

use hyper::Uri;
use qiang_core::web_url;
use serde::Deserialize;

use super::UsageError;

/// Range of spans in the queue: 100,000 use about 90 MB.
const QUEUE: RangeInclusive<u32> = 1..=100_000;
/// Range of the time limit: a slower collector counts as down.
const TIMEOUT_MS: RangeInclusive<u64> = 1..=60_000;

/// `[traces]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct TracesConfig {
    pub endpoint: String,
    pub sample_ratio: f64,
    pub service_name: String,
    pub headers_file: PathBuf,
    pub queue_max: u32,
    pub timeout_ms: u64,
}

impl TracesConfig {
    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        let wrong = |key: &str, what: &str| UsageError::new(format!("traces.{key} {what}"));
        let is_set = self.collector()?.is_some();
        if is_set && !cfg!(feature = "traces") {
            let what = "is set, but this program was built without spans: build it with `--features traces`";
            return Err(wrong("endpoint", what));
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            return Err(wrong("sample_ratio", "is 0 up to 1"));
        }
        if is_set && self.service_name.is_empty() {
            return Err(wrong("service_name", "is empty"));
        }
        if !QUEUE.contains(&self.queue_max) {
            let what = format!("must be {} up to {}", QUEUE.start(), QUEUE.end());
            return Err(wrong("queue_max", &what));
        }
        if !TIMEOUT_MS.contains(&self.timeout_ms) {
            let what = format!("must be {} up to {}", TIMEOUT_MS.start(), TIMEOUT_MS.end());
            return Err(wrong("timeout_ms", &what));
        }
        Ok(())
    }

    /// URL of the collector; `None` if no spans are sent. A URL without a path gets the path of the protocol.
    pub(crate) fn collector(&self) -> Result<Option<Uri>, UsageError> {
        if self.endpoint.is_empty() {
            return Ok(None);
        }
        let wrong = |why: &str| UsageError::new(format!("traces.endpoint {why}"));
        let url = web_url::parse(&self.endpoint);
        let mut url = url.map_err(|error| wrong(&format!("cannot be used: {error}")))?;
        if web_url::has_credentials(&url) {
            return Err(wrong("must be http://… or https://…, without a password"));
        }
        if url.path() == "/" {
            url.set_path("/v1/traces");
        }
        let uri = url.as_str().parse::<Uri>();
        uri.map(Some).map_err(|_| wrong("is not a URL"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: &str) -> TracesConfig {
        TracesConfig {
            endpoint: endpoint.to_owned(),
            ..TracesConfig::default()
        }
    }

    #[test]
    fn an_endpoint_is_a_url() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://c.example/", "https://c.example/v1/traces"),
            ("http://c.example/otlp?x=1", "http://c.example/otlp?x=1"),
        ] {
            let uri = config(endpoint).collector().unwrap().unwrap();
            assert_eq!(uri.to_string(), expected);
        }
        assert!(config("").collector().unwrap().is_none());
        for wrong in [
            "c.example:4318",
            "ftp://c",
            "/v1/traces",
            "http://a:b@c",
            "grpc://c:4317",
            "http://c:0",
            "http://c:99999",
        ] {
            let error = config(wrong).collector().unwrap_err().to_string();
            assert!(error.contains("traces.endpoint"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let fine = || TracesConfig {
            sample_ratio: 0.5,
            service_name: "qiang".to_owned(),
            queue_max: 10,
            timeout_ms: 10,
            ..config("")
        };
        assert!(fine().check().is_ok());
        let check = |key: &str, change: fn(&mut TracesConfig)| {
            let mut config = fine();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("traces.{key} ")), "{error}");
        };
        check("sample_ratio", |config| config.sample_ratio = -0.1);
        check("sample_ratio", |config| config.sample_ratio = 1.1);
        check("sample_ratio", |config| config.sample_ratio = f64::NAN);
        check("queue_max", |config| config.queue_max = 0);
        check("queue_max", |config| config.queue_max = 100_001);
        check("timeout_ms", |config| config.timeout_ms = 0);
        check("endpoint", |config| config.endpoint = "here".to_owned());
    }
}
