//! Service of partitions, and downtimes. Each node notes every second that it serves a partition. A gap of more than
//! five seconds between two notes is a downtime, and holds pause in it.

use crate::connection::unreadable;
use qiang_core::{book::Refusal, event::PartitionId, ports::EngineError, time::Timestamp};

use crate::{
    node::Node,
    partitions::{nobody, ticking::Watched},
    protocol::scripts::RECORD_UPTIME,
};

impl Node {
    /// Says again that a partition is served, unless Redis' clock has jumped: by a look of its own, because a tick may
    /// wait for long.
    pub(crate) async fn note_served_by(
        &self,
        partition: PartitionId,
        redis: &mut Watched,
    ) -> Result<(), EngineError> {
        if self.partitions.options().clock.is_none() {
            let now_ms = self.now_ms(partition).await?;
            if redis.has_jumped(Timestamp::from_millis(now_ms)) {
                return Ok(());
            }
        }
        self.note_served(partition).await
    }

    /// Says that a partition is served, if this node serves and has not said so lately. The first to say so again ends
    /// a downtime. A node without its ledger takes no payment, and says nothing.
    pub(crate) async fn note_served(&self, partition: PartitionId) -> Result<(), EngineError> {
        let options = self.partitions.options();
        let served = self.served(partition);
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
                "no node served the partition: holds have stood still meanwhile"
            ),
            _ => tracing::warn!(
                partition,
                "it is lost when nodes served the partition: holds of earlier orders begin again now"
            ),
        }
        Ok(())
    }

    /// Whether time that has passed may be a downtime. A clock that is given is moved by hand: as long as there is an
    /// engine by it, none.
    pub(crate) fn may_be_down(&self, partition: PartitionId) -> bool {
        let is_given = self.partitions.options().clock.is_some();
        !(is_given && self.served(partition).is_noted())
    }
}
