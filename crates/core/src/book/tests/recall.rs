//! Campaigns that leave a book and come back.

use super::*;

/// What was read before a campaign was here last does not have what happened to it then.
#[test]
fn what_was_read_too_early_is_read_again() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let id = setup.campaign.id;
    let Outcome::Granted(grant) = fixture.claim(&setup, "a") else {
        panic!("the first one is granted")
    };
    // Read behind the first grant.
    let standing = Standing {
        phase: Phase::Scheduled,
        granted: 1,
        returned: 0,
        refunded_minor: 0,
    };
    let read = || {
        let mut read = Restored::opened(setup.clone(), standing, 2);
        read.add(&FormerGrant {
            number: grant.number,
            user: &UserId::new("a").unwrap(),
            quantity: 1,
            amount_minor: grant.amount_minor,
            granted_at: grant.granted_at,
            key: None,
            state: OrderState::Held,
        })
        .unwrap();
        read.finish().unwrap()
    };
    let now = at(START);
    let book = &mut fixture.book;
    assert!(book.recall(now, read()), "it is here");
    assert!(book.retire(id, 1).is_none(), "its grant is not settled");
    let left = book.retire(id, 2).unwrap();
    assert!(book.recall(now, read()));
    assert_eq!(book.tally(now, id), Some(left.tally(now)));
    // It changes, and leaves again.
    fixture.claim(&setup, "b");
    let book = &mut fixture.book;
    let left = book.retire(id, 3).unwrap();
    assert!(!book.recall(now, read()), "it lacks a grant");
    assert!(!book.has(id));
    assert!(book.recall(now, left));
    assert_eq!(book.tally(now, id).map(|tally| tally.granted), Some(2));
}
