//! Plan of the discard of a quarantined grant.

use super::{
    plan::{Planner, SettlementPlan},
    rows::KnownCampaign,
};
use crate::{
    campaign::CampaignKind,
    event::{Entry, Event, PartitionId, Seq},
    money::Money,
    ports::Discard,
    rows::{AccountPurpose, Contradiction, DiscardState, OUTSIDE},
};

/// Reason why an entry cannot be discarded.
pub const NOT_AN_ORDER: &str = "only the grant of a sale that the ledger has can be discarded";

impl<'a> SettlementPlan<'a> {
    /// Plans the discard of an order's grant, together with all later `steps` of the order. `steps` begins with the
    /// grant, and is sorted by position. None of the steps has changed a row. `closed` is the position of the
    /// campaign's close, if that is in quarantine as well.
    ///
    /// The effects of the steps on units add up to zero, unless units were restocked after the close: then the owner
    /// has them. Refunds of received payments become due. Returns `None` while the order still has units.
    ///
    /// # Errors
    /// If the first step is not the grant of an order, or its campaign is not known.
    pub fn from_discard(
        partition: PartitionId,
        steps: &'a [Entry],
        known: &'a [KnownCampaign],
        closed: Option<Seq>,
    ) -> Result<Option<Self>, Contradiction> {
        let ([known], [grant, steps @ ..]) = (known, steps) else {
            return Err(Contradiction::new(NOT_AN_ORDER));
        };
        let (
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                ..
            },
            CampaignKind::Sale,
        ) = (&grant.event, known.kind)
        else {
            return Err(Contradiction::new(NOT_AN_ORDER));
        };
        let mut quantity = i64::from(*quantity);
        // Units that the order still has, and the positions and units of steps that restocked some.
        let (mut left, mut back) = (quantity, Vec::new());
        for step in steps {
            let units = match &step.event {
                Event::Cancelled { .. }
                | Event::Expired { .. }
                | Event::Returned { part: None, .. } => left,
                Event::Returned {
                    part: Some(part), ..
                } => left.min(part.quantity.into()),
                Event::PartCancelled { part, .. } => {
                    let units = left.min(part.quantity.into());
                    quantity -= units;
                    units
                }
                Event::Reinstated { .. } => {
                    (left, back) = (quantity, Vec::new());
                    0
                }
                _ => 0,
            };
            if units > 0 {
                left -= units;
                back.push((step.seq, units));
            }
        }
        if left > 0 {
            return Ok(None);
        }
        let mut planner = Planner::new(partition, std::slice::from_ref(known), &[]);
        let campaign = &mut planner.campaigns[0];
        campaign.touched = true;
        for (seq, units) in back {
            if campaign.life.is_closed() || closed.is_some_and(|closed| closed < seq) {
                campaign.change.returned += units;
            }
        }
        for step in steps {
            let price = Money::new(*amount_minor, known.currency);
            let paid = step.event.received().map(|received| received.money(price));
            if let Some(paid) = paid.filter(|paid| paid.minor > 0) {
                let debit = planner.account_in(paid.currency, OUTSIDE, AccountPurpose::Outside);
                let credit =
                    planner.account_in(paid.currency, user.as_str(), AccountPurpose::RefundsDue);
                let (accounts, number) = ((debit, credit), Some(i64::from(*number)));
                planner.post(known, step, "refund_due", accounts, paid.minor, number)?;
            }
        }
        Ok(Some(planner.into_plan()))
    }
}

impl Discard {
    /// Checks that an entry is the refused grant of a sale in the ledger. `waits_for` is the entry that it waits for,
    /// and that entry's discard state. A grant that waits for a discarded entry may be discarded too, because nothing
    /// else can end its wait.
    ///
    /// # Errors
    /// If the entry cannot be discarded.
    pub fn check(
        entry: &Entry,
        known: &[KnownCampaign],
        waits_for: Option<(i64, i64)>,
    ) -> Result<(), Contradiction> {
        let is_sale = matches!(known, [known] if known.kind == CampaignKind::Sale);
        if !is_sale || !matches!(entry.event, Event::Granted { .. }) {
            return Err(Contradiction::new(NOT_AN_ORDER));
        }
        match waits_for.filter(|(_, discard)| !DiscardState::is_over(*discard)) {
            None => Ok(()),
            Some((before, _)) => Err(Contradiction::new(format!(
                "entry {} was not refused itself: it waits for entry {before}",
                entry.seq
            ))),
        }
    }

    /// Collects the entries that belong to the grant at a position. `kept` has all quarantined entries of its campaign
    /// in its partition, by position, with their discard states. Returns `None` if the grant is not among them.
    #[must_use]
    pub fn sort(seq: Seq, kept: &[(Entry, i64)]) -> Option<DiscardedEntry> {
        let grant = kept.iter().find(|(entry, _)| entry.seq == seq)?;
        let number = grant.0.event.number()?;
        let is_own = |entry: &Entry| entry.event.number() == Some(number);
        let (over, live): (Vec<_>, Vec<_>) = kept
            .iter()
            .partition(|(_, discard)| DiscardState::is_over(*discard));
        let live = || live.iter().map(|(entry, _)| entry);
        let closes = |entry: &&Entry| matches!(entry.event, Event::Closed { .. });
        Some(DiscardedEntry {
            steps: live()
                .filter(|entry| entry.seq >= seq && is_own(entry))
                .cloned()
                .collect(),
            closed: live().find(closes).map(|entry| entry.seq),
            again: over.iter().any(|(entry, _)| is_own(entry)),
        })
    }
}

/// Entries that belong to a grant that is being discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardedEntry {
    /// The grant, and the later steps of its order.
    pub steps: Vec<Entry>,
    /// Position of the campaign's close, if it is in quarantine.
    pub closed: Option<Seq>,
    /// Whether the same order was discarded before. A repair of the engine has then recreated it, and the ledger has
    /// the effects already.
    pub again: bool,
}
