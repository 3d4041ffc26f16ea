//! `[ledger]` and `[settlement]`

use std::time::Duration;

use qiang_api::{UsageError, config::Secret};
use qiang_ledger::LedgerOptions;
use qiang_redis::TransportOptions;
use serde::Deserialize;

/// `[ledger]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct LedgerConfig {
    pub url: Secret,
    pub connections_max: u32,
    pub acquire_timeout_ms: u64,
}

impl LedgerConfig {
    /// The database's URL, if the ledger is in one.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        (!self.url.is_empty()).then(|| self.url.expose())
    }

    /// Options of the database connection.
    #[must_use]
    pub fn options(&self) -> LedgerOptions {
        LedgerOptions {
            connections_max: self.connections_max,
            acquire_max: Duration::from_millis(self.acquire_timeout_ms),
            ..LedgerOptions::default()
        }
    }
}

/// `[settlement]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct SettlementConfig {
    pub transport: TransportName,
    pub rabbitmq_url: Secret,
    pub in_process: bool,
    pub worker: String,
    pub lease_ms: u64,
    pub lag_entries_max: u64,
    pub stop_timeout_ms: u64,
}

/// Transport of entries to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportName {
    /// A consumer group that reads the log.
    Stream,
    /// A list beside the log.
    List,
    /// A queue of RabbitMQ.
    #[serde(rename = "rabbitmq")]
    RabbitMq,
    /// No transport: settlement reads the log.
    Log,
}

impl TransportName {
    /// The name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
            Self::RabbitMq => "rabbitmq",
            Self::Log => "log",
        }
    }

    /// The error of a program that was built without RabbitMQ.
    pub(crate) fn without_rabbitmq() -> UsageError {
        let text = "settlement.transport is rabbitmq, but this program was built without it: build it with \
            `--features rabbitmq`, or choose stream, list or log";
        UsageError::new(text.to_owned())
    }
}

impl SettlementConfig {
    /// The configured name of this worker, or a random one.
    fn worker(&self) -> String {
        if self.worker.is_empty() {
            format!("{:016x}", rand::random::<u64>())
        } else {
            self.worker.clone()
        }
    }

    /// Options of the transport over RabbitMQ. The names of its queues begin with `prefix`.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn broker(&self, prefix: &str) -> qiang_worker::broker::BrokerOptions {
        let url = self.rabbitmq_url.expose();
        let mut options = qiang_worker::broker::BrokerOptions::new(url, &self.worker());
        prefix.clone_into(&mut options.prefix);
        options
    }

    /// Options of the transport on Redis; `None` if another transport is configured.
    #[must_use]
    pub fn transport_options(&self) -> Option<TransportOptions> {
        let transport_kind = match self.transport {
            TransportName::Stream => qiang_redis::LogTransportKind::Stream,
            TransportName::List => qiang_redis::LogTransportKind::List,
            TransportName::RabbitMq | TransportName::Log => return None,
        };
        let mut transport_options = TransportOptions::new(transport_kind, &self.worker());
        transport_options.lease = Duration::from_millis(self.lease_ms);
        Some(transport_options)
    }

    /// Maximum time that a stop waits until the ledger has all answered entries.
    pub(crate) fn stop_timeout(&self) -> Duration {
        Duration::from_millis(self.stop_timeout_ms)
    }

    pub(super) fn check(&self) -> Result<(), UsageError> {
        if self.lag_entries_max == 0 || self.lease_ms < 100 {
            let text = "settlement.lag_entries_max must be at least 1, and settlement.lease_ms at least 100";
            return Err(UsageError::new(text.to_owned()));
        }
        if self.transport == TransportName::RabbitMq && !cfg!(feature = "rabbitmq") {
            return Err(TransportName::without_rabbitmq());
        }
        Ok(())
    }
}
