//! Histories in the ledger: orders and postings of users, deposits by id, payments by reference.

use std::collections::BTreeMap;

use qiang_core::{
    book::{CampaignAction, PaymentOutcome},
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::OrderState,
    ports::{
        DepositRecord, Movement, MovementKind, MovementQuery, OrderPlace, OrderQuery, PaymentPlace,
        PaymentQuery, PaymentRecord, Payout, Posting, PostingKind, PostingQuery, ReversalPart,
        TimeRange, UserAccount, UserOrder,
    },
    split::SplitRule,
    time::Timestamp,
};
use uuid::Uuid;

use super::Scenario;
use crate::campaign::{OPENS, OWNER, Target, currency, id, red_packet, sale, user};

fn reference(text: &str) -> PaymentRef {
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
