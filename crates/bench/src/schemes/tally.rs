//! Whether a scheme was exact: what its users were told, held against its own records.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{
    load::{Crowd, Load, Told},
    scheme::{Exact, Recount},
};

/// What a run came to.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Tally {
    /// Times that a user was told of a unit.
    pub(super) grants: u64,
    /// Of these, the ones that were right: a user's first, in the scheme's records, within the supply.
    pub(super) right: u64,
    /// `right`, divided by what was told or by what should have been, whichever is more.
    pub(super) success: f64,
    /// Units beyond the supply: told, recorded, or missing from the stock, whichever is most.
    pub(super) oversold: u64,
    /// Second units of one user, and second users of one unit.
    pub(super) duplicates: u64,
    /// Units that nobody was told of although enough users asked.
    pub(super) stranded: u64,
    /// Grants that a user heard of and the records do not have, and the other way round.
    pub(super) mismatched: u64,
    /// Claims that were answered with an error.
    pub(super) failed: u64,
}

pub(super) fn judge(load: &Load, crowd: &Crowd, told: &Told, recount: &Recount) -> Tally {
    let supply = u64::from(load.shares);
    let due = supply.min(u64::from(load.users));
    let names = told
        .granted
        .iter()
        .map(|(user, _)| crowd.names[*user as usize].as_str());
    let holders = recount.holders.iter().map(String::as_str);
    let told_units = told.granted.iter().filter_map(|(_, unit)| *unit);

    let grants = told.granted.len() as u64;
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
        repeated(told_units),
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
        failed: told.failed,
    }
}

/// How many items came before.
fn repeated<T: Eq + std::hash::Hash>(items: impl Iterator<Item = T>) -> u64 {
    let mut seen = HashSet::new();
    items.map(|item| u64::from(!seen.insert(item))).sum()
}

impl Tally {
    /// What a scheme that promises `exact` has broken.
    pub(super) fn breaches(&self, exact: Exact) -> Vec<String> {
        let supply = exact != Exact::Nothing;
        let checks = [
            (supply, self.oversold, "oversold"),
            (supply, self.stranded, "stranded"),
            (supply, self.mismatched, "told and recorded otherwise"),
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

    /// A run in which these users were told of a unit, and the records have these holders and this stock.
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
        let mut told = Told::new().unwrap();
        told.granted = granted.iter().map(|user| (*user, None)).collect();
        let recount = Recount {
            left,
            holders: holders.iter().map(|user| format!("u{user}")).collect(),
            units: units.to_vec(),
            barred,
            ..Recount::default()
        };
        judge(&LOAD, &Crowd::new(&LOAD), &told, &recount)
    }

    /// Expects these breaches of a scheme that promises supply and users, and these of one that promises the supply.
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
        // Four users hear of three units.
        let told = tally(&[1, 2, 3, 4], &[1, 2, 3, 4], -1);
        check(&told, &["1 oversold"], &["1 oversold"]);
        assert!((told.success - 0.75).abs() < 1e-9);
        // The stock lost one more than anybody was told of.
        let stock = tally(&[1, 2, 3], &[1, 2, 3], -1);
        let broken = ["1 oversold", "1 told and recorded otherwise"];
        check(&stock, &broken, &broken);
        // The guard kept the stock, and the user was told all the same.
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
        // An order that was lost on its way, and one that nobody heard of.
        let lost = ["2 told and recorded otherwise"];
        check(&tally(&[1, 2, 3], &[1, 2, 4], 0), &lost, &lost);
        let barred = ["1 told and recorded otherwise"];
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
