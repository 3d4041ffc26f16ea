//! Payments whose amounts differ from the order's price.

use super::*;

/// A return makes a refund of the payment due: an earlier settled amount, one of the same run, or the price.
#[test]
fn a_return_owes_what_was_paid() {
    let texts = [
        (SALE, "returned 1"),
        (SALE, "returned 2"),
        (SALE, "granted 4 cid 1 50"),
        (SALE, "paid 4 p4 60 CNY"),
        (SALE, "returned 4"),
        (SALE, "granted 5 dan 1 50"),
        (SALE, "paid 5 p5 45 CNY"),
    ];
    let (entries, campaigns) = (entries(&texts), both());
    let orders = [
        KnownOrder {
            paid_minor: Some(40),
            ..order(1, "ann", OrderState::Paid)
        },
        order(2, "bob", OrderState::Paid),
    ];
    let plan = SettlementPlan::new(PartitionId(0), &entries, &campaigns, &orders).unwrap();
    let expected = [
        "ann refunds_due 40",
        "bob refunds_due 50",
        "cid refunds_due 60",
        "owner user -45",
        "outside outside -105",
    ];
    assert_eq!(moves(&plan), expected);
    let payments: Vec<_> = plan
        .payments
        .iter()
        .map(|row| (row.number, row.outcome, row.amount, row.currency))
        .collect();
    let expected = [(4, "paid", 60, Some("CNY")), (5, "paid", 45, Some("CNY"))];
    assert_eq!(payments, expected);
}
