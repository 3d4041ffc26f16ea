//! Parts of a spread campaign that have lost something, repaired together.
//!
//! Units move between parts, and a step by which they have moved may be lost on either side. What a part has follows
//! from no log of its own then. But all parts together have what the campaign was given: what no other part has belongs
//! to those that are repaired, and is divided among them. So no unit is there twice, and none is lost for good.

use std::collections::{BTreeMap, BTreeSet};

use super::repair::{EnginePart, Repair, Survey};
use crate::campaign::CampaignKind;

/// Everything that is known of the parts of a spread campaign that have lost something.
#[derive(Debug)]
pub struct SpreadSurvey<'a> {
    /// Units of the whole campaign.
    pub supply: u64,
    /// Units that the other parts have handed out, returned, can hand out, withhold, or are sending to each other.
    pub elsewhere: u64,
    /// Numbers of the shares among them; empty for a sale.
    pub elsewhere_shares: BTreeSet<u32>,
    /// Number and amount of the shares, of all parts, that nobody has in the ledger; empty for a sale.
    pub free: Vec<(u32, i64)>,
    /// The parts, in the order of their places. The units and shares of an engine are all that it remembers: also those
    /// that it withholds, which come first, and those that it was sending to another part.
    pub parts: Vec<Survey<'a>>,
}

/// What a part of a sale remembers, and what it must have at least.
struct Claim {
    remembered: u64,
    granted: u64,
}

impl SpreadSurvey<'_> {
    /// Unites what is known of each part, and divides among them what no other part has. One repair a part, in their
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
            Claim {
                remembered: part.engine.supply,
                granted: all.repair().granted,
            }
        };
        // What the ledger has closed has what it had then.
        let closed = self.parts.iter().filter_map(Survey::closed_with);
        let apart = closed.map(|(units, _)| units).sum::<u64>() + self.elsewhere;
        let is_open = |part: &&Survey<'_>| part.closed.is_none();
        let claims: Vec<Claim> = self.parts.iter().filter(is_open).map(claim).collect();
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
        // What users of each part have: nobody else gets it.
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
        let closed = self.parts.iter().filter_map(|part| part.closed);
        let apart = closed.map(|closed| closed.units).sum::<u64>() + self.elsewhere;
        let left = self.supply.saturating_sub(apart) as usize;
        keep_cheapest(&mut free, left.saturating_sub(granted));
        for (part, own) in self.parts.iter().zip(&mut own) {
            if part.closed.is_some() {
                continue;
            }
            let remembered = part.engine.shares.iter();
            own.extend(remembered.filter_map(|(number, _)| Some((*number, free.remove(number)?))));
        }
        // What nobody remembers goes to where it was at first, or to any.
        for (number, amount) in free {
            let is_open = |part: &Survey<'_>| part.closed.is_none();
            let is_first = |part: &Survey<'_>| {
                let first = (number - 1) % u32::from(part.facts.parts);
                is_open(part) && first == u32::from(part.facts.index)
            };
            let place = self.parts.iter().position(is_first);
            if let Some(place) = place.or_else(|| self.parts.iter().position(is_open)) {
                own[place].push((number, amount));
            }
        }
        let parts = self.parts.into_iter().zip(own);
        parts
            .map(|(part, own)| part.with_shares(own).repair())
            .collect()
    }
}

impl Survey<'_> {
    /// The same part, whose engine has its rows and these shares, and nothing else.
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

/// A part that has closed has returned shares, and does not know any more which. As many of those that nobody has are
/// left out; with the cheapest ones, nobody gets more money than there is. What remains goes back when the last part
/// has closed.
fn keep_cheapest(free: &mut BTreeMap<u32, i64>, count: usize) {
    let Some(over) = free.len().checked_sub(count) else {
        return;
    };
    let mut by_amount: Vec<(i64, u32)> = free.iter().map(|(n, amount)| (*amount, *n)).collect();
    by_amount.sort_unstable();
    for (_, number) in by_amount.iter().rev().take(over) {
        free.remove(number);
    }
}

/// Divides units among parts: each gets what it remembers, and what its users have in any case. What is left over goes
/// to all alike; what is too little is taken from those that have units which nobody has.
fn divide(units: u64, parts: &[Claim]) -> Vec<u64> {
    let wanted = parts.iter().map(|part| part.remembered.max(part.granted));
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
    // Where users of all parts have more than there is, that is told as conflicts.
    let floors = [true, false];
    for keeps_granted in floors {
        for (given, part) in given.iter_mut().zip(parts) {
            let floor = if keeps_granted { part.granted } else { 0 };
            let spare = given.saturating_sub(floor).min(over);
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
            let claim = |(remembered, granted): &(u64, u64)| Claim {
                remembered: *remembered,
                granted: *granted,
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
}
