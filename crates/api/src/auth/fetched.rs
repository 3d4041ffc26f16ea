//! The set of keys that was fetched from `auth.jwks_url` last, and when to fetch it again.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use tokio::time::Instant;

use super::jwks_url::{self, JwksUrl};
use crate::config::{AuthConfig, UsageError};

/// Between two fetches, whatever is asked for meanwhile: a flood of tokens with made-up `kid`s is no flood for the
/// provider.
const PAUSE: Duration = Duration::from_secs(5);
/// While the provider fails.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// A set a day old does not have the key that was made this morning.
const REFRESH_S: std::ops::RangeInclusive<u32> = 5..=86_400;

/// A set that was fetched.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    pub(super) set: Bytes,
    /// When it was fetched, or taken from the copy.
    fetched_at: Instant,
    tried_at: Instant,
    /// The last attempt has failed.
    failing: bool,
    /// That was said as an error.
    alarmed: bool,
}

impl Fetched {
    /// Fetches it for the first time. While the provider does not answer, or with nothing that `is_usable`, the copy in
    /// `auth.jwks_cache_file` counts.
    ///
    /// # Errors
    /// When there is neither.
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
                        "there are no keys to start with, and auth.jwks_cache_file names no copy";
                    return Err(error.context(text));
                }
                let reason = format!("{error:#}");
                let set = std::fs::read(file).with_context(|| {
                    format!("{reason}; auth.jwks_cache_file: read {}", file.display())
                })?;
                is_usable(&set).with_context(|| format!("{reason}; auth.jwks_cache_file"))?;
                tracing::error!(
                    reason,
                    "the set of keys cannot be fetched: the copy in auth.jwks_cache_file counts"
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

    /// When it may be fetched again, and when it must be.
    pub(super) fn next(&self, config: &AuthConfig) -> (Instant, Instant) {
        let refresh = Duration::from_secs(config.jwks_refresh_s.into());
        let due = match self.failing {
            true => refresh.min(RETRY_AFTER),
            false => refresh,
        };
        (self.tried_at + PAUSE, self.tried_at + due)
    }

    /// It was fetched: the same set, or a fresh one that can be used.
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

    /// It was not fetched, or cannot be used.
    pub(super) fn failed(&mut self, config: &AuthConfig, error: &anyhow::Error) {
        self.tried_at = Instant::now();
        let reason = format!("{error:#}");
        if !self.failing {
            tracing::warn!(
                reason,
                "the set of keys cannot be fetched: what was fetched before still counts"
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

/// Keeps a copy for a start without the provider, where one is asked for.
fn keep(config: &AuthConfig, set: &[u8]) {
    let file = &config.jwks_cache_file;
    if file.as_os_str().is_empty() {
        return;
    }
    if let Err(error) = jwks_url::keep(file, set) {
        tracing::error!(%error, "the copy of the set of keys is not written");
    }
}
