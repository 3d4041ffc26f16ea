//! A bounded map that drops entries without recent use, in small portions.
//!
//! Entries are young or old. When the young ones reach half the weight limit, they become the old ones, and the former
//! old ones are dropped. An old entry becomes young when it is used. So an entry stays if it is used at least once
//! while half the limit is inserted. An operation costs as much as in a hash map, because no list of recent uses is
//! kept.

use std::{collections::HashMap, hash::Hash, mem};

/// Values by key, with a limited total weight.
#[derive(Debug)]
pub struct TwoGenerations<K, V> {
    weight_max: usize,
    young: Generation<K, V>,
    old: Generation<K, V>,
}

#[derive(Debug)]
struct Generation<K, V> {
    /// Values with their weights.
    values: HashMap<K, (V, usize)>,
    weight: usize,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
            weight: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, V> Generation<K, V> {
    fn insert(&mut self, key: K, value: V, weight: usize) {
        self.weight += weight;
        if let Some((_, before)) = self.values.insert(key, (value, weight)) {
            self.weight -= before;
        }
    }

    fn remove(&mut self, key: &K) -> Option<(V, usize)> {
        let removed = self.values.remove(key)?;
        self.weight -= removed.1;
        Some(removed)
    }
}

impl<K: Copy + Eq + Hash, V> TwoGenerations<K, V> {
    /// Creates an empty map with this limit of the total weight. A single heavier entry is kept alone.
    #[must_use]
    pub fn new(weight_max: usize) -> Self {
        Self {
            weight_max,
            young: Generation::default(),
            old: Generation::default(),
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.values.len() + self.old.values.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds a value, and whether it is old. An old value is dropped soon, unless [`keep`](Self::keep) is called. This
    /// suits readers that share a read lock.
    #[must_use]
    pub fn find(&self, key: &K) -> Option<(&V, bool)> {
        match self.young.values.get(key) {
            Some((value, _)) => Some((value, false)),
            None => self.old.values.get(key).map(|(value, _)| (value, true)),
        }
    }

    /// Makes an old entry young.
    pub fn keep(&mut self, key: &K) {
        if let Some((value, weight)) = self.old.remove(key) {
            self.insert_young(*key, value, weight);
        }
    }

    /// Finds a value and makes it young.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.keep(key);
        self.young.values.get(key).map(|(value, _)| value)
    }

    /// Inserts a value of weight 1.
    pub fn insert(&mut self, key: K, value: V) {
        self.insert_of(key, value, 1);
    }

    /// Inserts a value of this weight, and replaces the previous one.
    pub fn insert_of(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        self.insert_young(key, value, weight);
    }

    /// Removes a value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.young.remove(key).or_else(|| self.old.remove(key));
        removed.map(|(value, _)| value)
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.young = Generation::default();
        self.old = Generation::default();
    }

    /// All entries, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let all = self.young.values.iter().chain(&self.old.values);
        all.map(|(key, (value, _))| (key, value))
    }

    fn insert_young(&mut self, key: K, value: V, weight: usize) {
        if self.young.weight + weight > self.weight_max / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, value, weight);
        if self.young.weight + self.old.weight > self.weight_max {
            self.old = Generation::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: usize = 65_536;

    #[test]
    fn what_is_asked_for_steadily_is_never_forgotten() {
        let mut map = TwoGenerations::new(BOUND);
        map.insert(u32::MAX, "steady");
        for n in 0..200_000 {
            map.insert(n, "once");
            assert_eq!(map.get(&u32::MAX), Some(&"steady"), "after {n}");
            assert!(map.len() <= BOUND, "{}", map.len());
        }
        // Readers that share a read lock use `find` and `keep`.
        for n in 0..200_000 {
            map.insert(n, "once");
            let (_, is_old) = map.find(&u32::MAX).expect("a steadily used entry is kept");
            if is_old {
                map.keep(&u32::MAX);
            }
        }
        // The last entries are there, at least half of the limit.
        assert!((0..BOUND as u32 / 2 - 2).all(|n| map.find(&(199_999 - n)).is_some()));
        assert_eq!(map.find(&0), None);
    }

    #[test]
    fn what_is_taken_out_is_gone_and_weighs_nothing() {
        let mut map = TwoGenerations::new(4);
        for n in 0..3 {
            map.insert(n, n);
        }
        // 0 and 1 are old, 2 is young.
        assert_eq!(map.find(&0), Some((&0, true)));
        assert_eq!(map.find(&2), Some((&2, false)));
        assert_eq!((map.remove(&0), map.remove(&0)), (Some(0), None));
        assert_eq!((map.remove(&2), map.len()), (Some(2), 1));
        map.insert(1, 7);
        assert_eq!(map.get(&1), Some(&7));
        assert_eq!(map.len(), 1, "an entry is there once");
        map.insert(1, 8);
        map.insert(2, 2);
        assert_eq!(map.iter().count(), 2);
        assert_eq!(map.find(&1), Some((&8, false)), "it weighs as much as one");
        map.clear();
        assert!(map.is_empty());
    }

    #[test]
    fn all_together_weigh_no_more_than_they_may() {
        let mut map = TwoGenerations::new(100);
        let weight = |map: &TwoGenerations<u64, usize>| map.iter().map(|(_, it)| it).sum::<usize>();
        for n in 0..1_000 {
            let own = 1 + (n as usize * 37) % 60;
            map.insert_of(n, own, own);
            assert!(weight(&map) <= 100, "{}", weight(&map));
            assert!(map.find(&n).is_some());
        }
        // An entry above the limit is kept alone.
        map.insert_of(7, 101, 101);
        assert_eq!((map.len(), map.get(&7)), (1, Some(&101)));
        map.insert_of(8, 1, 1);
        assert!(map.find(&8).is_some() && weight(&map) <= 101 + 1);
        map.insert_of(9, 1, 1);
    }
}
