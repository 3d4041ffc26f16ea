//! Finds users and keys where a campaign has too many grants to look at each of them.

use std::{hash::BuildHasher as _, sync::LazyLock};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable, hash_map::Entry};

use super::{Row, Table, skipped::Skipped};
use crate::gate::Holding;

/// Its seed is random, so that nobody can choose names that collide. One is enough for all campaigns of a process.
static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

pub(super) fn hash_of(text: &[u8]) -> u64 {
    HASHER.hash_one(text)
}

/// What is found of a table's rows.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The number of each user's newest grant.
    newest: HashTable<u32>,
    /// What users with several grants have, by `name_at`.
    several: HashMap<u32, Holding>,
    /// Their grants, by `name_at` and the fingerprint of the key.
    keyed: HashMap<(u32, u64), u32>,
    /// Numbers that no grant has. It is here because few campaigns have any, and a book may have a million.
    pub(super) skipped: Skipped,
}

impl Index {
    pub(super) fn with_capacity(users: usize) -> Self {
        Self {
            newest: HashTable::with_capacity(users),
            ..Self::default()
        }
    }

    /// The index of all rows of a table.
    pub(super) fn of(table: &Table) -> Self {
        let mut index = Self::with_capacity(table.rows.len());
        for number in 1..=table.len() {
            let name = table.name(table.row(number));
            let hash = hash_of(name);
            let newest = index.newest(table, hash, name);
            index.add(table, (hash, newest), number);
        }
        index
    }

    /// The number of a user's newest grant; 0 for none.
    pub(super) fn newest(&self, table: &Table, hash: u64, name: &[u8]) -> u32 {
        let is_of = |number: &u32| table.name(table.row(*number)) == name;
        self.newest.find(hash, is_of).copied().unwrap_or(0)
    }

    /// What a user has whose newest grant this is.
    pub(super) fn holding(&self, row: &Row) -> Holding {
        let several = self.several.get(&row.name_at);
        several.copied().unwrap_or_else(|| row.holding())
    }

    /// The grant under a key of a user who has several.
    pub(super) fn under(&self, name_at: u32, key: u64) -> Option<u32> {
        self.keyed.get(&(name_at, key)).copied()
    }

    /// Adds the row `number`, the last one, of a user whose hash and newest grant before are given.
    pub(super) fn add(&mut self, table: &Table, (hash, newest): (u64, u32), number: u32) {
        if newest == 0 {
            let hash_of_row = |number: &u32| hash_of(table.name(table.row(*number)));
            self.newest.insert_unique(hash, number, hash_of_row);
            return;
        }
        self.add_to_several(table, newest, number);
        if let Some(slot) = self.newest.find_mut(hash, |number| *number == newest) {
            *slot = number;
        }
    }

    /// Counts a grant of a user who has one already.
    fn add_to_several(&mut self, table: &Table, before: u32, number: u32) {
        let (row, row_before) = (table.row(number), table.row(before));
        let holding = match self.several.entry(row.name_at) {
            Entry::Occupied(holding) => holding.into_mut(),
            Entry::Vacant(free) => {
                if row_before.key != 0 {
                    self.keyed.insert((row.name_at, row_before.key), before);
                }
                free.insert(row_before.holding())
            }
        };
        *holding = holding.plus(row.holding());
        if row.key != 0 {
            self.keyed.insert((row.name_at, row.key), number);
        }
    }

    /// A user's grant has changed: what it came to before, and what it comes to now.
    pub(super) fn change(&mut self, name_at: u32, before: Holding, after: Holding) {
        if let Some(holding) = self.several.get_mut(&name_at) {
            holding.units = holding.units - before.units + after.units;
            holding.returned_orders =
                holding.returned_orders - before.returned_orders + after.returned_orders;
        }
    }
}
