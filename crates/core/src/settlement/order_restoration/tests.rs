//! Plans that restore deleted orders and shares.

use std::collections::BTreeMap;

use super::*;
use crate::{
    campaign::{CampaignKind, Phase},
    event::{Entry, PartitionId},
    id::UserId,
    reconcile::GrantRow,
    time::Timestamp,
};

const SALE: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f81";
const PRICE: i64 = 50;

fn packet() -> KnownCampaign {
    KnownCampaign {
        kind: CampaignKind::RedPacket,
        ..known()
    }
}

fn known() -> KnownCampaign {
    KnownCampaign {
        campaign_ref: 3,
        id: SALE.parse().expect("an id"),
        name: SALE.to_owned(),
        kind: CampaignKind::Sale,
        owner: "owner".to_owned(),
        currency: "CNY".parse().expect("a currency"),
        one_per_user: true,
        hold_ms: 1_000,
        parts: 1,
        phase: Phase::Scheduled,
        part: None,
        watched: false,
    }
}

/// Deleted order 1 of ann, granted at 100. The current time is 900.
fn deleted(state: OrderState, payments: &[(&str, PaymentOutcome)]) -> DeletedOrders {
    let payment = |(payment, outcome): &(&str, PaymentOutcome)| {
        (
            PaymentRef::new(payment).expect("a reference"),
            (*outcome).into(),
        )
    };
    let order = DeletedOrder {
        number: 1,
        row: GrantRow {
            user: UserId::new("ann").expect("a user"),
            quantity: 1,
            amount_minor: PRICE,
            granted_at: Timestamp::from_millis(100),
            key: None,
            state,
            returned: 0,
            cancelled: 0,
            extension_ms: 0,
        },
        payments: BTreeMap::from_iter(payments.iter().map(payment)),
        returns: BTreeMap::new(),
        cancellations: BTreeMap::new(),
        entries: Vec::new(),
    };
    DeletedOrders {
        partition: PartitionId(2),
        campaign: SALE.parse().expect("an id"),
        orders: vec![order],
        place: 7,
        now: Timestamp::from_millis(900),
    }
}

fn posted(kind: &str, at: i64) -> RemainingPostingColumns {
    (1, kind.to_owned(), PRICE, Some("CNY".to_owned()), at)
}

/// Text of the plan: orders, payments and postings with their times, and the changes of accounts.
fn plan(deleted: &DeletedOrders, left: &RemainingRows) -> String {
    plan_of(&known(), deleted, left)
}

fn plan_of(known: &KnownCampaign, deleted: &DeletedOrders, left: &RemainingRows) -> String {
    let plan = SettlementPlan::restore_orders(known, deleted, left).expect("a plan");
    assert!(plan.campaigns.is_empty() && plan.told.is_empty());
    let shares = plan.shares.iter();
    let shares = shares.map(|it| format!("{} {} {}", it.user, it.amount, it.at));
    let orders = plan.new_orders.iter();
    let orders = orders.map(|it| format!("{} {}", it.state, it.updated_at));
    let orders = shares.chain(orders);
    let payments = plan.payments.iter();
    let payments = payments.map(|it| format!("{} {} {}", it.payment, it.outcome, it.at));
    let postings = plan.postings.iter();
    let postings = postings.map(|it| {
        let amount = match it.amount {
            PRICE => String::new(),
            other => format!(" of {other}"),
        };
        format!("{}/{} {} {}{amount}", it.source, it.seq, it.kind, it.at)
    });
    let accounts = plan.accounts.iter().filter(|(_, amount)| *amount != 0);
    let accounts = accounts.map(|(key, amount)| format!("{} {amount}", key.owner));
    let all: Vec<String> = orders
        .chain(payments)
        .chain(postings)
        .chain(accounts)
        .collect();
    all.join(", ")
}

use PaymentOutcome::{Paid, RefundDue};

#[test]
fn money_that_has_moved_does_not_move_again() {
    let paid = deleted(OrderState::Paid, &[("p", Paid)]);
    let payments = vec![(1, "p".to_owned(), 300)];
    let postings = vec![posted("payment", 300)];
    let mut left = RemainingRows {
        payments,
        postings,
        ..RemainingRows::default()
    };
    assert_eq!(plan(&paid, &left), "paid 300");
    // The time is found in the journal.
    left.payments.clear();
    assert_eq!(plan(&paid, &left), "paid 300, p paid 300");
    left.orders = vec![(1, 300)];
    assert_eq!(plan(&paid, &left), "p paid 300");
    // No row of the order is left.
    let all = "paid 900, p paid 900, 2/7 payment 900, owner 50, outside -50";
    assert_eq!(plan(&paid, &RemainingRows::default()), all);
    // The payment exists, and its posting is missing.
    left = RemainingRows {
        payments: vec![(1, "p".to_owned(), 300)],
        ..RemainingRows::default()
    };
    let again = "paid 300, 2/7 payment 300, owner 50, outside -50";
    assert_eq!(plan(&paid, &left), again);
    // A posting with another time counts as the same money.
    left.postings = vec![posted("payment", 299)];
    assert_eq!(plan(&paid, &left), "paid 300");
    // Postings of another order do not count.
    left.postings[0].0 = 2;
    assert_eq!(plan(&paid, &left), again);
}

#[test]
fn a_share_is_restored_and_its_money_moves_once() {
    let (packet, share) = (packet(), deleted(OrderState::Held, &[]));
    let granted = "ann 50 100";
    let mut left = RemainingRows {
        postings: vec![posted("grant", 100)],
        ..RemainingRows::default()
    };
    assert_eq!(left.missing_shares(&packet, &share), [(1, 50)]);
    assert_eq!(plan_of(&packet, &share, &left), granted);
    left.shares = vec![(1, None)];
    assert!(left.missing_shares(&packet, &share).is_empty());
    assert_eq!(plan_of(&packet, &share, &left), granted);
    left.postings.clear();
    let all = format!("ann 50 100, 2/7 grant 100, ann 50, {SALE} -50");
    assert_eq!(plan_of(&packet, &share, &left), all);
    // The posting of another share does not count.
    left.postings = vec![posted("grant", 100)];
    left.postings[0].0 = 2;
    assert_eq!(plan_of(&packet, &share, &left), all);
    // A second attempt changes nothing.
    left.shares = vec![(1, Some("ann".to_owned()))];
    left.postings[0].0 = 1;
    assert_eq!(plan_of(&packet, &share, &left), "");
    assert!(left.missing_shares(&known(), &share).is_empty());
}

#[test]
fn the_log_says_when_steps_were_made() {
    let mut orders = deleted(OrderState::Returned, &[("p", Paid), ("q", RefundDue)]);
    let all = "returned 900, p paid 900, q refund_due 900, 2/7 payment 900, 2/8 refund_due 900, 2/9 return 900, \
               ann 100, outside -100";
    assert_eq!(plan(&orders, &RemainingRows::default()), all);
    let events = ["paid 1 p", "refund_due 1 q", "returned 1"];
    let entry = |(seq, event): (i64, &str)| {
        Entry::from_text(&format!("{seq} {} {SALE} {event}", seq * 100)).expect("an entry")
    };
    orders.orders[0].entries = (2..).zip(events).map(entry).collect();
    let all = "returned 400, p paid 200, q refund_due 300, 2/7 payment 200, 2/8 refund_due 300, 2/9 return 400, \
               ann 100, outside -100";
    assert_eq!(plan(&orders, &RemainingRows::default()), all);
    let left = RemainingRows {
        postings: vec![posted("refund_due", 301), posted("return", 401)],
        ..RemainingRows::default()
    };
    let some = "returned 401, p paid 200, q refund_due 301, 2/7 payment 200, owner 50, outside -50";
    assert_eq!(plan(&orders, &left), some);
}

/// One of three units was returned for 16, and the order was returned later. The last return owes what the first one
/// left.
#[test]
fn a_return_of_the_rest_owes_the_rest() {
    let check = |left: &RemainingRows, expected: &str| {
        let mut deleted = deleted(OrderState::Returned, &[("p", Paid)]);
        deleted.orders[0].row.quantity = 3;
        assert_eq!(plan(&deleted, left), expected);
        let known = known();
        let plan = SettlementPlan::restore_orders(&known, &deleted, left).expect("a plan");
        let in_parts = plan.new_orders.iter().map(|it| it.returned_in_parts);
        let expected: i64 = left.returns.iter().map(|it| it.1).sum();
        assert!(in_parts.into_iter().all(|units| units == expected));
    };
    let returned = |amount, at| (1, "return".to_owned(), amount, Some("CNY".to_owned()), at);
    let mut left = RemainingRows {
        payments: vec![(1, "p".to_owned(), 300)],
        returns: vec![(1, 1, 16, 500)],
        postings: vec![posted("payment", 300), returned(16, 500), returned(34, 600)],
        ..RemainingRows::default()
    };
    check(&left, "returned 600");
    left.postings.pop();
    let rest = "2/7 return 900 of 34, ann 34, owner -34";
    check(&left, &format!("returned 900, {rest}"));
    left.orders = vec![(1, 600)];
    check(&left, "2/7 return 600 of 34, ann 34, owner -34");
    // The last unit was returned as a part.
    left.orders.clear();
    left.returns.push((1, 2, 34, 600));
    left.postings.push(returned(34, 600));
    check(&left, "returned 600");
}

/// Two of three units were returned, for 16 and 17. The rows that are missing owe what the others leave.
#[test]
fn returns_of_parts_are_put_back_with_their_money() {
    let check = |keys: &[&str], left: &RemainingRows, expected: &[(&str, i64, i64)]| {
        let mut deleted = deleted(OrderState::Paid, &[("p", Paid)]);
        let order = &mut deleted.orders[0];
        (order.row.quantity, order.row.returned) = (3, 2);
        let key = |key: &&str| (crate::id::IdempotencyKey::new(key).expect("a key"), 1);
        order.returns = keys.iter().map(key).collect();
        let text = format!("5 500 {SALE} returned 1 1 k");
        order.entries = vec![Entry::from_text(&text).expect("an entry")];
        let known = known();
        let plan = SettlementPlan::restore_orders(&known, &deleted, left).expect("a plan");
        assert!(plan.new_orders.is_empty() && plan.payments.is_empty());
        assert!(plan.postings.is_empty() && plan.accounts.is_empty());
        let rows = plan.returns.iter().map(|it| (it.key, it.amount, it.at));
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    };
    let returned = |amount, at| (1, "return".to_owned(), amount, Some("CNY".to_owned()), at);
    let mut left = RemainingRows {
        orders: vec![(1, 300)],
        payments: vec![(1, "p".to_owned(), 300)],
        postings: vec![posted("payment", 300), returned(16, 500), returned(17, 600)],
        ..RemainingRows::default()
    };
    check(&["k", "l"], &left, &[("k", 16, 500), ("l", 17, 600)]);
    left.returns = vec![(1, 1, 16, 500)];
    check(&["l"], &left, &[("l", 17, 600)]);
    left.returns = vec![(1, 1, 17, 600)];
    check(&["k"], &left, &[("k", 16, 500)]);
}

#[test]
fn orders_without_payments_have_the_times_of_their_states() {
    let check = |state, expected| {
        assert_eq!(
            plan(&deleted(state, &[]), &RemainingRows::default()),
            expected
        );
    };
    check(OrderState::Held, "held 100");
    check(OrderState::Cancelled, "cancelled 900");
    check(OrderState::Expired, "expired 1100");
}
