//! What transports on Redis have left behind where RabbitMQ is used now: removed once, as soon as Redis is there.

use std::time::Duration;

use qiang_redis::Options;
use qiang_worker::host::{Next, Reconciler, Schedule, Stuck};

/// Removes a list that nobody empties, and a group that keeps the log from being trimmed.
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
