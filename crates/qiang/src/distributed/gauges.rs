//! Figures of the engine on Redis, of settlement and of scheduled audits, for operators.

use std::collections::BTreeSet;

use qiang_api::{Disk, Gauges, MemoryOfServer, PartitionReport, TransportReport};
use qiang_core::{
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{Clock as _, Engine as _, GateAnswers, LastAudit, QuarantineCount, TransportStatus},
    reconcile::PartitionFindings,
};
use qiang_embedded::SystemClock;
use qiang_redis::MemoryUse;
use qiang_worker::settlement::Position;

use super::Distributed;
use crate::machine::disk_of;

impl Gauges for Distributed {
    fn queued(&self) -> usize {
        self.engine.queued()
    }

    fn gate_answers(&self) -> GateAnswers {
        self.engine.gate_answers()
    }

    fn positions(&self) -> (Seq, Seq) {
        let settled = self.monitor.settled();
        (self.monitor.lag() + settled, settled)
    }

    fn lag_in(&self, partition: PartitionId) -> Option<u64> {
        Some(self.monitor.lag_of(partition))
    }

    fn stuck(&self) -> Option<String> {
        let own = self.settlement.as_ref().and_then(|it| it.stuck());
        // Another process may settle the partition.
        own.or_else(|| self.monitor.stalled())
    }

    fn stuck_in(&self, partition: PartitionId) -> Option<String> {
        let own = self.settlement.as_ref();
        let own = own.and_then(|it| it.stuck_in(partition));
        own.or_else(|| self.monitor.stalled_in(partition))
    }

    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        self.monitor.quarantine()
    }

    fn partitions(&self) -> Vec<(PartitionId, Option<String>)> {
        let mut states = self.engine.partition_states();
        for (partition, reason) in &mut states {
            if reason.is_none() && self.monitor.is_behind(*partition, self.lag_entries_max) {
                let lag = self.monitor.lag_of(*partition);
                *reason = Some(format!("{lag} entries wait for the ledger: too many"));
            }
        }
        states
    }

    fn replicas_missing(&self) -> Vec<(PartitionId, u32)> {
        self.engine.replicas_missing()
    }

    fn redis_memory(&self) -> Vec<(PartitionId, MemoryOfServer)> {
        let all = self.engine.memory().into_iter();
        all.map(|(partition, MemoryUse { used, max })| (partition, MemoryOfServer { used, max }))
            .collect()
    }

    fn clock_offset_seconds(&self) -> Option<f64> {
        let now_ms = SystemClock.now().as_millis();
        let times = self.engine.times();
        let offsets = times.map(|(_, redis)| redis.as_millis() - now_ms);
        let furthest = offsets.max_by_key(|offset_ms| offset_ms.unsigned_abs())?;
        Some(furthest as f64 / 1_000.0)
    }

    fn disk(&self) -> Option<Disk> {
        self.file.as_deref().and_then(disk_of)
    }

    fn last_audit(&self) -> Option<LastAudit> {
        self.audits.last()
    }

    fn upkeep_stuck(&self) -> Option<String> {
        self.upkeep.stuck()
    }

    fn campaigns_out_of_service(&self) -> BTreeSet<CampaignId> {
        self.engine.campaigns_out_of_service()
    }

    fn reconciliation(&self) -> Option<Vec<PartitionFindings>> {
        Some(self.findings.as_ref()?.findings())
    }

    fn transport_report(&self) -> Option<TransportReport> {
        let settlement = self.settlement.as_ref()?;
        let report = |(position, status): (Position, TransportStatus)| PartitionReport {
            partition: position.partition,
            lag: position.lag(),
            status,
        };
        Some(TransportReport {
            transport: self.transport,
            partitions: settlement.statuses().into_iter().map(report).collect(),
        })
    }
}
