//! `[webhooks]`

use std::{path::PathBuf, sync::Arc, time::Duration};

use qiang_api::{UsageError, Webhooks};
use qiang_worker::webhook_delivery::{HttpSender, SenderOptions};
use qiang_worker::webhooks::WebhookOptions;
use serde::Deserialize;

/// Maximum time limit of a request. After a process dies in a request, other processes wait this long for its endpoint.
const TIMEOUT_MS_MAX: u64 = 30_000;

/// `[webhooks]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct WebhooksConfig {
    pub allow_private: bool,
    pub allow_private_sellers: bool,
    pub ca_file: PathBuf,
    pub timeout_ms: u64,
    pub concurrent_max: u32,
    pub retry_ms: u64,
    pub retry_ms_max: u64,
    pub disable_after_ms: u64,
    pub event_ttl_ms: u64,
    pub attempt_ttl_ms: u64,
}

impl WebhooksConfig {
    /// The sender of webhook events, and its monitor.
    ///
    /// # Errors
    /// If the certificate file cannot be used.
    pub fn sender(&self) -> anyhow::Result<Webhooks> {
        let options = SenderOptions {
            allow_private: self.allow_private,
            allow_private_sellers: self.allow_private_sellers,
            timeout: Duration::from_millis(self.timeout_ms),
        };
        let ca_file = Some(self.ca_file.as_path()).filter(|file| !file.as_os_str().is_empty());
        Ok(Webhooks {
            sender: Arc::new(HttpSender::new(options, ca_file)?),
            monitor: Arc::default(),
        })
    }

    /// Options of event delivery.
    pub(crate) fn options(&self) -> WebhookOptions {
        WebhookOptions {
            retry_min: Duration::from_millis(self.retry_ms),
            retry_max: Duration::from_millis(self.retry_ms_max),
            disable_after: Duration::from_millis(self.disable_after_ms),
            keep: Duration::from_millis(self.event_ttl_ms),
            keep_attempts: Duration::from_millis(self.attempt_ttl_ms),
            request_max: Duration::from_millis(self.timeout_ms),
            concurrent_max: self.concurrent_max as usize,
        }
    }

    /// Checks limits that the types do not express.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        for (key, value, max) in [
            ("timeout_ms", self.timeout_ms, TIMEOUT_MS_MAX),
            ("concurrent_max", self.concurrent_max.into(), 1_000),
            ("retry_ms", self.retry_ms, self.retry_ms_max),
            ("retry_ms_max", self.retry_ms_max, i64::MAX as u64),
            ("disable_after_ms", self.disable_after_ms, i64::MAX as u64),
            ("event_ttl_ms", self.event_ttl_ms, i64::MAX as u64),
            ("attempt_ttl_ms", self.attempt_ttl_ms, i64::MAX as u64),
        ] {
            if !(1..=max).contains(&value) {
                return Err(UsageError::new(format!("webhooks.{key} is 1 to {max}")));
            }
        }
        Ok(())
    }
}
