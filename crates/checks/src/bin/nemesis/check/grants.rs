//! Checks of grants, payments and cancellations: nothing is lost or doubled, and every retry has the same answer.

use std::collections::{BTreeMap, BTreeSet};

use super::{Breach, Findings};
use crate::{
    history::{Answer, Attempt, Evidence, Level, Operation, Wish},
    rows::{GrantRow, Rows},
};

/// Checks that need no rows.
pub(super) fn check_answers(evidence: &Evidence, findings: &mut Findings) {
    let (perhaps_lost, claims) = (perhaps_lost(evidence), claims(evidence));
    for operation in &evidence.operations {
        unexpected(operation, &perhaps_lost, findings);
        match &operation.wish {
            Wish::Claim { user, .. } => {
                let own = claims.get(&(operation.campaign.as_str(), user.as_str()));
                if !own.is_some_and(|own| has_anothers_order(evidence, operation, own)) {
                    replays(evidence, operation, findings);
                }
            }
            Wish::Pay { .. } => changed_payments(evidence, operation, findings),
            Wish::ReturnUnits { .. } | Wish::CancelUnits { .. } => {
                refused_parts(evidence, operation, findings);
            }
            Wish::Cancel { .. } | Wish::Return { .. } | Wish::SetStock { .. } => {}
        }
    }
    numbers(evidence, findings);
}

/// Compares the clients' answers with the rows.
pub(super) fn check(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    let mut by_user: BTreeMap<(&str, &str), Vec<(u32, &GrantRow)>> = BTreeMap::new();
    for ((campaign, number), row) in &rows.grants {
        let user = (campaign.as_str(), row.user.as_str());
        by_user.entry(user).or_default().push((*number, row));
    }
    let claims = claims(evidence);
    for ((campaign, user), claims) in &claims {
        if let Some(rows) = by_user.get(&(*campaign, *user)) {
            phantom(evidence, claims, rows, findings);
            second_orders(evidence, claims, rows, findings);
        }
    }
    for operation in &evidence.operations {
        if !operation.is_answered() {
            let last = operation.attempts.last().map(|attempt| &attempt.answer);
            let text = format!("{}: the last answer is {last:?}", describe(operation));
            findings.violation(Breach::Unanswered, text);
        }
        match &operation.wish {
            Wish::Claim { user, .. } => {
                claim(evidence, operation, user, rows, findings);
            }
            Wish::Pay {
                number,
                reference,
                amount,
            } => {
                let paid = (*number, &**reference, *amount);
                payment(evidence, operation, paid, rows, findings);
            }
            Wish::Cancel { number } => {
                let gone = (&Answer::Cancelled, "cancelled");
                given_back(evidence, operation, *number, gone, rows, findings);
            }
            Wish::Return { number } => {
                let gone = (&Answer::Returned, "returned");
                given_back(evidence, operation, *number, gone, rows, findings);
            }
            // Judged with the units, and with all parts of the order.
            Wish::SetStock { .. } | Wish::ReturnUnits { .. } | Wish::CancelUnits { .. } => {}
        }
    }
}

/// All claims, by campaign and user.
fn claims(evidence: &Evidence) -> BTreeMap<(&str, &str), Vec<&Operation>> {
    let mut claims: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for operation in &evidence.operations {
        if let Wish::Claim { user, .. } = &operation.wish {
            let place = (operation.campaign.as_str(), user.as_str());
            claims.entry(place).or_default().push(operation);
        }
    }
    claims
}

pub(super) fn describe(operation: &Operation) -> String {
    let Operation { campaign, wish, .. } = operation;
    format!("{wish:?} in {campaign}")
}

/// Grants by campaign and number. Only those with every acknowledgement excused.
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

/// Finds answers that no client should get. All campaigns and orders that clients name exist.
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
            Wish::Claim { .. } | Wish::SetStock { .. } => false,
            Wish::Pay { number, .. }
            | Wish::Cancel { number }
            | Wish::Return { number }
            | Wish::ReturnUnits { number, .. }
            | Wish::CancelUnits { number, .. } => {
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
    // One acknowledgement that no fault excuses is enough to require the grant.
    let surely = granted
        .iter()
        .rev()
        .find(|(attempt, _, level, _)| !evidence.excuses(attempt, *level));
    let grant = surely.map_or(*first, |(_, grant, ..)| *grant);
    let row = rows.grants.get(&(operation.campaign.clone(), grant.number));
    let is_it = row.is_some_and(|row| {
        (row.user.as_str(), row.claimed()) == (user, (grant.quantity, grant.amount))
    });
    if !is_it {
        findings.judge(Breach::Lost, surely.is_none(), || {
            format!(
                "{}: acknowledged ({level} at {} µs) {grant:?}, but the ledger has {row:?}",
                describe(operation),
                first_attempt.end
            )
        });
    }
}

/// With a limit of one unit, a second claim may get the user's existing order, while that order has its unit.
fn has_anothers_order(evidence: &Evidence, operation: &Operation, own: &[&Operation]) -> bool {
    let campaign = evidence.campaigns.get(&operation.campaign);
    if campaign.is_none_or(|campaign| campaign.limit != 1) {
        return false;
    }
    let mut grants = operation.grants().peekable();
    let Some((_, first, ..)) = grants.peek() else {
        return false;
    };
    let number = first.number;
    let others = own.iter().filter(|other| !std::ptr::eq(**other, operation));
    let mut others = others.flat_map(|other| other.grants());
    grants.all(|(.., is_fresh)| !is_fresh) && others.any(|(_, grant, ..)| grant.number == number)
}

/// Every answer after a grant must be the same grant.
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
                format!(
                    "{}: granted again as a new grant: {second:?}",
                    describe(operation)
                )
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

/// A user claims with the same key until there is an answer, so each claim has at most one row, in any state. A fault
/// may lose the key of an order. Then a retry is a new order.
fn second_orders(
    evidence: &Evidence,
    claims: &[&Operation],
    rows: &[(u32, &GrantRow)],
    findings: &mut Findings,
) {
    let excused = claims.iter().any(|claim| {
        let whole = claim.attempts.last().and_then(|last| whole(claim, last));
        whole.is_some_and(|whole| evidence.excuses(&whole, Level::Memory))
    });
    for (number, row) in rows.iter().skip(claims.len()) {
        findings.judge(Breach::Twice, excused, || {
            let (first, wishes) = (rows[0].0, claims.len());
            format!(
                "{}: {wishes} wishes, but the rows {first} to {number} exist: {row:?}",
                describe(claims[0])
            )
        });
    }
}

/// A claim that was refused and never granted has no row. The user's rows belong to other claims.
fn phantom(
    evidence: &Evidence,
    claims: &[&Operation],
    rows: &[(u32, &GrantRow)],
    findings: &mut Findings,
) {
    let told: BTreeSet<u32> = claims
        .iter()
        .flat_map(|claim| claim.grants().map(|(_, grant, ..)| grant.number))
        .collect();
    let unseen = rows.iter().filter(|(number, _)| !told.contains(number));
    let ungranted = claims
        .iter()
        .filter(|claim| claim.grants().next().is_none());
    let (refused, unanswered): (Vec<_>, Vec<_>) = ungranted
        .map(|claim| (claim, refusal(claim)))
        .partition(|(_, refused)| refused.is_some());
    // Grants without an answer may belong to claims without an answer.
    let unseen = unseen.skip(unanswered.len());
    for ((claim, refused), (number, row)) in refused.into_iter().zip(unseen) {
        let Some(refused) = refused else { continue };
        // The first request may have made the grant without an answer to the client.
        let whole = whole(claim, refused);
        let excused = whole.is_some_and(|whole| evidence.excuses(&whole, Level::Memory));
        findings.judge(Breach::Phantom, excused, || {
            format!(
                "{}: refused ({:?}), but the ledger has grant {number}: {row:?}",
                describe(claim),
                refused.answer
            )
        });
    }
}

fn refusal(claim: &Operation) -> Option<&Attempt> {
    let mut attempts = claim.attempts.iter();
    attempts.find(|attempt| matches!(attempt.answer, Answer::Refused(_)))
}

/// Time from a wish's first request to the end of this one.
fn whole(operation: &Operation, until: &Attempt) -> Option<Attempt> {
    let first = operation.attempts.first()?;
    Some(Attempt {
        start: first.start,
        ..until.clone()
    })
}

/// The level at which a campaign's payments and cancellations are acknowledged: the campaign's own.
pub(super) fn level_of(evidence: &Evidence, operation: &Operation) -> Level {
    let campaign = evidence.campaigns.get(&operation.campaign);
    campaign.map_or(Level::Ledger, |campaign| campaign.level)
}

/// Outcomes of a payment. They must all be the same.
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
    (number, reference, amount): (u32, &str, i64),
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
        amount,
    );
    if !rows.payments.contains(&row) {
        findings.judge(Breach::Lost, evidence.excuses(attempt, level), || {
            format!(
                "{}: answered `{outcome}`, but the ledger does not have it",
                describe(operation)
            )
        });
    }
}

/// Checks that an answered cancellation or return is in the rows.
fn given_back(
    evidence: &Evidence,
    operation: &Operation,
    number: u32,
    (answer, state): (&Answer, &str),
    rows: &Rows,
    findings: &mut Findings,
) {
    let mut attempts = operation.attempts.iter();
    let Some(attempt) = attempts.find(|attempt| attempt.answer == *answer) else {
        return;
    };
    let row = rows.grants.get(&(operation.campaign.clone(), number));
    if row.is_none_or(|row| row.state != state) {
        let excused = evidence.excuses(attempt, level_of(evidence, operation));
        findings.judge(Breach::Lost, excused, || {
            format!(
                "{}: {state}, but the ledger has {row:?}",
                describe(operation)
            )
        });
    }
}

/// A part that was restocked is never refused later under the same key.
fn refused_parts(evidence: &Evidence, operation: &Operation, findings: &mut Findings) {
    let level = level_of(evidence, operation);
    let mut returned = None;
    for attempt in &operation.attempts {
        match &attempt.answer {
            Answer::Returned
            | Answer::UnitsReturned(_)
            | Answer::Cancelled
            | Answer::UnitsCancelled(_) => {
                returned = Some(returned.unwrap_or(attempt));
            }
            Answer::Refused(why) => {
                let Some(earlier) = returned else { continue };
                findings.judge(Breach::Changed, evidence.excuses(earlier, level), || {
                    format!("{}: restocked, then refused: {why}", describe(operation))
                });
            }
            _ => {}
        }
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
