//! The grants of one campaign, held densely: 40 bytes a row, the user's name in a shared arena, and an index of
//! 4-byte row numbers.
//!
//! Rows stand in the order of their numbers. All grants of one user form a chain, newest first.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{
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
    /// The number of the user's grant before this one; 0 when it is the first.
    previous: u32,
    pub(super) quantity: u32,
    name_len: u8,
    pub(super) state: OrderState,
    /// Fingerprint of the idempotency key; 0 when there was none.
    key: u64,
    pub(super) amount_minor: i64,
    pub(super) granted_at: Timestamp,
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

    pub(super) fn row_mut(&mut self, number: u32) -> &mut Row {
        &mut self.rows[number as usize - 1]
    }

    pub(super) fn user(&self, row: &Row) -> Option<UserId> {
        std::str::from_utf8(self.name(row))
            .ok()
            .and_then(|name| UserId::new(name).ok())
    }

    /// The user's grants, newest first, with their numbers.
    pub(super) fn chain(&self, found: Found) -> impl Iterator<Item = (u32, &Row)> {
        let first = self.get(found.newest).map(|row| (found.newest, row));
        std::iter::successors(first, |(_, row)| {
            self.get(row.previous).map(|before| (row.previous, before))
        })
    }

    /// Whether the grant was made under this very key.
    pub(super) fn has_key(&self, row: &Row, key: &IdempotencyKey) -> bool {
        row.key == self.fingerprint(key.as_str())
    }

    /// 64 bits stand for a key: keys are only compared among one user's grants in one campaign, or among one order's
    /// payments.
    pub(super) fn fingerprint(&self, key: &str) -> u64 {
        self.hasher.hash_one(key.as_bytes()).max(1)
    }

    pub(super) fn push(&mut self, found: Found, grant: &NewGrant<'_>) -> u32 {
        let name = grant.user.as_str().as_bytes();
        // The arena is addressed in 32 bits, see `has_room`. A later grant of one user shares the name of the first.
        let name_at = match self.get(found.newest) {
            Some(before) => before.name_at,
            None => {
                let at = self.names.len() as u32;
                self.names.extend_from_slice(name);
                at
            }
        };
        self.rows.push(Row {
            name_at,
            previous: found.newest,
            quantity: grant.quantity,
            name_len: name.len() as u8, // a user id has at most 128 characters
            state: OrderState::Held,
            key: grant.key.map_or(0, |key| self.fingerprint(key.as_str())),
            amount_minor: grant.amount_minor,
            granted_at: grant.granted_at,
        });
        let number = self.len();
        self.index(found, number);
        number
    }

    fn index(&mut self, found: Found, number: u32) {
        let Self {
            rows,
            names,
            newest,
            hasher,
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
