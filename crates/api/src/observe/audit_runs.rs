//! Audits of a node: the last ones, and the one that is running.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use qiang_core::{id::UserId, ports::AuditReport, time::Timestamp};
use uuid::Uuid;

/// Maximum number of audits that a node keeps.
const KEPT: usize = 8;

/// Audits of this node: the newest ones, at most one of them running.
#[derive(Default)]
pub(crate) struct AuditRuns(Mutex<VecDeque<AuditRun>>);

/// An audit and its result.
#[derive(Debug, Clone)]
pub(crate) struct AuditRun {
    pub(crate) id: Uuid,
    pub(crate) by: UserId,
    pub(crate) started_at: Timestamp,
    pub(crate) ended: Option<(Timestamp, Result<Arc<AuditReport>, String>)>,
}

impl AuditRuns {
    /// Starts this audit, unless one is running. Returns the running one, and whether it is this one.
    pub(crate) fn begin(&self, audit: AuditRun) -> (AuditRun, bool) {
        let mut all = self.0.lock();
        if let Some(running) = all.iter().find(|it| it.ended.is_none()) {
            return (running.clone(), false);
        }
        all.push_back(audit.clone());
        let surplus = all.len().saturating_sub(KEPT);
        all.drain(..surplus);
        (audit, true)
    }

    pub(crate) fn end(&self, id: Uuid, at: Timestamp, found: Result<AuditReport, String>) {
        let mut all = self.0.lock();
        if let Some(audit) = all.iter_mut().find(|it| it.id == id) {
            audit.ended = Some((at, found.map(Arc::new)));
        }
    }

    /// Removes an audit that could not start.
    pub(crate) fn forget(&self, id: Uuid) {
        self.0.lock().retain(|it| it.id != id);
    }

    /// All audits, newest first.
    pub(crate) fn list(&self) -> Vec<AuditRun> {
        self.0.lock().iter().rev().cloned().collect()
    }
}
