//! Readiness: whether claims can be granted, tested by a write to each partition.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use qiang_core::{
    event::PartitionId,
    ports::{Engine, EngineError, ProbeResult},
};
use tokio::{sync::Mutex, time::timeout_at};

use crate::{http::wire::words_to_wire, observe::gauges::Gauges};

/// Lifetime of a probe's result, because a probe costs a commit.
const PROBE_KEPT: Duration = Duration::from_secs(1);
/// A partition without an answer in this time is not ready, if another one is ready. Callers wait about a second for
/// readiness.
const PROBE_USUAL: Duration = Duration::from_millis(750);
/// A partition without an answer in this time is not ready.
const PROBE_MAX: Duration = Duration::from_secs(3);

/// Readiness of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionReadiness {
    pub(crate) partition: PartitionId,
    pub(crate) state: ReadinessLevel,
    /// Reason for a state other than ready.
    pub(crate) reason: Option<String>,
}

/// State of a partition, ordered from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadinessLevel {
    /// No claims are granted.
    NotReady,
    /// It serves, and some or all claims are refused for a while.
    Degraded,
    /// Claims are granted.
    Ready,
}

words_to_wire! {
    ReadinessLevel => ReadinessStatus { NotReady, Degraded, Ready }
}

/// Readiness of this process.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    draining: AtomicBool,
    /// Time and result of the last probe. The lock is held while probing, so that callers share one probe.
    last: Mutex<Option<(Instant, Vec<PartitionReadiness>)>>,
}

impl Readiness {
    /// Makes the process not ready from now on, so that load balancers send no further requests.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the process is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Probes all partitions at once, unless a recent result exists. Without an engine, the process only settles, and
    /// a partition is ready while its settlement is not stuck.
    ///
    /// # Errors
    /// The reason why the whole process is not ready.
    pub(crate) async fn check(
        &self,
        gauges: &dyn Gauges,
        engine: Option<&dyn Engine>,
    ) -> Result<Vec<PartitionReadiness>, String> {
        if self.is_draining() {
            return Err("the process is going down".to_owned());
        }
        if let Some(reason) = gauges.stopped() {
            return Err(reason);
        }
        let Some(engine) = engine else {
            return Ok(unprobed(gauges));
        };
        let mut last = self.last.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < PROBE_KEPT
        {
            // A partition may have stopped since.
            let stopped: BTreeMap<_, _> = gauges.partitions().into_iter().collect();
            let now = |one: &PartitionReadiness| match stopped.get(&one.partition) {
                Some(Some(reason)) => partition_readiness(one.partition, Err(reason.clone())),
                _ => one.clone(),
            };
            return Ok(found.iter().map(now).collect());
        }
        let found = probe(gauges, engine).await;
        *last = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

/// Readiness without a probe.
fn unprobed(gauges: &dyn Gauges) -> Vec<PartitionReadiness> {
    let state = |(partition, stopped): (PartitionId, Option<String>)| {
        let reason = gauges.stuck_in(partition).or(stopped);
        partition_readiness(partition, reason.map_or(Ok(ProbeResult::Ready), Err))
    };
    gauges.partitions().into_iter().map(state).collect()
}

async fn probe(gauges: &dyn Gauges, engine: &dyn Engine) -> Vec<PartitionReadiness> {
    let begun = tokio::time::Instant::now();
    let mut tickets = Vec::new();
    let mut found = Vec::new();
    for (partition, stopped) in gauges.partitions() {
        match stopped {
            Some(reason) => found.push(partition_readiness(partition, Err(reason))),
            // All probes are in flight from here on.
            None => tickets.push((partition, engine.probe(partition))),
        }
    }
    for wait_max in [PROBE_USUAL, PROBE_MAX] {
        let mut late = Vec::new();
        for (partition, mut ticket) in tickets {
            match timeout_at(begun + wait_max, &mut ticket).await {
                Ok(probed) => found.push(partition_readiness(
                    partition,
                    probed.map_err(|error| said(&error)),
                )),
                Err(_) => late.push((partition, ticket)),
            }
        }
        tickets = late;
        if found.iter().any(|one| one.state > ReadinessLevel::NotReady) {
            break;
        }
    }
    let silent = |(partition, _)| {
        partition_readiness(partition, Err("it does not answer the probe".to_owned()))
    };
    found.extend(tickets.into_iter().map(silent));
    found.sort_by_key(|one| one.partition);
    found
}

fn partition_readiness(
    partition: PartitionId,
    probed: Result<ProbeResult, String>,
) -> PartitionReadiness {
    let (state, reason) = match probed {
        Ok(ProbeResult::Ready) => (ReadinessLevel::Ready, None),
        Ok(ProbeResult::Degraded { reason }) => (ReadinessLevel::Degraded, Some(reason)),
        Err(reason) => (ReadinessLevel::NotReady, Some(reason)),
    };
    PartitionReadiness {
        partition,
        state,
        reason,
    }
}

/// The reason alone, if there is one: the state already says that nothing is granted.
fn said(error: &EngineError) -> String {
    match error {
        EngineError::Unavailable { reason } | EngineError::Uncertain { reason } => reason.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use qiang_core::{
        book::{Claim, Command, OrderView, Reply},
        campaign::{AckLevel, Tally},
        event::Seq,
        id::{CampaignId, OrderId},
        outcome::Outcome,
        ports::{Claimed, PendingReply, QuarantineCount, ReplySender},
    };

    use super::*;

    /// Engine whose listed partitions never answer a probe; others answer at once.
    struct Silent(Vec<u16>, parking_lot::Mutex<Vec<ReplySender<ProbeResult>>>);

    impl Engine for Silent {
        fn claim(&self, _: Claim) -> PendingReply<Claimed> {
            PendingReply::ready(Err(EngineError::Stopping))
        }
        fn submit(&self, _: Command) -> PendingReply<Reply> {
            PendingReply::ready(Err(EngineError::Stopping))
        }
        fn try_gate_outcome(&self, _: &Claim) -> Option<Outcome> {
            None
        }
        fn tally(&self, _: CampaignId) -> PendingReply<Option<Tally>> {
            PendingReply::ready(Ok(None))
        }
        fn order(&self, _: OrderId) -> PendingReply<Option<OrderView>> {
            PendingReply::ready(Ok(None))
        }
        fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
            if !self.0.contains(&partition.0) {
                return PendingReply::ready(Ok(ProbeResult::Ready));
            }
            let (answer, ticket) = PendingReply::new();
            self.1.lock().push(answer);
            ticket
        }
        fn ack_levels(&self) -> &'static [AckLevel] {
            &[AckLevel::Memory]
        }
    }

    impl Gauges for Silent {
        fn queued(&self) -> usize {
            0
        }
        fn positions(&self) -> (Seq, Seq) {
            (0, 0)
        }
        fn stuck(&self) -> Option<String> {
            None
        }
        fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
            Vec::new()
        }
        fn partitions(&self) -> Vec<(PartitionId, Option<String>)> {
            vec![(PartitionId(0), None), (PartitionId(1), None)]
        }
    }

    /// The result arrives before callers give up.
    #[tokio::test(start_paused = true)]
    async fn partitions_that_do_not_answer_are_waited_for_briefly_where_another_one_is_ready() {
        let cases = [
            (vec![], Duration::ZERO),
            (vec![1], PROBE_USUAL),
            (vec![0, 1], PROBE_MAX),
        ];
        for (silent, expected) in cases {
            let not_ready = silent.len();
            let parts = Silent(silent, parking_lot::Mutex::default());
            let began = tokio::time::Instant::now();
            let found = probe(&parts, &parts).await;
            // Timers have a resolution of a millisecond.
            let late = began.elapsed() - expected;
            assert!(late <= Duration::from_millis(2), "{late:?}");
            let found = found
                .iter()
                .filter(|it| it.state == ReadinessLevel::NotReady);
            assert_eq!(found.count(), not_ready);
        }
    }
}
