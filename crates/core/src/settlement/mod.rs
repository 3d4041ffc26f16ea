//! Settlement: computes the effects of log entries on the ledger's rows, without SQL and IO.
//!
//! A ledger settles a run of entries in these steps:
//! 1. It locks the partition's position, and keeps the entries after it ([`fresh`]).
//! 2. It reads what it knows of their campaigns. If the partition has quarantined entries, [`sort`] removes entries
//!    that must wait for them.
//! 3. It reads the orders that the other entries change ([`wanted_orders`]), and builds a [`Plan`].
//! 4. It writes the plan, in the order of its fields, and moves the position, in the same transaction.
//!
//! The databases differ only in their SQL. [`QuarantineBisect`] finds the entry for which a run is refused.

mod bisect;
mod campaign_life;
mod discard;
mod order_restoration;
mod orders;
mod plan;
mod postings;
mod rows;
#[cfg(test)]
mod tests;
mod triage;
mod webhook_events;

use std::collections::BTreeSet;

pub use self::{
    bisect::{QuarantineBisect, REFUSED_MAX, check_refused},
    campaign_life::SpreadCampaign,
    discard::{DiscardedEntry, NOT_AN_ORDER},
    order_restoration::{
        RemainingOrderColumns, RemainingPaymentColumns, RemainingPostingColumns,
        RemainingReturnColumns, RemainingRows, RemainingShareColumns,
    },
    orders::wanted_orders,
    plan::{PacketClose, SettlementPlan},
    rows::{
        CampaignChange, ClosedPart, KnownCampaign, KnownCampaignColumns, KnownOrder,
        KnownOrderColumns, NewOrder, OrderChange, PaymentRow, ReturnRow, SaleSettingsRow,
        ShareGrant,
    },
    triage::{SettlementTriage, sort},
};
use crate::{
    event::{Entry, Seq},
    id::CampaignId,
    rows::Contradiction,
};

/// The entries after a position. Entries up to the position are settled already.
///
/// # Errors
/// If they do not follow the position without a gap.
pub fn fresh(entries: &[Entry], position: Seq) -> Result<&[Entry], Contradiction> {
    let old = entries
        .iter()
        .take_while(|entry| entry.seq <= position)
        .count();
    let fresh = &entries[old..];
    for (expected, entry) in (position + 1..).zip(fresh) {
        if entry.seq != expected {
            return Err(Contradiction::new(format!(
                "settlement at {} was given entry {}",
                expected - 1,
                entry.seq
            )));
        }
    }
    Ok(fresh)
}

/// Checks entries that replace lost log entries after a position. Their positions must ascend, after `position` and up
/// to `upto`.
///
/// # Errors
/// If they do not.
pub fn check_stand_ins(entries: &[Entry], position: Seq, upto: Seq) -> Result<(), Contradiction> {
    let mut last = position;
    for entry in entries {
        if entry.seq <= last || entry.seq > upto {
            let reason = format!("entry {} is not between {last} and {upto}", entry.seq);
            return Err(Contradiction::new(reason));
        }
        last = entry.seq;
    }
    Ok(())
}

/// Distinct campaigns of entries.
pub fn campaigns_of(entries: &[Entry]) -> Vec<CampaignId> {
    // Entries of one campaign are usually adjacent.
    let mut last = None;
    let other = |entry: &&Entry| last.replace(entry.campaign) != Some(entry.campaign);
    let ids: BTreeSet<_> = entries.iter().filter(other).map(|e| e.campaign).collect();
    ids.into_iter().collect()
}
