//! Payments of other amounts than the order's price.

use super::*;
use crate::order::REFUNDS_DUE_MAX;

/// The limit refuses a payment that would need a refund. It does not refuse a price that pays the order.
#[test]
fn an_order_with_all_refunds_due_is_paid_by_its_price() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let other = ReceivedMoney::Other(Money::new(1, "EUR".parse().unwrap()));
    let orders = [1, 2, 3].map(|number| fixture.order(&setup, number));
    let pay = |number: usize, payment: String, received| Command::Pay {
        order: orders[number - 1],
        payment: PaymentRef::new(&payment).unwrap(),
        paid_at: None,
        received,
        cancelled: 0,
    };
    for (number, user) in (1..).zip(["a", "b", "c"]) {
        fixture.claim(&setup, user);
        for n in 0..REFUNDS_DUE_MAX {
            let owed = fixture.apply(pay(number, format!("{number}-{n}"), other));
            assert!(matches!(
                owed,
                Ok(Reply::Payment(PaymentOutcome::RefundDue, _))
            ));
        }
        let one_more = fixture.apply(pay(number, format!("{number}-more"), other));
        assert_eq!(one_more, Err(Refusal::TooManyPayments));
    }
    assert_eq!(fixture.pay(&setup, 1, "p1"), PaymentOutcome::Paid);
    let second = fixture.apply(pay(1, "p1-again".to_owned(), ReceivedMoney::Price));
    assert_eq!(second, Err(Refusal::TooManyPayments));

    // Its hold is over, and no tick has ended it: its own units are available again.
    fixture.now = START + HOLD;
    assert_eq!(fixture.pay(&setup, 2, "p2"), PaymentOutcome::Reinstated);

    // The sale is over, so a refund of the price would be due. The refused payment does not end the hold.
    fixture.now = END;
    let length = fixture.log.len();
    let late = fixture.apply(pay(3, "p3".to_owned(), ReceivedMoney::Price));
    assert_eq!(late, Err(Refusal::TooManyPayments));
    assert_eq!(
        fixture.log.len(),
        length,
        "a refused payment writes no entry"
    );
}
