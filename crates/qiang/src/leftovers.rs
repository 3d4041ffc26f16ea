//! Cleanup of Redis transports after a switch to RabbitMQ. It runs once, as soon as Redis answers.

use std::time::Duration;

use qiang_redis::Options;
use qiang_worker::host::{Next, Reconciler, Schedule, Stuck};

/// Removes a list that no consumer empties, and a group that prevents trimming of the log.
pub(crate) struct Leftovers {
    options: Options,
    removed: bool,
}

impl Leftovers {
    pub(crate) const SCHEDULE: Schedule = Schedule {
        interval: Duration::from_secs(3_600),
        rest: Duration::ZERO,
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_secs(10),
    };

    pub(crate) fn of(options: Options) -> Self {
        Self {
            options,
            removed: false,
        }
    }
}

impl Reconciler for Leftovers {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        if !self.removed {
            let removed = qiang_redis::remove_transports(&self.options).await;
            removed.map_err(|error| Stuck(format!("{:#}", anyhow::Error::from(error))))?;
            self.removed = true;
        }
        Ok(Next::Wait)
    }
}
