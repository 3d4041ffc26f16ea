//! Connections of a node to one partition for everything except claims. Reads, commands, and commands that wait for
//! replicas have separate connections. So a stalled replica delays only commands that wait for it.
//!
//! Commands of one kind share a connection and run one after another. Redis stores the number of a connection's last
//! call, so a late packet changes nothing once a later command was answered.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, MutexGuard};

use crate::connection::{
    call_connection::{CallConnection, ConnectionContext},
    partition::PartitionHandle,
};

/// Kind of call, which selects the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallLane {
    /// A call that only reads.
    Read,
    /// A call that changes something; the primary alone answers it.
    Command,
    /// A call that changes something and waits for replicas.
    Confirmed,
}

/// Connections of a node to one partition. Each opens when it is first used.
pub(crate) struct CallLanes {
    reads: Mutex<CallConnection>,
    commands: Mutex<CallConnection>,
    confirmed: Mutex<CallConnection>,
}

impl CallLanes {
    pub(crate) fn new(context: &Arc<ConnectionContext>, partition: &Arc<PartitionHandle>) -> Self {
        let connection = |name: &str| {
            let (context, partition) = (Arc::clone(context), Arc::clone(partition));
            Mutex::new(CallConnection::new(context, partition, name))
        };
        // These names are part of keys, so they never change.
        Self {
            reads: connection("reads"),
            commands: connection("desk"),
            confirmed: connection("confirmed"),
        }
    }

    /// Connection of a lane. Waits until it is free; `None` if that takes longer than `within`.
    pub(crate) async fn take(
        &self,
        lane: CallLane,
        within: Duration,
    ) -> Option<MutexGuard<'_, CallConnection>> {
        let connection = match lane {
            CallLane::Read => &self.reads,
            CallLane::Command => &self.commands,
            CallLane::Confirmed => &self.confirmed,
        };
        tokio::time::timeout(within, connection.lock()).await.ok()
    }
}
