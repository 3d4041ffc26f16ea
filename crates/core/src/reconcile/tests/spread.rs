//! A spread campaign with parts that have lost different ends of their histories. Each unit that has moved between them
//! exists once afterwards.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{super::*, at};
use crate::{
    campaign::{CampaignKind, Phase},
    event::{Entry, Event},
    id::UserId,
    order::OrderState,
};

const PARTS: u16 = 3;
const SUPPLY: u32 = 17;

/// State of a part, as its partition keeps it.
#[derive(Debug, Clone)]
struct Part {
    rows: PartRows,
    /// Shares that are not granted, or units of a sale.
    units: Vec<u32>,
    /// Units in transfers that had not arrived at the time of this state.
    moving: Vec<u32>,
    numbered: u32,
    /// Number of grants before this state. Nodes may have answered later ones.
    grants: usize,
}

#[derive(Debug, Clone)]
enum Step {
    Grant {
        part: usize,
    },
    Move {
        from: usize,
        to: usize,
        units: usize,
        arrives: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let part = || 0..usize::from(PARTS);
    prop_oneof![
        2 => part().prop_map(|part| Step::Grant { part }),
        3 => (part(), part(), 1_usize..5, any::<bool>())
            .prop_map(|(from, to, units, arrives)| Step::Move { from, to, units, arrives }),
    ]
}

fn amount(number: u32) -> i64 {
    10 + i64::from(number % 5)
}

fn facts(kind: CampaignKind, index: u16) -> PartFacts {
    PartFacts {
        parts: PARTS,
        index,
        ..super::facts(kind, 1)
    }
}

/// All states of each part, and all grants of each part, in their order.
struct History {
    states: Vec<Vec<Part>>,
    grants: Vec<Vec<Entry>>,
    /// Number of users. Each has a grant of one part only.
    users: u32,
}

impl History {
    fn new() -> Self {
        let first = |index: u32| Part {
            rows: PartRows::new(Phase::Scheduled),
            units: (1..=SUPPLY)
                .skip(index as usize)
                .step_by(usize::from(PARTS))
                .collect(),
            moving: Vec::new(),
            numbered: 0,
            grants: 0,
        };
        Self {
            states: (0..u32::from(PARTS))
                .map(|index| vec![first(index)])
                .collect(),
            grants: vec![Vec::new(); usize::from(PARTS)],
            users: 0,
        }
    }

    fn now(&self, part: usize) -> Part {
        self.states[part].last().unwrap().clone()
    }

    fn follow(&mut self, kind: CampaignKind, step: &Step) {
        match *step {
            Step::Grant { part } => {
                let mut state = self.now(part);
                if state.units.is_empty() {
                    return;
                }
                let taken = state.units.remove(0);
                state.numbered += u32::from(kind == CampaignKind::Sale);
                let number = match kind {
                    CampaignKind::RedPacket => taken,
                    CampaignKind::Sale => facts(kind, part as u16).number_of(state.numbered),
                };
                self.users += 1;
                let event = Event::Granted {
                    number,
                    user: UserId::new(&format!("u{}", self.users)).unwrap(),
                    quantity: 1,
                    amount_minor: amount(number),
                    key: None,
                };
                state.rows.apply(at(1_000), &event);
                let seq = self.grants[part].len() as u64 + 1;
                self.grants[part].push(Entry {
                    seq,
                    at: at(1_000),
                    campaign: super::id(),
                    event,
                });
                state.grants += 1;
                self.states[part].push(state);
            }
            Step::Move {
                from,
                to,
                units,
                arrives,
            } => {
                let mut giver = self.now(from);
                if from == to || giver.units.is_empty() || !giver.moving.is_empty() {
                    return;
                }
                let units = units.min(giver.units.len());
                giver.moving = giver.units.drain(..units).collect();
                self.states[from].push(giver.clone());
                if arrives {
                    let mut taker = self.now(to);
                    let arrived = std::mem::take(&mut giver.moving);
                    taker.units.splice(0..0, arrived);
                    self.states[to].push(taker);
                    self.states[from].push(giver);
                }
            }
        }
    }
}

/// Checks one case. `cuts` has, for each part with a loss, the number of its remaining states, 0 for none. `settled`
/// has the number of each part's grants in the ledger. `all_kept` says whether nodes have kept their answers.
fn check(
    kind: CampaignKind,
    steps: &[Step],
    cuts: &[Option<usize>],
    settled: &[usize],
    all_kept: bool,
) {
    let mut history = History::new();
    for step in steps {
        history.follow(kind, step);
    }
    let lost: Vec<usize> = (0..usize::from(PARTS))
        .filter(|part| cuts[*part].is_some())
        .collect();
    let is_packet = kind == CampaignKind::RedPacket;
    let ledger = |part: usize| -> PartRows {
        let mut rows = PartRows::new(Phase::Scheduled);
        for entry in history.grants[part].iter().take(settled[part]) {
            rows.apply(entry.at, &entry.event);
        }
        rows
    };
    let (mut elsewhere, mut elsewhere_shares) = (0, BTreeSet::new());
    for part in (0..usize::from(PARTS)).filter(|part| !lost.contains(part)) {
        let state = history.now(part);
        // Units in flight to a repaired part count there. This test moves none between other parts.
        elsewhere += state.rows.granted() + state.units.len() as u64;
        elsewhere_shares.extend(state.units);
        elsewhere_shares.extend(state.rows.grants.keys());
    }
    let taken: BTreeSet<u32> = (0..usize::from(PARTS))
        .flat_map(|part| ledger(part).grants.into_keys())
        .collect();
    let free = (1..=SUPPLY).filter(|number| is_packet && !taken.contains(number));
    let kept: Vec<Vec<Entry>> = lost
        .iter()
        .map(|part| match all_kept {
            true => history.grants[*part].clone(),
            false => Vec::new(),
        })
        .collect();
    let surveys = lost.iter().zip(&kept).map(|(part, kept)| {
        let left = cuts[*part].unwrap();
        let count = history.states[*part].len();
        let state = history.states[*part][left.min(count).saturating_sub(1)].clone();
        let state = if left == 0 {
            History::new().now(*part)
        } else {
            state
        };
        let own: Vec<u32> = state.units.into_iter().chain(state.moving).collect();
        let all = history.grants[*part].len();
        let unnamed = all - state.grants.max(settled[*part]).min(all);
        Survey {
            facts: facts(kind, *part as u16),
            engine: EnginePart {
                supply: state.rows.granted() + own.len() as u64,
                funded_minor: 0,
                shares: match is_packet {
                    true => own
                        .iter()
                        .map(|number| (*number, amount(*number)))
                        .collect(),
                    false => Vec::new(),
                },
                numbered: state.numbered,
                rows: state.rows,
            },
            ledger: ledger(*part),
            closed: None,
            ledger_is_ahead: true,
            in_flight: &[],
            kept,
            unnamed: if all_kept { 0 } else { unnamed as u64 },
            accounted: BTreeSet::new(),
            skips: None,
            withheld: 0,
            withheld_shares: BTreeSet::new(),
            now: at(2_000),
        }
    });
    let repairs = SpreadSurvey {
        supply: SUPPLY.into(),
        elsewhere,
        elsewhere_shares: elsewhere_shares.clone(),
        free: free.map(|number| (number, amount(number))).collect(),
        parts: surveys.collect(),
    }
    .repair();

    assert_eq!(repairs.len(), lost.len());
    let supplies = repairs
        .iter()
        .map(|repair| repair.supply + repair.withheld.units);
    if !lost.is_empty() {
        assert_eq!(
            supplies.sum::<u64>() + elsewhere,
            u64::from(SUPPLY),
            "no unit twice, none lost"
        );
    }
    let mut shares = elsewhere_shares;
    let mut users: BTreeMap<u32, UserId> = BTreeMap::new();
    for (repair, part) in repairs.iter().zip(&lost) {
        assert_eq!(repair.granted + repair.remaining, repair.supply);
        assert_eq!(repair.granted, repair.rows.granted());
        if is_packet {
            let own = repair.rows.grants.keys().copied();
            let to_come = repair.shares.iter().chain(&repair.withheld.shares);
            for number in own.chain(to_come.map(|(number, _)| *number)) {
                assert!(shares.insert(number), "share {number} is there twice");
            }
            let money = repair.shares.iter().map(|(_, amount)| amount).sum::<i64>();
            assert_eq!(money + repair.rows.amount_minor(), repair.funded_minor);
        }
        // Grants of the ledger and answered grants stay with their users.
        let known = if all_kept { usize::MAX } else { settled[*part] };
        for entry in history.grants[*part].iter().take(known) {
            let Event::Granted { number, user, .. } = &entry.event else {
                continue;
            };
            let row = repair.rows.grants.get(number);
            assert_eq!(row.map(|row| &row.user), Some(user), "{repair:?}");
            assert!(row.is_some_and(|row| row.state == OrderState::Held));
            assert_eq!(users.insert(*number, user.clone()), None);
        }
        assert_eq!(repair.conflicts, []);
    }
    if is_packet && !lost.is_empty() {
        assert_eq!(shares.len() as u32, SUPPLY, "every share is somewhere");
    }
}

#[test]
fn a_lost_step_out_is_undone() {
    let steps = [Step::Move {
        from: 0,
        to: 1,
        units: 3,
        arrives: true,
    }];
    for kind in [CampaignKind::Sale, CampaignKind::RedPacket] {
        check(kind, &steps, &[Some(1), None, None], &[0; 3], true);
    }
}

#[test]
fn a_lost_step_in_is_made_good() {
    let steps = [Step::Move {
        from: 0,
        to: 1,
        units: 3,
        arrives: true,
    }];
    for kind in [CampaignKind::Sale, CampaignKind::RedPacket] {
        check(kind, &steps, &[None, Some(1), None], &[0; 3], true);
    }
}

proptest! {
    #[test]
    fn parts_have_all_units_together(
        is_packet in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..60),
        cuts in proptest::collection::vec(proptest::option::of(0_usize..40), PARTS as usize),
        settled in proptest::collection::vec(0_usize..12, PARTS as usize),
        all_kept in any::<bool>(),
    ) {
        let kind = if is_packet { CampaignKind::RedPacket } else { CampaignKind::Sale };
        check(kind, &steps, &cuts, &settled, all_kept);
    }
}

/// A part that was opened directly before the loss is opened again, in the ledger as well.
#[test]
fn a_part_that_the_ledger_does_not_know_is_opened() {
    let part = Survey {
        facts: facts(CampaignKind::Sale, 0),
        engine: EnginePart {
            rows: PartRows::new(Phase::Scheduled),
            shares: Vec::new(),
            supply: 6,
            funded_minor: 0,
            numbered: 0,
        },
        ledger: PartRows::new(Phase::Draft),
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
    };
    let survey = SpreadSurvey {
        supply: SUPPLY.into(),
        elsewhere: 11,
        elsewhere_shares: BTreeSet::new(),
        free: Vec::new(),
        parts: vec![part],
    };
    let repairs = survey.repair();
    assert_eq!(
        repairs[0].append,
        [(at(2_000), Event::Opened { parts: PARTS })]
    );
    assert_eq!(
        (repairs[0].remaining, repairs[0].rows.phase),
        (6, Phase::Scheduled)
    );
}
