//! Grants are found the same way with an index, without one, and with one that was built later. Few grants take little
//! space.

use std::cell::Cell;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;

const STATES: [OrderState; 4] = [
    OrderState::Held,
    OrderState::Paid,
    OrderState::Cancelled,
    OrderState::Expired,
];

thread_local! {
    /// Number of rows that were read by position.
    pub(super) static ROWS_READ: Cell<u64> = const { Cell::new(0) };
}

/// Supply of a campaign that reserves no space.
const SUPPLY: u64 = 10;

fn user(n: u32) -> UserId {
    UserId::new(&format!("user-{n}")).unwrap()
}

fn key(n: u32) -> IdempotencyKey {
    IdempotencyKey::new(&format!("key-{n}")).unwrap()
}

fn grant(grants: &mut Grants, user: &UserId, key: Option<&IdempotencyKey>) -> u32 {
    let grant = NewGrant {
        user,
        quantity: 1 + grants.len() % 3,
        amount_minor: 7,
        key,
        granted_at: Timestamp::default(),
    };
    grants.push(SUPPLY, grants.find(user), &grant)
}

/// All lookups of a user: newest grant, holding, and the grant under each of some keys.
fn all_of(grants: &Grants, user: &UserId) -> (u32, GateHolding, Vec<Option<u32>>) {
    let found = grants.find(user);
    let under = (0..40).map(|n| Some(grants.under(found, &key(n))?.0));
    let newest = grants.newest(found).map_or(0, |(number, _)| number);
    (newest, grants.holding(found), under.collect())
}

#[test]
fn grants_are_found_alike_with_and_without_an_index() {
    let rng = &mut ChaCha8Rng::seed_from_u64(7);
    for round in 0..200 {
        let users = 1 + round % 9;
        let (mut small, mut large) = (Grants::for_supply(SUPPLY), Grants::for_supply(1 << 20));
        // Each key names one grant.
        let mut unused: Vec<u32> = (0..40).collect();
        for _ in 0..3 * SCANNED_MAX {
            let (user, key) = (
                user(rng.random_range(0..users)),
                rng.random_bool(0.7).then(|| key(unused.pop().unwrap_or(0))),
            );
            let number = grant(&mut small, &user, key.as_ref());
            assert_eq!(grant(&mut large, &user, key.as_ref()), number);
            let moved = rng.random_range(1..=number);
            let state = STATES[rng.random_range(0..STATES.len())];
            small.set_state(moved, state);
            large.set_state(moved, state);
            assert!(large.index.is_some());
            assert_eq!(small.index.is_some(), number as usize > SCANNED_MAX);
            for n in 0..=users {
                let user = self::user(n);
                assert_eq!(all_of(&small, &user), all_of(&large, &user), "{user}");
            }
        }
    }
}

/// A refused claim reads a constant number of rows, not all grants of its user.
#[test]
fn a_user_costs_the_same_however_many_grants_they_have() {
    let rows_read = |count: u32| {
        let mut grants = Grants::for_supply(1 << 20);
        for n in 0..count {
            grant(&mut grants, &user(0), Some(&key(n)));
        }
        let units: u32 = grants.table.rows.iter().map(|row| row.quantity).sum();
        let before = ROWS_READ.get();
        let found = grants.find(&user(0));
        assert_eq!(grants.holding(found).units, units);
        assert!(grants.under(found, &key(count)).is_none());
        assert_eq!(grants.under(found, &key(0)).unwrap().0, 1);
        ROWS_READ.get() - before
    };
    let few = rows_read(2);
    assert!((1..10).contains(&few), "{few}");
    assert_eq!(rows_read(10_000), few);
}

#[test]
fn few_grants_take_no_more_than_they_need() {
    let mut grants = Grants::for_supply(SUPPLY);
    let space = |grants: &Grants| (grants.table.rows.capacity(), grants.table.names.capacity());
    assert_eq!(space(&grants), (0, 0));
    for n in 0..10 {
        grant(&mut grants, &user(n), None);
    }
    assert_eq!(space(&grants), (10, 10 * "user-0".len()));
    // More grants than the supply, because units were restocked.
    grant(&mut grants, &user(10), None);
    assert_eq!(grants.len(), 11);
    assert!(grants.index.is_none());
}

#[test]
fn space_for_a_large_supply_is_made_before_the_rush() {
    let mut grants = Grants::for_supply(50_000);
    let rows = grants.table.rows.as_ptr();
    for n in 0..50_000 {
        grant(&mut grants, &user(n), None);
    }
    assert_eq!(grants.table.rows.as_ptr(), rows, "nothing has moved");
}
