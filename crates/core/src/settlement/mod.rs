//! Settlement: what the entries of a log do to the ledger's rows, worked out without SQL and without IO.
//!
//! A ledger that settles a run of entries
//! 1. locks the partition's position and takes the entries behind it ([`fresh`]);
//! 2. reads what it knows of their campaigns, and, if the partition has entries in quarantine, lets [`sort`] take out
//!    those that have to wait for them;
//! 3. reads the orders that the others step ([`wanted_orders`]), and makes a [`Plan`] of them;
//! 4. writes what the plan says, in the order of its fields, and moves the position, in the same transaction.
//!
//! The databases differ in their SQL, and in nothing else. [`Bisect`] finds the entry because of which a run is
//! refused.

mod bisect;
mod discard;
mod life;
mod order_restoration;
mod orders;
mod plan;
mod postings;
mod rows;
mod sort;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeSet;

pub use self::{
    bisect::{Bisect, REFUSED_MAX, check_refused},
    discard::{Discarded, NOT_AN_ORDER},
    life::SpreadCampaign,
    order_restoration::{
        RemainingOrderColumns, RemainingPaymentColumns, RemainingPostingColumns, RemainingRows,
    },
    orders::wanted_orders,
    plan::{Close, Plan},
    rows::{
        CampaignChange, ClosedPart, KnownCampaign, KnownCampaignColumns, KnownOrder,
        KnownOrderColumns, NewOrder, OrderChange, PaymentRow, ReturnRow, ShareGrant, TermsRow,
    },
    sort::{Sorted, sort},
};
use crate::{
    event::{Entry, Seq},
    id::CampaignId,
    rows::Contradiction,
};

/// The entries behind a position. Those at or before it are settled already.
///
/// # Errors
/// When they do not follow the position without a gap.
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

/// Checks entries that stand in for those behind a position that are gone from the log: their places ascend, and lie
/// behind the position and at or before `upto`.
///
/// # Errors
/// When they do not.
pub fn check_stand_ins(entries: &[Entry], position: Seq, upto: Seq) -> Result<(), Contradiction> {
    let mut last = position;
    for entry in entries {
        if entry.seq <= last || entry.seq > upto {
            let reason = format!("entry {} cannot stand between {last} and {upto}", entry.seq);
            return Err(Contradiction::new(reason));
        }
        last = entry.seq;
    }
    Ok(())
}

/// The campaigns of entries, each once.
pub fn campaigns_of(entries: &[Entry]) -> Vec<CampaignId> {
    // A run is mostly one campaign's.
    let mut last = None;
    let other = |entry: &&Entry| last.replace(entry.campaign) != Some(entry.campaign);
    let ids: BTreeSet<_> = entries.iter().filter(other).map(|e| e.campaign).collect();
    ids.into_iter().collect()
}
