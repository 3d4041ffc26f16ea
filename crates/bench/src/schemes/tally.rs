//! Check of a scheme's exactness: its users' answers compared with its own records.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{
    load::{Answers, Load, Users},
    scheme::{Exact, Recount},
};

/// Tally of a run.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Tally {
    /// Number of granted units.
    pub(super) grants: u64,
    /// Number of correct grants: a user's first, in the scheme's records, within the supply.
    pub(super) right: u64,
    /// `right` divided by the larger of the answered and the expected number of grants.
    pub(super) success: f64,
    /// Units beyond the supply: answered, recorded, or missing in the stock, whichever is most.
    pub(super) oversold: u64,
    /// Second units of one user, and second users of one unit.
    pub(super) duplicates: u64,
    /// Unsold units although enough users claimed.
    pub(super) stranded: u64,
    /// Grants that are only in the answers or only in the records.
    pub(super) mismatched: u64,
    pub(super) failed: u64,
}

pub(super) fn judge(load: &Load, users: &Users, answers: &Answers, recount: &Recount) -> Tally {
    let supply = u64::from(load.shares);
    let due = supply.min(u64::from(load.users));
    let names = answers
        .granted
        .iter()
        .map(|(user, _)| users.names[*user as usize].as_str());
    let holders = recount.holders.iter().map(String::as_str);
    let answered_units = answers.granted.iter().filter_map(|(_, unit)| *unit);

    let grants = answers.granted.len() as u64;
    let recorded = recount.holders.len() as u64;
    let taken = u64::try_from(i64::from(load.shares) - recount.left).unwrap_or(0);
    let mut balance: HashMap<&str, i64> = HashMap::new();
    names
        .clone()
        .for_each(|name| *balance.entry(name).or_default() += 1);
    holders
        .clone()
        .for_each(|name| *balance.entry(name).or_default() -= 1);
    let held: HashSet<&str> = holders.clone().collect();
    let right = names
        .clone()
        .filter(|name| held.contains(name))
        .collect::<HashSet<_>>();
    let right = (right.len() as u64).min(supply);
    let barred_apart = recount
        .barred
        .map_or(0, |barred| barred.abs_diff(held.len() as u64));
    let duplicates = [
        repeated(names),
        repeated(holders),
        repeated(answered_units),
        repeated(recount.units.iter()),
    ];
    Tally {
        grants,
        right,
        success: right as f64 / grants.max(due).max(1) as f64,
        oversold: grants.max(recorded).max(taken).saturating_sub(supply),
        duplicates: duplicates.into_iter().max().unwrap_or(0),
        stranded: due.saturating_sub(grants),
        mismatched: balance
            .values()
            .map(|apart| apart.unsigned_abs())
            .sum::<u64>()
            + barred_apart
            + taken.abs_diff(recorded),
        failed: answers.failed,
    }
}

/// Number of repeated items.
fn repeated<T: Eq + std::hash::Hash>(items: impl Iterator<Item = T>) -> u64 {
    let mut seen = HashSet::new();
    items.map(|item| u64::from(!seen.insert(item))).sum()
}

impl Tally {
    /// Broken promises of a scheme that promises `exact`.
    pub(super) fn breaches(&self, exact: Exact) -> Vec<String> {
        let supply = exact != Exact::Nothing;
        let checks = [
            (supply, self.oversold, "oversold"),
            (supply, self.stranded, "stranded"),
            (supply, self.mismatched, "answered and recorded differently"),
            (supply, self.failed, "failed"),
            (
                exact == Exact::SupplyAndUsers,
                self.duplicates,
                "duplicates",
            ),
        ];
        let broken = checks
            .iter()
            .filter(|(promised, count, _)| *promised && *count > 0);
        broken
            .map(|(_, count, what)| format!("{count} {what}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::load::Name, *};

    const LOAD: Load = Load {
        load: Name::Rush,
        users: 10,
        shares: 3,
        waiting: 10,
        connections: 2,
        twice_every: 0,
    };

    /// Run in which these users got a unit, and the records have these holders and this stock.
    fn tally(granted: &[u32], holders: &[u32], left: i64) -> Tally {
        tally_of(granted, holders, left, None, &[])
    }

    fn tally_of(
        granted: &[u32],
        holders: &[u32],
        left: i64,
        barred: Option<u64>,
        units: &[u64],
    ) -> Tally {
        let mut answers = Answers::new().unwrap();
        answers.granted = granted.iter().map(|user| (*user, None)).collect();
        let recount = Recount {
            left,
            holders: holders.iter().map(|user| format!("u{user}")).collect(),
            units: units.to_vec(),
            barred,
            ..Recount::default()
        };
        judge(&LOAD, &Users::new(&LOAD), &answers, &recount)
    }

    /// Expects these breaches of a scheme that promises supply and users, and these of one that promises only the
    /// supply.
    fn check(tally: &Tally, of_both: &[&str], of_supply: &[&str]) {
        assert_eq!(tally.breaches(Exact::SupplyAndUsers), of_both, "{tally:?}");
        assert_eq!(tally.breaches(Exact::Supply), of_supply, "{tally:?}");
        assert!(tally.breaches(Exact::Nothing).is_empty());
    }

    #[test]
    fn exact_is_when_nothing_is_wrong() {
        let exact = tally_of(&[1, 2, 3], &[3, 2, 1], 0, Some(3), &[7, 8, 9]);
        check(&exact, &[], &[]);
        assert_eq!((exact.grants, exact.right), (3, 3));
        assert!((exact.success - 1.0).abs() < 1e-9);
    }

    #[test]
    fn oversold_is_found_on_either_side() {
        // Four users are granted three units.
        let answers = tally(&[1, 2, 3, 4], &[1, 2, 3, 4], -1);
        check(&answers, &["1 oversold"], &["1 oversold"]);
        assert!((answers.success - 0.75).abs() < 1e-9);
        // The stock lost one unit more than was granted.
        let stock = tally(&[1, 2, 3], &[1, 2, 3], -1);
        let broken = ["1 oversold", "1 answered and recorded differently"];
        check(&stock, &broken, &broken);
        // The guard protected the stock, but the user got a success.
        let denied = tally(&[1, 2, 3, 4], &[1, 2, 3], 0);
        check(&denied, &broken, &broken);
    }

    #[test]
    fn duplicates_count_where_users_are_promised_one() {
        check(&tally(&[1, 1, 2], &[1, 1, 2], 0), &["1 duplicates"], &[]);
        let one_unit = tally_of(&[1, 2, 3], &[1, 2, 3], 0, None, &[7, 7, 8]);
        check(&one_unit, &["1 duplicates"], &[]);
    }

    #[test]
    fn what_is_left_behind_and_what_does_not_agree() {
        let stranded = tally(&[1, 2], &[1, 2], 1);
        check(&stranded, &["1 stranded"], &["1 stranded"]);
        assert!((stranded.success - 2.0 / 3.0).abs() < 1e-9);
        // One order was lost, and another one was answered to no user.
        let lost = ["2 answered and recorded differently"];
        check(&tally(&[1, 2, 3], &[1, 2, 4], 0), &lost, &lost);
        let barred = ["1 answered and recorded differently"];
        check(
            &tally_of(&[1, 2, 3], &[1, 2, 3], 0, Some(4), &[]),
            &barred,
            &barred,
        );
    }

    #[test]
    fn an_error_is_no_answer() {
        let mut tally = tally(&[1, 2, 3], &[1, 2, 3], 0);
        tally.failed = 2;
        check(&tally, &["2 failed"], &["2 failed"]);
    }
}
