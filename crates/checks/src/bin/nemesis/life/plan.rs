//! Plan of a seed: campaigns, users and their times, the seller's changes, and the faults.
//!
//! Times are milliseconds after the campaigns' start; negative times are before it.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;

use crate::{
    campaigns::Form,
    history::{Level, Policy},
    plan::{Fault, Kind, NODES, Target},
};

/// Minimum supply of campaigns that are spread over all partitions.
pub(crate) const SHARD_SUPPLY_MIN: u32 = 40;
/// Duration of the arrival of users.
const RUSH_MS: i64 = 1_500;
/// Every other user arrives before this.
const FIRST_MS: i64 = 200;
/// Arrival of users who are too early.
const EARLY_MS: std::ops::Range<i64> = -250..-50;
/// Ends of windows, and closes by the seller of campaigns with a long window.
const ENDS_MS: std::ops::Range<i64> = 900..1_700;
const CLOSED_MS: std::ops::Range<i64> = 1_500..2_200;
const CHANGED_MS: std::ops::Range<i64> = 5..900;
/// Time range of faults, if each takes the time below in addition to its duration.
const FAULTS_MS: std::ops::Range<i64> = -1_200..2_400;
const FAULT_TAKES_MS: i64 = 400;
const KILLED_MS: std::ops::Range<u64> = 20..400;
const STOPPED_MS: std::ops::Range<u64> = 50..900;
const PAUSE_MS: std::ops::Range<u64> = 20..400;
/// Delay of payments and returns by buyers.
const LATER_MS: std::ops::Range<u64> = 0..500;
const HOLD_S: u32 = 1;

/// A campaign and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Its window is a day long, unless the clock ends it.
    pub(crate) form: Form,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The window ends.
    Window(i64),
    /// The seller closes it.
    Close(i64),
}

/// A buyer's action on an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// None: the hold expires.
    Leave,
    Cancel,
    Pay,
    /// Pays with two references: the second payment buys nothing.
    PayTwice,
    /// Pays after the hold has ended.
    PayLate,
    Return {
        by_buyer: bool,
    },
    /// Some units, and then some of the rest.
    ReturnUnits,
}

const COURSES: [Course; 11] = [
    Course::Leave,
    Course::Leave,
    Course::Cancel,
    Course::Pay,
    Course::Pay,
    Course::Pay,
    Course::PayTwice,
    Course::PayLate,
    Course::Return { by_buyer: true },
    Course::Return { by_buyer: false },
    Course::ReturnUnits,
];

/// A user's visit to a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) campaign: usize,
    /// Time of an additional, refused claim before the start.
    pub(crate) early: Option<i64>,
    pub(crate) at: i64,
    pub(crate) quantity: u32,
    pub(crate) course: Course,
    pub(crate) later: Duration,
    /// Whether the user repeats every answered request once.
    pub(crate) asks_again: bool,
    /// Units that the user finally claims under another key.
    pub(crate) more: Option<u32>,
    /// Node of the first request.
    pub(crate) node: usize,
}

/// Change of a sale's stock by the seller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) campaign: usize,
    pub(crate) at: i64,
    pub(crate) stock: u32,
}

/// Faults of some processes, one after the other, starting at a given time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) from: i64,
    pub(crate) faults: Vec<Fault>,
}

/// Everything drawn from a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) campaigns: Vec<Planned>,
    pub(crate) visits: Vec<Visit>,
    /// In the order of execution.
    pub(crate) changes: Vec<Change>,
    /// One for the nodes, and one for the worker.
    pub(crate) tracks: Vec<Track>,
}

impl Life {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut draw = Draw {
            random: ChaCha8Rng::seed_from_u64(seed),
            visits: 0,
        };
        let mut life = Self {
            campaigns: Vec::new(),
            visits: Vec::new(),
            changes: Vec::new(),
            tracks: Vec::new(),
        };
        draw.packets(&mut life);
        draw.sales(&mut life);
        life.changes.sort_by_key(|change| change.at);
        let nodes: Vec<Target> = (0..NODES).map(Target::Node).collect();
        life.tracks = vec![draw.track(&nodes), draw.track(&[Target::Worker])];
        life
    }

    fn add(&mut self, form: Form, end: End) -> usize {
        self.campaigns.push(Planned { form, end });
        self.campaigns.len() - 1
    }
}

struct Draw {
    random: ChaCha8Rng,
    /// Number of visits drawn.
    visits: usize,
}

impl Draw {
    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }

    fn level(&mut self) -> Level {
        match self.chance(25) {
            true => Level::Ledger,
            false => Level::Memory,
        }
    }

    /// The clock ends most campaigns.
    fn end(&mut self) -> End {
        match self.chance(60) {
            true => End::Window(self.random.random_range(ENDS_MS)),
            false => End::Close(self.random.random_range(CLOSED_MS)),
        }
    }

    /// Four packets: one fully claimed, one with amounts drawn at the claim, one with a rest, and one spread.
    fn packets(&mut self, life: &mut Life) {
        let (grabbed, lazy) = (
            self.random.random_range(6..16),
            self.random.random_range(6..16),
        );
        let residue = self.random.random_range(12..24);
        let spread = self
            .random
            .random_range(SHARD_SUPPLY_MIN..SHARD_SUPPLY_MIN + 6);
        let (any, spread_end) = (self.end(), self.end());
        let short = End::Window(self.random.random_range(ENDS_MS));
        for (supply, rule, users, end) in [
            (grabbed, "double_average", grabbed..grabbed + 8, any),
            (lazy, "lazy", lazy - 4..lazy + 4, any),
            (residue, "equal", 2..residue / 2, short),
            (
                spread,
                "double_average",
                spread - 10..spread + 10,
                spread_end,
            ),
        ] {
            let form = Form {
                is_packet: true,
                level: self.level(),
                supply,
                limit: 1,
                hold_s: HOLD_S,
                rule,
                policy: Policy::Owed,
                window: None,
            };
            let campaign = life.add(form, end);
            for _ in 0..self.random.random_range(users) {
                let visit = self.visit(campaign, 1);
                life.visits.push(Visit {
                    more: None,
                    ..visit
                });
            }
        }
    }

    /// Four sales: one unit per user, several units, a stock that changes while live, and one spread.
    fn sales(&mut self, life: &mut Life) {
        let (one, more, changed) = (
            self.random.random_range(5..12),
            self.random.random_range(8..20),
            self.random.random_range(8..14),
        );
        let spread = self
            .random
            .random_range(SHARD_SUPPLY_MIN..SHARD_SUPPLY_MIN + 6);
        let spread_changes = self.random.random_range(0..3);
        for (supply, limit, users, changes, policy) in [
            (one, 1, one + 2..2 * one + 8, 0, Policy::Owed),
            (more, 3, more / 2..more + 8, 0, Policy::Over),
            (changed, 2, changed..changed + 14, 4, Policy::Within),
            (
                spread,
                3,
                spread / 2..spread,
                spread_changes,
                Policy::Within,
            ),
        ] {
            let form = Form {
                is_packet: false,
                level: self.level(),
                supply,
                limit,
                hold_s: HOLD_S,
                rule: "",
                policy,
                window: None,
            };
            let end = self.end();
            let campaign = life.add(form, end);
            for _ in 0..self.random.random_range(users) {
                let visit = self.visit(campaign, limit);
                life.visits.push(visit);
            }
            for _ in 0..changes {
                let at = self.random.random_range(CHANGED_MS);
                let stock = self
                    .random
                    .random_range(supply.saturating_sub(6).max(limit)..supply + 8);
                life.changes.push(Change {
                    campaign,
                    at,
                    stock,
                });
            }
        }
    }

    fn visit(&mut self, campaign: usize, limit: u32) -> Visit {
        let until = if self.chance(50) { FIRST_MS } else { RUSH_MS };
        // In turn, so that each occurs in every life.
        let course = COURSES[self.visits % COURSES.len()];
        self.visits += 1;
        Visit {
            campaign,
            early: self.chance(10).then(|| self.random.random_range(EARLY_MS)),
            // Shortly after the start: client and server have the same clock.
            at: self.random.random_range(5..until),
            quantity: self.random.random_range(1..=limit),
            course,
            later: self.millis(LATER_MS),
            asks_again: self.chance(30),
            more: self.chance(15).then(|| self.random.random_range(1..=limit)),
            node: self.random.random_range(0..NODES),
        }
    }

    fn track(&mut self, targets: &[Target]) -> Track {
        let mut at = FAULTS_MS.start + self.random.random_range(0..400);
        let from = at;
        let mut faults = Vec::new();
        while at < FAULTS_MS.end {
            let Some(target) = targets.choose(&mut self.random).copied() else {
                break;
            };
            let (kind, hold) = match self.chance(50) {
                true => (Kind::Kill, self.millis(KILLED_MS)),
                false => (Kind::Stop, self.millis(STOPPED_MS)),
            };
            let pause = self.millis(PAUSE_MS);
            let takes = hold + pause;
            at += FAULT_TAKES_MS + i64::try_from(takes.as_millis()).unwrap_or(i64::MAX / 2);
            faults.push(Fault {
                kind,
                target,
                hold,
                amount: 0,
                pause,
            });
        }
        Track { from, faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_reproduces_the_life() {
        assert_eq!(Life::draw(7), Life::draw(7));
        assert_ne!(Life::draw(7), Life::draw(8));
    }

    #[test]
    fn every_life_has_all_that_can_happen() {
        for seed in 0..100 {
            let life = Life::draw(seed);
            assert_eq!(life.campaigns.len(), 8, "seed {seed}");
            let spread = life.campaigns.iter();
            let spread = spread.filter(|planned| planned.form.supply >= SHARD_SUPPLY_MIN);
            assert_eq!(spread.count(), 2, "seed {seed}");
            assert!(life.changes.len() >= 4, "seed {seed}");
            for track in &life.tracks {
                assert!(track.faults.len() >= 2, "seed {seed}: {track:?}");
            }
            for course in COURSES {
                let mut visits = life.visits.iter();
                let is_sale = |visit: &&Visit| !life.campaigns[visit.campaign].form.is_packet;
                assert!(
                    visits
                        .by_ref()
                        .filter(is_sale)
                        .any(|visit| visit.course == course),
                    "seed {seed}: {course:?}"
                );
            }
        }
    }
}
