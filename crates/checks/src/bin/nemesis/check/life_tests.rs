//! Planted lives of campaigns: each breach is found, and a sound life has no findings.

use super::{tests::*, *};
use crate::{
    history::{Answer, Operation, Window, Wish},
    rows::GrantRow,
};

/// The sound run of the other tests, at its end: eve returned a paid order, and the stock was raised.
fn over() -> (Evidence, Rows) {
    let (mut evidence, mut rows) = sound();
    let window = Window {
        starts_ms: 1_000,
        ends_ms: 9_000,
    };
    for campaign in evidence.campaigns.values_mut() {
        campaign.window = Some(window);
    }
    let changes = [
        (12, Answer::Stock(12)),
        (1, Answer::Refused("stock-granted".to_owned())),
    ];
    for (stock, answer) in changes {
        let wish = Wish::SetStock { stock };
        evidence.operations.push(operation(wish, &[answer]));
    }
    evidence
        .operations
        .push(claim(SALE, "eve", &[granted(3, 50, true)]));
    evidence.operations.push(pay(3, &["paid"]));
    let wish = Wish::Return { number: 3 };
    evidence
        .operations
        .push(operation(wish, &[lost_answer(), Answer::Returned]));
    let order = rows.grants[&key(SALE, 1)].clone();
    let returned = GrantRow {
        user: "eve".to_owned(),
        state: "returned".to_owned(),
        ..order
    };
    rows.grants.insert(key(SALE, 3), returned);
    let payment = (SALE.to_owned(), 3, "ref".to_owned(), "paid".to_owned(), 50);
    rows.payments.insert(payment);
    rows.refunds_due.insert("eve".to_owned(), 50);
    for (id, supply) in [(PACKET, 10), (SALE, 12)] {
        let row = rows.campaigns.get_mut(id).unwrap();
        row.phase = "closed".to_owned();
        (row.supply, row.returned, row.escrow) = (supply, supply - 1, 0);
        let engine = rows.engine.get_mut(id).unwrap();
        (engine.supply, engine.returned, engine.remaining) = (supply, supply - 1, 0);
    }
    rows.campaigns.get_mut(PACKET).unwrap().refunded = 700;
    rows.refunds.push((PACKET.to_owned(), 2, 700));
    rows.sender = 700;
    (evidence, rows)
}

fn operation(wish: Wish, answers: &[Answer]) -> Operation {
    Operation {
        campaign: SALE.to_owned(),
        wish,
        attempts: attempts(answers),
    }
}

#[track_caller]
fn check(plant: impl FnOnce(&mut Evidence, &mut Rows), expected: &[(Breach, usize)]) {
    let (mut evidence, mut rows) = over();
    plant(&mut evidence, &mut rows);
    let mut findings = judge(&evidence, &rows);
    findings.absorb(judge_lives(&evidence, &rows));
    let found: Vec<(Breach, usize)> = findings.counts().iter().map(|(b, n)| (*b, *n)).collect();
    assert_eq!(found, expected, "{:?}", findings.texts());
}

#[test]
fn a_sound_life_is_not_blamed() {
    check(|_, _| (), &[]);
}

#[test]
fn what_is_still_open_is_found() {
    let campaign = |_: &mut Evidence, rows: &mut Rows| {
        rows.campaigns.get_mut(SALE).unwrap().phase = "ended".to_owned();
    };
    check(campaign, &[(Breach::Open, 1)]);
    let held = |_: &mut Evidence, rows: &mut Rows| {
        rows.grants.get_mut(&key(SALE, 1)).unwrap().state = "held".to_owned();
    };
    check(held, &[(Breach::Open, 1)]);
}

#[test]
fn refunds_that_are_not_once_are_found() {
    let twice = |_: &mut Evidence, rows: &mut Rows| {
        let again = rows.refunds[0].clone();
        rows.refunds.push(again);
    };
    check(twice, &[(Breach::Money, 2)]);
    let residue = |_: &mut Evidence, rows: &mut Rows| rows.refunds[0].1 = -1;
    check(residue, &[(Breach::Money, 1)]);
    let never = |_: &mut Evidence, rows: &mut Rows| rows.refunds.clear();
    check(never, &[(Breach::Money, 1)]);
}

#[test]
fn another_stock_than_was_answered_is_found() {
    let lost = |evidence: &mut Evidence, _: &mut Rows| {
        for operation in &mut evidence.operations {
            if matches!(operation.wish, Wish::SetStock { stock: 12 }) {
                operation.attempts[0].answer = Answer::Stock(13);
            }
        }
    };
    check(lost, &[(Breach::Units, 1)]);
}

#[test]
fn orders_that_ended_otherwise_are_found() {
    let kept = |_: &mut Evidence, rows: &mut Rows| {
        rows.grants.get_mut(&key(SALE, 3)).unwrap().state = "paid".to_owned();
        let sale = rows.campaigns.get_mut(SALE).unwrap();
        (sale.granted, sale.returned) = (2, 10);
        let engine = rows.engine.get_mut(SALE).unwrap();
        (engine.granted, engine.returned) = (2, 10);
        rows.seller = 100;
        rows.refunds_due.clear();
    };
    check(kept, &[(Breach::Lost, 1)]);
    let unwanted = |evidence: &mut Evidence, _: &mut Rows| {
        evidence
            .operations
            .retain(|operation| !matches!(operation.wish, Wish::Return { .. }));
    };
    check(unwanted, &[(Breach::Phantom, 1)]);
    let not_owed = |_: &mut Evidence, rows: &mut Rows| rows.refunds_due.clear();
    check(not_owed, &[(Breach::Money, 1)]);
    let twice = |_: &mut Evidence, rows: &mut Rows| {
        let other = (
            SALE.to_owned(),
            1,
            "other".to_owned(),
            "paid".to_owned(),
            50,
        );
        rows.payments.insert(other);
    };
    check(twice, &[(Breach::Money, 2)]);
}

#[test]
fn windows_that_are_not_kept_are_found() {
    let late = |evidence: &mut Evidence, _: &mut Rows| {
        let campaign = evidence.campaigns.get_mut(PACKET).unwrap();
        campaign.window = Some(Window {
            starts_ms: 1_000,
            ends_ms: 2_000,
        });
    };
    // Two answers contain the same grant.
    check(late, &[(Breach::Units, 2)]);
    let early = |evidence: &mut Evidence, _: &mut Rows| {
        let refused = Answer::Refused("not-started".to_owned());
        evidence.operations.push(claim(SALE, "fay", &[refused]));
    };
    check(early, &[(Breach::Unexpected, 1)]);
    let sold_out = |evidence: &mut Evidence, _: &mut Rows| {
        let refused = Answer::Refused("sold-out".to_owned());
        evidence.operations.push(claim(PACKET, "fay", &[refused]));
    };
    check(sold_out, &[(Breach::Units, 1)]);
}

#[test]
fn a_second_claim_is_a_retry_of_the_first_only_where_the_limit_is_one() {
    let second = |limit: u32| {
        move |evidence: &mut Evidence, _: &mut Rows| {
            evidence.campaigns.get_mut(SALE).unwrap().limit = limit;
            let refused = Answer::Refused("sold-out".to_owned());
            let answers = [granted(2, 50, false), refused];
            evidence.operations.push(claim(SALE, "cid", &answers));
        }
    };
    check(second(1), &[]);
    check(second(2), &[(Breach::Changed, 1)]);
}

#[test]
fn who_claims_twice_may_have_two_orders_and_no_more() {
    let row = |rows: &mut Rows, number| {
        let mut row = rows.grants[&key(SALE, 2)].clone();
        row.user = "dan".to_owned();
        row.state = "expired".to_owned();
        rows.grants.insert(key(SALE, number), row);
    };
    let second = |evidence: &mut Evidence, rows: &mut Rows| {
        evidence
            .operations
            .push(claim(SALE, "dan", &[granted(4, 50, true)]));
        row(rows, 4);
    };
    check(second, &[]);
    let third = |evidence: &mut Evidence, rows: &mut Rows| {
        second(evidence, rows);
        row(rows, 5);
    };
    check(third, &[(Breach::Phantom, 1)]);
    let fourth = |evidence: &mut Evidence, rows: &mut Rows| {
        third(evidence, rows);
        row(rows, 6);
    };
    check(fourth, &[(Breach::Twice, 1), (Breach::Phantom, 1)]);
}

#[test]
fn a_second_claim_changes_no_retry() {
    let refused = || Answer::Refused("sold-out".to_owned());
    let retry = |evidence: &mut Evidence, _: &mut Rows| {
        let claims = &mut evidence.operations[2];
        claims
            .attempts
            .push(attempts(&[granted(2, 50, true), refused()])[1].clone());
    };
    check(retry, &[(Breach::Changed, 1)]);
    // The user's order, while it has its unit.
    let second = |evidence: &mut Evidence, _: &mut Rows| {
        let answers = [granted(2, 50, false), refused()];
        evidence.operations.push(claim(SALE, "cid", &answers));
    };
    check(second, &[]);
}
