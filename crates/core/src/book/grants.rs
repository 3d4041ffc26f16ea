//! The grants of one campaign, held densely: 40 bytes a row, the user's name in a shared arena, and an index of
//! 4-byte row numbers.
//!
//! Rows are in the order of their numbers. A number is the place in the table, unless a restore has skipped some.
//! Most users have one grant, and its row says all about them. While there are only a few rows, all are looked at, and
//! there is no index; nor is anything reserved for a campaign of small supply, of which there may be a million.

mod index;
mod skipped;
#[cfg(test)]
mod tests;

use self::{
    index::{Index, hash_of},
    skipped::Skipped,
};
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
/// Up to this supply nothing is reserved: to grow that far takes some microseconds in all.
const SMALL_SUPPLY: usize = 1 << 10;
/// The first rows of a small supply that space is made for.
const FIRST_ROWS: usize = 4;
/// Up to so many rows there is no index: to look at all of them takes no longer than to hash a name.
const SCANNED_MAX: usize = 16;

/// One grant as the table keeps it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    name_at: u32,
    pub(super) quantity: u32,
    /// Units that were returned after the order was paid.
    pub(super) returned: u32,
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
                units: self.quantity - self.returned,
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

/// A user looked up once: the newest grant if there is one, and the hash where there is an index.
#[derive(Clone, Copy)]
pub(super) struct Found {
    hash: u64,
    /// The place of the user's newest grant; 0 for none.
    newest: u32,
}

pub(super) struct NewGrant<'a> {
    pub(super) user: &'a UserId,
    pub(super) quantity: u32,
    pub(super) amount_minor: i64,
    pub(super) key: Option<&'a IdempotencyKey>,
    pub(super) granted_at: Timestamp,
}

/// Rows, and the names in them.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
    names: Vec<u8>,
}

impl Table {
    fn len(&self) -> u32 {
        // Grants are numbered in u32: `has_room` is asked before one is added.
        self.rows.len() as u32
    }

    fn row(&self, place: u32) -> &Row {
        #[cfg(test)]
        tests::ROWS_READ.set(tests::ROWS_READ.get() + 1);
        &self.rows[place as usize - 1]
    }

    fn get(&self, place: u32) -> Option<&Row> {
        (1..=self.len()).contains(&place).then(|| self.row(place))
    }

    fn name(&self, row: &Row) -> &[u8] {
        &self.names[row.name_at as usize..][..usize::from(row.name_len)]
    }

    /// The place of the last row of such a kind; 0 for none.
    fn last(&self, is_such: impl Fn(&Row) -> bool) -> u32 {
        let place = self.rows.iter().rposition(is_such);
        place.map_or(0, |place| place as u32 + 1)
    }

    /// Makes space before it is needed: for no more rows than there will be, and with names as long as this one.
    fn grow(&mut self, supply: u64, name_len: usize) {
        let (len, expected) = (self.rows.len(), rows_for(supply));
        if len < self.rows.capacity() || len >= expected {
            return; // there is space, or who knows how many will come
        }
        let more = (expected - len).min(len.max(FIRST_ROWS));
        self.rows.reserve_exact(more);
        self.names.reserve_exact(more * name_len);
    }
}

#[derive(Debug)]
pub(super) struct Grants {
    table: Table,
    /// Once there are more than a few rows, or where numbers are skipped.
    index: Option<Box<Index>>,
}

/// So many rows will do, unless units come back.
fn rows_for(supply: u64) -> usize {
    usize::try_from(supply).map_or(RESERVE_MAX, |supply| supply.min(RESERVE_MAX))
}

impl Grants {
    pub(super) fn for_supply(supply: u64) -> Self {
        let expected = rows_for(supply);
        let (mut table, mut index) = (Table::default(), None);
        if expected > SMALL_SUPPLY {
            table.rows.reserve_exact(expected);
            table.names.reserve_exact(expected * NAME_BYTES_EXPECTED);
            index = Some(Box::new(Index::with_capacity(expected)));
        }
        Self { table, index }
    }

    /// Skips the numbers from the first to the last of each pair. Pairs are in ascending order; no grant is added yet.
    pub(super) fn skip(&mut self, numbers: &[(u32, u32)]) {
        if !numbers.is_empty() {
            let new = || Box::new(Index::of(&self.table));
            self.index.get_or_insert_with(new).skipped = Skipped::of(numbers);
        }
    }

    /// The number of the grant at a place.
    pub(super) fn number_at(&self, place: u32) -> u32 {
        let index = self.index.as_ref();
        index.map_or(place, |index| index.skipped.number_at(place))
    }

    /// The place of the grant with a number; 0 where no grant can have it.
    pub(super) fn place_of(&self, number: u32) -> u32 {
        let index = self.index.as_ref();
        index.map_or(number, |index| index.skipped.place_of(number))
    }

    /// The number of the next grant.
    pub(super) fn next_number(&self) -> u32 {
        self.number_at(self.len() + 1)
    }

    pub(super) fn len(&self) -> u32 {
        self.table.len()
    }

    pub(super) fn find(&self, user: &UserId) -> Found {
        let (table, name) = (&self.table, user.as_str().as_bytes());
        let Some(index) = &self.index else {
            let newest = table.last(|row| table.name(row) == name);
            return Found { hash: 0, newest };
        };
        let hash = hash_of(name);
        let newest = index.newest(table, hash, name);
        Found { hash, newest }
    }

    /// The row of a grant that exists. Numbers count from 1.
    pub(super) fn row(&self, number: u32) -> &Row {
        self.table.row(self.place_of(number))
    }

    pub(super) fn get(&self, number: u32) -> Option<&Row> {
        self.table.get(self.place_of(number))
    }

    /// The row at a place. Places count from 1.
    pub(super) fn at(&self, place: u32) -> Option<&Row> {
        self.table.get(place)
    }

    /// The newest grant of a user, and its number.
    pub(super) fn newest(&self, found: Found) -> Option<(u32, &Row)> {
        Some((self.number_at(found.newest), self.at(found.newest)?))
    }

    /// Moves an order; returns the state before.
    pub(super) fn set_state(&mut self, number: u32, state: OrderState) -> OrderState {
        let place = self.place_of(number);
        let row = &mut self.table.rows[place as usize - 1];
        let before = *row;
        row.state = state;
        if let Some(index) = &mut self.index {
            index.change(row.name_at, before.holding(), row.holding());
        }
        before.state
    }

    /// Returns units of an order that has as many. An order without any left is returned.
    pub(super) fn return_units(&mut self, number: u32, units: u32) {
        let place = self.place_of(number);
        let row = &mut self.table.rows[place as usize - 1];
        let before = *row;
        row.returned += units;
        if row.returned == row.quantity {
            row.state = OrderState::Returned;
        }
        if let Some(index) = &mut self.index {
            index.change(row.name_at, before.holding(), row.holding());
        }
    }

    pub(super) fn user(&self, row: &Row) -> Option<UserId> {
        std::str::from_utf8(self.table.name(row))
            .ok()
            .and_then(|name| UserId::new(name).ok())
    }

    /// What a user has.
    pub(super) fn holding(&self, found: Found) -> Holding {
        let Some(newest) = self.at(found.newest) else {
            return Holding::default();
        };
        let Some(index) = &self.index else {
            let rows = self.table.rows.iter();
            let own = rows.filter(|row| row.name_at == newest.name_at);
            return own.fold(Holding::default(), |sum, row| sum.plus(row.holding()));
        };
        index.holding(newest)
    }

    /// The grant that a user made under a key.
    pub(super) fn under(&self, found: Found, key: &IdempotencyKey) -> Option<(u32, &Row)> {
        let newest = self.at(found.newest)?;
        let key = fingerprint(key.as_str());
        let place = match &self.index {
            _ if newest.key == key => found.newest,
            Some(index) => index.under(newest.name_at, key)?,
            None => self
                .table
                .last(|row| row.name_at == newest.name_at && row.key == key),
        };
        Some((self.number_at(place), self.at(place)?))
    }

    /// Adds a grant of a campaign that has so many units.
    pub(super) fn push(&mut self, supply: u64, found: Found, grant: &NewGrant<'_>) -> u32 {
        let name = grant.user.as_str().as_bytes();
        let table = &mut self.table;
        table.grow(supply, name.len());
        let mut row = Row {
            name_at: table.names.len() as u32, // the arena is addressed in 32 bits, see `has_room`
            quantity: grant.quantity,
            returned: 0,
            name_len: name.len() as u8, // a user id has at most 128 characters
            state: OrderState::Held,
            key: grant.key.map_or(0, |key| fingerprint(key.as_str())),
            amount_minor: grant.amount_minor,
            granted_at: grant.granted_at,
        };
        match found.newest {
            0 => table.names.extend_from_slice(name),
            // A later grant of one user shares the name of the first.
            newest => row.name_at = table.row(newest).name_at,
        }
        table.rows.push(row);
        let place = table.len();
        match &mut self.index {
            Some(index) => index.add(table, (found.hash, found.newest), place),
            None if table.rows.len() > SCANNED_MAX => self.index = Some(Box::new(Index::of(table))),
            None => {}
        }
        self.number_at(place)
    }

    /// Whether another grant may be added without leaving 32-bit numbers and addresses of names.
    pub(super) fn has_room(&self) -> bool {
        self.table.rows.len() < u32::MAX as usize
            && self.next_number() < u32::MAX
            && self.table.names.len() < (u32::MAX as usize) - crate::id::USER_ID_CHARS_MAX
    }
}

/// How many grants there are up to the one with a number, where these numbers are skipped.
pub(super) fn grants_up_to(number: u32, skipped: &[(u32, u32)]) -> u32 {
    Skipped::of(skipped).place_of(number)
}

/// 64 bits stand for a key: keys are only compared among one user's grants in one campaign, or among one order's
/// payments.
pub(super) fn fingerprint(key: &str) -> u64 {
    hash_of(key.as_bytes()).max(1)
}
