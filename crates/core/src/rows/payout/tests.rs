//! Tests of payouts and of refunds due.

use super::*;
use crate::id::IdempotencyKey;

#[test]
fn reversals_take_what_is_left_of_a_deposit() {
    let ann = UserId::new("ann").expect("a name");
    let currency = |code: &str| code.parse().expect("a currency");
    let part = |minor, code| ReversalPart {
        key: IdempotencyKey::new("k").expect("a key"),
        amount: Money::new(minor, currency(code)),
    };
    let exceeded = |left, asked, code| {
        let (left, asked) = (
            Money::new(left, currency("CNY")),
            Money::new(asked, currency(code)),
        );
        Err(LedgerError::DepositExceeded { left, asked })
    };
    for (part, reversed, expected) in [
        (None, 0, Ok(70)),
        (None, 69, Ok(1)),
        (None, 70, exceeded(0, 70, "CNY")),
        (Some(part(70, "CNY")), 0, Ok(70)),
        (Some(part(71, "CNY")), 0, exceeded(70, 71, "CNY")),
        (Some(part(2, "CNY")), 69, exceeded(1, 2, "CNY")),
        (Some(part(1, "EUR")), 0, exceeded(70, 1, "EUR")),
        (Some(part(0, "CNY")), 0, Err(LedgerError::AmountOutOfRange)),
    ] {
        let deposit = Some((70, "ann".to_owned(), "CNY".to_owned()));
        let spend = Spend::reversal(&ann, part.as_ref(), deposit, reversed);
        let minor = spend.map(|spend| spend.amount.minor);
        assert_eq!(minor, expected, "{part:?} after {reversed}");
    }
}

#[test]
fn the_outside_has_half_of_the_range() {
    let user = UserId::new("ann").expect("a name");
    let cny = "CNY".parse().expect("a currency");
    let spend = Spend::withdrawal(&user, Money::new(5, cny)).expect("in range");
    for (held, fits) in [
        (i64::MIN, true),
        (MONEY_MINOR_MAX - 5, true),
        (MONEY_MINOR_MAX - 4, false),
        (i64::MAX, false),
    ] {
        let expected = if fits {
            Ok(())
        } else {
            Err(LedgerError::Overflow)
        };
        assert_eq!(spend.check_outside(held), expected, "{held}");
    }
}

#[test]
fn what_a_discarded_order_is_owed() {
    let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    let check = |entries: &[&str], expected: Option<i64>| {
        let entry = |(seq, event): (usize, &&str)| {
            Entry::from_text(&format!("{} 0 {id} {event}", seq + 1)).expect("an entry")
        };
        let entries: Vec<_> = entries.iter().enumerate().map(entry).collect();
        let order = OrderId {
            campaign: id.parse().expect("an id"),
            number: 7,
        };
        let columns = (3, "CNY".to_owned(), None, None, None, None, None);
        let moved = [("refund_paid".to_owned(), 5, None)];
        let owed = owed_of(order, columns, &moved, &entries).expect("it can be read");
        assert_eq!(
            owed.map(|(_, owed)| owed[0].outstanding().minor),
            expected,
            "{entries:?}"
        );
    };
    let granted = "granted 7 ann 1 100";
    check(&[], None);
    check(&["granted 8 ann 1 100", "paid 8 p"], None);
    check(&[granted, "cancelled 7"], Some(-5));
    check(
        &[granted, "paid 7 p", "refund_due 7 q", "returned 7"],
        Some(195),
    );
    // A different amount is due as it arrived, and another currency has its own sum.
    let other = [granted, "refund_due 7 p 99 CNY", "refund_due 7 q 7 EUR"];
    check(&other, Some(94));
    // A repair recreated the order, and it was discarded again.
    let again = [
        granted,
        "paid 7 p",
        "returned 7",
        granted,
        "paid 7 p",
        "returned 7",
    ];
    check(&again, Some(95));
}

/// After the return of an order, the refund due is the amount of its payment, and not its price.
#[test]
fn a_returned_order_is_owed_what_was_paid() {
    let order = OrderId {
        campaign: "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80"
            .parse()
            .expect("an id"),
        number: 7,
    };
    let moved =
        |word: &str, minor, code: Option<&str>| (word.to_owned(), minor, code.map(str::to_owned));
    let paid = moved("paid", 120, Some("CNY"));
    let price = moved("reinstated", 100, None);
    let due = moved("refund_due", 7, Some("CNY"));
    let refunded = moved("refund_paid", 20, Some("CNY"));
    for (state, moved, expected) in [
        ("held", vec![due.clone()], 7),
        ("paid", vec![paid.clone(), due.clone()], 7),
        ("returned", vec![paid.clone(), due.clone()], 127),
        ("returned", vec![paid, due.clone(), refunded], 107),
        ("returned", vec![price, due.clone()], 107),
        // The row of the payment is missing.
        ("returned", vec![due], 107),
    ] {
        let user = Some("ann".to_owned());
        let state = Some(state.to_owned());
        let columns = (
            3,
            "CNY".to_owned(),
            user,
            Some(100),
            state,
            Some(1),
            Some(0),
        );
        let owed = owed_of(order, columns, &moved, &[]).expect("it can be read");
        let left = owed.map(|(_, owed)| owed[0].outstanding().minor);
        assert_eq!(left, Some(expected), "{moved:?}");
    }
}

/// For a partial return, the returned units' part of the payment is due, rounded down.
#[test]
fn returned_units_are_owed_their_part() {
    let order = OrderId {
        campaign: "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80"
            .parse()
            .expect("an id"),
        number: 7,
    };
    for (state, returned, expected) in [
        ("paid", 0, 0),
        ("paid", 1, 40),
        ("paid", 2, 80),
        ("returned", 0, 121),
        ("returned", 3, 121),
    ] {
        let (user, state) = (Some("ann".to_owned()), Some(state.to_owned()));
        let columns = (
            3,
            "CNY".to_owned(),
            user,
            Some(100),
            state,
            Some(3),
            Some(returned),
        );
        let moved = [("paid".to_owned(), 121, Some("CNY".to_owned()))];
        let owed = owed_of(order, columns, &moved, &[]).expect("it can be read");
        let left = owed.map(|(_, owed)| owed[0].outstanding().minor);
        assert_eq!(left, Some(expected), "{returned} returned");
    }
}
