//! Partial cancellations and returns of orders: the rows have every answered one, and no other.

use std::collections::BTreeMap;

use super::{
    Breach, Findings,
    grants::{describe, level_of},
};
use crate::{
    history::{Answer, Evidence, Operation, Wish},
    rows::{GrantRow, Rows},
};

/// Cancellations or returns that users wanted of one order.
#[derive(Default)]
struct Wanted<'e> {
    /// Units of all of them.
    units: u32,
    /// Units of answered ones whose loss no fault excuses.
    kept: u32,
    last: Option<&'e Operation>,
}

/// A kind of parts.
struct Kind {
    name: &'static str,
    /// Order and units of a wish for such a part.
    wanted: fn(&Wish) -> Option<(u32, u32)>,
    /// Units that such parts have taken from an order.
    units: fn(&GrantRow) -> u32,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "returned",
        wanted: |wish| match wish {
            Wish::ReturnUnits { number, units } => Some((*number, *units)),
            _ => None,
        },
        units: |row| row.returned,
    },
    Kind {
        name: "cancelled",
        wanted: |wish| match wish {
            Wish::CancelUnits { number, units } => Some((*number, *units)),
            _ => None,
        },
        units: |row| row.cancelled,
    },
];

pub(super) fn check(evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    for kind in &KINDS {
        check_kind(kind, evidence, rows, findings);
    }
}

fn check_kind(kind: &Kind, evidence: &Evidence, rows: &Rows, findings: &mut Findings) {
    let name = kind.name;
    let mut wanted: BTreeMap<(&str, u32), Wanted<'_>> = BTreeMap::new();
    for operation in &evidence.operations {
        let Some((number, units)) = (kind.wanted)(&operation.wish) else {
            continue;
        };
        let place = (operation.campaign.as_str(), number);
        let of_order = wanted.entry(place).or_default();
        of_order.units = of_order.units.saturating_add(units);
        of_order.last = Some(operation);
        let level = level_of(evidence, operation);
        let is_kept = operation.attempts.iter().any(|attempt| {
            // A retry may see the order after later steps.
            let answers = matches!(
                attempt.answer,
                Answer::Returned
                    | Answer::UnitsReturned(_)
                    | Answer::Cancelled
                    | Answer::UnitsCancelled(_)
            );
            answers && !evidence.excuses(attempt, level)
        });
        if is_kept {
            of_order.kept = of_order.kept.saturating_add(units);
        }
    }
    for ((campaign, number), Wanted { kept, last, .. }) in &wanted {
        let row = rows.grants.get(&((*campaign).to_owned(), *number));
        // All units of an order that is over are gone.
        let gone = row.map_or(0, |row| match row.state.as_str() == name {
            true => row.claimed().0,
            false => (kind.units)(row),
        });
        if let Some(last) = last.filter(|_| gone < *kept) {
            let what = describe(last);
            let text = format!("{what}: {kept} units of the order are {name}: {row:?}");
            findings.violation(Breach::Lost, text);
        }
    }
    for ((campaign, number), row) in &rows.grants {
        let wanted = wanted.get(&(campaign.as_str(), *number));
        let units = wanted.map_or(0, |wanted| wanted.units);
        if (kind.units)(row) > units {
            let text = format!("order {campaign}-{number}: {units} units must be {name}: {row:?}");
            findings.violation(Breach::Phantom, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{judge, tests::*},
        *,
    };

    /// Rows in which bob's order of three units, paid with 50, has returned some.
    fn returned(rows: &mut Rows, units: u32) {
        let order = rows.grants.get_mut(&key(SALE, 1)).unwrap();
        (order.quantity, order.returned) = (3, units);
        let owed = order.owed_of(50);
        rows.seller = 50 - owed;
        rows.refunds_due = [("bob".to_owned(), owed)].into();
        rows.refunds_due.retain(|_, owed| *owed > 0);
        rows.campaigns.get_mut(SALE).unwrap().granted = 3 - units;
        let engine = rows.engine.get_mut(SALE).unwrap();
        (engine.granted, engine.remaining) = (3 - units, 7 + units);
    }

    #[track_caller]
    fn check(answers: &[Answer], plant: impl FnOnce(&mut Rows), expected: &[(Breach, usize)]) {
        let (mut evidence, mut rows) = sound();
        evidence.campaigns.get_mut(SALE).unwrap().limit = 3;
        let sale = evidence
            .operations
            .iter_mut()
            .filter(|it| it.campaign == SALE);
        for attempt in sale.flat_map(|operation| &mut operation.attempts) {
            if let Answer::Granted { grant, .. } = &mut attempt.answer
                && grant.number == 1
            {
                grant.quantity = 3;
            }
        }
        evidence.operations.push(Operation {
            campaign: SALE.to_owned(),
            wish: Wish::ReturnUnits {
                number: 1,
                units: 1,
            },
            attempts: attempts(answers),
        });
        returned(&mut rows, 1);
        plant(&mut rows);
        let findings = judge(&evidence, &rows);
        let found: Vec<_> = findings.counts().iter().map(|(b, n)| (*b, *n)).collect();
        assert_eq!(found, expected, "{:?}", findings.texts());
    }

    /// bob's order of three units has cancelled some, and was paid with 50.
    fn cancelled(rows: &mut Rows, units: u32) {
        let order = rows.grants.get_mut(&key(SALE, 1)).unwrap();
        let unit_price = order.amount / 3;
        (order.quantity, order.cancelled) = (3 - units, units);
        order.amount = unit_price * i64::from(3 - units);
        rows.campaigns.get_mut(SALE).unwrap().granted = 3 - units;
        let engine = rows.engine.get_mut(SALE).unwrap();
        (engine.granted, engine.remaining) = (3 - units, 7 + units);
    }

    #[test]
    fn units_that_are_cancelled_otherwise_are_found() {
        let count = |answers: &[Answer], units: u32| {
            let (mut evidence, mut rows) = sound();
            let order = rows.grants.get_mut(&key(SALE, 1)).unwrap();
            order.amount = 48;
            for attempt in evidence
                .operations
                .iter_mut()
                .flat_map(|it| &mut it.attempts)
            {
                if let Answer::Granted { grant, .. } = &mut attempt.answer
                    && grant.number == 1
                {
                    grant.quantity = 3;
                }
            }
            evidence.operations.push(Operation {
                campaign: SALE.to_owned(),
                wish: Wish::CancelUnits {
                    number: 1,
                    units: 1,
                },
                attempts: attempts(answers),
            });
            cancelled(&mut rows, units);
            let mut findings = Findings::default();
            check_kind(&KINDS[1], &evidence, &rows, &mut findings);
            let found: Vec<_> = findings.counts().iter().map(|(b, n)| (*b, *n)).collect();
            found
        };
        let done = [lost_answer(), Answer::UnitsCancelled(1)];
        assert_eq!(count(&done, 1), []);
        assert_eq!(count(&done, 0), [(Breach::Lost, 1)]);
        assert_eq!(count(&done, 2), [(Breach::Phantom, 1)]);
        // The order was paid when the answer came.
        assert_eq!(count(&[Answer::UnitsReturned(0)], 0), [(Breach::Lost, 1)]);
        let refused = [Answer::Refused("order-conflict".to_owned())];
        assert_eq!(count(&refused, 0), []);
    }

    #[test]
    fn units_that_are_returned_otherwise_are_found() {
        let done = || Answer::UnitsReturned(1);
        let answers = [lost_answer(), done(), done()];
        check(&answers, |_| (), &[]);
        check(&answers, |rows| returned(rows, 0), &[(Breach::Lost, 1)]);
        check(&answers, |rows| returned(rows, 2), &[(Breach::Phantom, 1)]);
        let owed = |rows: &mut Rows| *rows.refunds_due.get_mut("bob").unwrap() += 1;
        check(&answers, owed, &[(Breach::Money, 1)]);
        let still_held = |rows: &mut Rows| rows.campaigns.get_mut(SALE).unwrap().granted = 3;
        check(&answers, still_held, &[(Breach::Units, 2)]);
        let refused = Answer::Refused("order-conflict".to_owned());
        check(&[done(), refused], |_| (), &[(Breach::Changed, 1)]);
        // No return was answered: both are right.
        let refused = || [Answer::Refused("return-exceeds-order".to_owned())];
        check(&refused(), |rows| returned(rows, 0), &[]);
        check(&refused(), |_| (), &[]);
    }
}
