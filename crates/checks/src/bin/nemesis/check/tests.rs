//! Planted histories: each breach is found, and a sound history has no findings.

use super::*;
use crate::{
    history::{Answer, Campaign, Grant, LossWindow, Operation, Policy, Wish},
    rows::{CampaignRow, EngineRow, GrantRow},
};

pub(super) const PACKET: &str = "p";
pub(super) const SALE: &str = "s";

/// A sound run: ann has share 1 of a packet, bob paid order 1 of a sale, cid cancelled order 2, dan was refused.
pub(super) fn sound() -> (Evidence, Rows) {
    let mut evidence = Evidence {
        deposited: 1_000,
        ..Evidence::default()
    };
    for (id, is_packet, minor) in [(PACKET, true, 1_000), (SALE, false, 50)] {
        let campaign = Campaign {
            id: id.to_owned(),
            is_packet,
            level: Level::Memory,
            supply: 10,
            minor,
            limit: 1,
            policy: Policy::Within,
            window: None,
        };
        evidence.campaigns.insert(id.to_owned(), campaign);
    }
    let refused = Answer::Refused("sold-out".to_owned());
    evidence.operations = vec![
        claim(
            PACKET,
            "ann",
            &[granted(1, 300, true), granted(1, 300, false)],
        ),
        claim(SALE, "bob", &[lost_answer(), granted(1, 50, false)]),
        claim(SALE, "cid", &[granted(2, 50, true)]),
        claim(SALE, "dan", &[refused]),
        pay(1, &["paid", "paid"]),
        Operation {
            campaign: SALE.to_owned(),
            wish: Wish::Cancel { number: 2 },
            attempts: attempts(&[Answer::Cancelled]),
        },
    ];
    let mut rows = Rows::default();
    for (campaign, number, user, amount, state) in [
        (PACKET, 1, "ann", 300, "granted"),
        (SALE, 1, "bob", 50, "paid"),
        (SALE, 2, "cid", 50, "cancelled"),
    ] {
        let row = GrantRow {
            user: user.to_owned(),
            quantity: 1,
            amount,
            state: state.to_owned(),
            returned: 0,
            cancelled: 0,
        };
        rows.grants.insert((campaign.to_owned(), number), row);
    }
    for (id, escrow) in [(PACKET, 700), (SALE, 0)] {
        let row = CampaignRow {
            phase: "scheduled".to_owned(),
            supply: 10,
            granted: 1,
            escrow,
            ..CampaignRow::default()
        };
        let engine = EngineRow {
            supply: 10,
            granted: 1,
            remaining: 9,
            returned: 0,
            withheld: 0,
        };
        rows.campaigns.insert(id.to_owned(), row);
        rows.engine.insert(id.to_owned(), engine);
    }
    rows.payments.insert(payment("ref", "paid", 50));
    rows.balances.insert("ann".to_owned(), 300);
    rows.seller = 50;
    (evidence, rows)
}

pub(super) fn granted(number: u32, amount: i64, fresh: bool) -> Answer {
    let grant = Grant {
        number,
        quantity: 1,
        amount,
        granted_at: "1970-01-01T00:00:05Z".to_owned(),
    };
    Answer::Granted {
        grant,
        level: Level::Memory,
        fresh,
    }
}

pub(super) fn lost_answer() -> Answer {
    Answer::Undecided("503".to_owned())
}

/// One attempt of 10 µs every 100 µs.
pub(super) fn attempts(answers: &[Answer]) -> Vec<Attempt> {
    let starts = (100..).step_by(100);
    let attempt = |(start, answer): (u64, &Answer)| Attempt {
        start,
        end: start + 10,
        answer: answer.clone(),
    };
    starts.zip(answers).map(attempt).collect()
}

pub(super) fn claim(campaign: &str, user: &str, answers: &[Answer]) -> Operation {
    Operation {
        campaign: campaign.to_owned(),
        wish: Wish::Claim {
            user: user.to_owned(),
            quantity: 1,
        },
        attempts: attempts(answers),
    }
}

/// A payment of order 1 in the rows.
fn payment(reference: &str, outcome: &str, amount: i64) -> (String, u32, String, String, i64) {
    let (reference, outcome) = (reference.to_owned(), outcome.to_owned());
    (SALE.to_owned(), 1, reference, outcome, amount)
}

pub(super) fn pay(number: u32, outcomes: &[&str]) -> Operation {
    let answers: Vec<Answer> = outcomes
        .iter()
        .map(|outcome| Answer::Payment((*outcome).to_owned()))
        .collect();
    Operation {
        campaign: SALE.to_owned(),
        wish: Wish::Pay {
            number,
            reference: "ref".to_owned(),
            amount: 50,
        },
        attempts: attempts(&answers),
    }
}

/// Plants a change in a sound run, and requires exactly these findings.
#[track_caller]
fn check(plant: impl FnOnce(&mut Evidence, &mut Rows), expected: &[(Breach, usize)]) {
    let (mut evidence, mut rows) = sound();
    plant(&mut evidence, &mut rows);
    let findings = judge(&evidence, &rows);
    let found: Vec<(Breach, usize)> = findings.counts().iter().map(|(b, n)| (*b, *n)).collect();
    assert_eq!(found, expected, "{:?}", findings.texts());
}

pub(super) fn key(campaign: &str, number: u32) -> (String, u32) {
    (campaign.to_owned(), number)
}

#[test]
fn a_sound_run_is_not_blamed() {
    check(|_, _| (), &[]);
    let (evidence, rows) = sound();
    let findings = judge(&evidence, &rows);
    assert_eq!(findings.acknowledged[&Level::Memory], 3);
    assert!(findings.allowed().is_empty());
}

#[test]
fn a_lost_grant_is_found() {
    // The share is missing, so the money, the count and the user's balance do not match either.
    check(
        |_, rows| drop(rows.grants.remove(&key(PACKET, 1))),
        &[(Breach::Lost, 1), (Breach::Units, 1), (Breach::Money, 2)],
    );
    let other_user = |_: &mut Evidence, rows: &mut Rows| {
        rows.grants.get_mut(&key(SALE, 1)).unwrap().user = "eve".to_owned();
    };
    check(other_user, &[(Breach::Lost, 1)]);
}

#[test]
fn a_lost_grant_is_allowed_only_in_the_window_and_at_the_level_of_the_fault() {
    let lose = |window: LossWindow, level: Level| {
        let (mut evidence, mut rows) = sound();
        let lost = Answer::Granted {
            grant: Grant {
                number: 3,
                quantity: 1,
                amount: 50,
                granted_at: "1970-01-01T00:00:05Z".to_owned(),
            },
            level,
            fresh: true,
        };
        evidence.operations.push(claim(SALE, "eve", &[lost]));
        evidence.losses.push(window);
        rows.audit.clear();
        let findings = judge(&evidence, &rows);
        (
            findings.counts().get(&Breach::Lost).copied().unwrap_or(0),
            findings.allowed().get(&Breach::Lost).copied().unwrap_or(0),
        )
    };
    let window = |from, until, level| LossWindow { from, until, level };
    assert_eq!(lose(window(50, 105, Level::Memory), Level::Memory), (0, 1));
    assert_eq!(lose(window(50, 105, Level::Replica), Level::Memory), (0, 1));
    assert_eq!(lose(window(50, 105, Level::Memory), Level::Replica), (1, 0));
    assert_eq!(lose(window(111, 200, Level::Memory), Level::Memory), (1, 0));
    assert_eq!(lose(window(0, 99, Level::Memory), Level::Memory), (1, 0));
}

#[test]
fn a_grant_confirmed_after_the_fault_must_be_there() {
    let (mut evidence, rows) = sound();
    let answers = [granted(3, 50, true), granted(3, 50, false)];
    evidence.operations.push(claim(SALE, "eve", &answers));
    let (from, until) = (0, 150);
    let level = Level::Memory;
    evidence.losses.push(LossWindow { from, until, level });
    let findings = judge(&evidence, &rows);
    assert_eq!(findings.counts().get(&Breach::Lost), Some(&1));
}

#[test]
fn a_doubled_grant_is_found() {
    let two_users = |evidence: &mut Evidence, _: &mut Rows| {
        let second = claim(PACKET, "eve", &[granted(1, 300, true)]);
        evidence.operations.push(second);
    };
    check(two_users, &[(Breach::Lost, 1), (Breach::Twice, 1)]);
    let fresh_again = |evidence: &mut Evidence, _: &mut Rows| {
        evidence.operations[0].attempts[1].answer = granted(1, 300, true);
    };
    check(fresh_again, &[(Breach::Twice, 1)]);
    let above_the_limit = |_: &mut Evidence, rows: &mut Rows| {
        rows.grants.get_mut(&key(SALE, 2)).unwrap().state = "held".to_owned();
        rows.grants.get_mut(&key(SALE, 2)).unwrap().user = "bob".to_owned();
        rows.campaigns.get_mut(SALE).unwrap().granted = 2;
        rows.engine.get_mut(SALE).unwrap().granted = 2;
        rows.engine.get_mut(SALE).unwrap().remaining = 8;
    };
    check(above_the_limit, &[(Breach::Lost, 2), (Breach::Twice, 2)]);
}

/// bob may have two units and wished for one. His first answer was lost, and the retry made another order.
fn a_second_order(evidence: &mut Evidence, rows: &mut Rows) {
    evidence.campaigns.get_mut(SALE).unwrap().limit = 2;
    let row = GrantRow {
        state: "held".to_owned(),
        ..rows.grants[&key(SALE, 1)].clone()
    };
    rows.grants.insert(key(SALE, 3), row);
    rows.campaigns.get_mut(SALE).unwrap().granted = 2;
    let engine = rows.engine.get_mut(SALE).unwrap();
    (engine.granted, engine.remaining) = (2, 8);
}

#[test]
fn a_retry_that_made_a_second_order_is_found() {
    check(a_second_order, &[(Breach::Twice, 1)]);
    let given_back = |evidence: &mut Evidence, rows: &mut Rows| {
        a_second_order(evidence, rows);
        rows.grants.get_mut(&key(SALE, 3)).unwrap().state = "expired".to_owned();
        rows.campaigns.get_mut(SALE).unwrap().granted = 1;
        let engine = rows.engine.get_mut(SALE).unwrap();
        (engine.granted, engine.remaining) = (1, 9);
    };
    check(given_back, &[(Breach::Twice, 1)]);
    // A fault may have lost the key of the first order.
    let excused = |evidence: &mut Evidence, rows: &mut Rows| {
        a_second_order(evidence, rows);
        let (from, until, level) = (150, 160, Level::Memory);
        evidence.losses.push(LossWindow { from, until, level });
    };
    check(excused, &[]);
}

#[test]
fn more_withheld_than_faults_can_have_taken_is_found() {
    let withhold = |units: u32| {
        move |_: &mut Evidence, rows: &mut Rows| {
            rows.withheld.insert(SALE.to_owned(), units);
        }
    };
    check(withhold(0), &[]);
    check(withhold(1), &[(Breach::Units, 1)]);
    let with_fault = |units: u32| {
        move |evidence: &mut Evidence, rows: &mut Rows| {
            let (from, until, level) = (100, 110, Level::Memory);
            evidence.losses.push(LossWindow { from, until, level });
            rows.withheld.insert(SALE.to_owned(), units);
        }
    };
    // Six requests were in flight.
    check(with_fault(12), &[]);
    check(with_fault(13), &[(Breach::Units, 1)]);
}

#[test]
fn a_changed_retry_is_found() {
    let other_number = |evidence: &mut Evidence, _: &mut Rows| {
        evidence.operations[0].attempts[0].answer = granted(2, 300, true);
    };
    check(other_number, &[(Breach::Changed, 1)]);
    let refused = |evidence: &mut Evidence, _: &mut Rows| {
        evidence.operations[0].attempts[1].answer = Answer::Refused("sold-out".to_owned());
    };
    check(refused, &[(Breach::Changed, 1)]);
    let payment = |evidence: &mut Evidence, _: &mut Rows| {
        evidence.operations[4] = pay(1, &["refund_due", "paid"]);
    };
    check(payment, &[(Breach::Changed, 1)]);
}

#[test]
fn lost_payments_and_cancellations_are_found() {
    let payment = |_: &mut Evidence, rows: &mut Rows| {
        rows.payments.clear();
        rows.seller = 0;
    };
    check(payment, &[(Breach::Lost, 1)]);
    let cancellation = |_: &mut Evidence, rows: &mut Rows| {
        rows.grants.get_mut(&key(SALE, 2)).unwrap().state = "expired".to_owned();
    };
    check(cancellation, &[(Breach::Lost, 1)]);
}

/// The sale accepts differences of up to 3 minor units.
#[test]
fn payments_that_the_sale_does_not_accept_are_found() {
    let paid = |amount: i64| {
        move |evidence: &mut Evidence, rows: &mut Rows| {
            rows.payments.clear();
            rows.payments.insert(payment("ref", "paid", amount));
            rows.seller = amount;
            let operation = &mut evidence.operations[4];
            let (number, reference) = (1, "ref".to_owned());
            operation.wish = Wish::Pay {
                number,
                reference,
                amount,
            };
        }
    };
    check(paid(53), &[]);
    check(paid(47), &[]);
    check(paid(54), &[(Breach::Money, 1)]);
    check(paid(46), &[(Breach::Money, 1)]);
    // The seller has the price instead of the payment.
    let price = |evidence: &mut Evidence, rows: &mut Rows| {
        paid(52)(evidence, rows);
        rows.seller = 50;
    };
    check(price, &[(Breach::Money, 1)]);
    // The ledger has another amount than the reported one.
    let other = |_: &mut Evidence, rows: &mut Rows| {
        rows.payments.clear();
        rows.payments.insert(payment("ref", "paid", 51));
        rows.seller = 51;
    };
    check(other, &[(Breach::Lost, 1)]);
    // Money that buys nothing is due as a refund, as it arrived.
    let owed = |_: &mut Evidence, rows: &mut Rows| {
        rows.payments.insert(payment("more", "refund_due", 60));
        rows.refunds_due.insert("bob".to_owned(), 50);
    };
    check(owed, &[(Breach::Money, 1)]);
}

#[test]
fn a_grant_of_a_user_who_was_refused_is_found() {
    let phantom = |_: &mut Evidence, rows: &mut Rows| {
        let row = rows.grants[&key(SALE, 2)].clone();
        let user = "dan".to_owned();
        rows.grants.insert(key(SALE, 3), GrantRow { user, ..row });
    };
    check(phantom, &[(Breach::Phantom, 1)]);
}

#[test]
fn users_without_an_answer_and_bad_answers_are_found() {
    let unanswered = |evidence: &mut Evidence, _: &mut Rows| {
        evidence.operations[3].attempts[0].answer = lost_answer();
    };
    check(unanswered, &[(Breach::Unanswered, 1)]);
    let broken = |evidence: &mut Evidence, _: &mut Rows| {
        evidence.operations[1].attempts[0].answer = Answer::Unexpected("500".to_owned());
    };
    check(broken, &[(Breach::Unexpected, 1)]);
    let unknown = |evidence: &mut Evidence, _: &mut Rows| {
        let gone = Answer::Refused("unknown-campaign".to_owned());
        evidence.operations[3].attempts[0].answer = gone;
    };
    check(unknown, &[(Breach::Unexpected, 1)]);
}

#[test]
fn units_and_money_that_do_not_add_up_are_found() {
    let engine = |_: &mut Evidence, rows: &mut Rows| {
        rows.engine.get_mut(SALE).unwrap().remaining = 8;
    };
    check(engine, &[(Breach::Units, 1)]);
    let oversold = |_: &mut Evidence, rows: &mut Rows| {
        rows.campaigns.get_mut(SALE).unwrap().returned = 10;
        rows.engine.remove(SALE);
    };
    check(oversold, &[(Breach::Units, 1)]);
    let closed = |_: &mut Evidence, rows: &mut Rows| {
        rows.campaigns.get_mut(SALE).unwrap().phase = "closed".to_owned();
    };
    check(closed, &[(Breach::Units, 1)]);
    let escrow = |_: &mut Evidence, rows: &mut Rows| {
        rows.campaigns.get_mut(PACKET).unwrap().escrow = 699;
    };
    check(escrow, &[(Breach::Money, 1)]);
    let balance = |_: &mut Evidence, rows: &mut Rows| {
        rows.balances.insert("ann".to_owned(), 301);
        rows.sum = 1;
    };
    check(balance, &[(Breach::Money, 2)]);
    let sender = |_: &mut Evidence, rows: &mut Rows| rows.sender = 1;
    check(sender, &[(Breach::Money, 1)]);
    let campaign = |_: &mut Evidence, rows: &mut Rows| drop(rows.campaigns.remove(SALE));
    check(campaign, &[(Breach::Lost, 1)]);
}

#[test]
fn what_the_audit_finds_is_a_violation() {
    let audit = |_: &mut Evidence, rows: &mut Rows| rows.audit.push("escrow: 3".to_owned());
    check(audit, &[(Breach::Audit, 1)]);
}
