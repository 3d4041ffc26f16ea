//! Delivery of events to webhook endpoints: JSON in a POST, signed as [Standard Webhooks] specifies.
//!
//! Endpoint URLs come from users, so they are not trusted. Each new connection resolves the host, checks the addresses,
//! and connects to a checked address. So a name that is public first and private a moment later causes no harm.
//! Redirects are not followed. Answers are read up to a limit, and each delivery has a time limit.
//!
//! [Standard Webhooks]: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

mod address;
mod connection;
mod message;
mod target;

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use aws_lc_rs::rand;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use qiang_core::{
    ports::{SendFailure, WebhookSender},
    time::Timestamp,
    webhook::{Webhook, WebhookEvent},
};
use tokio::time::timeout;

pub use self::address::is_public;
use self::{connection::ConnectionPool, message::SignedRequest, target::EndpointTarget};

/// Size of a secret in bytes.
const SECRET_BYTES: usize = 32;

/// Options of deliveries.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// Whether endpoints may have private addresses and no TLS.
    pub allow_private: bool,
    /// Time limit of a delivery, from connecting to the end of the answer.
    pub timeout: Duration,
}

/// Sends events over HTTP/1.1.
pub struct HttpSender {
    options: SenderOptions,
    connections: ConnectionPool,
}

impl HttpSender {
    /// Sender that trusts the certificates of the web, and additionally those of this PEM file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn new(options: SenderOptions, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let connections = ConnectionPool::new(options.allow_private, ca_file);
        Ok(Self {
            connections: connections.context("webhooks.ca_file")?,
            options,
        })
    }
}

#[async_trait]
impl WebhookSender for HttpSender {
    fn check_url(&self, url: &str) -> Result<(), String> {
        EndpointTarget::parse(url, self.options.allow_private).map(drop)
    }

    fn fresh_secret(&self) -> Result<String, String> {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).map_err(|_| "cannot get random bytes from the system".to_owned())?;
        let text = BASE64_STANDARD.encode(bytes);
        Ok(format!("{}{text}", message::SECRET_PREFIX))
    }

    fn content(&self, event: &WebhookEvent) -> Result<String, String> {
        message::content(event)
    }

    async fn send(
        &self,
        webhook: &Webhook,
        event: &WebhookEvent,
        now: Timestamp,
    ) -> Result<(), SendFailure> {
        let failed = |reason: String| SendFailure {
            reason,
            is_gone: false,
        };
        let target =
            EndpointTarget::parse(&webhook.url, self.options.allow_private).map_err(failed)?;
        let message = SignedRequest::signed(webhook, event, now).map_err(failed)?;
        let posting = self.connections.post(&target, &message);
        let status = match timeout(self.options.timeout, posting).await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => {
                let limit_ms = self.options.timeout.as_millis();
                return Err(failed(format!("no answer within {limit_ms} ms")));
            }
        };
        match status.is_success() {
            true => Ok(()),
            false => Err(SendFailure {
                reason: format!("status {}", status.as_u16()),
                is_gone: status.as_u16() == 410,
            }),
        }
    }
}
