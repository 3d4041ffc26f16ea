//! How far partitions are settled, as far as this process knows: whoever waits for a position is woken by what this
//! process settles, and by one waiter that looks at what others do.

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

/// How often the database is asked for a position that somebody waits for, and another process may move.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// What is known of one partition.
#[derive(Debug)]
pub(crate) struct Place {
    reached: watch::Sender<Seq>,
    /// Held by the one waiter that asks the database.
    asking: AsyncMutex<()>,
}

impl Place {
    /// Publishes a position as it was just read or moved. It may be lower than the last one: a database that is
    /// restored to an earlier moment goes back. A waiter who misses a position because an older one overtook it asks
    /// again.
    pub(crate) fn show(&self, seq: Seq) {
        self.reached.send_if_modified(|reached| {
            let further = seq > *reached;
            *reached = seq;
            further
        });
    }

    /// Waits until `seq` is reached, at most `wait_max`; returns whether it is. `ask` asks the database, which is done
    /// at least once if nobody else does it.
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

/// The partitions that were settled or asked for; there are at most 65,536.
#[derive(Debug, Default)]
pub(crate) struct Positions(Mutex<BTreeMap<PartitionId, Arc<Place>>>);

impl Positions {
    /// What is known of a partition.
    pub(crate) fn of(&self, partition: PartitionId) -> Arc<Place> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(partition).or_insert_with(|| {
            Arc::new(Place {
                reached: watch::Sender::new(0),
                asking: AsyncMutex::new(()),
            })
        });
        Arc::clone(place)
    }
}
