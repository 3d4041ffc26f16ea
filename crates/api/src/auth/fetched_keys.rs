//! Last set of keys from `auth.jwks_url`, and the time of the next fetch.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use tokio::time::Instant;

use super::jwks_url::{self, JwksUrl};
use crate::config::{AuthConfig, UsageError};

/// Shortest time between two fetches. A flood of tokens with invented `kid`s must not flood the provider.
const PAUSE: Duration = Duration::from_secs(5);
/// Time between two fetches while the provider fails.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// Range of `auth.jwks_refresh_s`: a set older than a day would lack new keys.
const REFRESH_S: std::ops::RangeInclusive<u32> = 5..=86_400;

/// A set that was fetched.
#[derive(Debug, Clone)]
pub(super) struct FetchedKeys {
    pub(super) set: Bytes,
    /// Time of the fetch, or of reading the copy.
    fetched_at: Instant,
    tried_at: Instant,
    /// Whether the last attempt failed.
    failing: bool,
    /// Whether the failure was logged as an error.
    alarmed: bool,
}

impl FetchedKeys {
    /// Fetches the set for the first time. If the provider does not answer, or the answer is not usable, the copy in
    /// `auth.jwks_cache_file` is used.
    ///
    /// # Errors
    /// If neither is available.
    pub(super) fn first(
        config: &AuthConfig,
        is_usable: impl Fn(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        if !REFRESH_S.contains(&config.jwks_refresh_s) {
            let (least, most) = (REFRESH_S.start(), REFRESH_S.end());
            let text = format!("auth.jwks_refresh_s must be {least} up to {most}");
            return Err(UsageError::new(text).into());
        }
        let fetched = JwksUrl::fetch_now(&config.jwks_url);
        let fetched = fetched.and_then(|set| is_usable(&set).map(|()| set));
        let (set, failing) = match fetched {
            Ok(set) => {
                keep(config, &set);
                (set, false)
            }
            Err(error) => {
                let file = &config.jwks_cache_file;
                if file.as_os_str().is_empty() {
                    let text =
                        "there are no keys at the start, and auth.jwks_cache_file names no copy";
                    return Err(error.context(text));
                }
                let reason = format!("{error:#}");
                let set = std::fs::read(file).with_context(|| {
                    format!("{reason}; auth.jwks_cache_file: read {}", file.display())
                })?;
                is_usable(&set).with_context(|| format!("{reason}; auth.jwks_cache_file"))?;
                tracing::error!(
                    reason,
                    "cannot fetch the set of keys; the copy in auth.jwks_cache_file is used"
                );
                (set.into(), true)
            }
        };
        let now = Instant::now();
        Ok(Self {
            set,
            fetched_at: now,
            tried_at: now,
            failing,
            alarmed: false,
        })
    }

    /// Earliest and latest time of the next fetch.
    pub(super) fn next(&self, config: &AuthConfig) -> (Instant, Instant) {
        let refresh = Duration::from_secs(config.jwks_refresh_s.into());
        let due = match self.failing {
            true => refresh.min(RETRY_AFTER),
            false => refresh,
        };
        (self.tried_at + PAUSE, self.tried_at + due)
    }

    /// Records a successful fetch, with the set if it is new.
    pub(super) fn succeeded(&mut self, config: &AuthConfig, fresh: Option<Bytes>) {
        self.tried_at = Instant::now();
        self.fetched_at = self.tried_at;
        if self.failing {
            tracing::warn!("the set of keys is fetched again");
        }
        (self.failing, self.alarmed) = (false, false);
        if let Some(fresh) = fresh {
            keep(config, &fresh);
            self.set = fresh;
            tracing::warn!("the set of keys has changed at its URL");
        }
    }

    /// Records a fetch that failed, or returned an unusable set.
    pub(super) fn failed(&mut self, config: &AuthConfig, error: &anyhow::Error) {
        self.tried_at = Instant::now();
        let reason = format!("{error:#}");
        if !self.failing {
            tracing::warn!(
                reason,
                "cannot fetch the set of keys; the previous set stays in use"
            );
        }
        self.failing = true;
        if self.is_overdue(config) && !self.alarmed {
            let since_s = self.fetched_at.elapsed().as_secs();
            tracing::error!(
                reason,
                since_s,
                "the set of keys has not been fetched for long: a new key of the provider is not known here"
            );
            self.alarmed = true;
        }
    }

    /// Whether the provider has failed for `auth.jwks_alarm_s`.
    pub(super) fn is_overdue(&self, config: &AuthConfig) -> bool {
        let alarm = Duration::from_secs(config.jwks_alarm_s.into());
        self.failing && self.fetched_at.elapsed() >= alarm
    }
}

/// Stores a copy for a start without the provider, if configured.
fn keep(config: &AuthConfig, set: &[u8]) {
    let file = &config.jwks_cache_file;
    if file.as_os_str().is_empty() {
        return;
    }
    if let Err(error) = jwks_url::keep(file, set) {
        tracing::error!(%error, "cannot write the copy of the set of keys");
    }
}
