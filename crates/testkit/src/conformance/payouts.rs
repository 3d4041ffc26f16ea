//! Money that leaves the ledger: refunds, withdrawals, and reversed deposits.

use futures_util::future::join_all;
use qiang_core::{
    book::PaymentOutcome,
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::{AMOUNT_MINOR_MAX, Currency, Money},
    ports::{
        LedgerError, Payout, PayoutReceipt, RefundBalance, RefundBalanceQuery, RefundDueOrder,
        ReversalPart,
    },
};
use uuid::Uuid;

use super::Scenario;
use crate::campaign::{OWNER, currency, sale, user};

pub(super) fn money(minor: i64) -> Money {
    Money::new(minor, currency())
}

pub(super) fn reference(text: &str) -> PaymentRef {
    PaymentRef::new(text).expect("well-formed")
}

pub(super) fn refund(order: OrderId, name: &str, minor: i64) -> Payout {
    Payout::Refund {
        order,
        reference: reference(name),
        amount: money(minor),
    }
}

fn withdrawal(name: &str, to: &str, minor: i64) -> Payout {
    Payout::Withdrawal {
        user: user(to),
        reference: reference(name),
        amount: money(minor),
    }
}

fn not_owed<T>(owed: i64, asked: i64) -> Result<T, LedgerError> {
    let (owed, asked) = (money(owed), money(asked));
    Err(LedgerError::RefundExceedsDue { owed, asked })
}

/// Amount of a payout, and whether this request posted it.
pub(super) fn posted(
    paid_out: Result<PayoutReceipt, LedgerError>,
) -> Result<(i64, bool), LedgerError> {
    paid_out.map(|paid_out| (paid_out.amount.minor, paid_out.fresh))
}

/// A refund due can be paid in parts, each once, up to its amount.
pub async fn a_refund_is_posted_once_and_up_to_what_is_owed(case: &mut Scenario) {
    let target = case.open(sale(3)).await;
    for name in ["a", "b"] {
        case.granted(target.one(name)).await;
    }
    let (twice, returned) = (case.nth(target, 1), case.nth(target, 2));
    case.pay(twice, "p").await;
    case.pay(returned, "p").await;
    case.settle().await;
    assert_eq!(
        case.ledger().pay_out(&refund(twice, "r", 1)).await,
        not_owed(0, 1)
    );
    assert_eq!(case.pay(twice, "q").await.0, PaymentOutcome::RefundDue);
    case.try_return(returned)
        .await
        .expect("a paid order can be returned");
    assert_eq!(case.pay(returned, "q").await.0, PaymentOutcome::RefundDue);
    case.settle().await;
    let owed = case
        .ledger()
        .owed(returned)
        .await
        .expect("the ledger answers");
    let [owed] = owed.try_into().expect("the ledger has the order");
    let RefundBalance {
        user: buyer,
        due,
        refunded_minor,
    } = owed;
    assert_eq!((buyer, due, refunded_minor), (user("b"), money(200), 0));

    for restarts in 0..2 {
        let fresh = restarts == 0;
        let ledger = case.ledger();
        let part = ledger.pay_out(&refund(returned, "r-1", 150)).await;
        assert_eq!(posted(part), Ok((150, fresh)));
        let all = ledger.pay_out(&refund(twice, "r-2", 100)).await;
        assert_eq!(posted(all), Ok((100, fresh)));
        // The reference belongs to one refund, also when more is owed.
        for other in [refund(returned, "r-1", 50), refund(twice, "r-1", 150)] {
            let answer = ledger.pay_out(&other).await;
            assert_eq!(answer, Err(LedgerError::ReferenceUsed));
        }
        let too_much = ledger.pay_out(&refund(returned, "r-3", 51)).await;
        assert_eq!(too_much, not_owed(50, 51));
        case.restart().await;
    }
    assert_eq!(case.balance("a").await, (0, 0));
    assert_eq!(case.balance("b").await, (0, 50));
    let rest = case.ledger().pay_out(&refund(returned, "r-3", 50)).await;
    assert_eq!(posted(rest), Ok((50, true)));
    let none_left = case.ledger().pay_out(&refund(returned, "r-4", 1)).await;
    assert_eq!(none_left, not_owed(0, 1));
    // More becomes due for the same order.
    case.pay(returned, "s").await;
    case.settle().await;
    let more = case.ledger().pay_out(&refund(returned, "r-4", 100)).await;
    assert_eq!(posted(more), Ok((100, true)));
    let owed = case
        .ledger()
        .owed(returned)
        .await
        .expect("the ledger answers");
    let [owed] = &owed[..] else {
        panic!("one currency: {owed:?}");
    };
    assert_eq!((owed.outstanding(), owed.refunded_minor), (money(0), 300));

    let ledger = case.ledger();
    for minor in [i64::MIN, -1, 0] {
        let answer = ledger.pay_out(&refund(twice, "r-5", minor)).await;
        assert_eq!(answer, Err(LedgerError::AmountOutOfRange), "{minor}");
    }
    for minor in [AMOUNT_MINOR_MAX + 1, i64::MAX] {
        let answer = ledger.pay_out(&refund(twice, "r-5", minor)).await;
        assert_eq!(answer, not_owed(0, minor));
    }
    let unknown = target.order(9_999_999);
    assert_eq!(ledger.owed(unknown).await, Ok(Vec::new()));
    assert_eq!(
        ledger.pay_out(&refund(unknown, "r-5", 1)).await,
        not_owed(0, 1)
    );
    for (name, minor) in [("a", 100), ("b", 300)] {
        case.refunded(name, minor);
    }
}

/// The whole amount due for an order can be one refund, also above the largest deposit.
pub async fn a_refund_is_bounded_by_what_is_owed_alone(case: &mut Scenario) {
    const PRICE: i64 = 9_007_199_254_740_991;
    let target = case.open(sale(1).price(PRICE)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    for payment in ["p", "q", "r"] {
        case.pay(order, payment).await;
    }
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 2 * PRICE));
    for restarts in 0..2 {
        let ledger = case.ledger();
        let all = refund(order, "r-1", 2 * PRICE);
        let posted = posted(ledger.pay_out(&all).await);
        assert_eq!(posted, Ok((2 * PRICE, restarts == 0)));
        let more = ledger.pay_out(&refund(order, "r-2", 1)).await;
        assert_eq!(more, not_owed(0, 1));
        case.restart().await;
    }
    assert_eq!(case.balance("a").await, (0, 0));
    case.refunded("a", 2 * PRICE);
}

/// Concurrent refunds of one order pay no more than is due for it, even if the buyer is owed more for other orders.
pub async fn refunds_at_once_pay_what_is_owed_and_no_more(case: &mut Scenario) {
    let target = case.open(sale(4).limit(4)).await;
    for key in ["k", "l"] {
        case.granted(target.keyed("a", 1, key)).await;
    }
    for (n, payment) in [(1, "p"), (1, "q"), (2, "p"), (2, "q")] {
        case.pay(case.nth(target, n), payment).await;
    }
    case.settle().await;
    let (order, ledger) = (case.nth(target, 1), case.ledger());
    let payouts: Vec<_> = (0..12)
        .map(|n| refund(order, &format!("r-{}", n % 6), 60))
        .collect();
    let answers = join_all(payouts.iter().map(|payout| ledger.pay_out(payout))).await;
    let fresh =
        |answer: &&Result<PayoutReceipt, _>| matches!(answer, Ok(paid_out) if paid_out.fresh);
    assert_eq!(answers.iter().filter(fresh).count(), 1, "{answers:?}");
    for answer in answers.iter().filter(|answer| answer.is_err()) {
        assert_eq!(*answer, not_owed(40, 60));
    }
    assert_eq!(case.balance("a").await, (0, 140));
    case.refunded("a", 60);
}

/// A withdrawal takes spendable money, once, and never more than the balance.
pub async fn a_withdrawal_takes_what_is_there(case: &mut Scenario) {
    case.deposit("a", 100).await;
    let funds = |held, needed| {
        let (held, needed) = (money(held), money(needed));
        Err(LedgerError::InsufficientFunds { held, needed })
    };
    let ledger = case.ledger();
    assert_eq!(
        ledger.pay_out(&withdrawal("w-0", "a", 101)).await,
        funds(100, 101)
    );
    assert_eq!(
        ledger.pay_out(&withdrawal("w-0", "nobody", 1)).await,
        funds(0, 1)
    );
    let euros: Currency = "EUR".parse().expect("a currency");
    let other = Payout::Withdrawal {
        user: user("a"),
        reference: reference("w-0"),
        amount: Money::new(1, euros),
    };
    assert!(ledger.pay_out(&other).await.is_err());
    // Twelve concurrent withdrawals, each requested twice: as many succeed as the balance covers.
    let payouts: Vec<_> = (0..24)
        .map(|n| withdrawal(&format!("w-{}", n % 12), "a", 30))
        .collect();
    let answers = join_all(payouts.iter().map(|payout| ledger.pay_out(payout))).await;
    let fresh =
        |answer: &&Result<PayoutReceipt, _>| matches!(answer, Ok(paid_out) if paid_out.fresh);
    assert_eq!(answers.iter().filter(fresh).count(), 3, "{answers:?}");
    assert_eq!(case.balance("a").await, (10, 0));
    let made = answers
        .iter()
        .position(Result::is_ok)
        .expect("one was made")
        % 12;
    let name = format!("w-{made}");
    case.restart().await;
    let again = case.ledger().pay_out(&withdrawal(&name, "a", 30)).await;
    assert_eq!(posted(again), Ok((30, false)));
    for other in [withdrawal(&name, "a", 10), withdrawal(&name, "b", 30)] {
        let answer = case.ledger().pay_out(&other).await;
        assert_eq!(answer, Err(LedgerError::ReferenceUsed));
    }
    case.deposited("a", -90);

    // A seller with a negative balance cannot withdraw, and withdrawn money is not there for a return.
    let target = case.open(sale(1)).await;
    case.granted(target.one("b")).await;
    case.pay(case.nth(target, 1), "p").await;
    case.settle().await;
    let all = case
        .ledger()
        .pay_out(&withdrawal("seller", OWNER, 100))
        .await;
    assert_eq!(posted(all), Ok((100, true)));
    case.try_return(case.nth(target, 1))
        .await
        .expect("a paid order can be returned");
    case.settle().await;
    assert_eq!(case.balance(OWNER).await, (-100, 0));
    let below = case.ledger().pay_out(&withdrawal("more", OWNER, 1)).await;
    assert_eq!(below, funds(-100, 1));
    case.deposited(OWNER, -100);
}

/// A deposit is reversed whole and once, if the user still has the money.
pub async fn a_deposit_is_reversed_once(case: &mut Scenario) {
    let deposit = Uuid::from_u128(3 << 90);
    let reversal = |whose: &str, deposit| Payout::Reversal {
        user: user(whose),
        deposit,
        part: None,
    };
    let made = case.ledger().deposit(deposit, &user("a"), money(70)).await;
    assert_eq!(made, Ok(()));
    let unknown = Err(LedgerError::UnknownDeposit);
    let nobodys = Uuid::from_u128(4 << 90);
    for (whose, deposit) in [("b", deposit), ("a", nobodys)] {
        let answer = case.ledger().pay_out(&reversal(whose, deposit)).await;
        assert_eq!(answer, unknown);
    }
    let spent = case.ledger().pay_out(&withdrawal("w", "a", 1)).await;
    assert_eq!(posted(spent), Ok((1, true)));
    let answer = case.ledger().pay_out(&reversal("a", deposit)).await;
    let (held, needed) = (money(69), money(70));
    assert_eq!(answer, Err(LedgerError::InsufficientFunds { held, needed }));
    case.deposit("a", 100).await;
    for fresh in [true, false] {
        let answer = case.ledger().pay_out(&reversal("a", deposit)).await;
        assert_eq!(posted(answer), Ok((70, fresh)));
        case.restart().await;
    }
    assert_eq!(
        case.ledger().pay_out(&reversal("b", deposit)).await,
        unknown
    );
    // The deposit was made before, so a retry does not make it again.
    let again = case.ledger().deposit(deposit, &user("a"), money(70)).await;
    assert_eq!(again, Ok(()));
    assert_eq!(case.balance("a").await, (99, 0));
    case.deposited("a", -1);
}

/// A deposit is reversed in parts until nothing is left, each part once per key, also concurrently.
pub async fn a_deposit_is_reversed_in_parts(case: &mut Scenario) {
    let (deposit, other) = (Uuid::from_u128(7 << 90), Uuid::from_u128((7 << 90) + 1));
    let part = |deposit, key: &str, amount| Payout::Reversal {
        user: user("a"),
        deposit,
        part: Some(ReversalPart {
            key: IdempotencyKey::new(key).expect("well-formed"),
            amount,
        }),
    };
    let whole = |deposit| Payout::Reversal {
        user: user("a"),
        deposit,
        part: None,
    };
    for deposit in [deposit, other] {
        let made = case.ledger().deposit(deposit, &user("a"), money(70)).await;
        assert_eq!(made, Ok(()));
    }
    for fresh in [true, false] {
        let answer = case.ledger().pay_out(&part(deposit, "k", money(30))).await;
        assert_eq!(posted(answer), Ok((30, fresh)));
        case.restart().await;
    }
    let otherwise = case.ledger().pay_out(&part(deposit, "k", money(31))).await;
    assert_eq!(otherwise, Err(LedgerError::ReferenceUsed));
    let exceeded = |left, asked| {
        let left = money(left);
        Err(LedgerError::DepositExceeded { left, asked })
    };
    let euros = Money::new(1, "EUR".parse().expect("a currency"));
    for asked in [money(41), euros] {
        let answer = case.ledger().pay_out(&part(deposit, "l", asked)).await;
        assert_eq!(posted(answer), exceeded(40, asked));
    }
    // As many of the concurrent parts are posted as fit.
    let ledger = case.ledger();
    let parts: Vec<_> = (0..8)
        .map(|n| part(deposit, &format!("m{n}"), money(9)))
        .collect();
    let answers = join_all(parts.iter().map(|part| ledger.pay_out(part))).await;
    let made = answers.into_iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(made, 4);
    // Each deposit has its own rest.
    let rest = case.ledger().pay_out(&whole(deposit)).await;
    assert_eq!(posted(rest), Ok((4, true)));
    let again = case.ledger().pay_out(&whole(deposit)).await;
    assert_eq!(posted(again), Ok((4, false)));
    let more = case.ledger().pay_out(&part(deposit, "n", money(1))).await;
    assert_eq!(posted(more), exceeded(0, money(1)));
    let found = case.ledger().deposit_of(deposit).await.unwrap();
    assert!(found.is_some_and(|it| it.is_reversed() && it.reversed_minor == 70));
    let all = case.ledger().pay_out(&part(other, "k", money(70))).await;
    assert_eq!(posted(all), Ok((70, true)));
    let none = case.ledger().pay_out(&whole(other)).await;
    assert_eq!(posted(none), exceeded(0, money(70)));
    assert_eq!(case.balance("a").await, (0, 0));
}

/// Listed orders, read in pages of this size, with the rest of the refund due of each.
async fn owed(case: &Scenario, owner: Option<&str>, page: u32) -> Vec<(OrderId, i64)> {
    let mut query = RefundBalanceQuery {
        owner: owner.map(user),
        after: None,
        limit: page,
    };
    let mut all: Vec<RefundDueOrder> = Vec::new();
    loop {
        let found = case.ledger().owed_orders(&query).await.unwrap();
        query.after = found.last().map(|last| last.order);
        let is_last = found.len() < page as usize;
        all.extend(found);
        assert!(all.len() <= 100, "pages start over: {query:?}");
        if is_last {
            break;
        }
    }
    for RefundDueOrder { order, owed } in &all {
        // The same as the query of one order.
        let all = case.ledger().owed(*order).await;
        assert!(all.is_ok_and(|all| all.contains(owed)), "{order}");
    }
    let left = all
        .into_iter()
        .map(|one| (one.order, one.owed.outstanding().minor));
    left.collect()
}

/// Orders with refunds due are listed in order, by seller and page by page.
pub async fn what_is_owed_is_listed(case: &mut Scenario) {
    let (first, other) = (
        case.open(sale(30).limit(2)).await,
        case.open(sale(30).owner("other").limit(2)).await,
    );
    let mut orders = Vec::new();
    for target in [first, other] {
        for (name, key) in [("a", "k"), ("a", "l"), ("b", "k"), ("c", "k")] {
            case.granted(target.keyed(name, 1, key)).await;
        }
        for n in 1..=4 {
            case.pay(case.nth(target, n), "p").await;
        }
        // Orders: one paid twice, one returned, one without a refund, one paid twice and returned.
        let nth = |n| case.nth(target, n);
        let [twice, returned, both] = [nth(1), nth(2), nth(4)];
        for order in [twice, both] {
            case.pay(order, "q").await;
        }
        for order in [returned, both] {
            case.try_return(order)
                .await
                .expect("a paid order can be returned");
        }
        orders.push([(twice, 100), (returned, 100), (both, 200)]);
    }
    case.settle().await;
    let of_first = |mut orders: [(OrderId, i64); 3]| {
        orders.sort_by_key(|(order, _)| order.number);
        orders
    };
    let [own, others] = [of_first(orders[0]), of_first(orders[1])];
    for page in [1, 2, 9] {
        assert_eq!(owed(case, Some(OWNER), page).await, own);
        assert_eq!(owed(case, Some("other"), page).await, others);
        assert_eq!(owed(case, Some("nobody"), page).await, []);
        assert_eq!(owed(case, None, page).await, [own, others].concat());
    }
    let [(twice, _), (returned, _), (both, _)] = orders[0];
    for (order, name, minor) in [
        (twice, "r-1", 100),
        (both, "r-2", 150),
        (returned, "r-3", 1),
    ] {
        case.ledger()
            .pay_out(&refund(order, name, minor))
            .await
            .unwrap();
    }
    case.restart().await;
    let mut left = [(returned, 99), (both, 50)];
    left.sort_by_key(|(order, _)| order.number);
    assert_eq!(owed(case, Some(OWNER), 1).await, left);
    for (order, name, minor) in [(both, "r-4", 50), (returned, "r-5", 99)] {
        case.ledger()
            .pay_out(&refund(order, name, minor))
            .await
            .unwrap();
    }
    assert_eq!(owed(case, Some(OWNER), 1).await, []);
    assert_eq!(owed(case, None, 2).await, others);
    for (name, minor) in [("a", 200), ("c", 200)] {
        case.refunded(name, minor);
    }
}
