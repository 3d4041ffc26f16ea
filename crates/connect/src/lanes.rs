//! The connections of a node to one partition for everything that is not a claim: apart for reads, for commands, and
//! for commands that wait for replicas. A replica that stalls delays only commands that wait for it.
//!
//! Commands of one kind share a connection, one after the other. Redis keeps the number of a connection's last call, so
//! a packet that arrives late changes nothing once a later command is answered.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, MutexGuard};

use crate::{
    call_connection::{CallConnection, ConnectionContext},
    partition::Partition,
};

/// What a call needs of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// It only reads.
    Read,
    /// It changes something and is answered by the primary alone.
    Command,
    /// It changes something and waits for replicas.
    Confirmed,
}

/// A node's connections to one partition. They connect when they are used.
pub(crate) struct Lanes {
    reads: Mutex<CallConnection>,
    commands: Mutex<CallConnection>,
    confirmed: Mutex<CallConnection>,
}

impl Lanes {
    pub(crate) fn new(context: &Arc<ConnectionContext>, partition: &Arc<Partition>) -> Self {
        let connection = |name: &str| {
            let (context, partition) = (Arc::clone(context), Arc::clone(partition));
            Mutex::new(CallConnection::new(context, partition, name))
        };
        // Names are part of keys: they stay.
        Self {
            reads: connection("reads"),
            commands: connection("desk"),
            confirmed: connection("confirmed"),
        }
    }

    /// The connection of a lane, as soon as it is free. None where it is not in time.
    pub(crate) async fn take(
        &self,
        lane: Lane,
        within: Duration,
    ) -> Option<MutexGuard<'_, CallConnection>> {
        let connection = match lane {
            Lane::Read => &self.reads,
            Lane::Command => &self.commands,
            Lane::Confirmed => &self.confirmed,
        };
        tokio::time::timeout(within, connection.lock()).await.ok()
    }
}
