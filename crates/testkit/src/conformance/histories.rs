//! Histories in the ledger: orders and postings of users, deposits by id, payments by reference.

use std::collections::BTreeMap;

use qiang_core::{
    book::{CampaignAction, PaymentOutcome},
    id::PaymentRef,
    money::Money,
    order::OrderState,
    ports::{
        DepositRecord, OrderPlace, OrderQuery, Payout, Posting, PostingKind, PostingQuery,
        TimeRange, UserAccount, UserOrder,
    },
    split::SplitRule,
};
use uuid::Uuid;

use super::Scenario;
use crate::campaign::{OPENS, OWNER, Target, currency, red_packet, sale, user};

pub(super) fn reference(text: &str) -> PaymentRef {
    PaymentRef::new(text).expect("well-formed")
}

/// All orders, in pages of this size.
pub(super) fn orders_query(limit: u32) -> OrderQuery {
    OrderQuery {
        user: None,
        campaign: None,
        state: None,
        created: TimeRange::default(),
        after: None,
        limit,
        reads_max: 1_000,
    }
}

async fn orders(
    case: &Scenario,
    name: &str,
    state: Option<OrderState>,
    page: u32,
) -> Vec<UserOrder> {
    let mut query = OrderQuery {
        user: Some(user(name)),
        state,
        ..orders_query(page)
    };
    let mut all: Vec<UserOrder> = Vec::new();
    loop {
        let found = case.ledger().orders_of(&query).await.unwrap();
        assert_eq!(found.read_from, None, "a user's orders are read whole");
        let found = found.items;
        query.after = found.last().map(UserOrder::place);
        let is_last = found.len() < page as usize;
        all.extend(found);
        assert!(all.len() <= 100, "pages start over: {query:?}");
        if is_last {
            return all;
        }
    }
}

async fn postings(
    case: &Scenario,
    name: &str,
    kind: Option<PostingKind>,
    page: u32,
) -> Vec<Posting> {
    let mut query = PostingQuery {
        user: user(name),
        kind,
        after: None,
        limit: page,
    };
    let mut all: Vec<Posting> = Vec::new();
    loop {
        let found = case.ledger().postings_of(&query).await.unwrap();
        query.after = found.last().map(|posting| posting.place);
        let is_last = found.len() < page as usize;
        all.extend(found);
        assert!(all.len() <= 100, "pages start over: {query:?}");
        if is_last {
            return all;
        }
    }
}

/// Orders are listed newest first, in pages that new orders do not shift, and without orders of other users.
pub async fn orders_of_a_user_come_newest_first(case: &mut Scenario) {
    let targets = [
        case.open(sale(90).limit(90)).await,
        case.open(sale(90).limit(90)).await,
    ];
    let order = async |case: &mut Scenario, target: Target, name: &str, n: u32| {
        let grant = case
            .granted(target.keyed(name, 1 + n % 2, &format!("k{n}")))
            .await;
        (grant.granted_at, grant.order_id())
    };
    let mut made = Vec::new();
    for n in 0..8_u32 {
        // Two orders per millisecond, of both sales and of one.
        case.set_clock(OPENS.plus_millis(i64::from(n / 2)));
        made.push(order(case, targets[(n % 3 % 2) as usize], "a", n).await);
        for other in ["A", "a0", "b"] {
            order(case, targets[0], other, n).await;
        }
    }
    case.settle().await;
    let whole = orders(case, "a", None, 100).await;
    let places = whole.iter().map(UserOrder::place);
    let order_of = |place: OrderPlace| place.order.expect("each order has its id");
    let mut found: Vec<_> = places.map(|place| (place.at, order_of(place))).collect();
    assert!(
        found.is_sorted_by_key(|(at, _)| std::cmp::Reverse(*at)),
        "{found:?}"
    );
    found.sort();
    made.sort();
    assert_eq!(found, made);
    assert!(whole.iter().all(|order| order.grant.user == user("a")));
    let grant = &whole[0].grant;
    assert_eq!(grant.amount_minor, i64::from(grant.quantity) * 100);
    assert_eq!(
        (whole[0].currency, grant.state),
        (currency(), OrderState::Held)
    );
    for page in [1, 3, 8] {
        assert_eq!(
            orders(case, "a", None, page).await,
            whole,
            "pages of {page}"
        );
    }

    // A new order is before the first page and shifts no other page.
    let mut query = OrderQuery {
        user: Some(user("a")),
        after: Some(whole[2].place()),
        ..orders_query(100)
    };
    let new = order(case, targets[1], "a", 8).await;
    let paid = order_of(whole[0].place());
    case.pay(paid, "p").await;
    let cancelled = order_of(whole[5].place());
    case.try_cancel(cancelled).await.expect("it is held");
    case.settle().await;
    let rest = case.ledger().orders_of(&query).await.unwrap().items;
    let places = |orders: &[UserOrder]| orders.iter().map(UserOrder::place).collect::<Vec<_>>();
    assert_eq!(places(&rest), places(&whole[3..]));
    query.after = None;
    let first = case.ledger().orders_of(&query).await.unwrap().items;
    assert!(
        places(&first)
            .iter()
            .any(|place| place.order == Some(new.1))
    );
    for (state, of_it) in [
        (OrderState::Paid, vec![paid]),
        (OrderState::Cancelled, vec![cancelled]),
        (OrderState::Expired, vec![]),
    ] {
        let listed = orders(case, "a", Some(state), 1).await;
        let listed: Vec<_> = listed.iter().map(|order| order_of(order.place())).collect();
        assert_eq!(listed, of_it, "{state}");
    }
    assert_eq!(orders(case, "a", Some(OrderState::Held), 2).await.len(), 7);
    assert_eq!(orders(case, "nobody", None, 5).await, []);
}

/// Postings of a user are listed newest first, in pages, and add up to the user's balances.
pub async fn postings_of_a_user_come_newest_first_and_add_up(case: &mut Scenario) {
    let packet = red_packet(1_000, 10, SplitRule::Equal).owner("sender");
    let packet = case.open(packet).await;
    let target = case.open(sale(9)).await;
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        case.set_clock(OPENS.plus_millis(n as i64));
        case.granted(packet.one(name)).await;
        case.granted(target.one(name)).await;
    }
    case.at(OPENS.plus_millis(10)).await;
    for n in [1, 2] {
        case.pay(case.nth(target, n), &format!("pay-{n}")).await;
    }
    let returned = case.nth(target, 1);
    case.try_return(returned).await.expect("it is paid");
    let late = case.pay(returned, "twice").await.0;
    assert_eq!(late, PaymentOutcome::RefundDue);
    // The seller buys too, and later, because orders of one millisecond are listed by partition. A return to the seller
    // moves money between two accounts of one user.
    case.at(OPENS.plus_millis(11)).await;
    case.granted(target.one(OWNER)).await;
    let own = case.nth(target, 4);
    case.pay(own, "pay-own").await;
    case.try_return(own).await.expect("it is paid");
    case.act(packet.id, CampaignAction::Close).await;
    case.settle().await;
    let back = Payout::Refund {
        order: returned,
        reference: reference("back-1"),
        amount: Money::new(150, currency()),
    };
    case.ledger().pay_out(&back).await.unwrap();
    case.refunded("a", 150);
    let out = Payout::Withdrawal {
        user: user("b"),
        reference: reference("out-1"),
        amount: Money::new(40, currency()),
    };
    case.ledger().pay_out(&out).await.unwrap();
    case.deposited("b", -40);
    // Postings of another user with a similar name.
    case.deposit("A", 77).await;

    for name in ["a", "b", "c", "sender", OWNER, "A", "nobody"] {
        let whole = postings(case, name, None, 100).await;
        let places: Vec<_> = whole.iter().map(|posting| posting.place).collect();
        assert!(
            places.is_sorted_by_key(|place| std::cmp::Reverse(*place)),
            "{places:?}"
        );
        for page in [1, 2, 3] {
            assert_eq!(
                postings(case, name, None, page).await,
                whole,
                "pages of {page}"
            );
        }
        let mut sums = BTreeMap::new();
        for posting in &whole {
            assert_eq!(posting.amount.currency, currency());
            *sums.entry(posting.account.name()).or_default() += posting.amount.minor;
        }
        let sum = |account: UserAccount| sums.get(account.name()).copied().unwrap_or(0_i64);
        let held = (sum(UserAccount::Available), sum(UserAccount::RefundsDue));
        assert_eq!(held, case.balance(name).await, "{name}: {whole:?}");
    }
    let told = async |case: &Scenario, name: &str| {
        let mut told: Vec<_> = postings(case, name, None, 100)
            .await
            .into_iter()
            .map(|posting| (posting.kind.name(), posting.amount.minor, posting.reference))
            .collect();
        told.sort();
        told
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        told(case, "a").await,
        [
            ("grant", 100, None),
            ("refund_due", 100, None),
            ("refund_paid", -150, text("back-1")),
            ("return", 100, None),
        ]
    );
    assert_eq!(
        told(case, "b").await,
        [("grant", 100, None), ("withdrawal", -40, text("out-1"))]
    );
    assert_eq!(
        told(case, OWNER).await,
        [
            ("payment", 100, text("pay-1")),
            ("payment", 100, text("pay-2")),
            ("payment", 100, text("pay-own")),
            ("return", -100, None),
            ("return", -100, None),
            ("return", 100, None),
        ]
    );
    // Each shard of a spread packet refunds what it has left.
    let sent = told(case, "sender").await;
    let deposit = ("deposit", 1_000, text(&packet.id.to_string()));
    assert_eq!(sent[..2], [deposit, ("fund", -1_000, None)]);
    assert!(sent[2..].iter().all(|posting| posting.0 == "refund"));
    let refunded: i64 = sent[2..].iter().map(|posting| posting.1).sum();
    assert_eq!(refunded, 700);
    let claims = postings(case, "a", Some(PostingKind::Grant), 1).await;
    let claimed = (claims[0].campaign, claims[0].place.at);
    assert_eq!((claims.len(), claimed), (1, (Some(packet.id), OPENS)));
    let bought = postings(case, OWNER, Some(PostingKind::Return), 5).await;
    let order = (bought[0].campaign, bought[0].number);
    assert_eq!(order, (Some(target.id), Some(own.number)));
}

/// A deposit is found by its id, and a payment by its reference.
pub async fn deposits_and_payments_are_found_by_their_names(case: &mut Scenario) {
    let id = Uuid::from_u128(5 << 90);
    let amount = Money::new(70, currency());
    case.ledger().deposit(id, &user("a"), amount).await.unwrap();
    let nobodys = case.ledger().deposit_of(Uuid::from_u128(6 << 90)).await;
    assert_eq!(nobodys, Ok(None));
    let found = case.ledger().deposit_of(id).await.unwrap();
    let found = found.expect("it was made");
    let expected = DepositRecord {
        user: user("a"),
        amount,
        at: found.at,
        reference: None,
        reversed_minor: 0,
    };
    assert_eq!(found, expected);
    let deposit = Payout::Reversal {
        user: user("a"),
        deposit: id,
        part: None,
    };
    case.ledger().pay_out(&deposit).await.unwrap();
    let found = case.ledger().deposit_of(id).await.unwrap();
    assert!(found.is_some_and(|deposit| deposit.is_reversed()));

    let target = case.open(sale(3)).await;
    for name in ["a", "b"] {
        case.granted(target.one(name)).await;
    }
    let (paid, cancelled) = (case.nth(target, 1), case.nth(target, 2));
    case.at(OPENS.plus_millis(5)).await;
    case.pay(paid, "first").await;
    case.try_cancel(cancelled).await.expect("it is held");
    case.pay(cancelled, "late").await;
    case.settle().await;
    for (name, order, buyer, outcome) in [
        ("first", paid, "a", PaymentOutcome::Paid),
        ("late", cancelled, "b", PaymentOutcome::RefundDue),
    ] {
        let found = case.ledger().payment_of(&reference(name)).await.unwrap();
        let found = found.expect("it arrived");
        assert_eq!((found.order, found.outcome), (order, outcome));
        assert_eq!((found.buyer, found.seller), (user(buyer), user(OWNER)));
        let (amount, at) = (Money::new(100, currency()), OPENS.plus_millis(5));
        assert_eq!((found.amount, found.at), (amount, at));
        assert_eq!(found.reference, reference(name));
    }
    let none = case.ledger().payment_of(&reference("First")).await;
    assert_eq!(none, Ok(None));
}
