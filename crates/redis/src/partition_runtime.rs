//! State of this node for one partition.

use std::{collections::BTreeSet, sync::atomic::AtomicBool};

use qiang_core::id::CampaignId;
use tokio::sync::Mutex;

use crate::{
    connection::CallConnection,
    intake::{batcher::ClaimBatcher, unsettled_answers::UnsettledAnswers},
    partitions::{log_gap::LogGapNote, ticking::UptimeReport},
};

/// State of this node for one partition, beside its connections.
pub(crate) struct PartitionRuntime {
    /// Connection for reading the log.
    pub(crate) reader: Mutex<CallConnection>,
    /// Claims that wait for their call.
    pub(crate) batcher: ClaimBatcher,
    /// Whether the partition was given up at the last check, so that claims do not wait for it.
    pub(crate) is_given_up: AtomicBool,
    /// Answers of this node that the ledger does not have yet.
    pub(crate) unsettled_answers: UnsettledAnswers,
    /// The gap that settlement has found in the log.
    pub(crate) log_gap: LogGapNote,
    /// Time of this node's last record that it serves the partition.
    pub(crate) uptime_report: UptimeReport,
    /// Campaigns that are out of service.
    pub(crate) suspended: parking_lot::Mutex<BTreeSet<CampaignId>>,
}

impl PartitionRuntime {
    pub(crate) fn new(reader: Mutex<CallConnection>) -> Self {
        Self {
            reader,
            batcher: ClaimBatcher::default(),
            is_given_up: AtomicBool::new(false),
            unsettled_answers: UnsettledAnswers::default(),
            log_gap: LogGapNote::default(),
            uptime_report: UptimeReport::new(),
            suspended: parking_lot::Mutex::default(),
        }
    }
}
