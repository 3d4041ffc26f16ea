//! Cached values of the gate, and their loads. A value that was invalidated during its load is never cached, in any
//! order of the end of the load and the invalidation.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use quick_cache::sync::Cache;

/// Values by key, which are loaded in the background and invalidated at any moment.
pub(super) struct BackgroundValues<K, V> {
    /// Maximum concurrent loads.
    loads_max: usize,
    /// Past the limit, values that were not requested recently are forgotten.
    values: Cache<K, Arc<V>>,
    /// Keys that are being loaded, and whether they were invalidated during the load. Each change of values holds this
    /// lock, so the end of a load and an invalidation never overlap.
    loading: Mutex<HashMap<K, bool>>,
}

impl<K: Copy + Eq + Hash, V> BackgroundValues<K, V> {
    pub(super) fn new(loads_max: usize, values_max: usize) -> Self {
        Self {
            loads_max,
            values: Cache::new(values_max),
            loading: Mutex::default(),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.values.get(key)
    }

    /// Maps each value.
    pub(super) fn collect<T>(&self, of: impl Fn(&K, &V) -> T) -> Vec<T> {
        let values = self.values.iter();
        values.map(|(key, value)| of(&key, &value)).collect()
    }

    /// Starts a load. False if a `good` value is known, the key is being loaded already, or too many loads run.
    pub(super) fn begin(&self, key: K, good: impl FnOnce(&V) -> bool) -> bool {
        let mut loading = self.loading.lock();
        if loading.len() >= self.loads_max || loading.contains_key(&key) {
            return false;
        }
        if self.values.peek(&key).is_some_and(|value| good(&value)) {
            return false;
        }
        loading.insert(key, false);
        true
    }

    /// Ends a load. The loaded value is cached, unless it was invalidated during the load.
    pub(super) fn end(&self, key: K, loaded: Option<V>) {
        let mut loading = self.loading.lock();
        let invalidated = loading.remove(&key);
        if let (Some(value), Some(false)) = (loaded, invalidated) {
            self.values.insert(key, Arc::new(value));
        }
    }

    pub(super) fn invalidate(&self, key: K) {
        let mut loading = self.loading.lock();
        if let Some(invalidated) = loading.get_mut(&key) {
            *invalidated = true;
        }
        // Usually there is nothing to forget, and readers need not wait.
        if self.values.contains_key(&key) {
            self.values.remove(&key);
        }
    }

    pub(super) fn invalidate_all(&self) {
        let mut loading = self.loading.lock();
        for invalidated in loading.values_mut() {
            *invalidated = true;
        }
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
    };

    use super::*;

    const KEY: u8 = 1;

    fn known() -> BackgroundValues<u8, u64> {
        BackgroundValues::new(2, 8)
    }

    #[test]
    fn what_was_invalidated_while_it_was_loaded_stays_unknown() {
        let known = known();
        assert!(known.begin(KEY, |_| true));
        known.invalidate(KEY);
        known.end(KEY, Some(1));
        assert_eq!(known.get(&KEY), None);
        assert!(known.begin(KEY, |_| true));
        known.invalidate_all();
        known.end(KEY, Some(1));
        assert_eq!(known.get(&KEY), None);
    }

    /// A value that is requested continuously stays, however many others are loaded.
    #[test]
    fn values_are_bounded_and_those_in_use_stay() {
        let known: BackgroundValues<u32, u64> = BackgroundValues::new(2, 8);
        let load = |key: u32| {
            assert!(known.begin(key, |_| true));
            known.end(key, Some(1));
        };
        load(0);
        for other in 1..1_000 {
            load(other);
            assert!(known.get(&0).is_some(), "after {other}");
            assert!(known.collect(|_, _| ()).len() <= 8);
        }
    }

    #[test]
    fn loads_are_bounded_and_one_at_a_time() {
        let known = known();
        assert!(known.begin(1, |_| true) && !known.begin(1, |_| true));
        assert!(known.begin(2, |_| true) && !known.begin(3, |_| true));
        known.end(1, Some(5));
        assert!(!known.begin(1, |value| *value == 5));
        assert!(known.begin(1, |value| *value == 6));
    }

    /// A load reads a state that changes, and is invalidated after each change. No value read before a change may be
    /// cached after its invalidation.
    #[test]
    fn no_load_outlives_its_invalidation() {
        const CHANGES: u64 = 500_000;
        let (known, state, mut stale) = (known(), AtomicU64::new(0), 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0.. {
                    if !known.begin(KEY, |_| false) {
                        continue;
                    }
                    let read = state.load(Ordering::SeqCst);
                    // Loads take varying time.
                    for _ in 0..turn % 64 {
                        std::hint::spin_loop();
                    }
                    known.end(KEY, Some(read));
                    if read == CHANGES {
                        break;
                    }
                }
            });
            for change in 1..=CHANGES {
                state.store(change, Ordering::SeqCst);
                known.invalidate(KEY);
                stale += u64::from(known.get(&KEY).is_some_and(|value| *value != change));
            }
        });
        assert_eq!(stale, 0, "a cached value is older than a change");
    }
}
