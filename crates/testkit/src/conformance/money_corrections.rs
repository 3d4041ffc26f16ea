//! Money that an operator puts right: reversed refunds, and transfers between users.

use futures_util::future::join_all;
use qiang_core::{
    id::OrderId,
    money::AMOUNT_MINOR_MAX,
    ports::{
        LedgerError, MovementKind, MovementQuery, Payout, PostingKind, PostingQuery,
        RefundBalanceQuery, TimeRange,
    },
};

use super::{
    Scenario,
    payouts::{money, posted, reference, refund},
};
use crate::campaign::{sale, user};

fn reversed(order: OrderId, name: &str) -> Payout {
    Payout::RefundReversal {
        order,
        reference: reference(name),
    }
}

/// A reversed refund is due again, once, and can be paid under another reference. Both postings remain.
pub async fn a_refund_is_reversed_once(case: &mut Scenario) {
    let target = case.open(sale(3).limit(2)).await;
    for key in ["k", "l"] {
        case.granted(target.keyed("a", 1, key)).await;
    }
    let (order, other) = (case.nth(target, 1), case.nth(target, 2));
    for (order, payment) in [(order, "p"), (order, "q"), (other, "p"), (other, "r")] {
        case.pay(order, payment).await;
    }
    case.settle().await;
    let ledger = case.ledger();
    let unknown = Err(LedgerError::UnknownRefund);
    assert_eq!(ledger.pay_out(&reversed(order, "r-1")).await, unknown);
    ledger.pay_out(&refund(order, "r-1", 60)).await.unwrap();
    ledger.pay_out(&refund(other, "r-2", 100)).await.unwrap();
    // The refund belongs to another order.
    assert_eq!(ledger.pay_out(&reversed(order, "r-2")).await, unknown);
    assert_eq!(case.balance("a").await, (0, 40));
    for restarts in 0..2 {
        let ledger = case.ledger();
        let all = join_all((0..4).map(async |_| ledger.pay_out(&reversed(order, "r-1")).await));
        let answers: Vec<_> = all.await.into_iter().map(posted).collect();
        let fresh = answers.iter().filter(|it| **it == Ok((60, true))).count();
        let again = answers.iter().filter(|it| **it == Ok((60, false))).count();
        let first = usize::from(restarts == 0);
        assert_eq!((fresh, again), (first, 4 - first), "{answers:?}");
        assert_eq!(case.balance("a").await, (0, 100));
        let owed = ledger.owed(order).await.unwrap();
        assert_eq!((owed[0].due.minor, owed[0].refunded_minor), (100, 0));
        // The reference stays that of the reversed refund.
        let same = ledger.pay_out(&refund(order, "r-1", 60)).await;
        assert_eq!(posted(same), Ok((60, false)));
        let used = ledger.pay_out(&refund(order, "r-1", 61)).await;
        assert_eq!(used, Err(LedgerError::ReferenceUsed));
        case.restart().await;
    }
    let ledger = case.ledger();
    let query = RefundBalanceQuery {
        owner: None,
        after: None,
        limit: 10,
    };
    let owed = ledger.owed_orders(&query).await.unwrap();
    let owed: Vec<_> = owed
        .iter()
        .map(|it| (it.order, it.owed.due.minor, it.owed.refunded_minor))
        .collect();
    assert_eq!(owed, [(order, 100, 0)]);
    let query = MovementQuery {
        kind: MovementKind::Refund,
        user: Some(user("a")),
        reference: None,
        created: TimeRange::default(),
        after: None,
        limit: 10,
    };
    let refunds = ledger.movements(&query).await.unwrap();
    let mut refunds: Vec<_> = refunds
        .iter()
        .map(|it| (it.amount.minor, it.reversed_minor))
        .collect();
    refunds.sort_unstable();
    assert_eq!(refunds, [(60, 60), (100, 0)]);
    let query = PostingQuery {
        user: user("a"),
        kind: Some(PostingKind::RefundReversal),
        after: None,
        limit: 10,
    };
    let postings = ledger.postings_of(&query).await.unwrap();
    let [posting] = &postings[..] else {
        panic!("one posting: {postings:?}");
    };
    assert_eq!(
        (posting.amount, posting.number),
        (money(60), Some(order.number))
    );
    assert_eq!(posting.reference.as_deref(), Some("r-1"));
    let whole = ledger.pay_out(&refund(order, "r-3", 100)).await;
    assert_eq!(posted(whole), Ok((100, true)));
    assert_eq!(case.balance("a").await, (0, 0));
    case.refunded("a", 200);
}

/// A transfer moves available money between two users, once per reference, and never more than the first has.
pub async fn a_transfer_moves_what_is_there(case: &mut Scenario) {
    case.deposit("left", 100).await;
    let transfer = |name: &str, from: &str, to: &str, minor| Payout::Transfer {
        user: user(from),
        to: user(to),
        reference: reference(name),
        amount: money(minor),
    };
    let ledger = case.ledger();
    let same = ledger.pay_out(&transfer("t", "left", "left", 1)).await;
    assert_eq!(same, Err(LedgerError::SameUser));
    for minor in [i64::MIN, 0, AMOUNT_MINOR_MAX + 1] {
        let answer = ledger.pay_out(&transfer("t", "left", "next", minor)).await;
        assert_eq!(answer, Err(LedgerError::AmountOutOfRange), "{minor}");
    }
    for (from, held, asked) in [("left", 100, 101), ("none", 0, 1)] {
        let answer = ledger.pay_out(&transfer("t", from, "next", asked)).await;
        let (held, needed) = (money(held), money(asked));
        assert_eq!(answer, Err(LedgerError::InsufficientFunds { held, needed }));
    }
    for restarts in 0..2 {
        let ledger = case.ledger();
        let all = (0..4).map(async |_| ledger.pay_out(&transfer("t", "left", "next", 60)).await);
        let answers: Vec<_> = join_all(all).await.into_iter().map(posted).collect();
        let fresh = answers.iter().filter(|it| **it == Ok((60, true))).count();
        let again = answers.iter().filter(|it| **it == Ok((60, false))).count();
        let first = usize::from(restarts == 0);
        assert_eq!((fresh, again), (first, 4 - first), "{answers:?}");
        for other in [
            transfer("t", "left", "next", 40),
            transfer("t", "left", "third", 60),
            transfer("t", "next", "left", 60),
        ] {
            let answer = ledger.pay_out(&other).await;
            assert_eq!(answer, Err(LedgerError::ReferenceUsed));
        }
        assert_eq!(case.balance("left").await, (40, 0));
        assert_eq!(case.balance("next").await, (60, 0));
        case.restart().await;
    }
    // Both ways at once: each is decided, and nothing is lost.
    let ledger = case.ledger();
    let both = (0..10).map(async |n| {
        let (from, to) = match n % 2 {
            0 => ("left", "next"),
            _ => ("next", "left"),
        };
        ledger
            .pay_out(&transfer(&format!("b-{n}"), from, to, 7))
            .await
    });
    for answer in join_all(both).await {
        assert_eq!(posted(answer), Ok((7, true)));
    }
    assert_eq!(case.balance("left").await, (40, 0));
    assert_eq!(case.balance("next").await, (60, 0));
    for (name, sum) in [("left", -60), ("next", 60)] {
        let query = PostingQuery {
            user: user(name),
            kind: Some(PostingKind::Transfer),
            after: None,
            limit: 100,
        };
        let postings = case.ledger().postings_of(&query).await.unwrap();
        assert_eq!(postings.len(), 11, "{name}");
        let minor: i64 = postings.iter().map(|posting| posting.amount.minor).sum();
        assert_eq!(minor, sum, "{name}");
    }
    case.deposited("left", -60);
    case.deposited("next", 60);
}
