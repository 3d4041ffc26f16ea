//! Repairs of free orders.

use super::*;
use crate::id::OrderId;

/// Payment of a free order with this number.
fn free(number: u32) -> String {
    let order = OrderId {
        campaign: id(),
        number,
    };
    PaymentRef::for_free_order(order).to_string()
}

/// If a node has answered the payment, the order is paid, even if everything else is lost.
#[test]
fn a_free_order_that_a_node_has_answered_is_paid() {
    let kept = format!("granted 1 ann 2 0, paid 1 {}", free(1));
    let found = repair(&Case {
        kept: &kept,
        limit: Some(2),
        ..SALE
    });
    assert_eq!(appended(&found), kept);
    assert_eq!(found.rows.grants[&1].state, OrderState::Paid);
    assert_eq!((found.remaining, found.conflicts.len()), (3, 0));
}

/// The number was reused for another user's order with a price. The free payment does not pay that order, and no refund
/// is due for it.
#[test]
fn the_payment_of_a_free_order_pays_no_other() {
    let (kept, engine) = (
        format!("granted 1 ann 1 0, paid 1 {}", free(1)),
        format!("1 ann 1 free {}", free(1)),
    );
    let cases = [
        ("", kept.as_str(), "held"),
        (&engine, "", "held"),
        (&engine, &kept, "expired"),
    ];
    for (engine, kept, state) in cases {
        let ledger = format!("1 bob 1 {state}");
        let found = repair(&Case {
            engine,
            ledger: &ledger,
            ahead: true,
            kept,
            ..SALE
        });
        assert_eq!(found.rows, rows(&ledger), "{engine} {kept}");
        assert_eq!(appended(&found), "", "{engine} {kept}");
        assert!(!found.conflicts.is_empty());
    }
}

/// The user has returned the order and ordered again. A node knows the return, but not its log position.
#[test]
fn a_free_order_that_was_returned_leaves_room_for_the_next() {
    let kept = format!(
        "returned 1, granted 1 ann 1 0, paid 1 {}, granted 2 ann 1 0, paid 2 {}",
        free(1),
        free(2)
    );
    let found = repair(&Case {
        kept: &kept,
        limit: Some(1),
        ..SALE
    });
    let state = |number: u32| found.rows.grants[&number].state;
    assert_eq!(
        [state(1), state(2)],
        [OrderState::Returned, OrderState::Paid]
    );
    assert_eq!((found.remaining, found.conflicts.len()), (4, 0));
}
