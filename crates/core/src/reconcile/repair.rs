//! Repair of one part after a loss: one state made of everything that is known.

mod union;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::union::Union;
use super::{
    compare::{Difference, DifferenceKind},
    rows::{GrantRow, OwnerReturn, PartRows},
};
use crate::{
    book::PaymentOutcome,
    campaign::{CampaignKind, Phase},
    event::{Entry, Event},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::{OrderState, ReturnPart},
    payment::{PaymentState, ReceivedMoney},
    skipped_numbers::numbers_to_skip,
    time::Timestamp,
};

/// Immutable facts of a part of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartFacts {
    /// The campaign.
    pub campaign: CampaignId,
    /// Red packet or sale.
    pub kind: CampaignKind,
    /// Maximum units per user. `None` if the limit has changed, so the limit at each grant is unknown.
    pub limit: Option<u32>,
    /// Hold of orders, in milliseconds.
    pub hold_ms: i64,
    /// Currency of its amounts, if it is known. The engine's rows do not have it.
    pub currency: Option<Currency>,
    /// Whether the amounts of its shares were drawn before it opened.
    pub fixed_shares: bool,
    /// Number of partitions over which the campaign is spread.
    pub parts: u16,
    /// Index of this part, from 0.
    pub index: u16,
}

impl PartFacts {
    /// Campaign-wide number of the part's order with this ordinal. The first ordinal is 1.
    #[must_use]
    pub fn number_of(&self, ordinal: u32) -> u32 {
        u32::from(self.index) + 1 + u32::from(self.parts) * (ordinal - 1)
    }

    /// Ordinal of an order within the part, from 1.
    #[must_use]
    pub fn ordinal_of(&self, number: u32) -> u32 {
        (number - 1 - u32::from(self.index)) / u32::from(self.parts) + 1
    }

    /// Number of the part's ordinals to skip after the last known one; see [`numbers_to_skip`].
    #[must_use]
    pub fn ordinals_to_skip(&self, last: u32, chance: u32) -> u32 {
        let last = last.checked_sub(1).map_or(0, |_| self.number_of(last));
        numbers_to_skip(last, chance) / u32::from(self.parts)
    }

    fn is_lazy(&self) -> bool {
        self.kind == CampaignKind::RedPacket && !self.fixed_shares
    }
}

/// State of a part that the engine still has. If it has nothing, the state that the part had when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnginePart {
    /// Rows of the part.
    pub rows: PartRows,
    /// Number and amount of the shares that are not granted, in their order; empty for sales and lazy packets.
    pub shares: Vec<(u32, i64)>,
    /// Units that the part has granted or can grant, without units withheld earlier.
    pub supply: u64,
    /// Minor units of the same; 0 for a sale.
    pub funded_minor: i64,
    /// Orders, or grants of a lazy packet, that the part has numbered; 0 for shares in a list.
    pub numbered: u32,
}

/// Everything that is known of a part after a loss.
#[derive(Debug, Clone)]
pub struct Survey<'a> {
    /// Immutable facts.
    pub facts: PartFacts,
    /// State of the engine.
    pub engine: EnginePart,
    /// Rows of the ledger.
    pub ledger: PartRows,
    /// Remainder that went back to the owner; `None` if the ledger has not closed the part.
    pub closed: Option<OwnerReturn>,
    /// Whether the ledger has entries after the end of the engine's log.
    pub ledger_is_ahead: bool,
    /// Entries of the part that are in the log and not settled.
    pub in_flight: &'a [Entry],
    /// Entries after the end of the log that nodes have answered. The log has lost their positions.
    pub kept: &'a [Entry],
    /// Entries of the partition that were observed, but that no node can name.
    pub unnamed: u64,
    /// Numbers of grants that earlier repairs could not name. Units are already withheld for them.
    pub accounted: BTreeSet<u32>,
    /// Random number, if the engine has lost the whole log and the part. The ledger may be older than orders that users
    /// have, so the numbers of a sale continue at a distance. `None` if no number is skipped.
    pub skips: Option<u32>,
    /// Units that earlier repairs withhold of a part of a spread campaign. They are included in the units that the
    /// engine remembers, and their shares are the first ones.
    pub withheld: u64,
    /// Numbers of these shares; empty for a sale.
    pub withheld_shares: BTreeSet<u32>,
    /// Time for new decisions.
    pub now: Timestamp,
}

/// Units that are not granted, because a user may have received a grant of them in a lost answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WithheldUnits {
    /// Number of units.
    pub units: u64,
    /// Their minor units; 0 for a sale.
    pub amount_minor: i64,
    /// Their shares; empty for sales and lazy packets.
    pub shares: Vec<(u32, i64)>,
}

/// Plan of a part's repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Rows of the part after the repair.
    pub rows: PartRows,
    /// Numbers of rows that the engine lacks or has differently.
    pub changed: BTreeSet<u32>,
    /// Users of engine rows that are replaced, with the numbers of these rows.
    pub removed: Vec<(UserId, u32)>,
    /// Partial cancellations and returns of the engine that are not kept, by order and key, because the order has no
    /// unit left for them, or is no longer held.
    pub refused_parts: Vec<(u32, IdempotencyKey)>,
    /// Entries that neither the ledger nor the surviving log has, in an order in which they can be settled.
    pub append: Vec<(Timestamp, Event)>,
    /// Shares that are not granted.
    pub shares: Vec<(u32, i64)>,
    /// Units that this repair withholds, in addition to earlier repairs.
    pub withheld: WithheldUnits,
    /// Units that the part has granted or can grant, without the withheld ones.
    pub supply: u64,
    /// Minor units of the same; 0 for a sale.
    pub funded_minor: i64,
    /// Units that users have.
    pub granted: u64,
    /// Units that can still be granted.
    pub remaining: u64,
    /// Units that went back to the owner.
    pub returned: u64,
    /// Minor units that went back to the owner.
    pub refunded_minor: i64,
    /// Orders, or grants of a lazy packet, that are numbered; the next one follows. 0 for shares in a list.
    pub numbered: u32,
    /// Answers and engine rows that contradict the ledger and cannot be kept.
    pub conflicts: Vec<Difference>,
}

impl Survey<'_> {
    /// Units to withhold, as far as the part has them: those of earlier repairs, and the most that unnamed entries can
    /// have granted.
    pub(super) fn to_withhold(&self) -> u64 {
        let limit = self.facts.limit.map_or(u64::MAX, u64::from);
        let unnamed = self.unnamed.saturating_mul(limit);
        unnamed.saturating_add(self.withheld)
    }

    /// Units and minor units of a part that the ledger has closed: the users' ones, and the owner's returned ones.
    /// These totals are final, even if the engine has others.
    pub(super) fn closed_with(&self) -> Option<(u64, i64)> {
        let closed = self.closed?;
        let claimed = match self.facts.kind {
            CampaignKind::RedPacket => self.ledger.amount_minor(),
            CampaignKind::Sale => 0,
        };
        let units = self.ledger.granted() + closed.units;
        Some((units, claimed + closed.amount_minor))
    }

    /// Merges everything that is known. Rows of the ledger change only by later steps.
    #[must_use]
    pub fn repair(self) -> Repair {
        let mut settled = self.ledger.clone();
        for entry in self.in_flight {
            settled.apply(entry.at, &entry.event);
        }
        let mut union = Union::from_survey(&self, &settled);
        union.add_engine();
        union.add_kept();
        let append = union.entries_beyond(&settled);
        union.into_repair(append)
    }
}
