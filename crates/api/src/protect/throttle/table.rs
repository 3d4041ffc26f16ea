//! State of a limit: a table of fixed size that neither grows nor allocates.

use governor::{nanos::Nanos, state::StateStore};
use parking_lot::Mutex;

/// Slots of a set; a key is in one set.
const WAYS: usize = 8;

/// State store for governor. It maps a hashed key to the time when its quota is whole again, in nanoseconds since the
/// start.
///
/// If a set is full, a new key replaces the one whose quota is whole first. That key gains least by it, and mostly
/// nothing. Keys are hashes that clients cannot choose, so sets fill evenly.
pub(crate) struct QuotaTable {
    sets: Box<[Mutex<[Slot; WAYS]>]>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: u64,
    /// 0 if the slot is free.
    whole_at: u64,
}

impl QuotaTable {
    /// Table of `keys_max` slots, rounded up.
    pub(crate) fn new(keys_max: usize) -> Self {
        let sets = keys_max.div_ceil(WAYS).max(1);
        Self {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
        }
    }

    fn set(&self, key: u64) -> &Mutex<[Slot; WAYS]> {
        // The hash's upper bits, spread over all sets.
        let at = (u128::from(key) * self.sets.len() as u128) >> 64;
        &self.sets[at as usize]
    }
}

impl StateStore for QuotaTable {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut set = self.set(*key).lock();
        let known = set
            .iter()
            .position(|slot| slot.key == *key && slot.whole_at > 0);
        let whole_at = known.map(|at| Nanos::new(set[at].whole_at));
        let (outcome, whole_at) = measure(whole_at)?;
        let soonest = || (0..WAYS).min_by_key(|at| set[*at].whole_at);
        let at = known.or_else(soonest).unwrap_or_default();
        set[at] = Slot {
            key: *key,
            whole_at: whole_at.as_u64(),
        };
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores a key's time; returns the previous one.
    fn put(table: &QuotaTable, key: u64, whole_at: u64) -> Option<u64> {
        let exchange =
            |before: Option<Nanos>| Ok::<_, ()>((before.map(Nanos::as_u64), Nanos::new(whole_at)));
        table.measure_and_replace(&key, exchange).unwrap()
    }

    #[test]
    fn keys_have_moments_of_their_own() {
        let table = QuotaTable::new(1_000);
        for key in 0..100 {
            assert_eq!(put(&table, key << 57, key + 1), None);
        }
        for key in 0..100 {
            assert_eq!(put(&table, key << 57, 9), Some(key + 1));
        }
    }

    #[test]
    fn a_full_set_forgets_whoever_is_whole_first() {
        let table = QuotaTable::new(WAYS);
        for key in 0..8 {
            assert_eq!(put(&table, key, 100 - key), None);
        }
        assert_eq!(put(&table, 8, 200), None);
        assert_eq!(put(&table, 7, 300), None, "it was whole first");
        for key in [0, 1, 2, 3, 4, 5] {
            assert_eq!(put(&table, key, 400), Some(100 - key));
        }
        let places: usize = table.sets.iter().map(|set| set.lock().len()).sum();
        assert_eq!(places, 8);
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let table = QuotaTable::new(1);
        put(&table, 1, 5);
        let refused: Result<(), ()> = table.measure_and_replace(&1, |_| Err(()));
        assert_eq!(refused, Err(()));
        let refused: Result<(), ()> = table.measure_and_replace(&2, |_| Err(()));
        assert_eq!(refused, Err(()));
        assert_eq!((put(&table, 1, 6), put(&table, 2, 6)), (Some(5), None));
    }
}
