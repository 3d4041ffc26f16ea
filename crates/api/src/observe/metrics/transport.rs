//! Metrics of the transport of entries to the ledger, by partition. The number of series is proportional to the
//! number of partitions.

use metrics::{Counter, Gauge, Key, Label, Recorder};
use qiang_core::ports::TransportStatus;

use super::METADATA;
use crate::observe::gauges::{PartitionReport, TransportReport};

/// Present value of a gauge.
type Now = fn(&PartitionReport) -> u64;
/// Value of a counter.
type Since = fn(&TransportStatus) -> u64;
/// Name, help, and source of the value.
type Series<T> = (&'static str, &'static str, T);

/// The first applies to each partition, the others only with a transport.
const GAUGES: [Series<Now>; 6] = [
    (
        "qiang_settlement_partition_lag_entries",
        "Log entries of a partition that are not yet in the ledger",
        |report| report.lag,
    ),
    (
        "qiang_settlement_transport_failing",
        "1 while the transport does not deliver a partition's entries; they may be read from the log instead",
        |report| report.status.stuck.is_some().into(),
    ),
    (
        "qiang_settlement_owned",
        "1 while this process settles the partition",
        |report| report.status.ours.into(),
    ),
    (
        "qiang_settlement_transport_queued",
        "Entries of a stream, items of a list or messages of a queue that no worker has received",
        |report| report.status.queued,
    ),
    (
        "qiang_settlement_transport_unacknowledged",
        "Records, items or messages that this process has received and not acknowledged",
        |report| report.status.unacknowledged,
    ),
    (
        "qiang_settlement_transport_waiting_entries",
        "Entries that this process has received and not settled",
        |report| report.status.waiting,
    ),
];

/// Only with a transport.
const COUNTERS: [Series<Since>; 7] = [
    (
        "qiang_settlement_transport_recovered_total",
        "Records, items or messages that were redelivered, because a worker did not acknowledge them",
        |status| status.recovered,
    ),
    (
        "qiang_settlement_transport_refilled_entries_total",
        "Entries that the transport did not deliver, and that were read from the log",
        |status| status.refilled,
    ),
    (
        "qiang_settlement_transport_republished_entries_total",
        "Entries that this process sent to the queue again",
        |status| status.republished,
    ),
    (
        "qiang_settlement_transport_reconnections_total",
        "Connections of a partition that were lost and opened again",
        |status| status.reconnected,
    ),
    (
        "qiang_settlement_leases_lost_total",
        "Leases of a partition that this process lost",
        |status| status.leases_lost,
    ),
    (
        "qiang_settlement_transport_remade_total",
        "Consumer groups, lists and queues recreated after loss",
        |status| status.remade,
    ),
    (
        "qiang_settlement_transport_unreadable_total",
        "Items or messages that could not be read and were quarantined",
        |status| status.unreadable,
    ),
];

struct Handles {
    gauges: Vec<(Gauge, Now)>,
    counters: Vec<(Counter, Since)>,
}

/// Created once: partitions do not change while a process runs.
pub(super) struct TransportMetrics(Vec<Handles>);

impl TransportMetrics {
    pub(super) fn new(recorder: &impl Recorder, transport_report: &TransportReport) -> Self {
        // Settlement that reads the log has no transport to measure.
        let (gauges, counters) = match transport_report.transport {
            "log" => (&GAUGES[..1], &COUNTERS[..0]),
            _ => (&GAUGES[..], &COUNTERS[..]),
        };
        for (name, text, _) in gauges {
            recorder.describe_gauge((*name).into(), None, (*text).into());
        }
        for (name, text, _) in counters {
            recorder.describe_counter((*name).into(), None, (*text).into());
        }
        let handles = |report: &PartitionReport| {
            let labels = [
                Label::new("partition", report.partition.0.to_string()),
                Label::new("transport", transport_report.transport),
            ];
            let key = |name: &'static str| Key::from_parts(name, labels.to_vec());
            let gauge = |(name, _, now): &Series<Now>| {
                (recorder.register_gauge(&key(name), &METADATA), *now)
            };
            let counter = |(name, _, since): &Series<Since>| {
                (recorder.register_counter(&key(name), &METADATA), *since)
            };
            Handles {
                gauges: gauges.iter().map(gauge).collect(),
                counters: counters.iter().map(counter).collect(),
            }
        };
        Self(transport_report.partitions.iter().map(handles).collect())
    }

    pub(super) fn show(&self, transport_report: &TransportReport) {
        for (handles, report) in self.0.iter().zip(&transport_report.partitions) {
            for (gauge, now) in &handles.gauges {
                gauge.set(now(report) as f64);
            }
            for (counter, since) in &handles.counters {
                counter.absolute(since(&report.status));
            }
        }
    }
}
