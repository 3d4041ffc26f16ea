//! Settled positions that this process knows. A caller that waits for a position is woken by settlement of this
//! process, and by one waiter that polls the database for the settlement of others.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::LedgerError,
};
use tokio::sync::{Mutex as AsyncMutex, watch};

/// Interval of database queries for a position that another process may move.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Known position of one partition.
#[derive(Debug)]
pub(crate) struct KnownPosition {
    reached: watch::Sender<Seq>,
    /// Held by the one waiter that polls the database.
    asking: AsyncMutex<()>,
}

impl KnownPosition {
    /// Publishes a position that was just read or moved. It may be lower than the last one, because a restored database
    /// goes back. If an older position overtakes a newer one, a waiter that missed the newer one polls again.
    pub(crate) fn show(&self, seq: Seq) {
        self.reached.send_if_modified(|reached| {
            let further = seq > *reached;
            *reached = seq;
            further
        });
    }

    /// Waits until `seq` is reached, for at most `wait_max`. Returns whether it is reached. `ask` queries the database,
    /// at least once unless another waiter does it.
    pub(crate) async fn wait<F>(
        &self,
        seq: Seq,
        wait_max: Duration,
        ask: impl Fn() -> F,
    ) -> Result<bool, LedgerError>
    where
        F: Future<Output = Result<Seq, LedgerError>>,
    {
        let mut reached = self.reached.subscribe();
        if *reached.borrow() < seq
            && let Ok(_turn) = self.asking.try_lock()
        {
            self.show(ask().await?);
        }
        let asking = async {
            let _turn = self.asking.lock().await;
            loop {
                tokio::time::sleep(POLL_EVERY).await;
                match ask().await {
                    Ok(seq) => self.show(seq),
                    Err(error) => return error,
                }
            }
        };
        tokio::select! {
            biased;
            result = tokio::time::timeout(wait_max, reached.wait_for(|reached| *reached >= seq)) => {
                Ok(matches!(result, Ok(Ok(_))))
            }
            error = asking => Err(error),
        }
    }
}

/// Partitions that were settled or asked for: at most 65,536.
#[derive(Debug, Default)]
pub(crate) struct KnownPositions(Mutex<BTreeMap<PartitionId, Arc<KnownPosition>>>);

impl KnownPositions {
    /// The known position of a partition.
    pub(crate) fn for_partition(&self, partition: PartitionId) -> Arc<KnownPosition> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(partition).or_insert_with(|| {
            Arc::new(KnownPosition {
                reached: watch::Sender::new(0),
                asking: AsyncMutex::new(()),
            })
        });
        Arc::clone(place)
    }
}
