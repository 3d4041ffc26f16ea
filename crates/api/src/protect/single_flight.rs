//! Single flight: concurrent callers of the same work share one run of it.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

/// Running work by key. An entry without waiting callers is removed.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, V: Clone> SingleFlight<K, V> {
    /// Whether the work is running.
    pub(crate) fn has(&self, key: &K) -> bool {
        self.0.lock().contains_key(key)
    }

    /// Result of `work`, or of a run by another caller with the same key that has not finished. If that caller is
    /// cancelled, another waiting caller starts again.
    pub(crate) async fn run(&self, key: K, work: impl Future<Output = V>) -> V {
        let flight = FlightWaiters {
            cell: Arc::clone(self.0.lock().entry(key).or_default()),
            all: self,
            key,
        };
        flight.cell.get_or_init(|| work).await.clone()
    }
}

struct FlightWaiters<'a, K: Copy + Eq + Hash, V> {
    all: &'a SingleFlight<K, V>,
    key: K,
    cell: Arc<OnceCell<V>>,
}

impl<K: Copy + Eq + Hash, V> Drop for FlightWaiters<'_, K, V> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        let is_mine = |cell: &Arc<OnceCell<V>>| Arc::ptr_eq(cell, &self.cell);
        // Finished work is removed, so later callers start again. Unfinished work is removed by its last waiting
        // caller.
        let over = self.cell.initialized() || Arc::strong_count(&self.cell) <= 2;
        if over && all.get(&self.key).is_some_and(is_mine) {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn those_who_ask_at_once_share_one_answer() {
        let (flights, worked) = (SingleFlight::default(), AtomicU32::new(0));
        let work = || async {
            tokio::task::yield_now().await;
            worked.fetch_add(1, Ordering::Relaxed) + 1
        };
        let (a, b, c) = tokio::join!(
            flights.run(1, work()),
            flights.run(1, work()),
            flights.run(2, work())
        );
        assert!(a == b && a != c, "{a} {b} {c}");
        assert_eq!(flights.run(1, work()).await, 3);
        assert!(flights.0.lock().is_empty());
    }

    #[tokio::test]
    async fn who_goes_away_holds_up_nobody() {
        let flights: SingleFlight<u8, u8> = SingleFlight::default();
        let mut stuck = Box::pin(flights.run(1, std::future::pending()));
        let mut next = Box::pin(flights.run(1, async { 7 }));
        assert!(poll(&mut stuck).await.is_none());
        assert!(poll(&mut next).await.is_none());
        drop(stuck);
        assert_eq!(next.await, 7);
        let mut stuck = Box::pin(flights.run(1, std::future::pending()));
        assert!(poll(&mut stuck).await.is_none());
        drop(stuck);
        assert!(flights.0.lock().is_empty());
    }

    async fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        tokio::time::timeout(std::time::Duration::from_millis(1), future)
            .await
            .ok()
    }
}
