//! Returns of some units of an order.

use super::*;
use crate::order::{OrderStep, OrderStepError, PartKind, ReturnPart};

fn part(quantity: u32, key: &str) -> Option<ReturnPart> {
    let key = IdempotencyKey::new(key).unwrap();
    Some(ReturnPart { quantity, key })
}

/// Returns units; answers with the order's state, its returned units, and its payments with a refund due.
fn give(
    fixture: &mut Fixture,
    setup: &Setup,
    part: Option<ReturnPart>,
) -> Result<(OrderState, u32, u32), Refusal> {
    let order = fixture.order(setup, 1);
    let reply = fixture.apply(Command::Return { order, part })?;
    let Reply::Returned(view) = reply else {
        panic!("{reply:?}")
    };
    let order = view.grant.order.unwrap();
    Ok((order.state, order.returned_quantity, order.refunds_due))
}

#[test]
fn units_are_returned_once_per_key_until_none_is_left() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let bought = fixture.claim_with(&setup, "a", 4, None).unwrap();
    assert!(bought.grant().is_some());
    let refused = give(&mut fixture, &setup, part(1, "k")).unwrap_err();
    let (from, step) = (OrderState::Held, OrderStep::Return);
    assert_eq!(refused, Refusal::Order(OrderStepError { from, step }));
    assert_eq!(fixture.pay(&setup, 1, "p"), PaymentOutcome::Paid);
    let entries = fixture.log.len();
    for _ in 0..3 {
        let given = give(&mut fixture, &setup, part(1, "k"));
        assert_eq!(given, Ok((OrderState::Paid, 1, 1)));
    }
    assert_eq!(
        fixture.log.len(),
        entries + 1,
        "a repeated key writes no entry"
    );
    for (quantity, key, refusal) in [
        (2, "k", Refusal::KeyReused),
        (4, "l", Refusal::ReturnTooLarge { left: 3 }),
        (0, "l", Refusal::ReturnTooLarge { left: 3 }),
    ] {
        let refused = give(&mut fixture, &setup, part(quantity, key));
        assert_eq!(refused, Err(refusal), "{quantity} {key}");
    }
    // The limit counts the units that the user has: only one unit is free again.
    let full = fixture.claim_with(&setup, "a", 2, None).unwrap();
    assert_eq!(full, Outcome::LimitReached { limit: 4, held: 3 });
    assert!(
        fixture
            .claim_with(&setup, "a", 1, None)
            .unwrap()
            .grant()
            .is_some()
    );
    let given = give(&mut fixture, &setup, part(1, "l"));
    assert_eq!(given, Ok((OrderState::Paid, 2, 1)));
    let given = give(&mut fixture, &setup, part(2, "m"));
    assert_eq!(given, Ok((OrderState::Returned, 4, 1)));
    // Each key still names its return, and the order is completely returned.
    for again in [part(1, "k"), part(2, "m"), None] {
        let given = give(&mut fixture, &setup, again);
        assert_eq!(given, Ok((OrderState::Returned, 4, 1)));
    }
    let from = OrderState::Returned;
    let refused = give(&mut fixture, &setup, part(1, "n"));
    assert_eq!(refused, Err(Refusal::Order(OrderStepError { from, step })));
    let tally = fixture
        .book
        .tally(at(fixture.now), setup.campaign.id)
        .unwrap();
    assert_eq!((tally.granted, tally.remaining), (1, 4));
}

/// Without a quantity, all remaining units are returned: after the close, to the owner.
#[test]
fn the_rest_is_returned_without_a_quantity() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 4, None).unwrap();
    assert_eq!(fixture.pay(&setup, 1, "p"), PaymentOutcome::Paid);
    give(&mut fixture, &setup, part(1, "k")).unwrap();
    fixture.act(&setup, CampaignAction::Close).unwrap();
    let given = give(&mut fixture, &setup, part(1, "l"));
    assert_eq!(given, Ok((OrderState::Paid, 2, 1)));
    let given = give(&mut fixture, &setup, None);
    assert_eq!(given, Ok((OrderState::Returned, 4, 1)));
    let tally = fixture
        .book
        .tally(at(fixture.now), setup.campaign.id)
        .unwrap();
    assert_eq!((tally.granted, tally.returned, tally.remaining), (0, 5, 0));
}

/// An order that costs nothing is also returned in parts, and a cancellation returns the rest.
#[test]
fn a_free_order_is_returned_in_parts() {
    let mut setup = sale(1, 5, 4);
    let price = Money::new(0, "CNY".parse().unwrap());
    setup.campaign.rules = Rules::Sale(Sale::new(5, 4, price, HOLD).unwrap());
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim_with(&setup, "a", 3, None).unwrap();
    let given = give(&mut fixture, &setup, part(1, "k"));
    assert_eq!(given, Ok((OrderState::Paid, 1, 0)));
    let order = fixture.order(&setup, 1);
    fixture
        .apply(Command::Cancel { order, part: None })
        .unwrap();
    let given = give(&mut fixture, &setup, None);
    assert_eq!(given, Ok((OrderState::Returned, 3, 0)));
    let tally = fixture
        .book
        .tally(at(fixture.now), setup.campaign.id)
        .unwrap();
    assert_eq!((tally.granted, tally.remaining), (0, 5));
}

/// A reloaded campaign has its returns, with their keys.
#[test]
fn returns_survive_a_reload() {
    let setup = sale(1, 5, 4);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let grant = *fixture
        .claim_with(&setup, "a", 4, None)
        .unwrap()
        .grant()
        .unwrap();
    fixture.pay(&setup, 1, "p");
    give(&mut fixture, &setup, part(1, "k")).unwrap();
    let (id, head) = (setup.campaign.id, fixture.log.len() as u64);
    let standing = CampaignCounters {
        phase: Phase::Scheduled,
        granted: 3,
        returned: 0,
        refunded_minor: 0,
    };
    let user = UserId::new("a").unwrap();
    let former = |returned| FormerGrant {
        number: 1,
        user: &user,
        quantity: 4,
        amount_minor: grant.amount_minor,
        granted_at: grant.granted_at,
        key: None,
        state: OrderState::Paid,
        returned,
        cancelled: 0,
        extension_ms: 0,
    };
    for returned in [4, 5] {
        let mut read = CampaignSnapshot::opened(setup.clone(), standing, head);
        assert!(
            read.add(&former(returned)).is_err(),
            "{returned} of a paid order"
        );
    }
    let mut read = CampaignSnapshot::opened(setup.clone(), standing, head);
    read.add(&former(1)).unwrap();
    read.add_payment(1, &PaymentRef::new("p").unwrap(), PaymentOutcome::Paid)
        .unwrap();
    let (kind, given) = (PartKind::Return, part(1, "k").unwrap());
    read.add_part(1, kind, &given).unwrap();
    let before = fixture.book.order(fixture.order(&setup, 1));
    fixture.book.retire(id, head).unwrap();
    assert!(fixture.book.recall(at(fixture.now), read.finish().unwrap()));
    assert_eq!(fixture.book.order(fixture.order(&setup, 1)), before);
    let given = give(&mut fixture, &setup, part(1, "k"));
    assert_eq!(given, Ok((OrderState::Paid, 1, 1)));
    let given = give(&mut fixture, &setup, None);
    assert_eq!(given, Ok((OrderState::Returned, 4, 1)));
}
