//! Facts of campaigns that reconciliation compares: phase, supply, money, window and the other terms.
//!
//! Entries of the log that are not settled yet are applied to the ledger's facts first. So a change in flight is no
//! difference. The engine's facts have them already.

use std::fmt;

use super::compare::DifferenceKind;
use crate::{
    admission::AdmissionBound,
    campaign::{AckLevel, CampaignKind, Phase},
    event::{Entry, Event, PartitionId, Seq},
    id::CampaignId,
    time::Window,
};

/// Facts of a campaign, or of one part of a spread campaign, on one side. A fact that a side does not state is `None`
/// and is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CampaignFacts {
    /// Red packet or sale.
    pub kind: CampaignKind,
    /// Recorded phase: never [`Phase::Live`], which follows from the clock.
    pub phase: Phase,
    /// Units or shares, withheld ones included. `None` for parts that do not know the supply of the whole campaign.
    pub supply: Option<u64>,
    /// Money of a packet, in minor units, withheld shares included. `None` for sales and for parts.
    pub total_minor: Option<i64>,
    /// When claims are accepted.
    pub window: Window,
    /// Units that one user may have.
    pub per_user_limit: u32,
    /// Price of one unit in minor units. `None` for packets.
    pub unit_price_minor: Option<i64>,
    /// How long orders hold their units, in milliseconds; 0 for packets.
    pub hold_ms: i64,
    /// Admission of a sale. `None` for packets.
    pub admission: Option<AdmissionBound>,
    /// Acknowledgement level.
    pub ack: AckLevel,
    /// Last change of the terms; 0 if there was none.
    pub terms_revision: Seq,
}

impl CampaignFacts {
    /// Applies an event of the campaign's log. Events about users' grants change nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Opened { .. } | Event::Resumed => self.phase = Phase::Scheduled,
            Event::Paused => self.phase = Phase::Paused,
            Event::Ended => self.phase = Phase::Ended,
            Event::Closed { .. } => self.phase = Phase::Closed,
            Event::StockChanged { units } => {
                self.supply = self
                    .supply
                    .map(|supply| supply.saturating_add_signed(*units));
            }
            // The ledger may have them from the log of another part.
            Event::TermsChanged { revision, terms } if *revision > self.terms_revision => {
                self.terms_revision = *revision;
                self.window = terms.window;
                self.per_user_limit = terms.per_user_limit;
                self.unit_price_minor = Some(terms.unit_price_minor);
                self.admission = terms.admission.or(self.admission);
            }
            _ => {}
        }
    }

    /// The kinds in which the facts differ, each with both values as text.
    fn differences(&self, ledger: &Self) -> Vec<(DifferenceKind, String, String)> {
        let mut found = Vec::new();
        let mut check = |kind, differs: bool, engine: String, ledger: String| {
            if differs {
                found.push((kind, engine, ledger));
            }
        };
        let (a, b) = (self, ledger);
        check(
            DifferenceKind::PhaseDiffers,
            a.phase != b.phase,
            a.phase.name().to_owned(),
            b.phase.name().to_owned(),
        );
        if let (Some(a), Some(b)) = (a.supply, b.supply) {
            check(
                DifferenceKind::SupplyDiffers,
                a != b,
                a.to_string(),
                b.to_string(),
            );
        }
        if let (Some(a), Some(b)) = (a.total_minor, b.total_minor) {
            check(
                DifferenceKind::TotalDiffers,
                a != b,
                a.to_string(),
                b.to_string(),
            );
        }
        check(
            DifferenceKind::WindowDiffers,
            a.window != b.window,
            window_text(a.window),
            window_text(b.window),
        );
        check(
            DifferenceKind::LimitDiffers,
            a.per_user_limit != b.per_user_limit,
            a.per_user_limit.to_string(),
            b.per_user_limit.to_string(),
        );
        if let (Some(a), Some(b)) = (a.unit_price_minor, b.unit_price_minor) {
            check(
                DifferenceKind::PriceDiffers,
                a != b,
                a.to_string(),
                b.to_string(),
            );
        }
        check(
            DifferenceKind::HoldDiffers,
            a.hold_ms != b.hold_ms,
            a.hold_ms.to_string(),
            b.hold_ms.to_string(),
        );
        if let (Some(a), Some(b)) = (a.admission, b.admission) {
            check(
                DifferenceKind::AdmissionDiffers,
                a != b,
                a.percent().to_string(),
                b.percent().to_string(),
            );
        }
        check(
            DifferenceKind::AckDiffers,
            a.ack != b.ack,
            a.ack.name().to_owned(),
            b.ack.name().to_owned(),
        );
        check(
            DifferenceKind::TermsRevisionDiffers,
            a.terms_revision != b.terms_revision,
            a.terms_revision.to_string(),
            b.terms_revision.to_string(),
        );
        found
    }
}

fn window_text(window: Window) -> String {
    let (starts_at, ends_at) = (window.starts_at(), window.ends_at());
    format!("{}-{} ms", starts_at.as_millis(), ends_at.as_millis())
}

/// One fact of a campaign in which engine and ledger differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CampaignDifference {
    /// Which fact.
    pub kind: DifferenceKind,
    /// The campaign.
    pub campaign: CampaignId,
    /// The engine's value.
    pub engine: String,
    /// The ledger's value, with the entries in flight.
    pub ledger: String,
}

impl fmt::Display for CampaignDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            campaign,
            engine,
            ledger,
        } = self;
        let kind = kind.name();
        write!(f, "{kind}: {campaign}: engine {engine}; ledger {ledger}")
    }
}

/// A campaign's facts on both sides, as one comparison has read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedCampaign {
    /// The campaign.
    pub campaign: CampaignId,
    /// The partition whose part was compared.
    pub partition: PartitionId,
    /// Number of parts; 1 for a campaign that is not spread.
    pub parts: u16,
    /// Place of this part, from 0.
    pub index: u16,
    /// The engine's facts.
    pub engine: CampaignFacts,
    /// The ledger's facts of the part, with the entries in flight.
    pub ledger: CampaignFacts,
    /// The ledger's row as it is settled: its phase is that of the whole campaign.
    pub row: CampaignFacts,
    /// The phase that follows from the settled phases of all parts: `row` has it. `None` if it was not read.
    pub parts_phase: Option<Phase>,
    /// The position at which the row was read, and the end of the log.
    pub settled: (Seq, Seq),
}

impl ComparedCampaign {
    /// Compares what was read of a part. `row` and `phase` are the ledger's, without the entries in flight.
    #[must_use]
    pub fn new(
        (campaign, partition): (CampaignId, PartitionId),
        (parts, index): (u16, u16),
        (engine, row): (CampaignFacts, CampaignFacts),
        phase: Phase,
        in_flight: &[Entry],
        settled: (Seq, Seq),
    ) -> Self {
        let mut ledger = CampaignFacts { phase, ..row };
        for entry in in_flight.iter().filter(|entry| entry.campaign == campaign) {
            ledger.apply(&entry.event);
        }
        Self {
            campaign,
            partition,
            parts,
            index,
            engine,
            ledger,
            row,
            parts_phase: None,
            settled,
        }
    }

    /// Where the sides differ. A part that is not the first one follows the terms of the first one: it is compared with
    /// the ledger only if both have the same revision.
    #[must_use]
    pub fn differences(&self) -> Vec<CampaignDifference> {
        let is_behind = self.index > 0 && self.engine.terms_revision < self.ledger.terms_revision;
        let found = self.engine.differences(&self.ledger).into_iter();
        let found = found.filter(|(kind, ..)| !(is_behind && kind.is_of_terms()));
        let difference = |(kind, engine, ledger)| CampaignDifference {
            kind,
            campaign: self.campaign,
            engine,
            ledger,
        };
        let mut found: Vec<_> = found.map(difference).collect();
        // The row is changed by settlement in the same step as the parts.
        if let Some(phase) = self.parts_phase.filter(|phase| *phase != self.row.phase) {
            found.push(CampaignDifference {
                kind: DifferenceKind::PhaseDiffers,
                campaign: self.campaign,
                engine: format!("{} by its parts", phase.name()),
                ledger: self.row.phase.name().to_owned(),
            });
        }
        found
    }
}

/// Result of comparing a campaign's part once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CampaignComparison {
    /// There is nothing to compare: the partition has no part of it, or it has left the engine, or one side does not
    /// have it at all.
    Absent,
    /// The facts were read at one moment. They may differ.
    Compared(Box<ComparedCampaign>),
    /// Something changed while it was read, or entries of the log cannot be read yet. Compare it again.
    Unsettled(NotCompared),
    /// It cannot be compared, also not a moment later.
    NotCompared(NotCompared),
}

/// Why a campaign's part is not compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotCompared {
    /// The partition is halted or unreachable.
    #[error("the partition is not open: repair or resume it first")]
    NotOpen,
    /// A row or a field holds a value that was never written.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The same of a campaign of which another partition has the first part, and this one none.
    #[error("cannot be read: {0}")]
    UnreadableElsewhere(String),
    /// The facts differ, and entries about the campaign are in quarantine.
    #[error("entries of it are in quarantine: redrive or discard them first")]
    Quarantined,
    /// The log does not follow the ledger's position without a gap.
    #[error("the log has a gap after the ledger's position: repair the partition first")]
    LogGap,
    /// Too many entries wait for settlement.
    #[error("too many entries wait for settlement")]
    Lag,
    /// The campaign changed during every attempt.
    #[error("it changed while it was compared: try again")]
    Changing,
    /// The ledger has the campaign as open, and the engine does not have it.
    #[error("the engine does not have it")]
    NotInEngine,
}

impl NotCompared {
    /// Whether nothing of the campaign can be read, its grants included.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::UnreadableElsewhere(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{campaign::Terms, time::Timestamp};

    pub(super) fn window(ends_at: i64) -> Window {
        let instant = Timestamp::from_millis;
        Window::new(instant(1_000), instant(ends_at)).expect("a window")
    }

    pub(super) fn sale() -> CampaignFacts {
        CampaignFacts {
            kind: CampaignKind::Sale,
            phase: Phase::Scheduled,
            supply: Some(100),
            total_minor: None,
            window: window(9_000),
            per_user_limit: 2,
            unit_price_minor: Some(500),
            hold_ms: 60_000,
            admission: Some(AdmissionBound::from_percent(150).expect("a bound")),
            ack: AckLevel::Memory,
            terms_revision: 0,
        }
    }

    pub(super) fn compared(
        engine: CampaignFacts,
        row: CampaignFacts,
        in_flight: &[Entry],
    ) -> ComparedCampaign {
        let campaign = id();
        let place = (campaign, PartitionId(0));
        ComparedCampaign::new(place, (1, 0), (engine, row), row.phase, in_flight, (7, 9))
    }

    pub(super) fn id() -> CampaignId {
        let id = "00000000-0001-7000-8000-000000000000".parse();
        id.expect("an id")
    }

    fn entry(event: Event) -> Entry {
        Entry {
            seq: 8,
            at: Timestamp::from_millis(2_000),
            campaign: id(),
            event,
        }
    }

    fn kinds(compared: &ComparedCampaign) -> Vec<DifferenceKind> {
        compared.differences().iter().map(|it| it.kind).collect()
    }

    #[test]
    fn each_fact_that_differs_is_named() {
        type Change = fn(&mut CampaignFacts);
        let changes: [(DifferenceKind, Change); 9] = [
            (DifferenceKind::PhaseDiffers, |it| it.phase = Phase::Paused),
            (DifferenceKind::SupplyDiffers, |it| it.supply = Some(101)),
            (DifferenceKind::WindowDiffers, |it| {
                it.window = window(9_001)
            }),
            (DifferenceKind::LimitDiffers, |it| it.per_user_limit = 3),
            (DifferenceKind::PriceDiffers, |it| {
                it.unit_price_minor = Some(1)
            }),
            (DifferenceKind::HoldDiffers, |it| it.hold_ms = 1),
            (DifferenceKind::AdmissionDiffers, |it| {
                it.admission = Some(AdmissionBound::from(None));
            }),
            (DifferenceKind::AckDiffers, |it| it.ack = AckLevel::Replica),
            (DifferenceKind::TermsRevisionDiffers, |it| {
                it.terms_revision = 5
            }),
        ];
        assert_eq!(kinds(&compared(sale(), sale(), &[])), []);
        for (kind, change) in changes {
            let mut row = sale();
            change(&mut row);
            assert_eq!(kinds(&compared(sale(), row, &[])), [kind]);
            assert_eq!(kinds(&compared(row, sale(), &[])), [kind]);
        }
    }

    #[test]
    fn a_fact_that_one_side_does_not_state_is_not_compared() {
        let part = CampaignFacts {
            supply: None,
            ..sale()
        };
        assert_eq!(kinds(&compared(part, sale(), &[])), []);
    }

    #[test]
    fn a_change_in_flight_is_no_difference() {
        let terms = Terms {
            window: window(8_000),
            per_user_limit: 4,
            unit_price_minor: 400,
            admission: None,
        };
        let flight = [
            entry(Event::StockChanged { units: -10 }),
            entry(Event::TermsChanged { revision: 8, terms }),
            entry(Event::Paused),
        ];
        let engine = CampaignFacts {
            phase: Phase::Paused,
            supply: Some(90),
            window: window(8_000),
            per_user_limit: 4,
            unit_price_minor: Some(400),
            terms_revision: 8,
            ..sale()
        };
        assert_eq!(kinds(&compared(engine, sale(), &flight)), []);
        // What was changed by hand beside it is one.
        let raised = CampaignFacts {
            supply: Some(150),
            ..sale()
        };
        let found = compared(engine, raised, &flight);
        assert_eq!(kinds(&found), [DifferenceKind::SupplyDiffers]);
        let opened = CampaignFacts {
            phase: Phase::Draft,
            ..sale()
        };
        let open = [entry(Event::Opened { parts: 1 })];
        assert_eq!(kinds(&compared(sale(), opened, &open)), []);
        assert_eq!(
            kinds(&compared(sale(), opened, &[])),
            [DifferenceKind::PhaseDiffers]
        );
    }

    #[test]
    fn a_part_that_has_not_followed_yet_has_other_terms() {
        let row = CampaignFacts {
            terms_revision: 6,
            unit_price_minor: Some(400),
            ..sale()
        };
        let part = |index| ComparedCampaign {
            parts: 2,
            index,
            ..compared(sale(), row, &[])
        };
        assert_eq!(kinds(&part(1)), []);
        let expected = [
            DifferenceKind::PriceDiffers,
            DifferenceKind::TermsRevisionDiffers,
        ];
        assert_eq!(kinds(&part(0)), expected);
    }
}
