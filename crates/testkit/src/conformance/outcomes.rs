//! Outcome of a claim when several are possible.

use qiang_core::{
    book::{CampaignAction, Claim, Setup},
    campaign::Phase,
    event::Event,
    outcome::Outcome,
    split::SplitRule,
    time::Timestamp,
};

use super::Scenario;
use crate::campaign::{OPENS, Target, red_packet, sale};

/// Milliseconds from one row's window to the next one's, and the length of each window.
const STEP_MS: i64 = 7_200_000;
const OPEN_MS: i64 = 3_600_000;

/// Facts about a claim. Each is the reason for the outcome at the same index of [`NAMES`].
#[derive(Debug, Clone, Copy)]
struct Row {
    wrong_kind: bool,
    granted_before: bool,
    paused: bool,
    too_early: bool,
    too_late: bool,
    at_limit: bool,
    sold_out: bool,
}

const NAMES: [&str; 7] = [
    "unknown_campaign",
    "already_granted",
    "paused",
    "not_started",
    "ended",
    "limit_reached",
    "sold_out",
];

impl Row {
    fn of(bits: u32) -> Self {
        let bit = |place: u32| bits & (1 << place) != 0;
        Self {
            wrong_kind: bit(0),
            granted_before: bit(1),
            paused: bit(2),
            too_early: bit(3),
            too_late: bit(4),
            at_limit: bit(5),
            sold_out: bit(6),
        }
    }

    /// Whether one instant can satisfy the row: none is both before and after the window, and the end of the window
    /// ends a pause.
    fn is_possible(self) -> bool {
        !self.too_late || (!self.too_early && !self.paused)
    }

    fn expected(self) -> &'static str {
        let reasons = [
            self.wrong_kind,
            self.granted_before,
            self.paused,
            self.too_early,
            self.too_late,
            self.at_limit,
            self.sold_out,
        ];
        let first = reasons.iter().position(|reason| *reason);
        first.map_or("granted", |place| NAMES[place])
    }
}

/// Every combination of reasons: the first reason gives the outcome.
pub async fn the_earlier_outcome_wins(case: &mut Scenario) {
    let rows = (0..1 << NAMES.len()).map(Row::of);
    for (place, row) in (0..).zip(rows.filter(|row| row.is_possible())) {
        let opens = OPENS.plus_millis(place * STEP_MS);
        let (target, claim) = prepare(case, row, opens).await;
        let outcome = case.claim(claim).await;
        assert_eq!(outcome.name(), row.expected(), "{row:?} of {target:?}");
        match outcome {
            Outcome::NotStarted { starts_at } => assert_eq!(starts_at, opens),
            Outcome::LimitReached { limit, held } => assert_eq!((limit, held), (2, 2)),
            Outcome::SoldOut { remaining } => assert_eq!(remaining, 0),
            _ => {}
        }
    }
}

/// Prepares a sale for which the row is true, and a claim on it.
async fn prepare(case: &mut Scenario, row: Row, opens: Timestamp) -> (Target, Claim) {
    let builder = sale(4).limit(2).hold_ms(OPEN_MS).window(opens, OPEN_MS);
    case.at(opens).await;
    let target = case.open(builder).await;
    match (row.granted_before, row.at_limit) {
        (true, true) => {
            case.granted(target.keyed("u", 1, "first")).await;
            case.granted(target.keyed("u", 1, "second")).await;
        }
        (true, false) => {
            case.granted(target.keyed("u", 1, "first")).await;
        }
        (false, true) => {
            case.granted(target.units("u", 2)).await;
        }
        (false, false) => {}
    }
    if row.sold_out {
        let mut left = case.tally(target.id).await.remaining;
        for other in ["v", "w"] {
            let quantity = left.min(2) as u32;
            if quantity > 0 {
                case.granted(target.units(other, quantity)).await;
            }
            left -= u64::from(quantity);
        }
    }
    if row.paused {
        case.act(target.id, CampaignAction::Pause).await;
    }
    if row.too_early {
        case.at(opens.plus_millis(-1)).await;
    }
    if row.too_late {
        case.at(opens.plus_millis(OPEN_MS)).await;
    }
    let asked = if row.wrong_kind {
        target.mistaken()
    } else {
        target
    };
    let key = if row.granted_before { "first" } else { "new" };
    (target, asked.keyed("u", 1, key))
}

/// A sale cannot be claimed as a red packet, nor a red packet as a sale, even by a user with a grant.
pub async fn a_claim_of_the_wrong_kind_knows_no_campaign(case: &mut Scenario) {
    let packet = case.open(red_packet(100, 2, SplitRule::Equal)).await;
    let sale = case.open(sale(2)).await;
    for target in [packet, sale] {
        let wrong = target.mistaken();
        assert_eq!(case.outcome(wrong.one("u")).await, "unknown_campaign");
        case.granted(target.one("u")).await;
        assert_eq!(case.outcome(wrong.one("u")).await, "unknown_campaign");
        assert_eq!(case.tally(target.id).await.granted, 1);
    }
}

/// A campaign is unknown before it is entered, and also while it is a draft.
pub async fn a_campaign_is_unknown_until_it_is_opened(case: &mut Scenario) {
    let setup = case.enter(sale(2)).await;
    let target = Target::of(&setup);
    assert_eq!(case.outcome(target.one("u")).await, "unknown_campaign");
    assert_eq!(case.engine().tally(target.id).await, Ok(None));
    assert_eq!(case.order(target.order(1)).await, None);
    case.open_entered(&setup).await;
    case.granted(target.one("u")).await;
}

/// Opening a campaign again is a retry: it neither loses grants nor starts over.
pub async fn opening_again_changes_nothing(case: &mut Scenario) {
    let setup: Setup = case.enter(sale(2)).await;
    case.open_entered(&setup).await;
    let target = Target::of(&setup);
    let grant = case.granted(target.one("u")).await;
    case.open_entered(&setup).await;
    assert_eq!(case.replayed(target.one("u")).await.number, grant.number);
    case.act(target.id, CampaignAction::Close).await;
    case.open_entered(&setup).await;
    assert_eq!(case.tally(target.id).await.phase, Phase::Closed);
    let log: Vec<_> = case.logs().await.into_iter().flatten().collect();
    let parts = log.iter().filter_map(|entry| match entry.event {
        Event::Opened { parts } => Some(usize::from(parts)),
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    assert_eq!(
        parts,
        vec![parts.len(); parts.len()],
        "each shard opens once"
    );
}
