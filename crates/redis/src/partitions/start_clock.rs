//! Check of Redis' clock at the start of a node. A clock behind its own log would make live sales scheduled again, and
//! let holds keep their units for longer.

use std::time::Duration;

use qiang_core::{event::PartitionId, ports::EngineError, time::Timestamp};

use crate::{
    connection::{ConnectError, PartitionHealth},
    partitions::Partitions,
    protocol::log_record::{Record, decode},
};

/// A start is logged at which the clock is this far ahead of the newest entry: an hour.
const AHEAD_MS_LOGGED: i64 = 3_600_000;

impl Partitions {
    /// Compares the clock of each partition that answers with its log. Writes nothing, so the right clock finds the
    /// same log later.
    ///
    /// # Errors
    /// If a clock is more than `behind_max` earlier than the newest entry, or than the last time at which a node served
    /// the partition.
    pub(crate) async fn check_clocks(&self, behind_max: Duration) -> Result<(), ConnectError> {
        for partition in self.list() {
            if matches!(partition.state(), PartitionHealth::Unreachable { .. }) {
                continue;
            }
            match self.ahead_ms(partition.id).await {
                Ok(Some(ahead_ms)) => check(partition.id, ahead_ms, behind_max)?,
                Ok(None) => {}
                // The partition is compared at the next start.
                Err(error) => tracing::warn!(
                    partition = partition.id.0,
                    %error,
                    "cannot compare the clock of Redis with the log"
                ),
            }
        }
        Ok(())
    }

    /// Milliseconds by which a partition's clock is later than its newest date; `None` if it has no date yet.
    async fn ahead_ms(&self, partition: PartitionId) -> Result<Option<i64>, EngineError> {
        let mut up = redis::cmd("HGET");
        up.arg(self.keys().partition(partition)).arg("up");
        let up: Option<i64> = self.query_unfenced(partition, &up).await?;
        let mut newest = redis::cmd("XREVRANGE");
        newest.arg(self.keys().log(partition));
        newest.arg("+").arg("-").arg("COUNT").arg(1);
        let newest: Vec<Record> = self.query_unfenced(partition, &newest).await?;
        let newest = newest.first().and_then(|(id, fields)| decode(id, fields));
        let newest = newest.and_then(|entries| Some(entries.last()?.at));
        // Read last, so that no date is later because of the reads.
        let now = self.time(partition).await?;
        let latest = up.map(Timestamp::from_millis).max(newest);
        Ok(latest.map(|latest| now.millis_since(latest)))
    }
}

fn check(partition: PartitionId, ahead_ms: i64, behind_max: Duration) -> Result<(), ConnectError> {
    let behind_ms = i128::from(ahead_ms).saturating_neg();
    if behind_ms > i128::try_from(behind_max.as_millis()).unwrap_or(i128::MAX) {
        return Err(ConnectError::ClockBehind {
            partition: partition.0,
            behind_s: -(ahead_ms / 1_000),
        });
    }
    if ahead_ms > AHEAD_MS_LOGGED {
        tracing::warn!(
            partition = partition.0,
            minutes = ahead_ms / 60_000,
            "no node served the partition for long, or the clock of Redis is ahead of the newest entry of the log"
        );
    }
    Ok(())
}
