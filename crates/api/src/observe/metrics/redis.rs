//! Metrics of the servers of Redis: replicas and memory.

use super::{Labelled, Metrics, partition_label};
use crate::observe::gauges::Gauges;

const REPLICAS_MISSING: Labelled = (
    "qiang_redis_replicas_missing",
    "Replicas of redis.replicas that the primary lacks, by partition",
);
const MEMORY_USED: Labelled = (
    "qiang_redis_memory_used_bytes",
    "Used memory of the primary, by partition",
);
const MEMORY_MAX: Labelled = (
    "qiang_redis_memory_max_bytes",
    "maxmemory of the primary, by partition; 0 without a limit",
);

/// Shows the primaries, as of the last presence calls.
pub(super) fn show(metrics: &Metrics, gauges: &dyn Gauges) {
    for (partition, missing) in gauges.replicas_missing() {
        let labels = vec![partition_label(partition)];
        metrics.set(REPLICAS_MISSING, labels, f64::from(missing));
    }
    for (partition, memory) in gauges.redis_memory() {
        for (name, bytes) in [(MEMORY_USED, memory.used), (MEMORY_MAX, memory.max)] {
            metrics.set(name, vec![partition_label(partition)], bytes as f64);
        }
    }
}
