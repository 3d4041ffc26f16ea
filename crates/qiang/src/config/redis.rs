//! `[redis]`

use std::time::Duration;

use qiang_api::{UsageError, config::Secret};
use qiang_redis::{PARTITIONS_MAX, RedisOptions, Topology, WaitFor};
use qiang_worker::{reconcile::ReconcileOptions, repair::RepairMode};
use serde::Deserialize;

/// Maximum rows per reconciliation run, so that a run does not block a partition's server for long.
const RECONCILE_ROWS_MAX: u32 = 10_000;

/// Time for which Redis keeps the reply to a call. A call that is repeated later gets no answer.
const REPLY_KEPT_MS: u64 = 60_000;

/// `[redis]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct RedisConfig {
    pub urls: String,
    pub topology: TopologyKind,
    pub master: String,
    pub username: String,
    pub password: Secret,
    pub database: i64,
    pub prefix: String,
    pub partitions: u16,
    pub shard_supply_min: u32,
    pub shards_max: u16,
    pub replicas: u32,
    pub replica_timeout_ms: u64,
    #[serde(with = "WaitForSetting")]
    pub wait_for: WaitFor,
    pub read_urls: String,
    pub call_timeout_ms: u64,
    pub claim_timeout_ms: u64,
    pub retain_ms: u64,
    pub retain_bytes: u64,
    pub closed_campaign_ttl_ms: u64,
    pub term_grace_ms: u64,
    #[serde(with = "RepairModeName")]
    pub repair: RepairMode,
    pub reconcile_ms: u64,
    pub reconcile_rows: u32,
}

/// Kind of Redis deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopologyKind {
    /// One server.
    Standalone,
    /// A primary that Sentinels watch.
    Sentinel,
    /// Redis Cluster.
    Cluster,
}

/// Configuration words of [`WaitFor`].
#[derive(Deserialize)]
#[serde(remote = "WaitFor", rename_all = "snake_case")]
enum WaitForSetting {
    Asked,
    Always,
}

/// Configuration words of [`RepairMode`].
#[derive(Deserialize)]
#[serde(remote = "RepairMode", rename_all = "snake_case")]
enum RepairModeName {
    Automatic,
    Manual,
}

impl RedisConfig {
    /// Options of the engine.
    #[must_use]
    pub fn options(&self) -> RedisOptions {
        let text = |text: &String| (!text.is_empty()).then(|| text.clone());
        RedisOptions {
            urls: list(&self.urls),
            topology: match self.topology {
                TopologyKind::Standalone => Topology::Standalone,
                TopologyKind::Sentinel => Topology::Sentinel {
                    master: self.master.clone(),
                },
                TopologyKind::Cluster => Topology::Cluster,
            },
            username: text(&self.username),
            password: (!self.password.is_empty()).then(|| self.password.expose().to_owned()),
            database: self.database,
            prefix: self.prefix.clone(),
            partitions: self.partitions,
            shard_supply_min: self.shard_supply_min,
            shards_max: self.shards_max,
            replicas: self.replicas,
            replica_timeout: Duration::from_millis(self.replica_timeout_ms),
            wait_for: self.wait_for,
            read_urls: list(&self.read_urls),
            clock_behind_max: Duration::MAX, // `[engine]` has it
            call_timeout: Duration::from_millis(self.call_timeout_ms),
            claim_timeout: Duration::from_millis(self.claim_timeout_ms),
            serves: true,
            ticks: true,
            retain: Duration::from_millis(self.retain_ms),
            retain_bytes: self.retain_bytes,
            closed_campaign_ttl: Duration::from_millis(self.closed_campaign_ttl_ms),
            term_grace: Duration::from_millis(self.term_grace_ms),
            payment_grace: Duration::ZERO,
            clock: None,
            identity: None,
        }
    }

    /// Options of reconciliation between engine and ledger; `None` if it is off.
    #[must_use]
    pub fn reconcile_options(&self) -> Option<ReconcileOptions> {
        (self.reconcile_ms > 0).then(|| ReconcileOptions {
            interval: Duration::from_millis(self.reconcile_ms),
            rows_max: self.reconcile_rows,
        })
    }

    pub(super) fn check(&self) -> Result<(), UsageError> {
        let refuse = |text: &str| Err(UsageError::new(text.to_owned()));
        if list(&self.urls).is_empty() {
            return refuse("redis.urls needs a URL such as redis://127.0.0.1:6379");
        }
        if !(1..=PARTITIONS_MAX).contains(&self.partitions) {
            return Err(UsageError::new(format!(
                "redis.partitions must be 1 to {PARTITIONS_MAX}"
            )));
        }
        if self.shards_max == 0 || self.shard_supply_min == 0 {
            return refuse("redis.shard_supply_min and redis.shards_max must be at least 1");
        }
        if self.call_timeout_ms <= self.replica_timeout_ms {
            return refuse("redis.call_timeout_ms must be above redis.replica_timeout_ms");
        }
        if self.claim_timeout_ms.saturating_add(self.call_timeout_ms) > REPLY_KEPT_MS {
            return Err(UsageError::new(format!(
                "redis.claim_timeout_ms and redis.call_timeout_ms must be at most {REPLY_KEPT_MS} \
                 together: Redis keeps the replies to calls for that long"
            )));
        }
        if !(1..=RECONCILE_ROWS_MAX).contains(&self.reconcile_rows) {
            return Err(UsageError::new(format!(
                "redis.reconcile_rows must be 1 to {RECONCILE_ROWS_MAX}"
            )));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if self.prefix.is_empty() || !self.prefix.chars().all(plain) {
            return refuse("redis.prefix may contain only letters, digits, `_`, `-` and `.`");
        }
        if self.topology == TopologyKind::Cluster && self.database != 0 {
            return refuse("redis.database must be 0 in a cluster");
        }
        Ok(())
    }
}

/// The parts of a text that commas separate.
fn list(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;

    #[test]
    fn calls_are_not_tried_for_longer_than_replies_are_kept() {
        let mut config = NodeConfig::defaults().expect("the defaults").redis;
        config.claim_timeout_ms = 60_000 - config.call_timeout_ms;
        assert!(config.check().is_ok());
        for claim_timeout_ms in [config.claim_timeout_ms + 1, u64::MAX] {
            config.claim_timeout_ms = claim_timeout_ms;
            let refused = config.check().expect_err("too long").to_string();
            assert!(refused.contains("redis.claim_timeout_ms"), "{refused}");
        }
    }
}
