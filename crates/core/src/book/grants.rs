//! The grants of one campaign, held densely: 40 bytes a row, the user's name in a shared arena, and an index of
//! 4-byte row numbers.
//!
//! Rows stand in the order of their numbers. Most users have one grant, and its row says all about them. What several
//! grants of a user come to is kept beside, and so are their keys, so that no claim looks at all of them.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable, hash_map::Entry};

use crate::{
    gate::Holding,
    id::{IdempotencyKey, UserId},
    order::OrderState,
    time::Timestamp,
};

/// Space is reserved for the whole supply up to this many grants, so that tables do not grow under peak load.
const RESERVE_MAX: usize = 1 << 20;
/// Names of 16 bytes are expected; longer ones only make the arena grow.
const NAME_BYTES_EXPECTED: usize = 16;

/// One grant as the table keeps it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    name_at: u32,
    pub(super) quantity: u32,
    name_len: u8,
    pub(super) state: OrderState,
    /// Fingerprint of the idempotency key; 0 when there was none.
    key: u64,
    pub(super) amount_minor: i64,
    pub(super) granted_at: Timestamp,
}

impl Row {
    fn holding(&self) -> Holding {
        // What is no order stays as it was granted.
        if self.state.keeps_units() {
            Holding {
                units: self.quantity,
                returned_orders: 0,
            }
        } else {
            Holding {
                units: 0,
                returned_orders: 1,
            }
        }
    }
}

/// A user looked up once: the hash, and the newest grant if there is one.
#[derive(Clone, Copy)]
pub(super) struct Found {
    hash: u64,
    /// The number of the user's newest grant; 0 for none.
    pub(super) newest: u32,
}

pub(super) struct NewGrant<'a> {
    pub(super) user: &'a UserId,
    pub(super) quantity: u32,
    pub(super) amount_minor: i64,
    pub(super) key: Option<&'a IdempotencyKey>,
    pub(super) granted_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct Grants {
    rows: Vec<Row>,
    names: Vec<u8>,
    newest: HashTable<u32>,
    /// What users with several grants have, by `name_at`.
    several: HashMap<u32, Holding>,
    /// Their grants, by `name_at` and the fingerprint of the key.
    keyed: HashMap<(u32, u64), u32>,
    hasher: DefaultHashBuilder,
}

impl Grants {
    pub(super) fn for_supply(supply: u64) -> Self {
        let expected =
            usize::try_from(supply).map_or(RESERVE_MAX, |supply| supply.min(RESERVE_MAX));
        Self {
            rows: Vec::with_capacity(expected),
            names: Vec::with_capacity(expected * NAME_BYTES_EXPECTED),
            newest: HashTable::with_capacity(expected),
            several: HashMap::new(),
            keyed: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub(super) fn len(&self) -> u32 {
        // Grants are numbered in u32: `has_room` is asked before one is added.
        self.rows.len() as u32
    }

    pub(super) fn find(&self, user: &UserId) -> Found {
        let hash = self.hasher.hash_one(user.as_str().as_bytes());
        let name = user.as_str().as_bytes();
        let newest = self
            .newest
            .find(hash, |number| self.name(self.row(*number)) == name);
        Found {
            hash,
            newest: newest.copied().unwrap_or(0),
        }
    }

    /// The row of a grant that exists. Numbers count from 1.
    pub(super) fn row(&self, number: u32) -> &Row {
        &self.rows[number as usize - 1]
    }

    pub(super) fn get(&self, number: u32) -> Option<&Row> {
        self.rows.get((number as usize).checked_sub(1)?)
    }

    /// Moves an order; returns the state before.
    pub(super) fn set_state(&mut self, number: u32, state: OrderState) -> OrderState {
        let row = &mut self.rows[number as usize - 1];
        let before = (row.state, row.holding());
        row.state = state;
        let after = row.holding();
        if let Some(holding) = self.several.get_mut(&row.name_at) {
            holding.units = holding.units - before.1.units + after.units;
            holding.returned_orders =
                holding.returned_orders - before.1.returned_orders + after.returned_orders;
        }
        before.0
    }

    pub(super) fn user(&self, row: &Row) -> Option<UserId> {
        std::str::from_utf8(self.name(row))
            .ok()
            .and_then(|name| UserId::new(name).ok())
    }

    /// What a user has.
    pub(super) fn holding(&self, found: Found) -> Holding {
        let Some(row) = self.get(found.newest) else {
            return Holding::default();
        };
        let several = self.several.get(&row.name_at);
        several.copied().unwrap_or_else(|| row.holding())
    }

    /// The grant that a user made under a key.
    pub(super) fn under(&self, found: Found, key: &IdempotencyKey) -> Option<(u32, &Row)> {
        let row = self.get(found.newest)?;
        let key = self.fingerprint(key.as_str());
        if row.key == key {
            return Some((found.newest, row));
        }
        let number = self.keyed.get(&(row.name_at, key))?;
        Some((*number, self.row(*number)))
    }

    /// 64 bits stand for a key: keys are only compared among one user's grants in one campaign, or among one order's
    /// payments.
    pub(super) fn fingerprint(&self, key: &str) -> u64 {
        self.hasher.hash_one(key.as_bytes()).max(1)
    }

    pub(super) fn push(&mut self, found: Found, grant: &NewGrant<'_>) -> u32 {
        let name = grant.user.as_str().as_bytes();
        let mut row = Row {
            name_at: self.names.len() as u32, // the arena is addressed in 32 bits, see `has_room`
            quantity: grant.quantity,
            name_len: name.len() as u8, // a user id has at most 128 characters
            state: OrderState::Held,
            key: grant.key.map_or(0, |key| self.fingerprint(key.as_str())),
            amount_minor: grant.amount_minor,
            granted_at: grant.granted_at,
        };
        let number = self.len() + 1;
        match self.get(found.newest).copied() {
            Some(before) => {
                // A later grant of one user shares the name of the first.
                row.name_at = before.name_at;
                self.add_to_several((found.newest, &before), (number, &row));
            }
            None => self.names.extend_from_slice(name),
        }
        self.rows.push(row);
        self.index(found, number);
        number
    }

    /// Counts a grant of a user who has one already.
    fn add_to_several(&mut self, before: (u32, &Row), (number, row): (u32, &Row)) {
        let holding = match self.several.entry(row.name_at) {
            Entry::Occupied(holding) => holding.into_mut(),
            Entry::Vacant(free) => {
                if before.1.key != 0 {
                    self.keyed.insert((row.name_at, before.1.key), before.0);
                }
                free.insert(before.1.holding())
            }
        };
        holding.units += row.quantity;
        if row.key != 0 {
            self.keyed.insert((row.name_at, row.key), number);
        }
    }

    fn index(&mut self, found: Found, number: u32) {
        let Self {
            rows,
            names,
            newest,
            hasher,
            ..
        } = self;
        if found.newest == 0 {
            newest.insert_unique(found.hash, number, |n| {
                let row = &rows[*n as usize - 1];
                hasher.hash_one(&names[row.name_at as usize..][..usize::from(row.name_len)])
            });
        } else if let Some(slot) = newest.find_mut(found.hash, |n| *n == found.newest) {
            *slot = number;
        }
    }

    fn name(&self, row: &Row) -> &[u8] {
        &self.names[row.name_at as usize..][..usize::from(row.name_len)]
    }

    /// Whether another grant may be added without leaving 32-bit numbers and addresses of names.
    pub(super) fn has_room(&self) -> bool {
        self.rows.len() < u32::MAX as usize
            && self.names.len() < (u32::MAX as usize) - crate::id::USER_ID_CHARS_MAX
    }
}
