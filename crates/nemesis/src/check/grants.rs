//! Grants, payments and cancellations: nothing lost, nothing twice, every retry the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{Breach, Findings};
use crate::{
    history::{Answer, Attempt, Evidence, Level, Operation, Wish},
    rows::{GrantRow, Rows},
};

/// What needs no rows.
pub(super) fn check_answers(evidence: &Evidence, findings: &mut Findings) {
    let perhaps_lost = perhaps_lost(evidence);
    for operation in &evidence.operations {
        unexpected(operation, &perhaps_lost, findings);
        match &operation.wish {
            Wish::Claim { .. } => replays(evidence, operation, findings),
            Wish::Pay { .. } => changed_payments(evidence, operation, findings),
            Wish::Cancel { .. } => {}
        }
    }
    numbers(evidence, findings);
}

/// What clients were answered, against the rows.
pub(super) fn check(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    let mut by_user: BTreeMap<(&str, &str), Vec<(u32, &GrantRow)>> = BTreeMap::new();
    for ((campaign, number), row) in &rows.grants {
        let user = (campaign.as_str(), row.user.as_str());
        by_user.entry(user).or_default().push((*number, row));
    }
    for operation in &evidence.operations {
        if !operation.is_answered() {
            let last = operation.attempts.last().map(|attempt| &attempt.answer);
            let text = format!("{}: last {last:?}", describe(operation));
            findings.violation(Breach::Unanswered, text);
        }
        match &operation.wish {
            Wish::Claim { user, .. } => {
                claim(evidence, operation, user, rows, findings);
                let rows = by_user.get(&(operation.campaign.as_str(), user.as_str()));
                if let Some(rows) = rows {
                    phantom(evidence, operation, rows[0], findings);
                    second_orders(evidence, operation, rows, findings);
                }
            }
            Wish::Pay { number, reference } => {
                payment(evidence, operation, *number, reference, rows, findings);
            }
            Wish::Cancel { number } => cancellation(evidence, operation, *number, rows, findings),
        }
    }
}

fn describe(operation: &Operation) -> String {
    let Operation { campaign, wish, .. } = operation;
    format!("{wish:?} in {campaign}")
}

/// Grants, by campaign and number, of which every acknowledgement is excused.
fn perhaps_lost(evidence: &Evidence) -> BTreeSet<(&str, u32)> {
    let mut lost = BTreeSet::new();
    for operation in &evidence.operations {
        let mut grants = operation.grants().peekable();
        let Some((_, grant, ..)) = grants.peek() else {
            continue;
        };
        let number = grant.number;
        if grants.all(|(attempt, _, level, _)| evidence.excuses(attempt, level)) {
            lost.insert((operation.campaign.as_str(), number));
        }
    }
    lost
}

/// Answers that no client should see. Campaigns and orders that clients name exist.
fn unexpected(
    operation: &Operation,
    perhaps_lost: &BTreeSet<(&str, u32)>,
    findings: &mut Findings,
) {
    for attempt in &operation.attempts {
        let what = match &attempt.answer {
            Answer::Unexpected(what) => what,
            Answer::Refused(why) if ["not-found", "unknown-campaign"].contains(&why.as_str()) => {
                why
            }
            _ => continue,
        };
        let excused = match &operation.wish {
            Wish::Claim { .. } => false,
            Wish::Pay { number, .. } | Wish::Cancel { number } => {
                perhaps_lost.contains(&(operation.campaign.as_str(), *number))
            }
        };
        findings.judge(Breach::Unexpected, excused, || {
            format!("{} at {} µs: {what}", describe(operation), attempt.start)
        });
    }
}

fn claim(
    evidence: &Evidence,
    operation: &Operation,
    user: &str,
    rows: &Rows,
    findings: &mut Findings,
) {
    let granted: Vec<_> = operation.grants().collect();
    let Some((first_attempt, first, level, _)) = granted.first() else {
        return;
    };
    *findings.acknowledged.entry(*level).or_default() += 1;
    // One acknowledgement that no fault excuses is enough: then the grant must be there.
    let surely = granted
        .iter()
        .rev()
        .find(|(attempt, _, level, _)| !evidence.excuses(attempt, *level));
    let grant = surely.map_or(*first, |(_, grant, ..)| *grant);
    let row = rows.grants.get(&(operation.campaign.clone(), grant.number));
    let is_it = row.is_some_and(|row| {
        (row.user.as_str(), row.quantity, row.amount) == (user, grant.quantity, grant.amount)
    });
    if !is_it {
        findings.judge(Breach::Lost, surely.is_none(), || {
            format!(
                "{}: acknowledged ({level} at {} µs) {grant:?}, the ledger has {row:?}",
                describe(operation),
                first_attempt.end
            )
        });
    }
}

/// Every answer after a grant is the same grant.
fn replays(evidence: &Evidence, operation: &Operation, findings: &mut Findings) {
    let granted: Vec<_> = operation.grants().collect();
    let Some((first, _, level, _)) = granted.first().copied() else {
        return;
    };
    for pair in granted.windows(2) {
        let (earlier, first, level, _) = pair[0];
        let (_, second, _, is_fresh) = pair[1];
        let excused = evidence.excuses(earlier, level);
        if first != second {
            findings.judge(Breach::Changed, excused, || {
                let acknowledged = format!("{level} at {} µs", earlier.end);
                format!(
                    "{}: acknowledged ({acknowledged}) {first:?}, then {second:?}",
                    describe(operation)
                )
            });
        } else if is_fresh {
            findings.judge(Breach::Twice, excused, || {
                format!("{}: granted as new again: {second:?}", describe(operation))
            });
        }
    }
    let excused = evidence.excuses(first, level);
    let later = operation
        .attempts
        .iter()
        .filter(|attempt| attempt.start >= first.end);
    for attempt in later {
        if let Answer::Refused(why) = &attempt.answer {
            findings.judge(Breach::Changed, excused, || {
                format!(
                    "{}: granted ({level} at {} µs), then refused: {why}",
                    describe(operation),
                    first.end
                )
            });
        }
    }
}

/// A user claims once in a campaign, and asks with the same key until he is answered: there is one row, whatever became
/// of it. A fault may take away under which key an order was made, and then a retry is a new order.
fn second_orders(
    evidence: &Evidence,
    operation: &Operation,
    rows: &[(u32, &GrantRow)],
    findings: &mut Findings,
) {
    let (Some(first), Some(last)) = (operation.attempts.first(), operation.attempts.last()) else {
        return;
    };
    let whole = Attempt {
        start: first.start,
        ..last.clone()
    };
    let excused = evidence.excuses(&whole, Level::Memory);
    for (number, row) in &rows[1..] {
        findings.judge(Breach::Twice, excused, || {
            let first = rows[0].0;
            format!(
                "{}: one wish has the rows {first} and {number}: {row:?}",
                describe(operation)
            )
        });
    }
}

/// A user who was refused, and never granted anything, has nothing.
fn phantom(
    evidence: &Evidence,
    operation: &Operation,
    (number, row): (u32, &GrantRow),
    findings: &mut Findings,
) {
    if operation.grants().next().is_some() {
        return;
    }
    let refused = operation
        .attempts
        .iter()
        .find(|attempt| matches!(attempt.answer, Answer::Refused(_)));
    let Some(refused) = refused else {
        return;
    };
    // The grant may have been decided, unseen by the client, by the first request.
    let whole = Attempt {
        start: operation.attempts[0].start,
        ..refused.clone()
    };
    let excused = evidence.excuses(&whole, Level::Memory);
    findings.judge(Breach::Phantom, excused, || {
        format!(
            "{}: refused ({:?}), and the ledger has {number}: {row:?}",
            describe(operation),
            refused.answer
        )
    });
}

/// The level at which a campaign's payments and cancellations are acknowledged: the campaign's own.
fn level_of(evidence: &Evidence, operation: &Operation) -> Level {
    let campaign = evidence.campaigns.get(&operation.campaign);
    campaign.map_or(Level::Ledger, |campaign| campaign.level)
}

/// Answers to a payment: who paid is told the same every time.
fn outcomes(operation: &Operation) -> Vec<(&Attempt, &str)> {
    let attempts = operation.attempts.iter();
    attempts
        .filter_map(|attempt| match &attempt.answer {
            Answer::Payment(outcome) => Some((attempt, outcome.as_str())),
            _ => None,
        })
        .collect()
}

fn changed_payments(evidence: &Evidence, operation: &Operation, findings: &mut Findings) {
    let level = level_of(evidence, operation);
    for pair in outcomes(operation).windows(2) {
        let [(earlier, first), (_, second)] = [pair[0], pair[1]];
        if first != second {
            findings.judge(Breach::Changed, evidence.excuses(earlier, level), || {
                format!("{}: {first}, then {second}", describe(operation))
            });
        }
    }
}

fn payment(
    evidence: &Evidence,
    operation: &Operation,
    number: u32,
    reference: &str,
    rows: &Rows,
    findings: &mut Findings,
) {
    let level = level_of(evidence, operation);
    let outcomes = outcomes(operation);
    let Some((attempt, outcome)) = outcomes.last() else {
        return;
    };
    let row = (
        operation.campaign.clone(),
        number,
        reference.to_owned(),
        (*outcome).to_owned(),
    );
    if !rows.payments.contains(&row) {
        findings.judge(Breach::Lost, evidence.excuses(attempt, level), || {
            format!(
                "{}: answered `{outcome}`, and the ledger does not have it",
                describe(operation)
            )
        });
    }
}

fn cancellation(
    evidence: &Evidence,
    operation: &Operation,
    number: u32,
    rows: &Rows,
    findings: &mut Findings,
) {
    let answered = operation
        .attempts
        .iter()
        .find(|attempt| attempt.answer == Answer::Cancelled);
    let Some(attempt) = answered else {
        return;
    };
    let row = rows.grants.get(&(operation.campaign.clone(), number));
    if row.is_none_or(|row| row.state != "cancelled") {
        let excused = evidence.excuses(attempt, level_of(evidence, operation));
        findings.judge(Breach::Lost, excused, || {
            format!(
                "{}: cancelled, and the ledger has {row:?}",
                describe(operation)
            )
        });
    }
}

/// A number of a campaign is one user's.
fn numbers(evidence: &Evidence, findings: &mut Findings) {
    let mut holders: BTreeMap<(&str, u32), (&str, bool)> = BTreeMap::new();
    for operation in &evidence.operations {
        let Wish::Claim { user, .. } = &operation.wish else {
            continue;
        };
        for (attempt, grant, level, _) in operation.grants() {
            let excused = evidence.excuses(attempt, level);
            let place = (operation.campaign.as_str(), grant.number);
            match holders.get(&place) {
                Some((holder, other_excused)) if *holder != user => {
                    findings.judge(Breach::Twice, excused || *other_excused, || {
                        format!(
                            "number {} of {} was granted to {holder} and to {user}",
                            grant.number, operation.campaign
                        )
                    });
                }
                Some((_, true)) if excused => {}
                _ => {
                    holders.insert(place, (user, excused));
                }
            }
        }
    }
}
