//! Cancellations of some units of a held order.

use super::*;
use crate::{
    order::{OrderStep, OrderStepError, PartKind, RETURNS_MAX, ReturnPart},
    payment::PaymentPolicy,
};

/// An order as it is seen: state, units, price, and units cancelled.
type Seen = (OrderState, u32, i64, u32);

const PRICE: i64 = 250;

fn part(quantity: u32, key: &str) -> Option<ReturnPart> {
    let key = IdempotencyKey::new(key).unwrap();
    Some(ReturnPart { quantity, key })
}

fn of_view(view: &OrderView) -> Seen {
    let order = view.grant.order.unwrap();
    let grant = &view.grant;
    let cancelled = order.cancelled_quantity;
    (order.state, grant.quantity, grant.amount_minor, cancelled)
}

/// Cancels units; answers with the order's state, units, price, and cancelled units.
fn cancel(fixture: &mut Fixture, setup: &Setup, part: Option<ReturnPart>) -> Result<Seen, Refusal> {
    let order = fixture.order(setup, 1);
    let reply = fixture.apply(Command::Cancel { order, part })?;
    let Reply::Cancelled(view) = reply else {
        panic!("{reply:?}")
    };
    Ok(of_view(&view))
}

fn pay(
    fixture: &mut Fixture,
    setup: &Setup,
    payment: &str,
    (minor, cancelled): (i64, u32),
) -> Result<(PaymentOutcome, Seen), Refusal> {
    let arrived = Money::new(minor, "CNY".parse().unwrap());
    let of_order = fixture.book.order(fixture.order(setup, 1)).unwrap();
    let price = Money::new(of_order.grant.amount_minor, arrived.currency);
    let received = match ReceivedMoney::new(arrived, price, PaymentPolicy::Owed) {
        ReceivedMoney::Price if cancelled > 0 => ReceivedMoney::Accepted(arrived),
        received => received,
    };
    let reply = fixture.apply(Command::Pay {
        order: fixture.order(setup, 1),
        payment: PaymentRef::new(payment).unwrap(),
        paid_at: None,
        received,
        cancelled,
    })?;
    let Reply::Payment(outcome, view) = reply else {
        panic!("{reply:?}")
    };
    Ok((outcome, of_view(&view)))
}

#[test]
fn units_of_a_held_order_are_cancelled_once_per_key() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let bought = fixture.claim_with(&setup, "a", 3, Some("c")).unwrap();
    assert!(bought.grant().is_some());
    let entries = fixture.log.len();
    for _ in 0..3 {
        let cancelled = cancel(&mut fixture, &setup, part(1, "k"));
        assert_eq!(cancelled, Ok((OrderState::Held, 2, 2 * PRICE, 1)));
    }
    assert_eq!(
        fixture.log.len(),
        entries + 1,
        "a repeated key writes no entry"
    );
    for (quantity, key, refusal) in [
        (2, "k", Refusal::KeyReused),
        (3, "l", Refusal::CancelTooLarge { left: 2 }),
        (0, "l", Refusal::CancelTooLarge { left: 2 }),
    ] {
        let refused = cancel(&mut fixture, &setup, part(quantity, key));
        assert_eq!(refused, Err(refusal), "{quantity} {key}");
    }
    // The claim's key still names the order, with the units of the claim.
    let again = fixture.claim_with(&setup, "a", 3, Some("c")).unwrap();
    assert!(matches!(again, Outcome::AlreadyGranted(grant) if grant.quantity == 2));
    let reused = fixture.claim_with(&setup, "a", 2, Some("c"));
    assert_eq!(reused, Err(Refusal::KeyReused));
    // The unit is in stock, and frees the user's limit.
    let full = fixture.claim_with(&setup, "a", 3, None).unwrap();
    assert_eq!(full, Outcome::LimitReached { limit: 4, held: 2 });
    assert_eq!(fixture.tally(&setup).remaining, 3);
    let bought = fixture.claim_with(&setup, "b", 3, None).unwrap();
    assert!(bought.grant().is_some());
    // A payment of the price of all units is other money. Then the price of two units pays.
    let (old, new) = ((3 * PRICE, 1), (2 * PRICE, 1));
    let due = pay(&mut fixture, &setup, "old", old).unwrap();
    let held = (OrderState::Held, 2, 2 * PRICE, 1);
    assert_eq!(due, (PaymentOutcome::RefundDue, held));
    let paid = pay(&mut fixture, &setup, "new", new).unwrap();
    assert_eq!(
        paid,
        (PaymentOutcome::Paid, (OrderState::Paid, 2, 2 * PRICE, 1))
    );
    // The key still names its part. No unit of a paid order is cancelled, and the key names no return.
    let given = cancel(&mut fixture, &setup, part(1, "k"));
    assert_eq!(given, Ok((OrderState::Paid, 2, 2 * PRICE, 1)));
    let (from, step) = (OrderState::Paid, OrderStep::Cancel);
    let refused = cancel(&mut fixture, &setup, part(1, "m"));
    assert_eq!(refused, Err(Refusal::Order(OrderStepError { from, step })));
    let order = fixture.order(&setup, 1);
    let part = part(1, "k");
    let reused = fixture.apply(Command::Return { order, part });
    assert_eq!(reused, Err(Refusal::KeyReused));
}

/// A payment whose money was compared with the price of other units changes nothing, so that it is compared again.
#[test]
fn a_payment_that_races_a_cancellation_is_compared_again() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 3, None).unwrap();
    let order = fixture.order(&setup, 1);
    let whole = Command::Pay {
        order,
        payment: PaymentRef::new("p").unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    cancel(&mut fixture, &setup, part(1, "k")).unwrap();
    let entries = fixture.log.len();
    assert_eq!(fixture.apply(whole.clone()), Err(Refusal::OrderChanged));
    // The price of the units that are left is named in its entry.
    let Command::Pay {
        payment, received, ..
    } = whole
    else {
        unreachable!()
    };
    let unnamed = Command::Pay {
        order,
        payment,
        paid_at: None,
        received,
        cancelled: 1,
    };
    assert_eq!(fixture.apply(unnamed), Err(Refusal::OrderChanged));
    assert_eq!(fixture.log.len(), entries);
    let paid = pay(&mut fixture, &setup, "p", (2 * PRICE, 1)).unwrap();
    assert_eq!(paid.0, PaymentOutcome::Paid);
    let text = fixture.log.last().unwrap().event.to_string();
    assert_eq!(text, format!("paid 1 p {} CNY", 2 * PRICE));
    // A repetition is answered, with any units.
    let again = pay(&mut fixture, &setup, "p", (2 * PRICE, 0)).unwrap();
    assert_eq!(again.0, PaymentOutcome::Paid);
}

#[test]
fn the_last_units_cancel_the_order() {
    for last in [part(2, "l"), None] {
        let setup = sale(1, 5, 4);
        let mut fixture = Fixture::with(std::slice::from_ref(&setup));
        fixture.claim_with(&setup, "a", 3, None).unwrap();
        cancel(&mut fixture, &setup, part(1, "k")).unwrap();
        let entries = fixture.log.len();
        let gone = Ok((OrderState::Cancelled, 2, 2 * PRICE, 1));
        for again in [last.clone(), last, part(1, "k"), None] {
            assert_eq!(cancel(&mut fixture, &setup, again), gone);
        }
        assert_eq!(fixture.log.len(), entries + 1);
        let tally = fixture.tally(&setup);
        assert_eq!((tally.granted, tally.remaining), (0, 5));
    }
}

/// An expired order takes only the units again that it had when it expired.
#[test]
fn an_expired_order_is_reinstated_with_the_units_that_are_left() {
    let setup = sale(1, 3, 3);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 3, None).unwrap();
    cancel(&mut fixture, &setup, part(1, "k")).unwrap();
    fixture.now += HOLD;
    fixture.tick();
    let (from, step) = (OrderState::Expired, OrderStep::Cancel);
    let late = cancel(&mut fixture, &setup, part(1, "l"));
    assert_eq!(late, Err(Refusal::Order(OrderStepError { from, step })));
    fixture.claim_with(&setup, "b", 1, None).unwrap();
    let paid = pay(&mut fixture, &setup, "p", (2 * PRICE, 1)).unwrap();
    assert_eq!(paid.0, PaymentOutcome::Reinstated);
    let tally = fixture.tally(&setup);
    assert_eq!((tally.granted, tally.remaining), (3, 0));
}

/// After the close, cancelled units go to the owner.
#[test]
fn units_that_are_cancelled_after_the_close_go_to_the_owner() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 3, None).unwrap();
    fixture.act(&setup, CampaignAction::Close).unwrap();
    let given = cancel(&mut fixture, &setup, part(1, "k"));
    assert_eq!(given, Ok((OrderState::Held, 2, 2 * PRICE, 1)));
    let tally = fixture.tally(&setup);
    assert_eq!((tally.granted, tally.returned, tally.remaining), (2, 3, 0));
}

#[test]
fn the_cancellations_of_an_order_are_bounded() {
    let units = RETURNS_MAX + 3;
    let setup = sale(1, units, units);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", units, None).unwrap();
    for n in 0..RETURNS_MAX {
        cancel(&mut fixture, &setup, part(1, &format!("k{n}"))).unwrap();
    }
    let refused = cancel(&mut fixture, &setup, part(1, "further"));
    assert_eq!(refused, Err(Refusal::TooManyReturns));
    let gone = cancel(&mut fixture, &setup, part(3, "rest")).unwrap();
    assert_eq!(gone.0, OrderState::Cancelled);
}

/// A cancellation of units of an order that costs nothing returns them, once per key.
#[test]
fn units_of_a_free_order_are_returned() {
    let mut setup = sale(1, 5, 4);
    let price = Money::new(0, "CNY".parse().unwrap());
    setup.campaign.rules = Rules::Sale(Sale::new(5, 4, price, HOLD).unwrap());
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 3, None).unwrap();
    for _ in 0..2 {
        let given = cancel(&mut fixture, &setup, part(1, "k"));
        assert_eq!(given, Ok((OrderState::Paid, 3, 0, 0)));
    }
    let order = fixture.book.order(fixture.order(&setup, 1)).unwrap();
    assert_eq!(order.grant.order.unwrap().returned_quantity, 1);
}

/// A reloaded campaign has its cancellations, with their keys.
#[test]
fn cancellations_survive_a_reload() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let claimed = fixture.claim_with(&setup, "a", 3, Some("c")).unwrap();
    let granted_at = claimed.grant().unwrap().granted_at;
    cancel(&mut fixture, &setup, part(1, "k")).unwrap();
    let (id, head) = (setup.campaign.id, fixture.log.len() as u64);
    let standing = CampaignCounters {
        phase: Phase::Scheduled,
        granted: 2,
        returned: 0,
        refunded_minor: 0,
    };
    let key = IdempotencyKey::new("c").unwrap();
    let mut read = CampaignSnapshot::opened(setup.clone(), standing, head);
    read.add(&FormerGrant {
        number: 1,
        user: &UserId::new("a").unwrap(),
        quantity: 2,
        amount_minor: 2 * PRICE,
        granted_at,
        key: Some(&key),
        state: OrderState::Held,
        returned: 0,
        cancelled: 1,
        extension_ms: 0,
    })
    .unwrap();
    let kind = PartKind::Cancellation;
    read.add_part(1, kind, &part(1, "k").unwrap()).unwrap();
    let before = fixture.book.order(fixture.order(&setup, 1));
    fixture.book.retire(id, head).unwrap();
    assert!(fixture.book.recall(at(fixture.now), read.finish().unwrap()));
    assert_eq!(fixture.book.order(fixture.order(&setup, 1)), before);
    let given = cancel(&mut fixture, &setup, part(1, "k"));
    assert_eq!(given, Ok((OrderState::Held, 2, 2 * PRICE, 1)));
    let again = fixture.claim_with(&setup, "a", 3, Some("c")).unwrap();
    assert!(matches!(again, Outcome::AlreadyGranted(_)));
}
