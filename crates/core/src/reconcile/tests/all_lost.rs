//! Spread campaigns that have lost all their parts. Units of earlier repairs, and units that unnamed entries may have
//! granted, are withheld again, in any of the parts.

use std::collections::BTreeSet;

use super::{super::*, at, facts};
use crate::{
    campaign::{CampaignKind, Phase},
    event::Event,
    id::UserId,
};

const PARTS: u16 = 3;
const SUPPLY: u32 = 17;

fn amount(number: u32) -> i64 {
    10 + i64::from(number % 5)
}

/// A part that Redis has lost completely, with orders or shares in the ledger.
fn emptied(kind: CampaignKind, index: u16, granted: &[u32]) -> Survey<'static> {
    let is_packet = kind == CampaignKind::RedPacket;
    let mut ledger = PartRows::new(Phase::Scheduled);
    for number in granted {
        let event = Event::Granted {
            number: *number,
            user: UserId::new(&format!("u{number}")).unwrap(),
            quantity: 1,
            amount_minor: amount(*number),
            key: None,
        };
        ledger.apply(at(1_000), &event);
    }
    let first = (1..=SUPPLY).skip(index.into()).step_by(PARTS.into());
    let shares: Vec<(u32, i64)> = first.map(|number| (number, amount(number))).collect();
    Survey {
        facts: PartFacts {
            parts: PARTS,
            index,
            ..facts(kind, 1)
        },
        engine: EnginePart {
            rows: PartRows::new(Phase::Scheduled),
            supply: shares.len() as u64,
            shares: if is_packet { shares } else { Vec::new() },
            funded_minor: 0,
            numbered: 0,
        },
        ledger,
        closed: None,
        ledger_is_ahead: true,
        in_flight: &[],
        kept: &[],
        unnamed: 0,
        accounted: BTreeSet::new(),
        skips: None,
        withheld: 0,
        withheld_shares: BTreeSet::new(),
        now: at(2_000),
    }
}

fn repaired(kind: CampaignKind, parts: Vec<Survey<'_>>) -> Vec<Repair> {
    let taken = parts.iter().flat_map(|part| part.ledger.grants.keys());
    let taken: BTreeSet<u32> = taken.copied().collect();
    let free = (1..=SUPPLY).filter(|number| !taken.contains(number));
    let free = free.map(|number| (number, amount(number)));
    let repairs = SpreadSurvey {
        supply: SUPPLY.into(),
        elsewhere: 0,
        elsewhere_shares: BTreeSet::new(),
        free: match kind {
            CampaignKind::RedPacket => free.collect(),
            CampaignKind::Sale => Vec::new(),
        },
        parts,
    }
    .repair();
    let all = repairs.iter().map(|it| it.supply + it.withheld.units);
    assert_eq!(all.sum::<u64>(), u64::from(SUPPLY));
    repairs
}

/// Share 2 belongs to the second part at first. It was in the first part when a repair withheld it.
#[test]
fn a_withheld_share_stays_in_its_part_when_all_parts_are_lost_again() {
    let kind = CampaignKind::RedPacket;
    let mut parts = vec![
        emptied(kind, 0, &[1]),
        emptied(kind, 1, &[5]),
        emptied(kind, 2, &[]),
    ];
    parts[0].withheld_shares = BTreeSet::from([2, 16]);
    let repairs = repaired(kind, parts);
    assert_eq!(
        repairs[0].withheld.shares,
        [(2, amount(2)), (16, amount(16))]
    );
    let rest = repairs[1..].iter();
    assert!(rest.clone().all(|repair| repair.withheld.units == 0));
    let free = rest.chain(&repairs[..1]).flat_map(|it| &it.shares);
    assert!(free.clone().all(|(number, _)| ![2, 16].contains(number)));
    assert_eq!(free.count(), 13);
}

/// A withheld share that was named since belongs to its user. No other share is withheld for it.
#[test]
fn a_withheld_share_that_a_user_has_is_not_withheld() {
    let kind = CampaignKind::RedPacket;
    let mut parts = vec![emptied(kind, 0, &[2]), emptied(kind, 1, &[])];
    parts[0].withheld_shares = BTreeSet::from([2, 4]);
    let repairs = repaired(kind, parts);
    assert_eq!(repairs[0].withheld.shares, [(4, amount(4))]);
    assert_eq!((repairs[0].granted, repairs[1].withheld.units), (1, 0));
}

/// The engine of the first part granted share 2, which the second part has at first. Its user has share 1 in the
/// ledger. That row is refused, and its share can be granted in one part only.
#[test]
fn a_share_of_a_refused_row_is_in_one_part() {
    let kind = CampaignKind::RedPacket;
    let mut parts = vec![
        emptied(kind, 0, &[1]),
        emptied(kind, 1, &[]),
        emptied(kind, 2, &[]),
    ];
    let event = Event::Granted {
        number: 2,
        user: UserId::new("u1").unwrap(),
        quantity: 1,
        amount_minor: amount(2),
        key: None,
    };
    parts[0].engine.rows.apply(at(1_500), &event);
    let repairs = repaired(kind, parts);
    let free = repairs.iter().flat_map(|repair| &repair.shares);
    assert_eq!(free.filter(|(number, _)| *number == 2).count(), 1);
}

/// The first part has granted all units that it had at first, and units from other parts.
#[test]
fn withheld_units_stay_withheld_when_all_parts_are_lost_again() {
    let kind = CampaignKind::Sale;
    let of_first: Vec<u32> = (0..8).map(|n| 1 + n * u32::from(PARTS)).collect();
    for unnamed in [0, 2] {
        let mut parts = vec![
            emptied(kind, 0, &of_first),
            emptied(kind, 1, &[2]),
            emptied(kind, 2, &[3, 6]),
        ];
        parts[0].withheld = 4;
        parts[0].unnamed = unnamed;
        let repairs = repaired(kind, parts);
        assert_eq!(repairs[0].withheld.units, 4 + unnamed);
        let left = repairs.iter().map(|repair| repair.remaining);
        assert_eq!(left.sum::<u64>(), 2 - unnamed);
    }
}

/// The same for unnamed entries of shares.
#[test]
fn shares_are_withheld_for_unnamed_entries_wherever_the_shares_were_at_first() {
    let kind = CampaignKind::RedPacket;
    let of_first: Vec<u32> = (0..6).map(|n| 1 + n * u32::from(PARTS)).collect();
    let mut parts = vec![
        emptied(kind, 0, &of_first),
        emptied(kind, 1, &[]),
        emptied(kind, 2, &[]),
    ];
    parts[0].unnamed = 3;
    parts[1].withheld_shares = BTreeSet::from([2, 3, 6]);
    let repairs = repaired(kind, parts);
    let withheld = repairs.iter().map(|repair| repair.withheld.units);
    assert_eq!(withheld.collect::<Vec<_>>(), [3, 3, 0]);
    assert_eq!(repairs[0].remaining, 0);
    let left = repairs.iter().map(|repair| repair.remaining);
    assert_eq!(left.sum::<u64>(), 5);
}
