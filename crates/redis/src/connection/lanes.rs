//! Connections of a node to one partition for everything except claims. Reads, commands, and commands that wait for
//! replicas have separate connections. So a stalled replica delays only commands that wait for it.
//!
//! Commands of one kind share a connection and run one after another. Redis stores the number of a connection's last
//! call, so a late packet changes nothing once a later command was answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Mutex, MutexGuard};

use crate::connection::{
    call_connection::{CallConnection, ConnectionContext},
    partition::PartitionHandle,
};

/// Maximum calls of a node that wait for one lane of a partition. Further ones are refused as overload, so that a slow
/// Redis makes no queue that is older than its callers' patience.
const WAITING_MAX: usize = 4_096;

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

/// Reason why a lane's connection was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneRefusal {
    /// Too many calls wait for it.
    Full,
    /// It was not free in time.
    Late,
}

/// A connection that one call uses at a time, and the number of calls that wait for it.
struct Lane<T> {
    connection: Mutex<T>,
    waiting: AtomicUsize,
}

/// A waiting call. Its drop stops counting it, also if no caller awaits it any longer.
struct WaitingCall<'a>(&'a AtomicUsize);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Lane<T> {
    fn new(connection: T) -> Self {
        Self {
            connection: Mutex::new(connection),
            waiting: AtomicUsize::new(0),
        }
    }

    async fn take(&self, within: Duration) -> Result<MutexGuard<'_, T>, LaneRefusal> {
        if let Ok(free) = self.connection.try_lock() {
            return Ok(free);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = WaitingCall(&self.waiting);
        if before >= WAITING_MAX {
            return Err(LaneRefusal::Full);
        }
        let taken = tokio::time::timeout(within, self.connection.lock()).await;
        taken.map_err(|_| LaneRefusal::Late)
    }
}

/// Connections of a node to one partition. Each opens when it is first used.
pub(crate) struct CallLanes {
    reads: Lane<CallConnection>,
    commands: Lane<CallConnection>,
    confirmed: Lane<CallConnection>,
}

impl CallLanes {
    pub(crate) fn new(context: &Arc<ConnectionContext>, partition: &Arc<PartitionHandle>) -> Self {
        let connection = |name: &str| {
            let (context, partition) = (Arc::clone(context), Arc::clone(partition));
            Lane::new(CallConnection::new(context, partition, name))
        };
        // These names are part of keys, so they never change.
        Self {
            reads: connection("reads"),
            commands: connection("desk"),
            confirmed: connection("confirmed"),
        }
    }

    /// Connection of a lane. Waits until it is free, at most `within`.
    ///
    /// # Errors
    /// If too many calls wait already, or it is not free in time.
    pub(crate) async fn take(
        &self,
        lane: CallLane,
        within: Duration,
    ) -> Result<MutexGuard<'_, CallConnection>, LaneRefusal> {
        let lane = match lane {
            CallLane::Read => &self.reads,
            CallLane::Command => &self.commands,
            CallLane::Confirmed => &self.confirmed,
        };
        lane.take(within).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn calls_beyond_the_bound_are_refused() {
        let lane = Lane::new(());
        let busy = lane.take(WITHIN).await.unwrap();
        let mut waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| Box::pin(lane.take(WITHIN)))
            .collect();
        for call in &mut waiting {
            assert!(call.now_or_never().is_none());
        }
        assert_eq!(lane.take(WITHIN).await.err(), Some(LaneRefusal::Full));
        // A caller has gone, so there is room for another one.
        drop(waiting.pop());
        waiting.push(Box::pin(lane.take(WITHIN)));
        assert!(waiting.last_mut().unwrap().now_or_never().is_none());
        drop(busy);
        let taken = join_all(waiting.into_iter().map(async |call| call.await.is_ok())).await;
        assert!(taken.into_iter().all(|is_taken| is_taken));
        assert!(lane.take(WITHIN).await.is_ok());
    }

    #[tokio::test]
    async fn a_call_waits_no_longer_than_it_may() {
        let lane = Lane::new(());
        let _busy = lane.take(WITHIN).await.unwrap();
        let late = lane.take(Duration::from_millis(1)).await;
        assert_eq!(late.err(), Some(LaneRefusal::Late));
        assert_eq!(lane.waiting.load(Ordering::Relaxed), 0);
    }
}
