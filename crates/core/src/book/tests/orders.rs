//! Holds, payments, and returned units.

use super::*;
use crate::{campaign::STOCK_PRICE_MINOR_MAX, order::REFUNDS_DUE_MAX, payment::ReceivedMoney};

fn state(fixture: &Fixture, setup: &Setup, number: u32) -> (OrderState, u32) {
    let order = fixture
        .book
        .order(fixture.order(setup, number))
        .unwrap()
        .grant
        .order
        .unwrap();
    (order.state, order.refunds_due)
}

#[test]
fn unpaid_orders_expire_and_their_units_are_sold_again() {
    let setup = sale(1, 2, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.now += 10;
    fixture.claim(&setup, "b");
    assert_eq!(fixture.pay(&setup, 2, "p2"), PaymentOutcome::Paid);
    fixture.now = START + HOLD - 1;
    fixture.tick();
    assert_eq!(state(&fixture, &setup, 1), (OrderState::Held, 0));
    fixture.now = START + HOLD;
    fixture.tick();
    assert_eq!(state(&fixture, &setup, 1), (OrderState::Expired, 0));
    fixture.now = START + HOLD + 10;
    fixture.tick();
    assert_eq!(
        state(&fixture, &setup, 2),
        (OrderState::Paid, 0),
        "a paid order does not expire"
    );
    assert_eq!(fixture.claim(&setup, "c").grant().unwrap().number, 3);
    assert_eq!(
        fixture.claim(&setup, "d"),
        Outcome::SoldOut { remaining: 0 }
    );
}

#[test]
fn a_payment_after_expiry_gets_the_units_back_or_is_owed_back() {
    let setup = sale(1, 1, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.now = START + HOLD;
    fixture.tick();
    assert_eq!(fixture.pay(&setup, 1, "p1"), PaymentOutcome::Reinstated);
    assert_eq!(state(&fixture, &setup, 1), (OrderState::Paid, 0));
    assert_eq!(
        fixture.claim(&setup, "b"),
        Outcome::SoldOut { remaining: 0 }
    );

    let setup = sale(2, 1, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.now = START + HOLD;
    fixture.tick();
    assert!(matches!(fixture.claim(&setup, "b"), Outcome::Granted(_)));
    assert_eq!(fixture.pay(&setup, 1, "p1"), PaymentOutcome::RefundDue);
    assert_eq!(
        fixture.pay(&setup, 1, "p1"),
        PaymentOutcome::RefundDue,
        "a replay makes no second refund due"
    );
    assert_eq!(state(&fixture, &setup, 1), (OrderState::Expired, 1));
}

#[test]
fn a_late_payment_does_not_lift_a_user_over_the_limit() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.now = START + HOLD;
    fixture.tick();
    assert_eq!(
        fixture.claim(&setup, "a").grant().unwrap().number,
        2,
        "an expired order leaves room for another"
    );
    assert_eq!(fixture.pay(&setup, 1, "p1"), PaymentOutcome::RefundDue);
    assert_eq!(fixture.pay(&setup, 2, "p2"), PaymentOutcome::Paid);
}

#[test]
fn payments_are_honoured_once() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    assert_eq!(fixture.pay(&setup, 1, "p1"), PaymentOutcome::Paid);
    let length = fixture.log.len();
    assert_eq!(fixture.pay(&setup, 1, "p1"), PaymentOutcome::Paid);
    assert_eq!(fixture.log.len(), length);
    assert_eq!(fixture.pay(&setup, 1, "p2"), PaymentOutcome::RefundDue);
    assert_eq!(fixture.pay(&setup, 1, "p3"), PaymentOutcome::RefundDue);
    assert_eq!(state(&fixture, &setup, 1), (OrderState::Paid, 2));
}

#[test]
fn what_is_owed_back_for_an_order_is_a_sum_that_fits() {
    let most = STOCK_PRICE_MINOR_MAX.checked_mul(i64::from(REFUNDS_DUE_MAX) + 1);
    assert!(
        most.is_some(),
        "the refunds due of an order fit 64 bits, with the price of a return"
    );
    let setup = sale(1, 5, 5);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    for user in ["a", "b"] {
        fixture.claim(&setup, user);
    }
    assert_eq!(fixture.pay(&setup, 1, "paid"), PaymentOutcome::Paid);
    for n in 0..REFUNDS_DUE_MAX {
        let outcome = fixture.pay(&setup, 1, &format!("p{n}"));
        assert_eq!(outcome, PaymentOutcome::RefundDue);
    }
    let length = fixture.log.len();
    let one_more = Command::Pay {
        order: fixture.order(&setup, 1),
        payment: PaymentRef::new("q").unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    assert_eq!(fixture.apply(one_more), Err(Refusal::TooManyPayments));
    assert_eq!(fixture.pay(&setup, 1, "p0"), PaymentOutcome::RefundDue);
    assert_eq!(fixture.pay(&setup, 1, "paid"), PaymentOutcome::Paid);
    assert_eq!(
        fixture.log.len(),
        length,
        "a refused payment writes no entry"
    );
    assert_eq!(
        state(&fixture, &setup, 1),
        (OrderState::Paid, REFUNDS_DUE_MAX)
    );
    assert_eq!(fixture.pay(&setup, 2, "q"), PaymentOutcome::Paid);
}

#[test]
fn cancelling_gives_back_once_and_only_what_is_held() {
    let setup = sale(1, 5, 5);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 3, Some("k")).unwrap();
    let order = fixture.order(&setup, 1);
    for _ in 0..2 {
        assert!(matches!(
            fixture.apply(Command::Cancel { order, part: None }),
            Ok(Reply::Cancelled(_))
        ));
        assert_eq!(fixture.tally(&setup).remaining, 5);
    }
    assert_eq!(fixture.pay(&setup, 1, "p"), PaymentOutcome::RefundDue);
    let replay = fixture.claim_with(&setup, "a", 3, Some("k")).unwrap();
    assert_eq!(
        replay.grant().unwrap().number,
        1,
        "the key still names the cancelled order"
    );
    fixture.claim_with(&setup, "a", 1, Some("k2")).unwrap();
    assert_eq!(fixture.pay(&setup, 2, "p2"), PaymentOutcome::Paid);
    let order = fixture.order(&setup, 2);
    assert!(matches!(
        fixture.apply(Command::Cancel { order, part: None }),
        Err(Refusal::Order(_))
    ));
    let order = fixture.order(&setup, 9);
    assert_eq!(
        fixture.apply(Command::Cancel { order, part: None }),
        Err(Refusal::UnknownOrder)
    );
}

#[test]
fn after_the_close_units_go_to_the_owner() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.claim(&setup, "b");
    fixture.act(&setup, CampaignAction::Close).unwrap();
    assert_eq!(fixture.tally(&setup).returned, 3);
    assert_eq!(
        fixture.pay(&setup, 1, "p1"),
        PaymentOutcome::Paid,
        "a held order can still be paid"
    );
    fixture.now = START + HOLD;
    fixture.tick();
    let tally = fixture.tally(&setup);
    assert_eq!((tally.granted, tally.remaining, tally.returned), (1, 0, 4));
    assert_eq!(fixture.pay(&setup, 2, "p2"), PaymentOutcome::RefundDue);
}

#[test]
fn claiming_and_cancelling_for_ever_is_stopped() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    for n in 1..=crate::gate::RETURNED_ORDERS_PER_USER_MAX as u32 {
        assert!(
            matches!(fixture.claim(&setup, "a"), Outcome::Granted(_)),
            "{n}"
        );
        let order = fixture.order(&setup, n);
        fixture
            .apply(Command::Cancel { order, part: None })
            .unwrap();
    }
    assert_eq!(
        fixture.claim(&setup, "a"),
        Outcome::LimitReached { limit: 1, held: 0 }
    );
    assert!(
        matches!(fixture.claim(&setup, "b"), Outcome::Granted(_)),
        "other users are not limited"
    );
}

#[test]
fn a_clock_that_jumps_back_does_not_keep_units_from_returning() {
    let setup = sale(1, 2, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.now = START + 100;
    fixture.claim(&setup, "a");
    fixture.now = START;
    fixture.claim(&setup, "b");
    fixture.now = START + 100 + HOLD;
    fixture.tick();
    for number in [1, 2] {
        assert_eq!(state(&fixture, &setup, number).0, OrderState::Expired);
    }
}

/// A book with this grace for late reports of payments.
fn with_grace(setup: &Setup, ms: i64, since: i64) -> Fixture {
    let grace = Grace {
        ms,
        since: at(since),
    };
    let mut fixture = Fixture::with(&[]);
    (fixture.book, fixture.shadow) = (Book::with_grace(grace), Book::with_grace(grace));
    fixture.shadow.restore(setup.clone());
    let open = Command::Open(Box::new(setup.clone()));
    fixture.apply(open).unwrap();
    fixture
}

#[test]
fn an_order_expires_when_the_grace_behind_its_hold_is_over() {
    // Grace, start of reporting, and expiry of the order after the start of the sale.
    for (ms, since, expires) in [
        (0, 0, HOLD),
        (7, 0, HOLD + 7),
        (7, START + HOLD, HOLD + 7),
        // The service was down until then, for a part of the hold or all of it.
        (7, START + HOLD + 100, HOLD + 107),
        (0, START + HOLD + 100, HOLD + 100),
        // The grace is at most the hold itself.
        (HOLD + 1, 0, 2 * HOLD),
    ] {
        let setup = sale(1, 1, 1);
        let mut fixture = with_grace(&setup, ms, since);
        fixture.claim(&setup, "a");
        for (later, expected) in [
            (expires - 1, OrderState::Held),
            (expires, OrderState::Expired),
        ] {
            fixture.now = START + later;
            fixture.tick();
            assert_eq!(state(&fixture, &setup, 1).0, expected, "{ms} {since}");
        }
    }
}

/// Each downtime during a hold extends the hold by its length since the grant.
#[test]
fn holds_stand_still_while_the_service_is_down() {
    let down = |began: i64, ended: i64| Downtime {
        began: at(START + began),
        ended: at(START + ended),
    };
    // Downtimes, time of the grant, and end of the hold after the start of the sale.
    let cases: &[(&[Downtime], i64, i64)] = &[
        (&[], 0, HOLD),
        (&[down(10, 500)], 0, HOLD + 490),
        (&[down(10, 500), down(HOLD, HOLD + 7)], 0, HOLD + 497),
        // During a downtime a claim is only granted if a clock was set back.
        (&[down(10, 500)], 400, 400 + HOLD + 100),
        // Before the order, and after the end of the hold.
        (&[down(10, 500)], 500, 500 + HOLD),
        (&[down(HOLD, HOLD + 500)], 0, HOLD),
        // Longer than the hold.
        (&[down(HOLD - 1, 9 * HOLD)], 0, 9 * HOLD + 1),
    ];
    for (downtimes, granted, ends) in cases {
        let setup = sale(1, 3, 3);
        let mut fixture = Fixture::with(&[]);
        for book in [&mut fixture.book, &mut fixture.shadow] {
            for downtime in *downtimes {
                book.was_down(*downtime);
            }
        }
        fixture.shadow.restore(setup.clone());
        fixture
            .apply(Command::Open(Box::new(setup.clone())))
            .unwrap();
        fixture.now = START + granted;
        for user in ["a", "b", "c"] {
            fixture.claim(&setup, user);
        }
        fixture.now = START + ends - 1;
        fixture.tick();
        assert_eq!(state(&fixture, &setup, 1).0, OrderState::Held, "{ends}");
        let paid = fixture.pay_at(&setup, 1, "first", Some(START + ends - 1));
        assert_eq!(paid, PaymentOutcome::Paid, "{ends}");
        fixture.now = START + ends;
        let late = fixture.pay_at(&setup, 2, "second", Some(START + ends));
        assert_eq!(late, PaymentOutcome::Reinstated, "{ends}");
        fixture.tick();
        assert_eq!(state(&fixture, &setup, 3).0, OrderState::Expired, "{ends}");
    }
}

/// A clock that is set back a little does not date grants backwards. A clock that was ahead for a while does not date
/// later grants ahead.
#[test]
fn a_grant_in_a_glitch_dates_no_later_ones() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    // Time of the claim, and date of the grant.
    let minute = 60_000;
    for (user, now, dated) in [
        ("a", 1_000, 1_000),
        ("b", 10 * minute, 10 * minute),
        ("c", 2_000, 2_000),
        ("d", 2_000 - minute, 2_000),
        ("e", 1_999 - minute, 1_999 - minute),
    ] {
        fixture.now = START + minute + now;
        let outcome = fixture.claim(&setup, user);
        let granted_at = outcome.grant().map(|grant| grant.granted_at);
        assert_eq!(granted_at, Some(at(START + minute + dated)), "{user}");
    }
    // The holds after the grant that is dated ahead end once it has left its hold.
    fixture.now = START + 3 * minute;
    fixture.tick();
    assert_eq!(state(&fixture, &setup, 1).0, OrderState::Expired);
    assert_eq!(state(&fixture, &setup, 3).0, OrderState::Held);
    let order = fixture.order(&setup, 2);
    fixture
        .apply(Command::Cancel { order, part: None })
        .unwrap();
    fixture.tick();
    for number in 3..=5 {
        assert_eq!(state(&fixture, &setup, number).0, OrderState::Expired);
    }
}

#[test]
fn the_time_of_a_payment_decides_whether_the_hold_was_kept() {
    use PaymentOutcome::{Paid, RefundDue, Reinstated};
    let end = START + HOLD;
    // Time of the payment, whether the sale is closed by then, and the outcome, within the grace.
    for (paid_at, closed, expected) in [
        (Some(end - 1), false, Paid),
        (Some(end - 1), true, Paid),
        (Some(end), false, Reinstated),
        (Some(end), true, RefundDue),
        // A payment without a time was made now.
        (None, false, Reinstated),
        (None, true, RefundDue),
        // The other clock is ahead.
        (Some(end + 1_000), false, Reinstated),
    ] {
        let setup = sale(1, 1, 1);
        let mut fixture = with_grace(&setup, 50, 0);
        fixture.claim(&setup, "a");
        if closed {
            fixture.act(&setup, CampaignAction::Close).unwrap();
        }
        fixture.now = end + 49;
        fixture.tick();
        for _ in 0..2 {
            let outcome = fixture.pay_at(&setup, 1, "p", paid_at);
            assert_eq!(outcome, expected, "{paid_at:?} {closed}");
        }
        // A repeated report is a replay, with any time of payment.
        for again in [None, Some(START), Some(end + 1)] {
            assert_eq!(fixture.pay_at(&setup, 1, "p", again), expected);
        }
        let (paid, owed) = match expected {
            RefundDue => (OrderState::Expired, 1),
            _ => (OrderState::Paid, 0),
        };
        assert_eq!(state(&fixture, &setup, 1), (paid, owed));
        fixture.now += 1_000;
        fixture.tick();
        assert_eq!(state(&fixture, &setup, 1), (paid, owed));
    }
}

#[test]
fn a_payment_in_time_whose_report_comes_behind_the_grace_finds_its_units_or_is_owed_back() {
    for (taken, expected) in [
        (false, PaymentOutcome::Reinstated),
        (true, PaymentOutcome::RefundDue),
    ] {
        let setup = sale(1, 1, 1);
        let mut fixture = with_grace(&setup, 50, 0);
        fixture.claim(&setup, "a");
        fixture.now = START + HOLD + 49;
        fixture.tick();
        assert_eq!(
            fixture.claim(&setup, "b"),
            Outcome::SoldOut { remaining: 0 },
            "the order keeps its units"
        );
        fixture.now += 1;
        fixture.tick();
        if taken {
            assert!(matches!(fixture.claim(&setup, "b"), Outcome::Granted(_)));
        }
        let outcome = fixture.pay_at(&setup, 1, "p", Some(START + 1));
        assert_eq!(outcome, expected);
    }
}

#[test]
fn a_clock_that_is_ahead_ends_no_hold() {
    let setup = sale(1, 1, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.now = START + HOLD - 1;
    let outcome = fixture.pay_at(&setup, 1, "p", Some(START + HOLD));
    assert_eq!(outcome, PaymentOutcome::Paid);
}

#[test]
fn what_several_orders_of_a_user_come_to_follows_their_steps() {
    let setup = sale(1, 10, 5);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let claim = |fixture: &mut Fixture, quantity, key: Option<&str>| {
        fixture.claim_with(&setup, "a", quantity, key).unwrap()
    };
    for (n, key) in [Some("k1"), None, Some("k3")].into_iter().enumerate() {
        let outcome = claim(&mut fixture, 1, key);
        assert_eq!(outcome.grant().unwrap().number as usize, n + 1);
    }
    assert_eq!(fixture.pay(&setup, 2, "p"), PaymentOutcome::Paid);
    let order = |fixture: &Fixture, number| fixture.order(&setup, number);
    for number in [1, 3] {
        let order = order(&fixture, number);
        fixture
            .apply(Command::Cancel { order, part: None })
            .unwrap();
    }
    // One unit is kept, so five more exceed the limit. Each key still names its order.
    let reached = Outcome::LimitReached { limit: 5, held: 1 };
    assert_eq!(claim(&mut fixture, 5, None), reached);
    for (number, key) in [(1, "k1"), (3, "k3")] {
        let Outcome::AlreadyGranted(grant) = claim(&mut fixture, 1, Some(key)) else {
            panic!("{key}")
        };
        assert_eq!(grant.number, number);
        assert_eq!(grant.order.unwrap().state, OrderState::Cancelled);
    }
    assert!(claim(&mut fixture, 4, Some("k4")).grant().is_some());
    let order = order(&fixture, 2);
    fixture
        .apply(Command::Return { order, part: None })
        .unwrap();
    let reached = Outcome::LimitReached { limit: 5, held: 4 };
    assert_eq!(claim(&mut fixture, 2, None), reached);
}
