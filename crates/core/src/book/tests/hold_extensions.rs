//! Extended holds: their ends, their order among other holds, and their bounds.

use super::*;
use crate::order::EXTENDED_HOLDS_MAX;

fn extend(
    fixture: &mut Fixture,
    setup: &Setup,
    number: u32,
    extension_ms: i64,
) -> Result<Timestamp, Refusal> {
    let order = fixture.order(setup, number);
    let command = Command::ExtendHold {
        order,
        extension_ms,
    };
    match fixture.apply(command)? {
        Reply::HoldExtended(view) => Ok(view.grant.order.expect("an order").hold_until),
        reply => panic!("{reply:?}"),
    }
}

fn state(fixture: &Fixture, setup: &Setup, number: u32) -> OrderState {
    let view = fixture.book.order(fixture.order(setup, number)).unwrap();
    view.grant.order.unwrap().state
}

/// Orders of users `u1`, `u2`, …, a second apart.
fn held(orders: u32, grace: Grace) -> (Fixture, Setup) {
    held_apart(orders, grace, 1_000)
}

/// Orders of users `u1`, `u2`, …, as many milliseconds apart.
fn held_apart(orders: u32, grace: Grace, apart_ms: i64) -> (Fixture, Setup) {
    let setup = sale(1, orders, 1);
    let mut fixture = Fixture::with(&[]);
    fixture.book.agenda.grace = grace;
    fixture.shadow.agenda.grace = grace;
    fixture.shadow.restore(setup.clone());
    let open = Command::Open(Box::new(setup.clone()));
    fixture.apply(open).unwrap();
    for n in 1..=orders {
        fixture.claim(&setup, &format!("u{n}"));
        fixture.now += apart_ms;
    }
    (fixture, setup)
}

/// The agenda follows extended holds, which end after later orders.
#[test]
fn holds_end_out_of_order() {
    let (mut fixture, setup) = held(4, Grace::default());
    let ends = |fixture: &Fixture| fixture.book.next_due();
    assert_eq!(ends(&fixture), Some(at(START + HOLD)));
    let until = extend(&mut fixture, &setup, 1, 2_500);
    assert_eq!(until, Ok(at(START + HOLD + 2_500)));
    assert_eq!(ends(&fixture), Some(at(START + HOLD + 1_000)));
    extend(&mut fixture, &setup, 3, HOLD).unwrap();
    let order = [
        (2, HOLD + 1_000),
        (1, HOLD + 2_500),
        (4, HOLD + 3_000),
        (3, 2 * HOLD + 2_000),
    ];
    for (number, end) in order {
        fixture.now = START + end - 1;
        fixture.tick();
        assert_eq!(state(&fixture, &setup, number), OrderState::Held);
        assert_eq!(ends(&fixture), Some(at(START + end)));
        fixture.now += 1;
        fixture.tick();
        assert_eq!(state(&fixture, &setup, number), OrderState::Expired);
    }
    assert_eq!(ends(&fixture), Some(at(END)));
}

/// A hold that is over is not extended, although its order is held within the grace.
#[test]
fn a_hold_that_is_over_is_not_extended() {
    let grace = Grace {
        ms: 5_000,
        since: at(0),
    };
    let (mut fixture, setup) = held(2, grace);
    fixture.now = START + HOLD - 1;
    extend(&mut fixture, &setup, 1, 1).unwrap();
    fixture.now = START + HOLD + 1_000;
    fixture.tick();
    assert_eq!(state(&fixture, &setup, 2), OrderState::Held);
    assert_eq!(extend(&mut fixture, &setup, 2, 1), Err(Refusal::HoldOver));
    // The grace follows the extension too.
    fixture.now = START + HOLD + 5_000;
    fixture.tick();
    assert_eq!(state(&fixture, &setup, 1), OrderState::Held);
    fixture.now += 1;
    fixture.tick();
    assert_eq!(state(&fixture, &setup, 1), OrderState::Expired);
    let first = fixture.order(&setup, 1);
    let view = fixture.book.order(first).unwrap();
    let until = view.grant.order.unwrap().hold_until;
    assert_eq!(until, at(START + HOLD + 1));
}

/// A downtime delays extended holds as it delays others, by what of it lies within each.
#[test]
fn downtimes_delay_extended_holds() {
    let (mut fixture, setup) = held(3, Grace::default());
    extend(&mut fixture, &setup, 1, HOLD).unwrap();
    extend(&mut fixture, &setup, 2, 500).unwrap();
    let downtime = Downtime {
        began: at(START + HOLD - 10_000),
        ended: at(START + HOLD + 10_000),
    };
    fixture.book.was_down(downtime);
    fixture.shadow.was_down(downtime);
    let delay = 20_000;
    for (number, end) in [
        (2, HOLD + 1_500 + delay),
        (3, HOLD + 2_000 + delay),
        (1, 2 * HOLD + delay),
    ] {
        assert_eq!(fixture.book.next_due(), Some(at(START + end)));
        fixture.now = START + end;
        fixture.tick();
        assert_eq!(state(&fixture, &setup, number), OrderState::Expired);
    }
}

/// Extended holds that are due together expire before others, by number, as many as a tick may end.
#[test]
fn a_tick_ends_extended_holds_in_parts() {
    let (mut fixture, setup) = held(5, Grace::default());
    for number in [4, 2] {
        extend(&mut fixture, &setup, number, i64::from(number)).unwrap();
    }
    fixture.now = START + 2 * HOLD;
    let mut expired = Vec::new();
    for _ in 0..3 {
        let before = fixture.log.len();
        fixture.apply(Command::Tick { events_max: 2 }).unwrap();
        expired.extend(fixture.log[before..].iter().map(|it| it.event.number()));
    }
    let expected = [2, 4, 1, 3, 5].map(Some);
    assert_eq!(expired, expected);
}

/// A sale has a bounded number of extended holds at a time. A hold that ends makes room.
#[test]
fn extended_holds_are_bounded() {
    let orders = EXTENDED_HOLDS_MAX + 1;
    let (mut fixture, setup) = held_apart(orders, Grace::default(), 1);
    for number in 1..=EXTENDED_HOLDS_MAX {
        extend(&mut fixture, &setup, number, HOLD).unwrap();
    }
    let last = orders;
    let refused = extend(&mut fixture, &setup, last, HOLD);
    assert_eq!(refused, Err(Refusal::TooManyExtensions));
    fixture.pay(&setup, 7, "p");
    extend(&mut fixture, &setup, last, HOLD).unwrap();
}

/// An evicted campaign that is read again from rows has its extended holds.
#[test]
fn extensions_are_read_from_rows() {
    let (mut fixture, setup) = held(2, Grace::default());
    extend(&mut fixture, &setup, 1, HOLD).unwrap();
    let id = setup.campaign.id;
    let counters = CampaignCounters {
        phase: Phase::Scheduled,
        granted: 2,
        returned: 0,
        refunded_minor: 0,
    };
    let upto = fixture.book.head();
    let mut read = CampaignSnapshot::opened(setup.clone(), counters, upto);
    for number in 1..=2 {
        let view = fixture.book.order(fixture.order(&setup, number)).unwrap();
        let order = view.grant.order.unwrap();
        read.add(&FormerGrant {
            number,
            user: &view.user,
            quantity: 1,
            amount_minor: view.grant.amount_minor,
            granted_at: view.grant.granted_at,
            key: None,
            state: order.state,
            returned: 0,
            cancelled: 0,
            extension_ms: order.extension_ms,
        })
        .unwrap();
    }
    let before = fixture.book.order(fixture.order(&setup, 1));
    let due = fixture.book.due_of(id);
    assert!(fixture.book.retire(id, upto).is_some());
    assert!(fixture.book.recall(at(fixture.now), read.finish().unwrap()));
    assert_eq!(fixture.book.order(fixture.order(&setup, 1)), before);
    assert_eq!(fixture.book.due_of(id), due);
    let again = extend(&mut fixture, &setup, 1, 1);
    assert_eq!(again, Err(Refusal::AlreadyExtended { extension_ms: HOLD }));
}
