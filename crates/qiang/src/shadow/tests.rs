//! Tests of shadow mode: right and wrong shops.

use qiang_core::money::Money;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// A sale from second 100 to second 1,000 with holds of 60 s.
fn sale(id: &str, stock: u64, limit: u32) -> ShadowSale {
    let price = Money::new(500, "CNY".parse().unwrap());
    ShadowSale {
        id: id.to_owned(),
        rules: Sale::new(stock, limit, price, 60_000).unwrap(),
        window: Window::new(at(100), at(1_000)).unwrap(),
    }
}

fn granted(user: &str, order: &str) -> ShadowEvent {
    claim(user, Some(order), None, true)
}

fn refused(user: &str) -> ShadowEvent {
    claim(user, None, None, false)
}

fn claim(user: &str, order: Option<&str>, key: Option<&str>, is_granted: bool) -> ShadowEvent {
    ShadowEvent::Claim {
        sale: "s".to_owned(),
        user: UserId::new(user).unwrap(),
        quantity: 1,
        key: key.map(|key| IdempotencyKey::new(key).unwrap()),
        order: order.map(str::to_owned),
        is_granted,
    }
}

/// Report of a log; the lines are numbered from 1.
fn report(sales: &[ShadowSale], log: &[(i64, ShadowEvent)]) -> ShadowReport {
    let mut shadow = Shadow::new(sales.to_vec()).unwrap();
    for (line, (seconds, event)) in (1..).zip(log) {
        shadow.apply(line, at(*seconds), event).unwrap();
    }
    shadow.into_report()
}

/// Expects these differences: line and kind.
#[track_caller]
fn check(report: &ShadowReport, expected: &[(u64, MismatchKind)]) {
    let found: Vec<_> = report
        .differences
        .iter()
        .map(|it| (it.line, it.kind))
        .collect();
    assert_eq!(found, expected, "{report:?}");
    assert_eq!(report.same + expected.len() as u64, report.claims);
}

#[test]
fn a_right_shop_has_no_differences() {
    let log = [
        (50, refused("early")),
        (100, granted("ann", "o1")),
        (101, granted("ann", "o1")),
        (101, granted("bob", "o2")),
        (102, refused("carl")),
        (
            103,
            ShadowEvent::Paid {
                order: "o1".to_owned(),
            },
        ),
        (
            104,
            ShadowEvent::Cancelled {
                order: "o2".to_owned(),
            },
        ),
        (105, granted("carl", "o3")),
        (1_000, refused("late")),
    ];
    let report = report(&[sale("s", 2, 1)], &log);
    check(&report, &[]);
    let numbers = &report.sales[0];
    // The hold of carl's order is over, here alone: the log does not say so.
    assert_eq!((numbers.sold_there, numbers.sold_here), (2, 1));
    assert_eq!((report.unmatched_events, numbers.claims), (0, 7));
}

#[test]
fn oversold_units_are_found() {
    let log = [
        (100, granted("ann", "o1")),
        (101, granted("bob", "o2")),
        (102, granted("carl", "o3")),
        (
            103,
            ShadowEvent::Paid {
                order: "o3".to_owned(),
            },
        ),
    ];
    let report = report(&[sale("s", 2, 1)], &log);
    check(&report, &[(3, MismatchKind::Oversold)]);
    let numbers = &report.sales[0];
    assert_eq!(
        (numbers.sold_there, numbers.sold_here, numbers.stock),
        (3, 2, 2)
    );
    assert_eq!(report.unmatched_events, 1);
    assert_eq!(report.differences[0].outcome, "sold_out");
}

#[test]
fn second_orders_are_found_and_retries_are_not() {
    let log = [
        (100, granted("ann", "o1")),
        (101, granted("ann", "o2")),
        (102, claim("bob", None, Some("k"), true)),
        (103, claim("bob", None, Some("k"), true)),
        (104, claim("bob", None, Some("k2"), true)),
        (105, refused("bob")),
    ];
    let report = report(&[sale("s", 10, 1)], &log);
    check(
        &report,
        &[
            (2, MismatchKind::SecondOrder),
            (5, MismatchKind::SecondOrder),
        ],
    );
    assert_eq!(
        (report.sales[0].sold_there, report.sales[0].sold_here),
        (4, 2)
    );
}

#[test]
fn a_limit_of_two_permits_two_orders() {
    let log = [
        (100, granted("ann", "o1")),
        (101, granted("ann", "o2")),
        (102, granted("ann", "o3")),
    ];
    let report = report(&[sale("s", 10, 2)], &log);
    check(&report, &[(3, MismatchKind::SecondOrder)]);
}

#[test]
fn times_and_refusals_are_compared() {
    let log = [
        (99, granted("early", "o0")),
        (100, refused("ann")),
        (1_000, granted("late", "o1")),
    ];
    let report = report(&[sale("s", 10, 1)], &log);
    check(
        &report,
        &[
            (1, MismatchKind::OutsideWindow),
            (2, MismatchKind::RefusedThere),
            (3, MismatchKind::OutsideWindow),
        ],
    );
}

#[test]
fn holds_end_and_their_units_are_sold_again() {
    let log = [
        (100, granted("ann", "o1")),
        (159, refused("bob")),
        (160, granted("bob", "o2")),
        (
            161,
            ShadowEvent::Paid {
                order: "o2".to_owned(),
            },
        ),
        (400, refused("carl")),
    ];
    let report = report(&[sale("s", 1, 1)], &log);
    check(&report, &[]);
    assert_eq!(report.sales[0].sold_here, 1);
}

#[test]
fn stock_and_closes_follow_the_log() {
    let stock = |stock| ShadowEvent::Stock {
        sale: "s".to_owned(),
        stock,
    };
    let closed = ShadowEvent::Closed {
        sale: "s".to_owned(),
    };
    let log = [
        (100, granted("ann", "o1")),
        (101, refused("bob")),
        (102, stock(2)),
        (103, granted("bob", "o2")),
        (
            104,
            ShadowEvent::Paid {
                order: "o2".to_owned(),
            },
        ),
        (
            105,
            ShadowEvent::Returned {
                order: "o2".to_owned(),
            },
        ),
        (106, granted("carl", "o3")),
        (107, closed),
        (108, granted("dora", "o4")),
    ];
    let report = report(&[sale("s", 1, 1)], &log);
    check(&report, &[(9, MismatchKind::OutsideWindow)]);
    assert_eq!((report.sales[0].stock, report.unmatched_events), (2, 0));
}

#[test]
fn mistakes_of_the_log_are_named() {
    let other = ShadowEvent::Claim {
        sale: "other".to_owned(),
        user: UserId::new("ann").unwrap(),
        quantity: 1,
        key: None,
        order: None,
        is_granted: true,
    };
    let log = [
        (100, other),
        (
            100,
            ShadowEvent::Paid {
                order: "none".to_owned(),
            },
        ),
        (100, claim("bob", None, Some("k"), true)),
    ];
    let found = report(&[sale("s", 10, 2)], &log);
    check(&found, &[(1, MismatchKind::UnknownSale)]);
    assert_eq!(found.unmatched_events, 1);
    let mut shadow = Shadow::new(vec![sale("s", 10, 2)]).unwrap();
    shadow.apply(1, at(100), &refused("x")).unwrap();
    let error = shadow.apply(2, at(99), &refused("y")).unwrap_err();
    assert!(error.contains("sort the file"), "{error}");
    assert!(Shadow::new(vec![sale("s", 1, 1), sale("s", 1, 1)]).is_err());
}

#[test]
fn a_key_of_two_claims_is_found() {
    let two = ShadowEvent::Claim {
        sale: "s".to_owned(),
        user: UserId::new("bob").unwrap(),
        quantity: 2,
        key: Some(IdempotencyKey::new("k").unwrap()),
        order: None,
        is_granted: true,
    };
    let log = [(100, claim("bob", None, Some("k"), true)), (101, two)];
    let report = report(&[sale("s", 10, 5)], &log);
    check(&report, &[(2, MismatchKind::KeyReused)]);
}
