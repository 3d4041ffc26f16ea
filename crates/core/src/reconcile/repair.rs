//! One state of a part, made of everything that is known of it after a loss.

mod union;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::union::Union;
use super::{
    compare::{Difference, DifferenceKind},
    rows::{GoneBack, GrantRow, PartRows},
};
use crate::{
    book::PaymentOutcome,
    campaign::{CampaignKind, Phase},
    event::{Entry, Event},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    order::{OrderState, ReturnPart},
    payment::PaymentState,
    time::Timestamp,
};

/// What never changes about a part of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartFacts {
    /// The campaign.
    pub campaign: CampaignId,
    /// What it is.
    pub kind: CampaignKind,
    /// Units that one user may have; none where that has changed, and it is not known what a grant met.
    pub limit: Option<u32>,
    /// How long orders hold their units, in milliseconds.
    pub hold_ms: i64,
    /// Whether the amounts of its shares were drawn before it opened.
    pub fixed_shares: bool,
    /// Over how many partitions it is spread.
    pub parts: u16,
    /// Which of these parts this is, from 0.
    pub index: u16,
}

impl PartFacts {
    /// The number of the part's order with this place, from 1.
    #[must_use]
    pub fn number_of(&self, ordinal: u32) -> u32 {
        u32::from(self.index) + 1 + u32::from(self.parts) * (ordinal - 1)
    }

    /// The place of an order among those of the part, from 1.
    #[must_use]
    pub fn ordinal_of(&self, number: u32) -> u32 {
        (number - 1 - u32::from(self.index)) / u32::from(self.parts) + 1
    }

    fn is_lazy(&self) -> bool {
        self.kind == CampaignKind::RedPacket && !self.fixed_shares
    }
}

/// What the engine still has of a part; or, where it has nothing, what the part was given when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnginePart {
    /// Its rows.
    pub rows: PartRows,
    /// Number and amount of the shares to come, in their order; empty for sales and lazy packets.
    pub shares: Vec<(u32, i64)>,
    /// Units that the part has handed out or can hand out. Units withheld earlier are not among them.
    pub supply: u64,
    /// Minor units of the same; 0 for a sale.
    pub funded_minor: i64,
    /// How many orders, or grants of a lazy packet, the part has numbered; 0 for shares that wait in a list.
    pub numbered: u32,
}

/// Everything that is known of a part after a loss.
#[derive(Debug, Clone)]
pub struct Survey<'a> {
    /// What never changes.
    pub facts: PartFacts,
    /// What the engine has.
    pub engine: EnginePart,
    /// What the ledger has.
    pub ledger: PartRows,
    /// What has gone back to the owner; none where the ledger has not closed the part.
    pub closed: Option<GoneBack>,
    /// Whether the ledger has entries that the engine's log does not reach to.
    pub ledger_is_ahead: bool,
    /// The part's entries that survived in the log and are not settled.
    pub in_flight: &'a [Entry],
    /// Entries past the end of the log that nodes have answered. Their places in the log are gone.
    pub kept: &'a [Entry],
    /// Entries of the partition that were observed, and that nobody can name.
    pub unnamed: u64,
    /// Numbers whose grants nobody could name in earlier repairs: what was withheld for them then is accounted for.
    pub accounted: BTreeSet<u32>,
    /// Units of a part of a spread campaign that earlier repairs withhold. They are among the units that the engine
    /// remembers; shares are the first ones.
    pub withheld: u64,
    /// Numbers of these shares; empty for a sale.
    pub withheld_shares: BTreeSet<u32>,
    /// The time, for what is decided now.
    pub now: Timestamp,
}

/// Units that are not handed out, because somebody may have been told that they have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Withheld {
    /// So many.
    pub units: u64,
    /// Their minor units; 0 for a sale.
    pub amount_minor: i64,
    /// The shares; empty for sales and lazy packets.
    pub shares: Vec<(u32, i64)>,
}

/// What to do to a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The part's rows from now on.
    pub rows: PartRows,
    /// Numbers of the rows that the engine lacks or has otherwise.
    pub changed: BTreeSet<u32>,
    /// Users whose rows in the engine give way to others, with the numbers that they had.
    pub removed: Vec<(UserId, u32)>,
    /// Returns of the engine that are not kept, by order and key: the order has no unit left for them.
    pub refused_returns: Vec<(u32, IdempotencyKey)>,
    /// Entries that neither the ledger nor the surviving log has, in an order in which they can be settled.
    pub append: Vec<(Timestamp, Event)>,
    /// The shares to come.
    pub shares: Vec<(u32, i64)>,
    /// What is withheld from now on, beside what was before.
    pub withheld: Withheld,
    /// Units that the part has handed out or can hand out, without the withheld ones.
    pub supply: u64,
    /// Minor units of the same; 0 for a sale.
    pub funded_minor: i64,
    /// Units that users have.
    pub granted: u64,
    /// Units that can still be had.
    pub remaining: u64,
    /// Units that went back to the owner.
    pub returned: u64,
    /// Minor units that went back to the owner.
    pub refunded_minor: i64,
    /// How many orders, or grants of a lazy packet, are numbered; the next one follows. 0 for shares in a list.
    pub numbered: u32,
    /// Answers and rows of the engine that cannot be kept beside what the ledger has.
    pub conflicts: Vec<Difference>,
}

impl Survey<'_> {
    /// Units that are withheld if the part has as many: those of earlier repairs, and the most that entries without a
    /// name can have taken.
    pub(super) fn to_withhold(&self) -> u64 {
        let limit = self.facts.limit.map_or(u64::MAX, u64::from);
        let unnamed = self.unnamed.saturating_mul(limit);
        unnamed.saturating_add(self.withheld)
    }

    /// Units and minor units that a part has which the ledger has closed: what users have, and what has gone back. No
    /// unit comes to it or leaves it any more, whatever the engine remembers.
    pub(super) fn closed_with(&self) -> Option<(u64, i64)> {
        let closed = self.closed?;
        let claimed = match self.facts.kind {
            CampaignKind::RedPacket => self.ledger.amount_minor(),
            CampaignKind::Sale => 0,
        };
        let units = self.ledger.granted() + closed.units;
        Some((units, claimed + closed.amount_minor))
    }

    /// Unites what is known. Rows of the ledger stay as they are, but for steps that came later.
    #[must_use]
    pub fn repair(self) -> Repair {
        let mut settled = self.ledger.clone();
        for entry in self.in_flight {
            settled.apply(entry.at, &entry.event);
        }
        let mut union = Union::of(&self, &settled);
        union.add_engine();
        union.add_kept();
        let append = union.entries_beyond(&settled);
        union.into_repair(append)
    }
}
