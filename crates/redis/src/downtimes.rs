//! Service of partitions, and downtimes. Each node records each second that it serves a partition. A gap of more than
//! five seconds between two records is a downtime, and holds pause in it.

use qiang_core::{book::Refusal, event::PartitionId, ports::EngineError, time::Timestamp};

use crate::{
    connection::unreadable,
    node::Node,
    partitions::{nobody, ticking::ClockGuard},
    protocol::scripts::RECORD_UPTIME,
};

impl Node {
    /// Records that a partition is served, unless Redis' clock has jumped. It reads the clock separately, because a
    /// tick may wait for long.
    pub(crate) async fn note_served_by(
        &self,
        partition: PartitionId,
        redis: &mut ClockGuard,
    ) -> Result<(), EngineError> {
        if self.partitions.options().clock.is_none() {
            let now_ms = self.now_ms(partition).await?;
            if redis.has_jumped(Timestamp::from_millis(now_ms)) {
                return Ok(());
            }
        }
        self.note_served(partition).await
    }

    /// Records that a partition is served, if this node serves and has not recorded it recently. The first record after
    /// a gap ends a downtime. A node without its ledger accepts no payment, and records nothing.
    pub(crate) async fn note_served(&self, partition: PartitionId) -> Result<(), EngineError> {
        let options = self.partitions.options();
        let served = &self.runtime(partition).uptime_report;
        let has_ledger = options.identity.as_ref().is_none_or(|it| it.has_ledger());
        if !options.serves || !has_ledger || options.clock.is_none() && !served.is_due() {
            return Ok(());
        }
        let is_known = u8::from(!self.may_be_down(partition));
        let reply = self
            .partitions
            .call(partition, &RECORD_UPTIME, nobody(), None, &|command| {
                command.arg(is_known)
            })
            .await?;
        let text = reply.found(Refusal::UnknownCampaign)?;
        served.note();
        let down_ms: i64 = text.parse().map_err(|_| unreadable())?;
        let partition = partition.0;
        match down_ms {
            0 => {}
            1.. => tracing::warn!(
                partition,
                down_ms,
                "no node served the partition; holds paused during the downtime"
            ),
            _ => tracing::warn!(
                partition,
                "the uptime of the partition is lost; holds of earlier orders start again now"
            ),
        }
        Ok(())
    }

    /// Whether elapsed time may be a downtime. A given clock is moved by tests, so an engine with such a clock has no
    /// downtime after its first record.
    pub(crate) fn may_be_down(&self, partition: PartitionId) -> bool {
        let is_given = self.partitions.options().clock.is_some();
        !(is_given && self.runtime(partition).uptime_report.is_noted())
    }
}
