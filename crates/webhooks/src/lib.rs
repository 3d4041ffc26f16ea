//! Sends events to the endpoints of webhooks: JSON in a POST, signed as [Standard Webhooks] has it.
//!
//! An endpoint is a URL that somebody else has given. So its addresses are looked at whenever it is connected, and the
//! connection is made to an address that was looked at: a name that is public now and private a moment later comes to
//! nothing. Redirects are not followed, an answer is read up to a bound, and all of it has a time limit.
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
use self::{connection::Connections, message::Message, target::Target};

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// How events are sent.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether endpoints may have addresses that are not public, and be asked without TLS.
    pub allow_private: bool,
    /// How long an endpoint may take from the connection to the end of its answer.
    pub timeout: Duration,
}

/// Sends events over HTTP/1.1.
pub struct HttpSender {
    options: Options,
    connections: Connections,
}

impl HttpSender {
    /// A sender that trusts the certificates of the web, and those of this PEM file too.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn new(options: Options, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let connections = Connections::new(options.allow_private, ca_file);
        Ok(Self {
            connections: connections.context("webhooks.ca_file")?,
            options,
        })
    }
}

#[async_trait]
impl WebhookSender for HttpSender {
    fn check_url(&self, url: &str) -> Result<(), String> {
        Target::parse(url, self.options.allow_private).map(drop)
    }

    fn fresh_secret(&self) -> Result<String, String> {
        let mut bytes = [0; SECRET_BYTES];
        rand::fill(&mut bytes).map_err(|_| "there is no randomness".to_owned())?;
        let text = BASE64_STANDARD.encode(bytes);
        Ok(format!("{}{text}", message::SECRET_PREFIX))
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
        let target = Target::parse(&webhook.url, self.options.allow_private).map_err(failed)?;
        let message = Message::of(webhook, event, now).map_err(failed)?;
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
