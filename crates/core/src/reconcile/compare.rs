//! Differences between an engine and a ledger.

use std::{collections::BTreeSet, fmt};

use super::rows::{GrantRow, PartRows};
use crate::{
    event::{Entry, PartitionId},
    id::{CampaignId, UserId},
    order::OrderState,
    time::Timestamp,
};

/// Kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// The log has unsettled entries about the grant. This is no fault.
    InFlight,
    /// The engine has the grant, and the ledger will not get it from the log.
    MissingInLedger,
    /// The ledger has the grant, and the engine does not.
    MissingInEngine,
    /// Both have the grant, with different units or money.
    AmountDiffers,
    /// Two users have the same number, or one user exceeds the limit on both sides together.
    Double,
    /// The order has another state or end of its hold, or a payment another outcome.
    StateDiffers,
    /// The engine counts other units for a user of a sale than the user has by orders.
    UserDiffers,
    /// Recorded phase of a campaign, or of a part of one.
    PhaseDiffers,
    /// Stock of a sale, or number of shares of a packet.
    SupplyDiffers,
    /// Money of a packet.
    TotalDiffers,
    /// Start or end of a campaign.
    WindowDiffers,
    /// Units that one user may have.
    LimitDiffers,
    /// Price of one unit.
    PriceDiffers,
    /// Time for which unpaid orders hold their units.
    HoldDiffers,
    /// Admission of a sale.
    AdmissionDiffers,
    /// Acknowledgement level of a campaign.
    AckDiffers,
    /// Last change of a sale's terms.
    TermsRevisionDiffers,
}

impl DifferenceKind {
    /// Kinds that are faults.
    pub const FAULTS: [Self; 16] = [
        Self::MissingInLedger,
        Self::MissingInEngine,
        Self::AmountDiffers,
        Self::Double,
        Self::StateDiffers,
        Self::UserDiffers,
        Self::PhaseDiffers,
        Self::SupplyDiffers,
        Self::TotalDiffers,
        Self::WindowDiffers,
        Self::LimitDiffers,
        Self::PriceDiffers,
        Self::HoldDiffers,
        Self::AdmissionDiffers,
        Self::AckDiffers,
        Self::TermsRevisionDiffers,
    ];

    /// Name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::MissingInLedger => "missing_in_ledger",
            Self::MissingInEngine => "missing_in_engine",
            Self::AmountDiffers => "amount_differs",
            Self::Double => "double",
            Self::StateDiffers => "state_differs",
            Self::UserDiffers => "user_differs",
            Self::PhaseDiffers => "phase_differs",
            Self::SupplyDiffers => "supply_differs",
            Self::TotalDiffers => "total_differs",
            Self::WindowDiffers => "window_differs",
            Self::LimitDiffers => "limit_differs",
            Self::PriceDiffers => "price_differs",
            Self::HoldDiffers => "hold_differs",
            Self::AdmissionDiffers => "admission_differs",
            Self::AckDiffers => "ack_differs",
            Self::TermsRevisionDiffers => "terms_revision_differs",
        }
    }

    /// Whether it is about terms, which later parts of a spread sale copy from the first one.
    pub(super) fn is_of_terms(self) -> bool {
        matches!(
            self,
            Self::WindowDiffers
                | Self::LimitDiffers
                | Self::PriceDiffers
                | Self::AdmissionDiffers
                | Self::TermsRevisionDiffers
        )
    }
}

/// Findings of the reconciliation of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFindings {
    /// The partition.
    pub partition: PartitionId,
    /// Number of differences of each kind that is a fault.
    pub differences: Vec<(DifferenceKind, u64)>,
    /// Units that repairs withhold, as recorded in the ledger.
    pub withheld: u64,
    /// Campaigns that repairs have taken out of service.
    pub out_of_service: u64,
    /// Last time at which rows or facts of a campaign were compared. `None` if no campaign was live since the process
    /// began.
    pub ran_at: Option<Timestamp>,
    /// Last time at which all live campaigns had been compared.
    pub passed_at: Option<Timestamp>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// Campaign.
    pub campaign: CampaignId,
    /// Number of the grant. For the units of a user, number of the user's last order, or 0.
    pub number: u32,
    /// User of the grant in the engine; if the engine lacks it, user in the ledger.
    pub user: UserId,
    /// The engine's row; empty if there is none.
    pub engine: String,
    /// The ledger's row, or the kept answer; empty if there is none. For the units of a user, the user's orders in the
    /// engine.
    pub ledger: String,
}

impl Difference {
    pub(super) fn new(
        kind: DifferenceKind,
        campaign: CampaignId,
        number: u32,
        engine: Option<&GrantRow>,
        ledger: Option<&GrantRow>,
    ) -> Option<Self> {
        let text = |row: Option<&GrantRow>| row.map(describe).unwrap_or_default();
        Some(Self {
            kind,
            campaign,
            number,
            user: engine.or(ledger)?.user.clone(),
            engine: text(engine),
            ledger: text(ledger),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            campaign,
            number,
            engine,
            ledger,
            user,
        } = self;
        let or_nothing = |text: &str| if text.is_empty() { "nothing" } else { text }.to_owned();
        let (engine, ledger) = (or_nothing(engine), or_nothing(ledger));
        if *kind == DifferenceKind::UserDiffers {
            let kind = kind.name();
            return write!(
                f,
                "{kind}: {campaign}: user {user}: engine {engine}; orders {ledger}"
            );
        }
        let kind = kind.name();
        write!(
            f,
            "{kind}: {campaign}-{number}: engine {engine}; ledger {ledger}"
        )
    }
}

/// Differences between the engine's and the ledger's rows of a part, given the part's unsettled entries. The rows may
/// be read at different moments: a grant with an entry in flight is in flight, whichever of its states was read.
#[must_use]
pub fn compare(
    campaign: CampaignId,
    engine: &PartRows,
    ledger: &PartRows,
    in_flight: &[Entry],
) -> Vec<Difference> {
    let of_part = in_flight.iter().filter(|entry| entry.campaign == campaign);
    let flying: BTreeSet<u32> = of_part.filter_map(|entry| entry.event.number()).collect();
    let numbers: BTreeSet<u32> = engine
        .grants
        .keys()
        .chain(ledger.grants.keys())
        .copied()
        .collect();
    let mut found = Vec::new();
    for number in numbers.iter().copied() {
        let (ours, theirs) = (engine.grants.get(&number), ledger.grants.get(&number));
        let kind = match flying.contains(&number) {
            true => Some(DifferenceKind::InFlight),
            false => kind_of(ours, theirs).or_else(|| payments(engine, ledger, number)),
        };
        found.extend(kind.and_then(|kind| Difference::new(kind, campaign, number, ours, theirs)));
    }
    mark_doubles(&mut found);
    found
}

fn kind_of(engine: Option<&GrantRow>, ledger: Option<&GrantRow>) -> Option<DifferenceKind> {
    let (engine, ledger) = match (engine, ledger) {
        (Some(engine), Some(ledger)) => (engine, ledger),
        (Some(_), None) => return Some(DifferenceKind::MissingInLedger),
        (None, Some(_)) => return Some(DifferenceKind::MissingInEngine),
        (None, None) => return None,
    };
    if engine.user != ledger.user {
        Some(DifferenceKind::Double)
    } else if (engine.quantity, engine.cancelled, engine.amount_minor)
        != (ledger.quantity, ledger.cancelled, ledger.amount_minor)
    {
        Some(DifferenceKind::AmountDiffers)
    } else {
        let same = (engine.state, engine.returned, engine.extension_ms)
            == (ledger.state, ledger.returned, ledger.extension_ms);
        (!same).then_some(DifferenceKind::StateDiffers)
    }
}

/// Difference in an order's payments, returns or cancellations, if there is one.
fn payments(engine: &PartRows, ledger: &PartRows, number: u32) -> Option<DifferenceKind> {
    let same = engine.payments_of(number).eq(ledger.payments_of(number))
        && engine.returns_of(number).eq(ledger.returns_of(number))
        && engine
            .cancellations_of(number)
            .eq(ledger.cancellations_of(number));
    (!same).then_some(DifferenceKind::StateDiffers)
}

/// Marks grants of users that have one grant only in the engine and another only in the ledger: such users have two.
fn mark_doubles(found: &mut [Difference]) {
    let users = |kind: DifferenceKind| -> BTreeSet<UserId> {
        let of_kind = found.iter().filter(|difference| difference.kind == kind);
        of_kind.map(|difference| difference.user.clone()).collect()
    };
    let in_engine = users(DifferenceKind::MissingInLedger);
    let both: BTreeSet<_> = users(DifferenceKind::MissingInEngine)
        .intersection(&in_engine)
        .cloned()
        .collect();
    for difference in found {
        let missing = matches!(
            difference.kind,
            DifferenceKind::MissingInLedger | DifferenceKind::MissingInEngine
        );
        if missing && both.contains(&difference.user) {
            difference.kind = DifferenceKind::Double;
        }
    }
}

/// Formats a row.
fn describe(row: &GrantRow) -> String {
    let GrantRow {
        user,
        quantity,
        amount_minor,
        state,
        returned,
        cancelled,
        extension_ms,
        ..
    } = row;
    let returned = match (state, returned) {
        (OrderState::Returned, _) | (_, 0) => String::new(),
        (_, units) => format!(", {units} returned"),
    };
    let cancelled = match cancelled {
        0 => String::new(),
        units => format!(", {units} cancelled"),
    };
    let extended = match extension_ms {
        0 => String::new(),
        millis => format!(", held {millis} ms longer"),
    };
    format!("{user} {quantity} {amount_minor} {state}{returned}{cancelled}{extended}")
}
