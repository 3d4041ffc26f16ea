//! Differences and repairs, in tables and after random histories.

mod all_lost;
mod amounts;
mod campaign_repairs;
mod campaigns;
mod cancellations;
mod closed;
mod deleted_orders;
mod free;
mod histories;
mod hold_extensions;
mod returns;
mod spread;

use std::collections::BTreeSet;

use super::*;
use crate::{
    book::PaymentOutcome,
    campaign::{CampaignKind, Phase},
    event::{Entry, Event},
    id::{CampaignId, PaymentRef, UserId},
    money::Money,
    order::OrderState,
    payment::{PaymentState, ReceivedMoney},
    time::Timestamp,
};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn id() -> CampaignId {
    "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap()
}

fn row(user: &str, quantity: u32, state: OrderState) -> GrantRow {
    GrantRow {
        user: UserId::new(user).unwrap(),
        quantity,
        amount_minor: 10 * i64::from(quantity),
        granted_at: at(1_000),
        key: None,
        state,
        returned: match state {
            OrderState::Returned => quantity,
            _ => 0,
        },
        cancelled: 0,
        extension_ms: 0,
    }
}

/// Rows of the form `number user quantity state`, followed by the payment of paid orders. `free` rows have no price and
/// are paid. A payment with a leading minus has a refund due, and one that ends in `:minor` is of this money. A partial
/// return is `key=units`, and a partial cancellation, which precedes the state, `~key=units`. An extension of the hold
/// is `+milliseconds`.
fn rows(text: &str) -> PartRows {
    let mut rows = PartRows::new(Phase::Scheduled);
    for line in text
        .split(',')
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let words: Vec<&str> = line.split(' ').collect();
        let state = match words[3] {
            "held" => OrderState::Held,
            "paid" | "free" => OrderState::Paid,
            "returned" => OrderState::Returned,
            "cancelled" => OrderState::Cancelled,
            _ => OrderState::Expired,
        };
        let number = words[0].parse().unwrap();
        let mut row = row(words[1], words[2].parse().unwrap(), state);
        if words[3] == "free" {
            row.amount_minor = 0;
        }
        rows.grants.insert(number, row);
        for word in words.iter().skip(4) {
            if let Some((key, units)) = word.strip_prefix('~').and_then(|it| it.split_once('=')) {
                let event = format!("part_cancelled {number} {units} {key}");
                rows.grants.get_mut(&number).unwrap().state = OrderState::Held;
                rows.apply(at(1_000), &Event::from_text(&event).unwrap());
                rows.grants.get_mut(&number).unwrap().step(state);
                continue;
            }
            if let Some(millis) = word.strip_prefix('+') {
                rows.grants.get_mut(&number).unwrap().extension_ms = millis.parse().unwrap();
                continue;
            }
            if let Some((key, units)) = word.split_once('=') {
                let event = format!("returned {number} {units} {key}");
                rows.apply(at(1_000), &Event::from_text(&event).unwrap());
                continue;
            }
            let (payment, outcome) = match word.strip_prefix('-') {
                Some(payment) => (payment, PaymentOutcome::RefundDue),
                None => (*word, PaymentOutcome::Paid),
            };
            let (payment, received) = match payment.split_once(':') {
                Some((payment, minor)) => {
                    let money = Money::new(minor.parse().unwrap(), "CNY".parse().unwrap());
                    (payment, ReceivedMoney::Other(money))
                }
                None => (payment, ReceivedMoney::Price),
            };
            let key = (number, PaymentRef::new(payment).unwrap());
            rows.payments
                .insert(key, PaymentState::new(outcome, received));
        }
    }
    rows
}

/// Entries of the form `event fields…`, see `event/text.rs`.
fn entries(text: &str) -> Vec<Entry> {
    let lines = text
        .split(',')
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let entry = |(seq, line): (u64, &str)| Entry {
        seq,
        at: at(1_000),
        campaign: id(),
        event: Event::from_text(line).unwrap(),
    };
    (1..).zip(lines).map(entry).collect()
}

#[test]
fn sides_are_held_against_each_other() {
    let check = |engine: &str, ledger: &str, flight: &str, expected: &[(DifferenceKind, u32)]| {
        let found = compare(id(), &rows(engine), &rows(ledger), &entries(flight));
        let found: Vec<_> = found.iter().map(|it| (it.kind, it.number)).collect();
        assert_eq!(found, expected, "{engine} | {ledger} | {flight}");
    };
    use DifferenceKind::{
        AmountDiffers, Double, InFlight, MissingInEngine, MissingInLedger, StateDiffers,
    };
    let both = "1 ann 1 held, 2 bob 2 paid p1";
    check(both, both, "", &[]);
    check(both, "1 ann 1 held", "", &[(MissingInLedger, 2)]);
    check(
        both,
        "1 ann 1 held",
        "granted 2 bob 2 20, paid 2 p1",
        &[(InFlight, 2)],
    );
    check("1 ann 1 held", both, "", &[(MissingInEngine, 2)]);
    check("1 ann 2 held", "1 ann 1 held", "", &[(AmountDiffers, 1)]);
    check("1 ann 1 held", "1 bob 1 held", "", &[(Double, 1)]);
    check("1 ann 1 held", "1 ann 1 expired", "", &[(StateDiffers, 1)]);
    check(
        "1 ann 1 held",
        "1 ann 1 paid p1",
        "paid 1 p1",
        &[(InFlight, 1)],
    );
    check(
        "1 ann 1 paid p1",
        "1 ann 1 paid p2",
        "",
        &[(StateDiffers, 1)],
    );
    let (some, more) = ("1 ann 3 paid p1 k=1", "1 ann 3 paid p1 k=1 l=1");
    check(some, some, "", &[]);
    check(some, more, "", &[(StateDiffers, 1)]);
    check("1 ann 3 paid p1", some, "", &[(StateDiffers, 1)]);
    check("1 ann 3 paid p1 l=1", some, "", &[(StateDiffers, 1)]);
    check(more, some, "returned 1 1 l", &[(InFlight, 1)]);
    let two = [(Double, 1), (Double, 2)];
    check("1 ann 1 held", "2 ann 1 held", "", &two);
}

fn facts(kind: CampaignKind, limit: impl Into<Option<u32>>) -> PartFacts {
    PartFacts {
        campaign: id(),
        kind,
        limit: limit.into(),
        hold_ms: 500,
        currency: "CNY".parse().ok(),
        fixed_shares: kind == CampaignKind::RedPacket,
        parts: 1,
        index: 0,
    }
}

struct Case<'a> {
    kind: CampaignKind,
    limit: Option<u32>,
    engine: &'a str,
    /// Numbers of the shares that are not granted, 10 minor units each.
    shares: &'a [u32],
    ledger: &'a str,
    ahead: bool,
    flight: &'a str,
    kept: &'a str,
    unnamed: u64,
}

const SALE: Case<'static> = Case {
    kind: CampaignKind::Sale,
    limit: Some(1),
    engine: "",
    shares: &[],
    ledger: "",
    ahead: false,
    flight: "",
    kept: "",
    unnamed: 0,
};
const PACKET: Case<'static> = Case {
    kind: CampaignKind::RedPacket,
    ..SALE
};

/// A part of 5 units or shares.
fn repair(case: &Case<'_>) -> Repair {
    repair_with(case, rows(case.ledger))
}

/// The same with these rows of the ledger.
fn repair_with(case: &Case<'_>, ledger: PartRows) -> Repair {
    let survey = Survey {
        facts: facts(case.kind, case.limit),
        engine: EnginePart {
            rows: rows(case.engine),
            shares: case.shares.iter().map(|number| (*number, 10)).collect(),
            supply: 5,
            funded_minor: if case.kind == CampaignKind::Sale {
                0
            } else {
                50
            },
            numbered: 0,
        },
        ledger,
        closed: None,
        ledger_is_ahead: case.ahead,
        in_flight: &entries(case.flight),
        kept: &entries(case.kept),
        unnamed: case.unnamed,
        accounted: BTreeSet::new(),
        skips: None,
        withheld: 0,
        withheld_shares: BTreeSet::new(),
        now: at(9_000),
    };
    survey.repair()
}

fn appended(repair: &Repair) -> String {
    let text = |(_, event): &(Timestamp, Event)| event.to_string();
    repair
        .append
        .iter()
        .map(text)
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn what_is_known_is_united() {
    // Expected: remaining, withheld, last number, appended entries, conflicts.
    let check = |case: &Case<'_>, expected: (u64, u64, u32, &str, usize)| {
        let found = repair(case);
        let what = format!("{:?} {:?} {:?}", case.engine, case.ledger, case.kept);
        let numbers = (found.remaining, found.withheld.units, found.numbered);
        assert_eq!(numbers, (expected.0, expected.1, expected.2), "{what}");
        assert_eq!(appended(&found), expected.3, "{what}");
        assert_eq!(found.conflicts.len(), expected.4, "{what}");
        assert_eq!(found.supply + found.withheld.units, 5, "{what}");
        assert_eq!(
            found.granted + found.remaining + found.returned,
            found.supply,
            "{what}"
        );
    };
    // The ledger is ahead.
    let ahead = Case {
        engine: "1 ann 1 held",
        ledger: "1 ann 1 paid p1, 2 bob 1 held",
        ahead: true,
        ..SALE
    };
    check(&ahead, (3, 0, 2, "", 0));
    // Only a node's answer has the grant.
    let kept = Case {
        engine: "1 ann 1 held",
        ledger: "1 ann 1 held",
        kept: "granted 2 bob 1 10, paid 2 p1, paid 1 p2",
        ..SALE
    };
    check(
        &kept,
        (3, 0, 2, "paid 1 p2, granted 2 bob 1 10, paid 2 p1", 0),
    );
    // Unnamed entries: their units and numbers are skipped.
    check(
        &Case { unnamed: 2, ..kept },
        (1, 2, 4, "paid 1 p2, granted 2 bob 1 10, paid 2 p1", 0),
    );
    let limit = Case {
        unnamed: 2,
        limit: Some(3),
        ..kept
    };
    check(
        &limit,
        (0, 3, 4, "paid 1 p2, granted 2 bob 1 10, paid 2 p1", 0),
    );
    // Entries in flight settle without a repair.
    let flying = Case {
        engine: "1 ann 1 held, 2 bob 1 held",
        ledger: "1 ann 1 held",
        flight: "granted 2 bob 1 10",
        kept: "granted 2 bob 1 10, granted 3 cat 1 10",
        ..SALE
    };
    check(&flying, (2, 0, 3, "granted 3 cat 1 10", 0));
    // A reused number keeps the owner that the ledger has.
    let again = Case {
        engine: "1 ann 1 held, 2 bob 1 held",
        ledger: "1 ann 1 held, 2 cat 1 held",
        ahead: true,
        kept: "granted 2 bob 1 10",
        ..SALE
    };
    check(&again, (3, 0, 2, "", 2));
    // Ann's first order ended before the second was made.
    let second = Case {
        engine: "1 ann 1 held",
        ledger: "1 ann 1 held",
        kept: "granted 2 ann 1 10",
        ..SALE
    };
    check(&second, (4, 0, 2, "cancelled 1, granted 2 ann 1 10", 0));
    // A changed limit may have allowed both. And unnamed entries may have granted any number of units.
    let changed = Case {
        limit: None,
        ..second
    };
    check(&changed, (3, 0, 2, "granted 2 ann 1 10", 0));
    let unnamed = Case {
        unnamed: 1,
        ..changed
    };
    check(&unnamed, (0, 3, 3, "granted 2 ann 1 10", 0));
    // A paid order stays, so there is no room for the other.
    let paid = Case {
        engine: "1 ann 1 paid p1",
        ledger: "1 ann 1 paid p1",
        ..second
    };
    check(&paid, (4, 0, 1, "", 1));
    // All units are sold already.
    let sold = Case {
        engine: "1 a 1 paid x, 2 b 1 paid x, 3 c 1 paid x, 4 d 1 paid x, 5 e 1 paid x",
        ledger: "1 a 1 paid x, 2 b 1 paid x, 3 c 1 paid x, 4 d 1 paid x, 5 e 1 paid x",
        kept: "granted 6 f 1 10",
        unnamed: 9,
        ..SALE
    };
    check(&sold, (0, 0, 14, "", 1));
}

#[test]
fn shares_are_united() {
    let check = |case: &Case<'_>, shares: &[u32], withheld: &[u32], conflicts: usize| {
        let found = repair(case);
        let numbers = |shares: &[(u32, i64)]| -> Vec<u32> {
            shares.iter().map(|(number, _)| *number).collect()
        };
        let what = format!("{:?} {:?} {:?}", case.engine, case.ledger, case.kept);
        assert_eq!(numbers(&found.shares), shares, "{what}");
        assert_eq!(numbers(&found.withheld.shares), withheld, "{what}");
        assert_eq!(found.conflicts.len(), conflicts, "{what}");
        assert_eq!(found.remaining as usize, shares.len(), "{what}");
        assert_eq!(
            found.funded_minor + found.withheld.amount_minor,
            50,
            "{what}"
        );
        assert_eq!(found.granted + found.remaining, found.supply, "{what}");
    };
    let lost = Case {
        engine: "1 ann 1 held",
        shares: &[2, 3, 4, 5],
        ledger: "1 ann 1 held",
        ..PACKET
    };
    check(&lost, &[2, 3, 4, 5], &[], 0);
    check(
        &Case {
            kept: "granted 3 bob 1 10",
            ..lost
        },
        &[2, 4, 5],
        &[],
        0,
    );
    check(
        &Case {
            unnamed: 2,
            kept: "granted 3 bob 1 10",
            ..lost
        },
        &[5],
        &[2, 4],
        0,
    );
    check(&Case { unnamed: 9, ..lost }, &[], &[2, 3, 4, 5], 0);
    // A wrong amount, an unknown share, and a second share.
    check(
        &Case {
            kept: "granted 3 bob 1 11",
            ..lost
        },
        &[2, 3, 4, 5],
        &[],
        1,
    );
    check(
        &Case {
            kept: "granted 6 bob 1 10",
            ..lost
        },
        &[2, 3, 4, 5],
        &[],
        1,
    );
    check(
        &Case {
            kept: "granted 3 ann 1 10",
            ..lost
        },
        &[2, 3, 4, 5],
        &[],
        1,
    );
    // The ledger has given ann a different share. The engine's one can be granted again.
    let other = Case {
        ledger: "2 ann 1 held",
        ahead: true,
        ..lost
    };
    check(&other, &[1, 3, 4, 5], &[], 1);
}

/// Grants of a lazy packet are numbered like orders. Numbers that a lost answer may have named are not reused.
#[test]
fn numbers_of_a_lazy_packet_are_left_out() {
    let survey = |unnamed: u64, numbered: u32, accounted: &[u32]| {
        let facts = PartFacts {
            fixed_shares: false,
            ..facts(CampaignKind::RedPacket, 1)
        };
        let survey = Survey {
            facts,
            engine: EnginePart {
                rows: rows("1 ann 1 held"),
                shares: Vec::new(),
                supply: 5,
                funded_minor: 50,
                numbered,
            },
            ledger: rows("1 ann 1 held"),
            closed: None,
            ledger_is_ahead: false,
            in_flight: &[],
            kept: &entries("granted 3 bob 1 10"),
            unnamed,
            accounted: accounted.iter().copied().collect(),
            skips: None,
            withheld: 0,
            withheld_shares: BTreeSet::new(),
            now: at(9_000),
        };
        survey.repair()
    };
    let repair = survey(0, 1, &[]);
    assert_eq!((repair.numbered, repair.withheld.units), (3, 3));
    let repair = survey(1, 1, &[]);
    assert_eq!((repair.numbered, repair.withheld.units), (4, 3));
    assert_eq!(survey(1, 4, &[]).numbered, 5);
    // Units withheld for number 2 by an earlier repair suffice for it, but not for others.
    assert_eq!(survey(0, 1, &[2, 3, 4]).withheld.units, 0);
    assert_eq!(survey(0, 1, &[1, 4]).withheld.units, 3);
    assert_eq!(survey(1, 1, &[2]).withheld.units, 3);
}
