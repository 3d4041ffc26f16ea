//! The audit of what this process works on, beside its own engine.
//!
//! The rows are read in one transaction, as of one moment, while the engine goes on. The audit opens the file by the
//! same SQLite as the engine: POSIX locks are the process's, and whoever else closed a descriptor of the file would
//! take the engine's away.

use std::path::PathBuf;

use async_trait::async_trait;
use qiang_audit::{EnginePlace, LedgerPlace, Report, Topology};
use qiang_core::ports::{AuditCheck, AuditReport, Auditor, QuarantineCount};

use crate::config::{Config, RedisConfig, Secret, TopologyKind};

/// Where the configured engine on Redis is, for an audit beside it.
#[must_use]
pub fn engine_place(redis: &RedisConfig) -> EnginePlace {
    let options = redis.options();
    EnginePlace {
        urls: options.urls,
        topology: match redis.topology {
            TopologyKind::Standalone => Topology::Standalone,
            TopologyKind::Sentinel => Topology::Sentinel {
                master: redis.master.clone(),
            },
            TopologyKind::Cluster => Topology::Cluster,
        },
        username: options.username,
        password: options.password,
        database: options.database,
        prefix: options.prefix,
        partitions: None,
    }
}

/// Audits what a process works on.
pub(crate) enum NodeAuditor {
    /// The file of an embedded engine.
    File(PathBuf),
    /// A ledger in a file, beside an engine on Redis.
    LedgerFile(PathBuf, EnginePlace),
    /// A ledger in a database, beside an engine on Redis.
    Database(Secret, EnginePlace),
}

impl NodeAuditor {
    /// Of an engine on Redis and its ledger.
    pub(crate) fn beside(config: &Config) -> Self {
        let place = engine_place(&config.redis);
        match config.ledger.url() {
            Some(url) => Self::Database(Secret::new(url), place),
            None => Self::LedgerFile(config.engine.data.clone(), place),
        }
    }

    async fn report(&self) -> anyhow::Result<Report> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || qiang_audit::audit_served(&path)).await?
            }
            Self::LedgerFile(path, place) => {
                qiang_audit::audit_beside(LedgerPlace::Served(path), place).await
            }
            Self::Database(url, place) => {
                qiang_audit::audit_beside(LedgerPlace::Database(url.expose()), place).await
            }
        }
    }
}

#[async_trait]
impl Auditor for NodeAuditor {
    async fn audit(&self) -> Result<AuditReport, String> {
        let report = self.report().await.map_err(|error| format!("{error:#}"))?;
        let subject = report.subject();
        let checks = report.checks.into_iter().map(|check| AuditCheck {
            name: check.name,
            ok: check.ok,
            not_applicable: check.not_applicable,
            examined: check.examined,
            offending: check.offending,
            offending_total: check.offending_total,
        });
        let quarantine = report.set_aside.map(|count| QuarantineCount {
            refused: count.refused,
            waiting: count.waiting,
        });
        Ok(AuditReport {
            ok: report.ok,
            subject,
            in_flight: report.in_flight,
            quarantine: quarantine.unwrap_or_default(),
            checks: checks.collect(),
        })
    }
}
