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
    ports::{EndpointAnswer, SendFailure, WebhookSender},
    time::Timestamp,
    webhook::{Webhook, WebhookEvent},
};
use tokio::time::timeout;

pub use self::address::is_public;
use self::{
    connection::{ConnectionPool, PostAnswer},
    message::SignedRequest,
    target::EndpointTarget,
};

/// Maximum characters of an answer's body that are returned.
const BODY_CHARS_MAX: usize = 256;
/// Size of a secret in bytes.
const SECRET_BYTES: usize = 32;

/// Options of deliveries.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// Whether endpoints of operators may have private addresses and no TLS.
    pub allow_private: bool,
    /// Whether endpoints of sellers may, too.
    pub allow_private_sellers: bool,
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
        let connections = ConnectionPool::new(ca_file);
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

    async fn attempt(
        &self,
        webhook: &Webhook,
        event: &WebhookEvent,
        now: Timestamp,
    ) -> EndpointAnswer {
        let is_seller = webhook.managed_by.is_some();
        let allow_private = match is_seller {
            true => self.options.allow_private_sellers,
            false => self.options.allow_private,
        };
        let target = EndpointTarget::parse(&webhook.url, allow_private);
        let message = SignedRequest::signed(webhook, event, now);
        let (target, message) = match (target, message) {
            (Ok(target), Ok(message)) => (target, message),
            (Err(reason), _) | (_, Err(reason)) => return unanswered(reason),
        };
        let posting = self.connections.post(&target, &message);
        match timeout(self.options.timeout, posting).await {
            Ok(Ok(answer)) => {
                let answer = answered(&answer);
                // A seller must not read what a server of a private network answers.
                let hides_body = is_seller && allow_private;
                EndpointAnswer {
                    body: answer.body.filter(|_| !hides_body),
                    ..answer
                }
            }
            Ok(Err(error)) => unanswered(error.to_string()),
            Err(_) => {
                let limit_ms = self.options.timeout.as_millis();
                unanswered(format!("no answer within {limit_ms} ms"))
            }
        }
    }
}

fn unanswered(reason: String) -> EndpointAnswer {
    EndpointAnswer {
        failure: Some(SendFailure {
            reason,
            is_gone: false,
        }),
        ..EndpointAnswer::default()
    }
}

fn answered(answer: &PostAnswer) -> EndpointAnswer {
    let status = answer.status.as_u16();
    let text = String::from_utf8_lossy(&answer.head);
    // Databases and terminals do not take every character.
    let shown = text.chars().map(|char| match char.is_control() {
        true => ' ',
        false => char,
    });
    let body: String = shown.take(BODY_CHARS_MAX).collect();
    let failure = (!answer.status.is_success()).then(|| SendFailure {
        reason: format!("status {status}"),
        is_gone: status == 410,
    });
    EndpointAnswer {
        status: Some(status),
        body: Some(body).filter(|body| !body.is_empty()),
        failure,
    }
}
