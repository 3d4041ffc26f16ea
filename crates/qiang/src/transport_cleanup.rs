//! Cleanup of Redis transports after a switch to RabbitMQ. It runs once, as soon as Redis answers.

use std::time::Duration;

use qiang_redis::RedisOptions;
use qiang_worker::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Removes a list that no consumer empties, and a group that prevents trimming of the log.
pub(crate) struct TransportCleanup {
    options: RedisOptions,
    removed: bool,
}

impl TransportCleanup {
    pub(crate) const SCHEDULE: Schedule = Schedule {
        interval: Duration::from_secs(3_600),
        rest: Duration::ZERO,
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_secs(10),
    };

    pub(crate) fn from_options(options: RedisOptions) -> Self {
        Self {
            options,
            removed: false,
        }
    }
}

impl Reconciler for TransportCleanup {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        if !self.removed {
            let removed = qiang_redis::remove_transports(&self.options).await;
            removed.map_err(|error| ReconcileError(format!("{:#}", anyhow::Error::from(error))))?;
            self.removed = true;
        }
        Ok(NextRun::Wait)
    }
}
