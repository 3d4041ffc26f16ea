//! The audits that a node has run, and the one that runs.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use qiang_core::{id::UserId, ports::AuditReport, time::Timestamp};
use uuid::Uuid;

/// Audits that a node remembers.
const KEPT: usize = 8;

/// The audits of this node: the newest ones, of which one runs at most.
#[derive(Default)]
pub(crate) struct Audits(Mutex<VecDeque<Audit>>);

/// An audit, and how it ended.
#[derive(Debug, Clone)]
pub(crate) struct Audit {
    pub(crate) id: Uuid,
    pub(crate) by: UserId,
    pub(crate) started_at: Timestamp,
    pub(crate) ended: Option<(Timestamp, Result<Arc<AuditReport>, String>)>,
}

impl Audits {
    /// The one that runs, or this one, from now on; whether it is this one.
    pub(crate) fn begin(&self, audit: Audit) -> (Audit, bool) {
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

    /// The one that was never begun.
    pub(crate) fn forget(&self, id: Uuid) {
        self.0.lock().retain(|it| it.id != id);
    }

    /// All, newest first.
    pub(crate) fn list(&self) -> Vec<Audit> {
        self.0.lock().iter().rev().cloned().collect()
    }
}
