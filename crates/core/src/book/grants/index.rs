//! Index of users and keys, for campaigns with too many grants to search one by one.

use std::{hash::BuildHasher as _, sync::LazyLock};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable, hash_map::Entry};

use super::{Row, Table, skipped::Skipped};
use crate::gate::GateHolding;

/// Hasher with a random seed, so that no user can choose colliding names. One is enough for all campaigns of a process.
static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

pub(super) fn hash_of(text: &[u8]) -> u64 {
    HASHER.hash_one(text)
}

/// Index of a table's rows.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Position of each user's newest grant.
    newest: HashTable<u32>,
    /// Units and returned orders of users with several grants, by `name_at`.
    several: HashMap<u32, GateHolding>,
    /// Positions of their grants, by `name_at` and the fingerprint of the key.
    keyed: HashMap<(u32, u64), u32>,
    /// Numbers that no grant has. Stored here, because few campaigns have any and a book may have a million campaigns.
    pub(super) skipped: Skipped,
    /// Number of earlier grants that the table of an excerpt lacks.
    pub(super) lacking: u32,
}

impl Index {
    pub(super) fn with_capacity(users: usize) -> Self {
        Self {
            newest: HashTable::with_capacity(users),
            ..Self::default()
        }
    }

    /// Index of all rows of a table.
    pub(super) fn from_table(table: &Table) -> Self {
        let mut index = Self::with_capacity(table.rows.len());
        for number in 1..=table.len() {
            let name = table.name(table.row(number));
            let hash = hash_of(name);
            let newest = index.newest(table, hash, name);
            index.add(table, (hash, newest), number);
        }
        index
    }

    /// Position of a user's newest grant; 0 for none.
    pub(super) fn newest(&self, table: &Table, hash: u64, name: &[u8]) -> u32 {
        let is_of = |number: &u32| table.name(table.row(*number)) == name;
        self.newest.find(hash, is_of).copied().unwrap_or(0)
    }

    /// Units and returned orders of the user with this newest grant.
    pub(super) fn holding(&self, row: &Row) -> GateHolding {
        let several = self.several.get(&row.name_at);
        several.copied().unwrap_or_else(|| row.holding())
    }

    /// Position of the grant under a key of a user with several grants.
    pub(super) fn under(&self, name_at: u32, key: u64) -> Option<u32> {
        self.keyed.get(&(name_at, key)).copied()
    }

    /// Adds the last row, at position `number`. `hash` and `newest` are the user's hash and previous newest grant.
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

    /// Adds a grant of a user who already has one.
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

    /// Updates a user's total after a grant has changed from `before` to `after`.
    pub(super) fn change(&mut self, name_at: u32, before: GateHolding, after: GateHolding) {
        if let Some(holding) = self.several.get_mut(&name_at) {
            holding.units = holding.units - before.units + after.units;
            holding.returned_orders =
                holding.returned_orders - before.returned_orders + after.returned_orders;
        }
    }
}
