//! Audit of the ledger and the engine while this process serves them.
//!
//! All rows are read in one transaction, which sees one moment while the engine continues. The audit opens the file
//! with the same SQLite library as the engine. POSIX locks belong to the process: another library that closed a
//! descriptor of the file would release the engine's locks.

use std::path::PathBuf;

use async_trait::async_trait;
use qiang_audit::{AuditFindings, EnginePlace, LedgerPlace, ServerKind};
use qiang_core::ports::{AuditCheck, AuditReport, Auditor, QuarantineCount};

use crate::config::{NodeConfig, RedisConfig, Secret, TopologyKind};

/// Location of the configured engine on Redis, for an audit.
#[must_use]
pub fn engine_place(redis: &RedisConfig) -> EnginePlace {
    let options = redis.options();
    EnginePlace {
        urls: options.urls,
        topology: match redis.topology {
            TopologyKind::Standalone => ServerKind::Standalone,
            TopologyKind::Sentinel => ServerKind::Sentinel {
                master: redis.master.clone(),
            },
            TopologyKind::Cluster => ServerKind::Cluster,
        },
        username: options.username,
        password: options.password,
        database: options.database,
        prefix: options.prefix,
        partitions: None,
    }
}

/// Auditor of this process's data.
pub(crate) enum NodeAuditor {
    /// The file of an embedded engine.
    File(PathBuf),
    /// A ledger in a file, beside an engine on Redis.
    LedgerFile(PathBuf, EnginePlace),
    /// A ledger in a database, beside an engine on Redis.
    Database(Secret, EnginePlace),
}

impl NodeAuditor {
    /// Auditor of an engine on Redis and its ledger.
    pub(crate) fn beside(config: &NodeConfig) -> Self {
        let place = engine_place(&config.redis);
        match config.ledger.url() {
            Some(url) => Self::Database(Secret::new(url), place),
            None => Self::LedgerFile(config.engine.data.clone(), place),
        }
    }

    async fn report(&self) -> anyhow::Result<AuditFindings> {
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
            remedy: check.remedy,
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
