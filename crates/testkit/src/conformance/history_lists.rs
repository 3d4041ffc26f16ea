//! Lists of orders, payments and money, by every filter and in pages.

use qiang_core::{
    book::PaymentOutcome,
    id::{IdempotencyKey, OrderId},
    money::Money,
    order::OrderState,
    ports::{
        Movement, MovementKind, MovementQuery, OrderPlace, OrderQuery, PaymentPlace, PaymentQuery,
        PaymentRecord, Payout, ReversalPart, TimeRange, UserOrder,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{
    Scenario,
    histories::{orders_query, reference},
};
use crate::campaign::{OPENS, currency, id, sale, user};

/// All orders that match, page by page. The next page begins after the last order, or where the page ended early.
async fn all_orders(case: &Scenario, mut query: OrderQuery) -> Vec<OrderId> {
    let mut all = Vec::new();
    loop {
        let page = case.ledger().orders_of(&query).await.unwrap();
        let is_full = page.items.len() == query.limit as usize;
        let early = page.read_from.map(|at| OrderPlace { at, order: None });
        let last = page.items.last().map(UserOrder::place);
        all.extend(page.items.iter().filter_map(|order| order.place().order));
        assert!(all.len() <= 100, "pages start over: {query:?}");
        query.after = match (is_full, early) {
            (true, None) => last,
            (true, Some(_)) => panic!("a full page ended early: {query:?}"),
            (false, Some(early)) => {
                assert_ne!(query.after, Some(early), "the page is the same again");
                Some(early)
            }
            (false, None) => return all,
        };
    }
}

/// Order, user, sale, state and time of orders that were made, newest first.
type MadeOrder = (OrderId, &'static str, OrderState, Timestamp);

/// Lists of orders combine filters by user, sale, state and time. Pages of each size have each order once, also if many
/// orders have the same time, and if pages end early.
pub async fn orders_are_listed_by_every_filter(case: &mut Scenario) {
    let targets = [
        case.open(sale(90).limit(90)).await,
        case.open(sale(90).limit(90)).await,
    ];
    let mut made: Vec<MadeOrder> = Vec::new();
    for n in 0..14_usize {
        // Four orders per millisecond.
        let at = OPENS.plus_millis((n / 4) as i64);
        case.set_clock(at);
        let name = ["a", "b", "A"][n % 3];
        let grant = case
            .granted(targets[n % 2].keyed(name, 1, &format!("k{n}")))
            .await;
        made.push((grant.order_id(), name, OrderState::Held, grant.granted_at));
    }
    for n in [1, 6, 7] {
        case.pay(made[n].0, &format!("p{n}")).await;
        made[n].2 = OrderState::Paid;
    }
    case.try_cancel(made[10].0).await.expect("it is held");
    made[10].2 = OrderState::Cancelled;
    case.settle().await;

    let times = [None, Some(OPENS.plus_millis(1)), Some(OPENS.plus_millis(3))];
    let mut seen = 0;
    let sorted = |mut ids: Vec<OrderId>| {
        ids.sort();
        ids
    };
    let whole = all_orders(case, orders_query(100)).await;
    let time_of = |id: &OrderId| made.iter().find(|it| it.0 == *id).map(|it| it.3);
    assert!(
        whole.is_sorted_by_key(|id| std::cmp::Reverse(time_of(id))),
        "{whole:?}"
    );
    for name in [None, Some("a"), Some("A")] {
        for target in [None, Some(targets[0].id)] {
            for state in [None, Some(OrderState::Held), Some(OrderState::Paid)] {
                for (from, before) in times.iter().flat_map(|from| times.map(|it| (*from, it))) {
                    let created = TimeRange { from, before };
                    let expected: Vec<_> = made
                        .iter()
                        .filter(|(id, buyer, its_state, at)| {
                            name.is_none_or(|name| name == *buyer)
                                && target.is_none_or(|target| target == id.campaign)
                                && state.is_none_or(|state| state == *its_state)
                                && created.contains(*at)
                        })
                        .map(|it| it.0)
                        .collect();
                    seen += expected.len();
                    // The list without filters has the order.
                    let expected = sorted(expected);
                    let expected: Vec<_> = whole
                        .iter()
                        .filter(|id| expected.contains(id))
                        .copied()
                        .collect();
                    for (limit, reads_max) in [(100, 1_000), (1, 1_000), (3, 1_000), (3, 1), (2, 5)]
                    {
                        let query = OrderQuery {
                            user: name.map(user),
                            campaign: target,
                            state,
                            created,
                            limit,
                            reads_max,
                            ..orders_query(limit)
                        };
                        let found = all_orders(case, query.clone()).await;
                        assert_eq!(found, expected, "{query:?}");
                    }
                }
            }
        }
    }
    assert!(seen > 100, "{seen}");
    let unknown = OrderQuery {
        campaign: Some(id(7_777)),
        ..orders_query(5)
    };
    assert_eq!(all_orders(case, unknown).await, []);
    // A rare state is found by many small reads, each of which is bounded.
    let rare = OrderQuery {
        state: Some(OrderState::Cancelled),
        reads_max: 1,
        ..orders_query(5)
    };
    let first = case.ledger().orders_of(&rare).await.unwrap();
    assert_eq!(first.read_from, Some(OPENS.plus_millis(3)), "{first:?}");
    assert_eq!(first.items, []);
    assert_eq!(all_orders(case, rare).await, [made[10].0]);
}

async fn all_payments(case: &Scenario, mut query: PaymentQuery) -> Vec<PaymentRecord> {
    let mut all = Vec::new();
    loop {
        let page = case.ledger().payments(&query).await.unwrap();
        let is_full = page.items.len() == query.limit as usize;
        let early = page.read_from.map(|at| PaymentPlace { at, payment: None });
        let last = page.items.last().map(PaymentRecord::place);
        all.extend(page.items);
        assert!(all.len() <= 100, "pages start over: {query:?}");
        query.after = match (is_full, early) {
            (true, None) => last,
            (true, Some(_)) => panic!("a full page ended early: {query:?}"),
            (false, Some(early)) => {
                assert_ne!(
                    query.after,
                    Some(early.clone()),
                    "the page is the same again"
                );
                Some(early)
            }
            (false, None) => return all,
        };
    }
}

/// Lists of payments combine filters by buyer, outcome, reference and time, in pages of each size.
pub async fn payments_are_listed_by_every_filter(case: &mut Scenario) {
    let targets = [
        case.open(sale(90).limit(90)).await,
        case.open(sale(90).limit(90)).await,
    ];
    let mut orders = Vec::new();
    for n in 0..8_usize {
        let name = ["a", "b"][n % 2];
        let grant = case
            .granted(targets[n / 2 % 2].keyed(name, 1, &format!("k{n}")))
            .await;
        orders.push((grant.order_id(), name));
    }
    let mut made = Vec::new();
    for n in 0..12_usize {
        // Three payments per millisecond. Payments of one order have different references; two orders share one.
        case.set_clock(OPENS.plus_millis((n / 3) as i64));
        let (order, name) = orders[n % 8];
        let named = match n {
            3 => "p2".to_owned(),
            _ => format!("p{n}"),
        };
        let outcome = case.pay(order, &named).await.0;
        made.push((order, name, outcome, named));
    }
    case.settle().await;
    let all = PaymentQuery {
        user: None,
        outcome: None,
        reference: None,
        created: TimeRange::default(),
        after: None,
        limit: 100,
        reads_max: 1_000,
    };
    let whole = all_payments(case, all.clone()).await;
    assert!(whole.is_sorted_by_key(|it| std::cmp::Reverse(it.at)));
    let mut found: Vec<_> = whole
        .iter()
        .map(|it| (it.order, it.outcome.name(), it.reference.to_string()))
        .collect();
    let mut expected: Vec<_> = made
        .iter()
        .map(|(order, _, outcome, named)| (*order, outcome.name(), named.clone()))
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(
        whole
            .iter()
            .any(|it| it.outcome == PaymentOutcome::RefundDue)
    );
    let times = [None, Some(OPENS.plus_millis(1)), Some(OPENS.plus_millis(3))];
    for name in [None, Some("a")] {
        for outcome in [
            None,
            Some(PaymentOutcome::Paid),
            Some(PaymentOutcome::RefundDue),
        ] {
            for named in [None, Some("p2"), Some("p5")] {
                for (from, before) in times.iter().flat_map(|from| times.map(|it| (*from, it))) {
                    let created = TimeRange { from, before };
                    let expected: Vec<_> = whole
                        .iter()
                        .filter(|it| {
                            name.is_none_or(|name| it.buyer == user(name))
                                && outcome.is_none_or(|outcome| it.outcome == outcome)
                                && named.is_none_or(|named| it.reference == reference(named))
                                && created.contains(it.at)
                        })
                        .cloned()
                        .collect();
                    for (limit, reads_max) in [(100, 1_000), (1, 1_000), (2, 1), (2, 4)] {
                        let query = PaymentQuery {
                            user: name.map(user),
                            outcome,
                            reference: named.map(reference),
                            created,
                            limit,
                            reads_max,
                            ..all.clone()
                        };
                        let found = all_payments(case, query.clone()).await;
                        assert_eq!(found, expected, "{query:?}");
                    }
                }
            }
        }
    }
    // A new payment is before the first page and shifts no other page.
    let after = PaymentQuery {
        after: Some(whole[4].place()),
        ..all.clone()
    };
    case.set_clock(OPENS.plus_millis(9));
    case.pay(orders[0].0, "new").await;
    case.settle().await;
    assert_eq!(all_payments(case, after).await, whole[5..]);
    let first = all_payments(case, all).await;
    assert_eq!(first[0].reference, reference("new"));
}

async fn all_movements(case: &Scenario, mut query: MovementQuery) -> Vec<Movement> {
    let mut all: Vec<Movement> = Vec::new();
    loop {
        let found = case.ledger().movements(&query).await.unwrap();
        query.after = found.last().map(|it| it.place);
        let is_last = found.len() < query.limit as usize;
        all.extend(found);
        assert!(all.len() <= 100, "pages start over: {query:?}");
        if is_last {
            return all;
        }
    }
}

/// Lists of deposits, withdrawals and refunds combine filters by user, reference and time, in pages of each size.
pub async fn movements_are_listed_by_every_filter(case: &mut Scenario) {
    let target = case.open(sale(90).limit(90)).await;
    for n in 0..4 {
        let name = ["a", "b"][n % 2];
        case.granted(target.keyed(name, 1, &format!("k{n}"))).await;
    }
    for n in 1..=4 {
        let order = case.nth(target, n);
        case.pay(order, &format!("pay-{n}")).await;
        case.try_return(order).await.expect("it is paid");
    }
    case.settle().await;
    let mut deposits = Vec::new();
    for n in 0..7_u32 {
        case.set_clock(OPENS.plus_millis(i64::from(n / 3)));
        let (name, id) = (
            ["a", "b"][n as usize % 2],
            Uuid::from_u128(u128::from(n + 1) << 90),
        );
        let amount = Money::new(100 + i64::from(n), currency());
        let named = reference(&format!("in-{n}"));
        let to = user(name);
        let ledger = case.ledger();
        let made = ledger
            .deposit_named(None, id, (&to, amount), &named, None)
            .await;
        assert_eq!(made.map(|it| it.id), Ok(id));
        case.deposited(name, amount.minor);
        deposits.push((id, name, amount.minor, named));
        let out = Payout::Withdrawal {
            user: user(name),
            reference: reference(&format!("out-{n}")),
            amount: Money::new(10 + i64::from(n), currency()),
        };
        case.ledger().pay_out(&out).await.unwrap();
        case.deposited(name, -10 - i64::from(n));
        if n < 4 {
            let back = Payout::Refund {
                order: case.nth(target, n as usize + 1),
                reference: reference(&format!("back-{n}")),
                amount: Money::new(20 + i64::from(n), currency()),
            };
            case.ledger().pay_out(&back).await.unwrap();
            case.refunded(name, 20 + i64::from(n));
        }
    }
    let reversal = |key: &str, minor| Payout::Reversal {
        user: user("b"),
        deposit: deposits[1].0,
        part: Some(ReversalPart {
            key: IdempotencyKey::new(key).expect("well-formed"),
            amount: Money::new(minor, currency()),
        }),
    };
    for (key, minor) in [("r1", 3), ("r2", 4)] {
        case.ledger().pay_out(&reversal(key, minor)).await.unwrap();
        case.deposited("b", -minor);
    }
    let times = [None, Some(OPENS.plus_millis(1)), Some(OPENS.plus_millis(2))];
    for (kind, count, prefix, minor) in [
        (MovementKind::Deposit, 7, "in", 100),
        (MovementKind::Withdrawal, 7, "out", 10),
        (MovementKind::Refund, 4, "back", 20),
    ] {
        let all = MovementQuery {
            kind,
            user: None,
            reference: None,
            created: TimeRange::default(),
            after: None,
            limit: 100,
        };
        let mut whole = all_movements(case, all.clone()).await;
        assert!(whole.is_sorted_by_key(|it| std::cmp::Reverse(it.place)));
        if kind == MovementKind::Deposit {
            // The scenario's own deposits have no reference.
            whole.retain(|it| it.reference.is_some());
        }
        assert_eq!(whole.len(), count as usize, "{whole:?}");
        for (n, it) in whole.iter().rev().enumerate() {
            assert_eq!(it.reference, Some(reference(&format!("{prefix}-{n}"))));
            assert_eq!(it.user, user(["a", "b"][n % 2]));
            assert_eq!(it.amount, Money::new(minor + n as i64, currency()));
            let is_deposit = kind == MovementKind::Deposit;
            assert_eq!(it.deposit, is_deposit.then(|| deposits[n].0));
            assert_eq!(it.reversed_minor, if is_deposit && n == 1 { 7 } else { 0 });
            let order = (kind == MovementKind::Refund).then(|| case.nth(target, n + 1));
            assert_eq!(it.order, order);
        }
        for name in [None, Some("a"), Some("A")] {
            for named in [
                None,
                Some(format!("{prefix}-2")),
                Some(format!("{prefix}-x")),
            ] {
                for (from, before) in times.iter().flat_map(|from| times.map(|it| (*from, it))) {
                    let created = TimeRange { from, before };
                    let expected: Vec<_> = whole
                        .iter()
                        .filter(|it| {
                            name.is_none_or(|name| it.user == user(name))
                                && named.as_ref().is_none_or(|named| {
                                    it.reference.as_ref().is_some_and(|it| it.as_str() == named)
                                })
                                && created.contains(it.place.at)
                        })
                        .cloned()
                        .collect();
                    for limit in [100, 1, 3] {
                        let query = MovementQuery {
                            user: name.map(user),
                            reference: named.as_deref().map(reference),
                            created,
                            limit,
                            ..all.clone()
                        };
                        let mut found = all_movements(case, query.clone()).await;
                        found.retain(|it| it.reference.is_some());
                        assert_eq!(found, expected, "{query:?}");
                    }
                }
            }
        }
        // A new one is before the first page and shifts no other page.
        let after = MovementQuery {
            after: Some(whole[1].place),
            ..all.clone()
        };
        let amount = Money::new(1, currency());
        case.set_clock(OPENS.plus_millis(9));
        if kind == MovementKind::Deposit {
            let (id, named, to) = (Uuid::from_u128(99 << 90), reference("in-new"), user("a"));
            let ledger = case.ledger();
            ledger
                .deposit_named(None, id, (&to, amount), &named, None)
                .await
                .unwrap();
            case.deposited("a", 1);
        } else {
            let named = reference(&format!("{prefix}-new"));
            let order = case.nth(target, 1);
            case.ledger()
                .pay_out(&match kind {
                    MovementKind::Refund => Payout::Refund {
                        order,
                        reference: named,
                        amount,
                    },
                    _ => Payout::Withdrawal {
                        user: user("a"),
                        reference: named,
                        amount,
                    },
                })
                .await
                .unwrap();
            match kind {
                MovementKind::Refund => case.refunded("a", 1),
                _ => case.deposited("a", -1),
            }
        }
        let mut rest = all_movements(case, after).await;
        rest.retain(|it| it.reference.is_some());
        assert_eq!(rest, whole[2..]);
        let first = all_movements(case, MovementQuery { limit: 1, ..all }).await;
        assert_eq!(
            first[0].reference,
            Some(reference(&format!("{prefix}-new")))
        );
    }
}
