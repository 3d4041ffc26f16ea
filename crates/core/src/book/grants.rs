//! Grants of one campaign, stored densely: 40 bytes per row, the user's name in a shared arena, and an index of 4-byte
//! row numbers.
//!
//! Rows are in the order of their numbers. A grant's number is its position in the table, unless a restore has skipped
//! numbers. Most users have one grant, and its row has all their data. A few rows are searched one by one, without an
//! index. A campaign of small supply reserves no space, because a book may have a million of them.

mod index;
mod skipped;
#[cfg(test)]
mod tests;

use self::{
    index::{Index, hash_of},
    skipped::Skipped,
};
use crate::{
    gate::GateHolding,
    id::{IdempotencyKey, UserId},
    order::{OrderState, price_of_units},
    time::Timestamp,
};

/// Maximum number of rows for which space is reserved, so that tables do not grow under peak load.
const RESERVE_MAX: usize = 1 << 20;
/// Expected bytes per name; longer names only make the arena grow.
const NAME_BYTES_EXPECTED: usize = 16;
/// Supplies up to this reserve no space: growing that far takes some microseconds in total.
const SMALL_SUPPLY: usize = 1 << 10;
/// First number of rows for which a small supply allocates space.
const FIRST_ROWS: usize = 4;
/// Tables of up to this many rows have no index: searching all rows takes no longer than hashing a name.
const SCANNED_MAX: usize = 16;

/// A row of the table: one grant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    name_at: u32,
    pub(super) quantity: u32,
    /// Units that were returned after the order was paid.
    pub(super) returned: u32,
    /// Bytes of the name.
    name_len: u16,
    pub(super) state: OrderState,
    /// Fingerprint of the idempotency key; 0 if there was none.
    key: u64,
    pub(super) amount_minor: i64,
    pub(super) granted_at: Timestamp,
}

impl Row {
    fn holding(&self) -> GateHolding {
        // A share keeps the state in which it was granted.
        if self.state.keeps_units() {
            GateHolding {
                units: self.quantity - self.returned,
                returned_orders: 0,
            }
        } else {
            GateHolding {
                units: 0,
                returned_orders: 1,
            }
        }
    }
}

/// Result of looking up a user: the newest grant, and the hash of the name if there is an index.
#[derive(Clone, Copy)]
pub(super) struct Found {
    hash: u64,
    /// Position of the user's newest grant; 0 for none.
    newest: u32,
}

pub(super) struct NewGrant<'a> {
    pub(super) user: &'a UserId,
    pub(super) quantity: u32,
    pub(super) amount_minor: i64,
    pub(super) key: Option<&'a IdempotencyKey>,
    pub(super) granted_at: Timestamp,
}

/// Rows and the arena of their users' names.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
    names: Vec<u8>,
}

impl Table {
    fn len(&self) -> u32 {
        // Grants are numbered in u32: callers check `has_room` before they add one.
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

    /// Position of the last matching row; 0 for none.
    fn last(&self, is_such: impl Fn(&Row) -> bool) -> u32 {
        let place = self.rows.iter().rposition(is_such);
        place.map_or(0, |place| place as u32 + 1)
    }

    /// Reserves space before it is needed: at most for the expected rows, with names as long as this one.
    fn grow(&mut self, supply: u64, name_len: usize) {
        let (len, expected) = (self.rows.len(), rows_for(supply));
        if len < self.rows.capacity() || len >= expected {
            return; // there is space, or the final number is unknown
        }
        let more = (expected - len).min(len.max(FIRST_ROWS));
        self.rows.reserve_exact(more);
        self.names.reserve_exact(more * name_len);
    }
}

#[derive(Debug)]
pub(super) struct Grants {
    table: Table,
    /// Present for a large supply, for more than [`SCANNED_MAX`] rows, or if numbers are skipped.
    index: Option<Box<Index>>,
}

/// Expected number of rows. Restocked units may need more.
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

    /// Skips the numbers from the first to the last of each pair. Pairs ascend, and grants that were added already keep
    /// their numbers.
    pub(super) fn skip(&mut self, numbers: &[(u32, u32)]) {
        if !numbers.is_empty() {
            self.indexed().skipped = Skipped::from_numbers(numbers);
        }
    }

    /// Counts this many grants that the table lacks.
    pub(super) fn lack(&mut self, grants: u32) {
        if grants > 0 {
            self.indexed().lacking = grants;
        }
    }

    fn indexed(&mut self) -> &mut Index {
        let new = || Box::new(Index::from_table(&self.table));
        self.index.get_or_insert_with(new)
    }

    /// Number of the grant at a position.
    pub(super) fn number_at(&self, place: u32) -> u32 {
        let index = self.index.as_ref();
        index.map_or(place, |index| index.skipped.number_at(place))
    }

    /// Position of the grant with a number; 0 for a skipped number.
    pub(super) fn place_of(&self, number: u32) -> u32 {
        let index = self.index.as_ref();
        index.map_or(number, |index| index.skipped.place_of(number))
    }

    /// Number of the next grant.
    pub(super) fn next_number(&self) -> u32 {
        self.number_at(self.len() + 1)
    }

    pub(super) fn len(&self) -> u32 {
        self.table.len()
    }

    /// Number of grants, also of grants that the table of an excerpt lacks.
    pub(super) fn count(&self) -> u32 {
        let lacking = self.index.as_ref().map_or(0, |index| index.lacking);
        self.len().saturating_add(lacking)
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

    /// Row of an existing grant. Numbers count from 1.
    pub(super) fn row(&self, number: u32) -> &Row {
        self.table.row(self.place_of(number))
    }

    pub(super) fn get(&self, number: u32) -> Option<&Row> {
        self.table.get(self.place_of(number))
    }

    /// Row at a position. Positions count from 1.
    pub(super) fn at(&self, place: u32) -> Option<&Row> {
        self.table.get(place)
    }

    /// Newest grant of a user, with its number.
    pub(super) fn newest(&self, found: Found) -> Option<(u32, &Row)> {
        Some((self.number_at(found.newest), self.at(found.newest)?))
    }

    /// Sets the state of an order; returns the state before.
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

    /// Returns units of an order, which must have as many. An order without remaining units is returned.
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

    /// Cancels units of a held order, which must have more. Its price falls by theirs.
    pub(super) fn cancel_units(&mut self, number: u32, units: u32) {
        let place = self.place_of(number);
        let row = &mut self.table.rows[place as usize - 1];
        let before = *row;
        row.quantity -= units;
        row.amount_minor = price_of_units(before.amount_minor, row.quantity, before.quantity);
        if let Some(index) = &mut self.index {
            index.change(row.name_at, before.holding(), row.holding());
        }
    }

    pub(super) fn user(&self, row: &Row) -> Option<UserId> {
        std::str::from_utf8(self.table.name(row))
            .ok()
            .and_then(|name| UserId::new(name).ok())
    }

    /// Units and returned orders of a user.
    pub(super) fn holding(&self, found: Found) -> GateHolding {
        let Some(newest) = self.at(found.newest) else {
            return GateHolding::default();
        };
        let Some(index) = &self.index else {
            let rows = self.table.rows.iter();
            let own = rows.filter(|row| row.name_at == newest.name_at);
            return own.fold(GateHolding::default(), |sum, row| sum.plus(row.holding()));
        };
        index.holding(newest)
    }

    /// Grant that a user claimed under a key.
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

    /// Adds a grant of a campaign with this supply; returns its number.
    pub(super) fn push(&mut self, supply: u64, found: Found, grant: &NewGrant<'_>) -> u32 {
        let name = grant.user.as_str().as_bytes();
        let table = &mut self.table;
        table.grow(supply, name.len());
        let mut row = Row {
            name_at: table.names.len() as u32, // the arena is addressed in 32 bits, see `has_room`
            quantity: grant.quantity,
            returned: 0,
            name_len: name.len() as u16, // at most `USER_ID_BYTES_MAX`
            state: OrderState::Held,
            key: grant.key.map_or(0, |key| fingerprint(key.as_str())),
            amount_minor: grant.amount_minor,
            granted_at: grant.granted_at,
        };
        match found.newest {
            0 => table.names.extend_from_slice(name),
            // Later grants of a user share the name of the first.
            newest => row.name_at = table.row(newest).name_at,
        }
        table.rows.push(row);
        let place = table.len();
        match &mut self.index {
            Some(index) => index.add(table, (found.hash, found.newest), place),
            None if table.rows.len() > SCANNED_MAX => {
                self.index = Some(Box::new(Index::from_table(table)))
            }
            None => {}
        }
        self.number_at(place)
    }

    /// Whether another grant fits into 32-bit numbers and 32-bit addresses of names.
    pub(super) fn has_room(&self) -> bool {
        self.table.rows.len() < u32::MAX as usize
            && self.next_number() < u32::MAX
            && self.table.names.len() < (u32::MAX as usize) - crate::id::USER_ID_BYTES_MAX
    }
}

/// Number of grants up to the one with a number, if these numbers are skipped.
pub(super) fn grants_up_to(number: u32, skipped: &[(u32, u32)]) -> u32 {
    Skipped::from_numbers(skipped).place_of(number)
}

/// Fingerprint of a key, in 64 bits. Keys are only compared among one user's grants in one campaign, or among one
/// order's payments.
pub(super) fn fingerprint(key: &str) -> u64 {
    hash_of(key.as_bytes()).max(1)
}
