//! What was answered, and whether files bear it out.

use std::path::Path;

use qiang_core::{
    book::Claim,
    campaign::Phase,
    event::Seq,
    id::{CampaignId, OrderId},
    order::OrderState,
    outcome::{Grant, Outcome},
    ports::{CampaignStore as _, Engine as _, HistoryStore as _},
};
use qiang_embedded::{Embedded, StoreError};
use uuid::Uuid;

use crate::life::{FILE, block_on, open};

/// Something that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// How much had been done to the files when the answer came.
    pub(crate) at: usize,
    /// Which file has it.
    pub(crate) file: &'static str,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Deposit(Uuid),
    Created(CampaignId),
    Opened(CampaignId),
    Granted(Claim, Grant),
    Order(OrderId, OrderState),
    Settled(Seq),
    Closed(CampaignId),
    /// A file is being replaced: until that is answered, one that lacks its log may be refused.
    Replacing,
}

/// Opens the files of a folder as they were found after a cut, asks again for all that was answered before it, and has
/// them audited.
pub(crate) fn check(folder: &Path, facts: &[Fact], cut: usize) -> Result<(), String> {
    let known: Vec<&Fact> = facts.iter().filter(|fact| fact.at <= cut).collect();
    let is_replacing = known
        .iter()
        .any(|fact| matches!(fact.what, What::Replacing))
        && !known.iter().any(|fact| fact.file == "qiang.db.replaced");
    let mut files = vec![FILE];
    files.extend(known.iter().map(|fact| fact.file));
    files.sort_unstable();
    files.dedup();
    for file in files {
        let path = folder.join(file);
        let embedded = match open(&path) {
            Err(StoreError::Incomplete { .. }) if is_replacing => continue,
            opened => opened.map_err(|error| format!("{file}: {error}"))?,
        };
        let whats = known.iter().filter(|fact| fact.file == file);
        let whats: Vec<&What> = whats.map(|fact| &fact.what).collect();
        bears_out(&embedded, &whats).map_err(|what| format!("{file}: {what}"))?;
        embedded.close();
        let report = qiang_audit::audit(&path).map_err(|error| format!("{file}: {error:#}"))?;
        if let Some(broken) = report.checks.iter().find(|check| check.is_broken()) {
            return Err(format!("{file}: the audit found {broken:?}"));
        }
    }
    Ok(())
}

fn bears_out(embedded: &Embedded, whats: &[&What]) -> Result<(), String> {
    // All at once: one by one, each would be a commit of its own.
    let again = whats.iter().map(|what| match what {
        What::Granted(claim, _) => Some(embedded.claim(claim.clone())),
        _ => None,
    });
    let again: Vec<_> = again.collect();
    for (what, again) in whats.iter().zip(again) {
        let is_so = match what {
            What::Deposit(id) => {
                block_on(embedded.deposit_of(*id)).is_ok_and(|found| found.is_some())
            }
            What::Created(id) => {
                block_on(embedded.campaign(*id)).is_ok_and(|found| found.is_some())
            }
            What::Opened(id) => block_on(embedded.tally(*id)).is_ok_and(|tally| tally.is_some()),
            What::Granted(_, grant) => {
                let outcome = again.map(block_on).and_then(Result::ok);
                match outcome.map(|claimed| claimed.outcome) {
                    Some(Outcome::AlreadyGranted(found)) => is_same(&found, grant),
                    _ => false,
                }
            }
            What::Order(order, state) => {
                let view = block_on(embedded.order(*order)).ok().flatten();
                view.and_then(|view| view.grant.order)
                    .map(|order| order.state)
                    == Some(*state)
            }
            What::Settled(seq) => embedded.positions().1 >= *seq,
            What::Closed(id) => {
                let tally = block_on(embedded.tally(*id)).ok().flatten();
                tally.is_some_and(|tally| tally.phase == Phase::Closed)
            }
            What::Replacing => true,
        };
        if !is_so {
            return Err(format!("lost: {what:?}"));
        }
    }
    Ok(())
}

/// Whether a retry was answered with the same grant. Its order may have gone on.
fn is_same(found: &Grant, grant: &Grant) -> bool {
    let of = |grant: &Grant| {
        (
            grant.number,
            grant.quantity,
            grant.amount_minor,
            grant.granted_at,
        )
    };
    of(found) == of(grant)
}
