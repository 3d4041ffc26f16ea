//! Joint repair of the parts of a spread campaign that have lost data.
//!
//! Units move between parts, and either side may lose the step of a move. So no part's own log determines its units.
//! But all parts together have the units of the campaign. Units that no other part has belong to the repaired parts,
//! and are divided among them. So no unit is counted twice, and none is lost for good.

use std::collections::{BTreeMap, BTreeSet};

use super::repair::{EnginePart, Repair, Survey};
use crate::campaign::CampaignKind;

/// Everything that is known of the parts of a spread campaign that have lost data.
#[derive(Debug)]
pub struct SpreadSurvey<'a> {
    /// Units of the whole campaign.
    pub supply: u64,
    /// Units that the other parts have granted, returned, can grant, withhold, or are sending to each other.
    pub elsewhere: u64,
    /// Numbers of the shares among them; empty for a sale.
    pub elsewhere_shares: BTreeSet<u32>,
    /// Number and amount of all parts' shares that no user has in the ledger; empty for a sale.
    pub free: Vec<(u32, i64)>,
    /// Parts, in the order of their indexes. The engine's units and shares are all that it remembers. They include the
    /// units that it withholds, which come first, and the units that it was sending to another part.
    pub parts: Vec<Survey<'a>>,
}

/// Units of one part of a sale: remembered, granted and withheld ones.
struct SpreadClaim {
    remembered: u64,
    granted: u64,
    withheld: u64,
}

impl SpreadSurvey<'_> {
    /// Merges the state of each part, and divides units that no other part has. Returns one repair per part, in their
    /// order.
    #[must_use]
    pub fn repair(self) -> Vec<Repair> {
        let is_packet = |part: &Survey<'_>| part.facts.kind == CampaignKind::RedPacket;
        match self.parts.first().is_some_and(is_packet) {
            true => self.repair_packet(),
            false => self.repair_sale(),
        }
    }

    fn repair_sale(self) -> Vec<Repair> {
        let claim = |part: &Survey<'_>| {
            let mut all = part.clone();
            all.engine.supply = self.supply;
            SpreadClaim {
                remembered: part.engine.supply,
                withheld: part.to_withhold(),
                granted: all.repair().granted,
            }
        };
        // A part that the ledger has closed keeps the units that it had at its close.
        let closed = self.parts.iter().filter_map(Survey::closed_with);
        let apart = closed.map(|(units, _)| units).sum::<u64>() + self.elsewhere;
        let is_open = |part: &&Survey<'_>| part.closed.is_none();
        let claims: Vec<SpreadClaim> = self.parts.iter().filter(is_open).map(claim).collect();
        let mut units = divide(self.supply.saturating_sub(apart), &claims).into_iter();
        let parts = self.parts.into_iter();
        parts
            .map(|mut part| {
                if part.closed.is_none() {
                    part.engine.supply = units.next().unwrap_or(0);
                }
                part.repair()
            })
            .collect()
    }

    fn repair_packet(self) -> Vec<Repair> {
        let free = self.free.iter().copied();
        let mut free: BTreeMap<u32, i64> = free
            .filter(|(number, _)| !self.elsewhere_shares.contains(number))
            .collect();
        // Shares of users stay in the part that has granted them.
        let mut own: Vec<Vec<(u32, i64)>> = Vec::new();
        let mut granted = 0;
        for part in &self.parts {
            let shares = free.iter().map(|(number, amount)| (*number, *amount));
            let rows = part.clone().with_shares(shares.collect()).repair().rows;
            granted += rows.grants.len();
            let taken = rows.grants.iter();
            let taken: Vec<_> = taken
                .filter_map(|(number, _)| Some((*number, free.remove(number)?)))
                .collect();
            own.push(taken);
        }
        let named: Vec<usize> = own.iter().map(Vec::len).collect();
        let is_open = |part: &&Survey<'_>| part.closed.is_none();
        let closed = self.parts.iter().filter_map(|part| part.closed);
        let apart = closed.map(|closed| closed.units).sum::<u64>() + self.elsewhere;
        let left = self.supply.saturating_sub(apart) as usize;
        let open = self.parts.iter().filter(is_open);
        let withheld: BTreeSet<u32> = open.flat_map(|it| &it.withheld_shares).copied().collect();
        keep_cheapest(&mut free, left.saturating_sub(granted), &withheld);
        // A withheld share stays withheld in its part, even if another part had it at first.
        let mut parts: Vec<Survey<'_>> = self.parts;
        for (part, own) in parts.iter_mut().zip(&mut own) {
            part.withheld = 0;
            if part.closed.is_none() {
                let shares = part.withheld_shares.iter();
                let shares = shares.filter_map(|number| Some((*number, free.remove(number)?)));
                let before = own.len();
                own.extend(shares);
                part.withheld = (own.len() - before) as u64;
            }
        }
        for (part, own) in parts.iter().zip(&mut own) {
            if part.closed.is_some() {
                continue;
            }
            // If the repair refuses a grant of the engine, its share stays in the part that granted it.
            let refused = part.engine.rows.grants.keys();
            own.extend(refused.filter_map(|number| Some((*number, free.remove(number)?))));
            let remembered = part.engine.shares.iter();
            own.extend(remembered.filter_map(|(number, _)| Some((*number, free.remove(number)?))));
        }
        // A share that no part remembers goes to its original part, or to any open one.
        for (number, amount) in free {
            let is_first = |part: &Survey<'_>| {
                let first = (number - 1) % u32::from(part.facts.parts);
                is_open(&part) && first == u32::from(part.facts.index)
            };
            let place = parts.iter().position(is_first);
            if let Some(place) = place.or_else(|| parts.iter().position(|part| is_open(&part))) {
                own[place].push((number, amount));
            }
        }
        move_to_withhold(&parts, &named, &mut own);
        let parts = parts.into_iter().zip(own);
        parts
            .map(|(part, own)| part.with_shares(own).repair())
            .collect()
    }
}

impl Survey<'_> {
    /// The same part with the engine's rows and exactly these shares.
    fn with_shares(self, shares: Vec<(u32, i64)>) -> Self {
        let rows = self.engine.rows;
        let new = shares
            .iter()
            .filter(|(number, _)| !rows.grants.contains_key(number));
        let (count, money) = new.fold((0, 0), |(count, money), (_, amount)| {
            (count + 1, money + amount)
        });
        Self {
            engine: EnginePart {
                supply: rows.grants.len() as u64 + count,
                funded_minor: rows.amount_minor() + money,
                shares,
                rows,
                numbered: self.engine.numbered,
            },
            ..self
        }
    }
}

/// Removes as many free shares as a closed part has returned. No record says which shares these were, except that no
/// other part withholds them. The cheapest shares are kept, so users get at most the money that is left. The rest goes
/// back to the owner when the last part has closed.
fn keep_cheapest(free: &mut BTreeMap<u32, i64>, count: usize, withheld: &BTreeSet<u32>) {
    let Some(over) = free.len().checked_sub(count) else {
        return;
    };
    let free_now = free.iter();
    let mut by_amount: Vec<(bool, i64, u32)> = free_now
        .map(|(number, amount)| (!withheld.contains(number), *amount, *number))
        .collect();
    by_amount.sort_unstable();
    for (_, _, number) in by_amount.iter().rev().take(over) {
        free.remove(number);
    }
}

/// Moves shares to parts that have fewer than they must withhold, from parts with more. A part may have granted shares
/// that it received in a lost step. `named` counts the shares of users at the head of each list.
fn move_to_withhold(parts: &[Survey<'_>], named: &[usize], own: &mut [Vec<(u32, i64)>]) {
    let wanted = |place: usize| match parts[place].closed {
        Some(_) => 0,
        None => usize::try_from(parts[place].to_withhold()).unwrap_or(usize::MAX),
    };
    let least = |place: usize| named[place].saturating_add(wanted(place));
    for taker in 0..parts.len() {
        for giver in 0..parts.len() {
            while own[taker].len() < least(taker) && own[giver].len() > least(giver) {
                let Some(share) = own[giver].pop() else { break };
                own[taker].push(share);
            }
        }
    }
}

/// Divides units among parts: each gets the units that it remembers, and at least its granted and withheld ones.
/// Surplus units are divided equally. Missing units are taken from the parts' grantable units first, then from withheld
/// ones.
fn divide(units: u64, parts: &[SpreadClaim]) -> Vec<u64> {
    let least = |part: &SpreadClaim| part.granted.saturating_add(part.withheld);
    let wanted = |part: &SpreadClaim| {
        part.remembered
            .max(part.granted)
            .max(least(part).min(units))
    };
    let wanted = parts.iter().map(wanted);
    let mut given: Vec<u64> = wanted.collect();
    let sum: u64 = given.iter().sum();
    let count = parts.len().max(1) as u64;
    if let Some(more) = units.checked_sub(sum) {
        for (place, given) in (0..).zip(&mut given) {
            *given += more / count + u64::from(place < more % count);
        }
        return given;
    }
    let mut over = sum - units;
    // If users of all parts have more than there is, the repair reports conflicts.
    let floors: [fn(&SpreadClaim) -> u64; 3] = [
        |part| part.granted.saturating_add(part.withheld),
        |part| part.granted,
        |_| 0,
    ];
    for floor in floors {
        for (given, part) in given.iter_mut().zip(parts) {
            let spare = given.saturating_sub(floor(part)).min(over);
            *given -= spare;
            over -= spare;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::STOCK_MAX;

    #[test]
    fn units_are_divided_to_the_last_one() {
        let check = |units: u64, parts: &[(u64, u64)], expected: &[u64]| {
            let claim = |(remembered, granted): &(u64, u64)| SpreadClaim {
                remembered: *remembered,
                granted: *granted,
                withheld: 0,
            };
            let claims: Vec<_> = parts.iter().map(claim).collect();
            assert_eq!(divide(units, &claims), expected);
        };
        check(10, &[(3, 1), (4, 4)], &[5, 5]);
        check(7, &[(5, 1), (5, 4)], &[2, 5]);
        let half = STOCK_MAX / 2;
        check(STOCK_MAX, &[(0, 0), (0, 0)], &[half + 1, half]);
        check(STOCK_MAX, &[(half, 7), (half + 1, 0)], &[half, half + 1]);
        check(STOCK_MAX - 1, &[(half, half), (half + 1, 9)], &[half, half]);
    }

    #[test]
    fn withheld_units_are_taken_last() {
        let check = |units: u64, withheld: [u64; 2], expected: [u64; 2]| {
            let claims = withheld.map(|withheld| SpreadClaim {
                remembered: 10,
                granted: 4,
                withheld,
            });
            assert_eq!(divide(units, &claims), expected);
        };
        check(20, [8, 0], [12, 8]);
        check(14, [0, 6], [4, 10]);
        check(14, [8, 8], [4, 10]);
        check(20, [u64::MAX, 0], [16, 4]);
        check(7, [3, 3], [3, 4]);
    }
}
