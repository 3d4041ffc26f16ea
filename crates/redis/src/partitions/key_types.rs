//! Keys of a partition that were overwritten manually with another type.

use std::time::Duration;

use qiang_core::{event::PartitionId, ports::EngineError};

use crate::{connection::eval_at_maxmemory, partitions::Partitions};

/// How often types are checked.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(1);
const REMOVE: &str = include_str!("../lua/remove_wrong_types.lua");

impl Partitions {
    /// Removes keys of a partition that have another type than theirs. The presence call does that to `partition` and
    /// `nodes`, and scripts to the keys of campaigns.
    pub(crate) async fn remove_wrong_types(
        &self,
        partition: PartitionId,
    ) -> Result<(), EngineError> {
        let keys = self.keys();
        let keys = [
            keys.log(partition),
            keys.agenda(partition),
            keys.closed(partition),
            keys.queue(partition),
            keys.doing(partition),
            keys.dead(partition),
            keys.released(partition),
            keys.repairs(partition),
            keys.answers(partition),
            keys.waiting(partition),
            keys.lease(partition),
            keys.reconciler(partition),
            keys.retirer(partition),
            keys.decider(partition),
            keys.waiting_all(partition),
        ];
        let remove = eval_at_maxmemory(REMOVE, &keys);
        let removed: Vec<String> = self.query_unfenced(partition, &remove).await?;
        if !removed.is_empty() {
            tracing::error!(
                partition = partition.0,
                keys = removed.join(" "),
                "keys in Redis were overwritten with another type; they are removed"
            );
        }
        Ok(())
    }
}
