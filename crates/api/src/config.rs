//! Sections of the configuration that the API reads, such as `[server]`, `[auth]` and `[limits]`.

mod claim_log;
mod secret;
mod traces;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::http::HeaderValue;
use ipnet::IpNet;
use qiang_core::queue_entry::QueueLimits;
use serde::Deserialize;

pub(crate) use self::secret::{check_secret, secret_of};
pub use self::{claim_log::ClaimLogConfig, secret::Secret, traces::TracesConfig};
pub use crate::http::client_address::ForwardedHeader;
use crate::{
    challenge::{DIFFICULTY_MAX, ProofOfWork, TicketChallenge},
    http::{
        client_address::{TrustedProxies, networks},
        cors,
    },
};

/// Longest time for which this node may not know a campaign that another one created.
const UNKNOWN_CAMPAIGN_TTL_MS_MAX: u32 = 60_000;

/// Range of the time for which idempotency keys are kept: one minute to ten years.
const IDEMPOTENCY_KEY_TTL_MS: std::ops::RangeInclusive<u64> = 60_000..=10 * 365 * 24 * 3_600_000;

/// Longest grace period for which an unpaid order keeps its units after its hold.
const GRACE_MS_MAX: u32 = 24 * 3_600_000;

/// Range of the lifetime of packets without an end: one second to one year.
const REFUND_AFTER_MS: std::ops::RangeInclusive<i64> = 1_000..=365 * 24 * 3_600_000;

/// Fault in the user's input, as one line with the remedy. A program exits with status 2 for it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// Error with this line.
    pub fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

/// Configuration of the API.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// `[server]`
    pub server: ServerConfig,
    /// `[auth]`
    pub auth: AuthConfig,
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[tickets]`
    pub tickets: TicketsConfig,
    /// `[order_check]`
    pub order_check: OrderCheckConfig,
    /// `[packets]`
    pub packets: PacketsConfig,
    /// `[payments]`
    pub payments: PaymentsConfig,
    /// `[queue]`
    pub queue: QueueConfig,
    /// `[traces]`
    pub traces: TracesConfig,
    /// `[claim_log]`
    pub claim_log: ClaimLogConfig,
}

/// `[server]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct ServerConfig {
    pub listen: SocketAddr,
    pub connections_max: u32,
    pub watchers_max: usize,
    pub trusted_proxies: String,
    pub forwarded_header: ForwardedHeader,
    pub header_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub request_timeout_ms: u64,
    pub drain_delay_ms: u64,
    pub drain_timeout_ms: u64,
    pub body_bytes_max: usize,
    pub tls_certificate_file: PathBuf,
    pub tls_key_file: PathBuf,
    pub hsts_max_age_s: u32,
    pub cors_origins: String,
    pub noop_route: bool,
    pub docs: bool,
}

impl ServerConfig {
    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        at_least_one([
            ("server.connections_max", u64::from(self.connections_max)),
            ("server.header_timeout_ms", self.header_timeout_ms),
            ("server.idle_timeout_ms", self.idle_timeout_ms),
            ("server.request_timeout_ms", self.request_timeout_ms),
        ])?;
        self.tls_files()?;
        self.origins()?;
        self.proxies().map(drop)
    }

    /// Origins whose pages may call the API.
    pub(crate) fn origins(&self) -> Result<Vec<HeaderValue>, UsageError> {
        cors::origins(&self.cors_origins).map_err(|wrong| {
            UsageError::new(format!(
                "server.cors_origins has {wrong:?}: an origin is https:// or http:// and a host in small letters, \
                 with its port if it is not the scheme's, and no path"
            ))
        })
    }

    /// Whether the node uses TLS.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        matches!(self.tls_files(), Ok(Some(_)))
    }

    /// Files of certificate and key; `None` if the node does not use TLS.
    pub(crate) fn tls_files(&self) -> Result<Option<(&Path, &Path)>, UsageError> {
        let files = (&self.tls_certificate_file, &self.tls_key_file);
        let is_set = |file: &PathBuf| !file.as_os_str().is_empty();
        match (is_set(files.0), is_set(files.1)) {
            (true, true) => Ok(Some((files.0, files.1))),
            (false, false) => Ok(None),
            _ => Err(UsageError::new(
                "server.tls_certificate_file and server.tls_key_file need each other: set both, or neither",
            )),
        }
    }

    pub(crate) fn proxies(&self) -> Result<TrustedProxies, UsageError> {
        Ok(TrustedProxies {
            networks: networks_of("server.trusted_proxies", &self.trusted_proxies)?,
            header: self.forwarded_header,
        })
    }
}

/// `[auth]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct AuthConfig {
    pub hs256_secret: Secret,
    pub hs256_secret_file: PathBuf,
    pub public_key_file: PathBuf,
    pub jwks_file: PathBuf,
    pub jwks_url: String,
    pub jwks_refresh_s: u32,
    pub jwks_alarm_s: u32,
    pub jwks_cache_file: PathBuf,
    pub revoked_file: PathBuf,
    pub issuer: String,
    pub audience: String,
    pub typ: String,
    pub require_iat: bool,
    pub lifetime_s_max: u32,
    pub leeway_s: u32,
    pub ticket_secret: Secret,
    pub ticket_secret_file: PathBuf,
}

impl AuthConfig {
    /// Replaces all keys by this secret, and requires nothing else of tokens.
    pub fn use_secret(&mut self, secret: Secret) {
        *self = Self {
            hs256_secret: secret,
            leeway_s: self.leeway_s,
            ..Self::default()
        };
    }
}

/// `[limits]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct LimitsConfig {
    pub claims_per_user_per_second: u32,
    pub claims_per_user_burst: u32,
    pub claims_per_address_per_second: u32,
    pub claims_per_address_burst: u32,
    pub reads_per_user_per_second: u32,
    pub reads_per_user_burst: u32,
    pub reads_per_address_per_second: u32,
    pub reads_per_address_burst: u32,
    pub expensive_per_node_per_second: u32,
    pub expensive_per_node_burst: u32,
    pub unauthenticated_per_address_per_minute: u32,
    pub connections_per_address_max: u32,
    pub streams_per_address_max: u32,
    pub streams_per_user_max: u32,
    pub streams_per_connection_max: u32,
    pub unlimited_addresses: String,
    pub creations_per_user_per_minute: u32,
    pub shares_per_user_per_minute: u32,
    pub changes_per_campaign_per_minute: u32,
    pub tracked_callers_max: usize,
    pub unknown_campaign_ttl_ms: u32,
    pub shares_max: u32,
    pub buyer_return_ms: u64,
    pub idempotency_key_ttl_ms: u64,
}

impl LimitsConfig {
    pub(crate) fn unlimited(&self) -> Result<Vec<IpNet>, UsageError> {
        networks_of("limits.unlimited_addresses", &self.unlimited_addresses)
    }

    /// Disables all rate limits: for an installation's own load, and for tests of other behaviour.
    pub fn disable_rate_limits(&mut self) {
        self.claims_per_user_per_second = 0;
        self.claims_per_address_per_second = 0;
        self.reads_per_user_per_second = 0;
        self.reads_per_address_per_second = 0;
        self.expensive_per_node_per_second = 0;
        self.unauthenticated_per_address_per_minute = 0;
        self.connections_per_address_max = 0;
        self.streams_per_address_max = 0;
        self.streams_per_user_max = 0;
        self.streams_per_connection_max = 0;
        self.creations_per_user_per_minute = 0;
        self.shares_per_user_per_minute = 0;
        self.changes_per_campaign_per_minute = 0;
    }

    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        self.unlimited()?;
        if self.unknown_campaign_ttl_ms > UNKNOWN_CAMPAIGN_TTL_MS_MAX {
            return Err(UsageError::new(format!(
                "limits.unknown_campaign_ttl_ms is at most {UNKNOWN_CAMPAIGN_TTL_MS_MAX}"
            )));
        }
        if !IDEMPOTENCY_KEY_TTL_MS.contains(&self.idempotency_key_ttl_ms) {
            let (least, most) = (IDEMPOTENCY_KEY_TTL_MS.start(), IDEMPOTENCY_KEY_TTL_MS.end());
            let text = format!("limits.idempotency_key_ttl_ms must be {least} up to {most}");
            return Err(UsageError::new(text));
        }
        at_least_one([
            (
                "limits.claims_per_user_burst",
                self.claims_per_user_burst.into(),
            ),
            (
                "limits.claims_per_address_burst",
                self.claims_per_address_burst.into(),
            ),
            (
                "limits.reads_per_user_burst",
                self.reads_per_user_burst.into(),
            ),
            (
                "limits.reads_per_address_burst",
                self.reads_per_address_burst.into(),
            ),
            (
                "limits.expensive_per_node_burst",
                self.expensive_per_node_burst.into(),
            ),
            (
                "limits.tracked_callers_max",
                self.tracked_callers_max as u64,
            ),
            ("limits.shares_max", self.shares_max.into()),
        ])
    }
}

/// `[packets]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct PacketsConfig {
    pub refund_after_ms: i64,
}

impl PacketsConfig {
    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        match REFUND_AFTER_MS.contains(&self.refund_after_ms) {
            true => Ok(()),
            false => Err(UsageError::new(format!(
                "packets.refund_after_ms must be {} up to {}",
                REFUND_AFTER_MS.start(),
                REFUND_AFTER_MS.end()
            ))),
        }
    }
}

/// `[payments]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct PaymentsConfig {
    pub secret: Secret,
    pub secret_file: PathBuf,
    pub rotation_secret: Secret,
    pub rotation_secret_file: PathBuf,
    pub tolerance_ms: u32,
    pub grace_ms: u32,
    pub accounts_file: PathBuf,
}

impl PaymentsConfig {
    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key and its limit.
    pub fn check(&self) -> Result<(), UsageError> {
        let text = format!("payments.grace_ms is at most {GRACE_MS_MAX}");
        let fits = self.grace_ms <= GRACE_MS_MAX;
        fits.then_some(()).ok_or_else(|| UsageError::new(text))
    }
}

/// `[tickets]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct TicketsConfig {
    pub ttl_ms: u64,
    pub challenge: ChallengeKind,
    pub difficulty: u32,
}

/// Challenge that a user solves for a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeKind {
    /// No challenge.
    None,
    /// Computation on the user's machine.
    ProofOfWork,
}

impl TicketsConfig {
    pub(crate) fn challenge(&self) -> Option<Arc<dyn TicketChallenge>> {
        match self.challenge {
            ChallengeKind::None => None,
            ChallengeKind::ProofOfWork => Some(Arc::new(ProofOfWork::new(self.difficulty))),
        }
    }

    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        if self.difficulty > DIFFICULTY_MAX {
            let text = format!("tickets.difficulty is at most {DIFFICULTY_MAX}");
            return Err(UsageError::new(text));
        }
        at_least_one([("tickets.ttl_ms", self.ttl_ms)])
    }
}

/// `[order_check]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct OrderCheckConfig {
    pub url: String,
    pub secret: Secret,
    pub secret_file: PathBuf,
    pub timeout_ms: u64,
    pub concurrent_max: u32,
    pub breaker_failures: u32,
    pub breaker_open_ms: u64,
    pub policy: OrderCheckPolicy,
}

/// Handling of orders that need a check while the shop does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderCheckPolicy {
    /// Answer them with 503.
    Refuse,
    /// Allow them.
    Allow,
}

impl OrderCheckConfig {
    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        at_least_one([
            ("order_check.timeout_ms", self.timeout_ms),
            ("order_check.concurrent_max", self.concurrent_max.into()),
            ("order_check.breaker_failures", self.breaker_failures.into()),
            ("order_check.breaker_open_ms", self.breaker_open_ms),
        ])
    }
}

/// `[queue]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct QueueConfig {
    pub entries_max: u64,
    pub partition_entries_max: u64,
    pub result_ttl_ms: u64,
    pub streams_max: usize,
    pub stream_ms: u64,
}

impl QueueConfig {
    /// Limits of the queues.
    pub fn limits(&self) -> QueueLimits {
        QueueLimits {
            entries_max: self.entries_max,
            partition_entries_max: self.partition_entries_max,
            result_ttl_ms: self.result_ttl_ms,
        }
    }

    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        at_least_one([
            ("queue.entries_max", self.entries_max),
            ("queue.partition_entries_max", self.partition_entries_max),
            ("queue.result_ttl_ms", self.result_ttl_ms),
            ("queue.stream_ms", self.stream_ms),
        ])
    }
}

fn networks_of(key: &str, text: &str) -> Result<Vec<IpNet>, UsageError> {
    networks(text).map_err(|error| UsageError::new(format!("{key}: {error}")))
}

fn at_least_one<const N: usize>(values: [(&str, u64); N]) -> Result<(), UsageError> {
    match values.iter().find(|(_, value)| *value == 0) {
        Some((key, _)) => Err(UsageError::new(format!("{key} must be at least 1"))),
        None => Ok(()),
    }
}
