//! Facts of campaigns that reconciliation compares: phase, supply, money, window and the other terms.
//!
//! Entries of the log that are not settled yet are applied to the ledger's facts first. So a change in flight is no
//! difference. The engine's facts have them already.

use std::fmt;

use super::compare::DifferenceKind;
use crate::{
    admission::AdmissionBound,
    campaign::{AckLevel, CampaignKind, Phase, SaleSettings},
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
    /// Money of a packet, in minor units, withheld shares included. `None` for sales, and for later parts.
    pub total_minor: Option<i64>,
    /// Time in which claims are accepted.
    pub window: Window,
    /// Maximum units per user.
    pub per_user_limit: u32,
    /// Price of one unit in minor units. `None` for packets.
    pub unit_price_minor: Option<i64>,
    /// Hold of orders, in milliseconds; 0 for packets.
    pub hold_ms: i64,
    /// Admission of a sale. `None` for packets.
    pub admission: Option<AdmissionBound>,
    /// Acknowledgement level.
    pub ack: AckLevel,
    /// Last change of the terms; 0 if there was none.
    pub terms_revision: Seq,
}

impl CampaignFacts {
    /// The same facts with these terms.
    #[must_use]
    pub(super) fn with_terms(self, terms: &SaleSettings) -> Self {
        Self {
            window: terms.window,
            per_user_limit: terms.per_user_limit,
            unit_price_minor: Some(terms.unit_price_minor),
            admission: Some(terms.admission),
            ..self
        }
    }

    /// Whether the terms are those of the other facts, by value and by revision.
    pub(super) fn has_terms_of(&self, other: &Self) -> bool {
        let terms = |it: &Self| {
            let values = (it.window, it.per_user_limit, it.unit_price_minor);
            (values, it.admission, it.terms_revision)
        };
        terms(self) == terms(other)
    }

    /// Applies an event of the campaign's log, except to the supply. Events about users' grants change nothing.
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Opened { .. } | Event::Resumed => self.phase = Phase::Scheduled,
            Event::Paused => self.phase = Phase::Paused,
            Event::Ended => self.phase = Phase::Ended,
            Event::Closed { .. } => self.phase = Phase::Closed,
            // The ledger may have the terms from the log of another part.
            Event::TermsChanged { revision, terms } if *revision > self.terms_revision => {
                *self = Self {
                    terms_revision: *revision,
                    ..self.with_terms(terms)
                };
            }
            _ => {}
        }
    }

    /// Kinds in which the facts differ, each with both values as text.
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
    /// Kind of the fact.
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
    /// Index of this part, from 0.
    pub index: u16,
    /// The engine's facts.
    pub engine: CampaignFacts,
    /// The ledger's facts of the part, with the entries in flight.
    pub ledger: CampaignFacts,
    /// The settled row of the ledger. Its phase is that of the whole campaign.
    pub row: CampaignFacts,
    /// Phase that follows from the settled phases of all parts, as `row` must have it. `None` if it was not read.
    pub parts_phase: Option<Phase>,
    /// Units that users have, as the row counts them.
    pub granted: u64,
    /// Units by which entries in flight raise the stock; below 0 if they lower it.
    pub units_in_flight: i64,
    /// The terms before the engine's last change of them, with their revision. `None` if the engine does not know them.
    pub terms_before: Option<(Seq, SaleSettings)>,
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
        let mut units_in_flight = 0_i64;
        for entry in in_flight.iter().filter(|entry| entry.campaign == campaign) {
            ledger.apply(&entry.event);
            if let Event::StockChanged { units } = &entry.event {
                units_in_flight = units_in_flight.saturating_add(*units);
            }
        }
        ledger.supply = row
            .supply
            .map(|supply| supply.saturating_add_signed(units_in_flight));
        Self {
            campaign,
            partition,
            parts,
            index,
            engine,
            ledger,
            row,
            parts_phase: None,
            granted: 0,
            units_in_flight,
            terms_before: None,
            settled,
        }
    }

    /// Differences between the sides. Terms of a part other than the first follow those of the first part. They are
    /// compared with the ledger only if both have the same revision.
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
        found.extend(self.differences_before_a_change());
        // Settlement changes the row and the parts in the same step.
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

    /// Whether a change of the terms is in the log and not settled.
    pub(super) fn changes_terms_in_flight(&self) -> bool {
        self.ledger.terms_revision > self.row.terms_revision
    }

    /// The row with the terms that it must have until a change in flight is settled; `None` if there is no such change,
    /// or the engine does not know these terms.
    pub(super) fn row_before_the_change(&self) -> Option<CampaignFacts> {
        let is_of_the_row = |before: &(Seq, SaleSettings)| before.0 == self.row.terms_revision;
        let before = self.terms_before.filter(is_of_the_row)?;
        let is_in_flight = self.changes_terms_in_flight();
        is_in_flight.then(|| self.row.with_terms(&before.1))
    }

    /// Differences in terms that settlement of a change in flight would hide. It replaces the row's terms, and records
    /// them as the terms of earlier orders.
    fn differences_before_a_change(&self) -> Vec<CampaignDifference> {
        let Some(before) = self.row_before_the_change() else {
            return Vec::new();
        };
        let found = before.differences(&self.row).into_iter();
        let found = found.map(|(kind, engine, ledger)| CampaignDifference {
            kind,
            campaign: self.campaign,
            engine: format!("{engine} before a change in flight"),
            ledger,
        });
        found.collect()
    }
}

/// Result of comparing a campaign's part once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CampaignComparison {
    /// There is nothing to compare. The partition has no part of the campaign, the campaign has left the engine, or one
    /// side does not have it at all.
    Absent,
    /// The facts were read at one moment. They may differ.
    Compared(Box<ComparedCampaign>),
    /// Something changed while it was read, or entries of the log cannot be read yet. Compare it again.
    Unsettled(NotCompared),
    /// It cannot be compared, now or a moment later.
    NotCompared(NotCompared),
}

/// Reason why a campaign's part is not compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NotCompared {
    /// The partition is halted or unreachable.
    #[error("the partition is not open: repair or resume it first")]
    NotOpen,
    /// A row or a field holds a value that was never written.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The same for a campaign whose first part is in another partition, while this partition has no part.
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
