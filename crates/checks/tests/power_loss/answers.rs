//! Recorded answers of the engine, and checks that files confirm them.

use std::{path::Path, time::Duration};

use qiang_core::{
    book::Claim,
    campaign::Phase,
    event::{PartitionId, Seq},
    id::{CampaignId, OrderId},
    order::OrderState,
    outcome::{Grant, Outcome},
    ports::{
        CampaignStore as _, Creation, Engine as _, HistoryStore as _, KeyStore as _,
        SettlementStore as _,
    },
};
use qiang_embedded::{DataFileError, Embedded};
use uuid::Uuid;

use qiang_testkit::campaign::OPENS;

use crate::{
    life::{FILE, archive, block_on, open_at},
    steps::LATER,
};

/// Time limit of settlement.
const SETTLED_MAX: Duration = Duration::from_secs(30);

/// Recorded answer.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    /// Number of operations on the files at the time of the answer.
    pub(crate) at: usize,
    /// The file that contains the answered change.
    pub(crate) file: &'static str,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Deposit(Uuid),
    Created(CampaignId),
    /// A large red packet. The check creates it again by the same request.
    CreatedUnder(Box<Creation>),
    Opened(CampaignId),
    Granted(Claim, Grant),
    Order(OrderId, OrderState),
    Settled(Seq),
    Closed(CampaignId),
    /// The file is being replaced. Until that is answered, a file without its log may be refused.
    Replacing,
    /// From here on, months of the log move to archives.
    Archiving,
    /// One month is archived.
    Archived,
}

/// Opens the files of a folder after a cut, repeats all requests answered before it, and runs the audit.
pub(crate) fn check(folder: &Path, facts: &[Fact], cut: usize) -> Result<(), String> {
    let known: Vec<&Fact> = facts.iter().filter(|fact| fact.at <= cut).collect();
    let is_replacing = known
        .iter()
        .any(|fact| matches!(fact.what, What::Replacing))
        && !known.iter().any(|fact| fact.file == "qiang.db.replaced");
    let mut files = vec![FILE];
    files.extend(known.iter().map(|fact| fact.file));
    let is = |what: fn(&What) -> bool| known.iter().filter(move |fact| what(&fact.what)).count();
    let is_archiving = is(|what| matches!(what, What::Archiving)) > 0;
    let archived = is(|what| matches!(what, What::Archived));
    let now = if is_archiving { LATER } else { OPENS };
    files.sort_unstable();
    files.dedup();
    for file in files {
        let path = folder.join(file);
        let embedded = match open_at(&path, now) {
            Err(DataFileError::Incomplete { .. }) if is_replacing => continue,
            opened => opened.map_err(|error| format!("{file}: {error}"))?,
        };
        let whats = known.iter().filter(|fact| fact.file == file);
        let whats: Vec<&What> = whats.map(|fact| &fact.what).collect();
        bears_out(&embedded, &whats).map_err(|what| format!("{file}: {what}"))?;
        if is_archiving {
            goes_on(&embedded, folder, archived).map_err(|what| format!("{file}: {what}"))?;
        }
        embedded.close();
        let report = qiang_audit::audit_with(&path, Some(folder));
        let report = report.map_err(|error| format!("{file}: {error:#}"))?;
        if let Some(broken) = report.checks.iter().find(|check| check.is_broken()) {
            return Err(format!("{file}: the audit found {broken:?}"));
        }
    }
    Ok(())
}

/// Checks that the log with its archives is complete right after the cut, and that the interrupted archiving continues.
fn goes_on(embedded: &Embedded, folder: &Path, archived: usize) -> Result<(), String> {
    let report = qiang_audit::audit_served_with(embedded.path(), Some(folder));
    let report = report.map_err(|error| format!("{error:#}"))?;
    if let Some(broken) = report.checks.iter().find(|check| check.is_broken()) {
        return Err(format!("the audit found {broken:?} as it was"));
    }
    let settled = embedded.await_settled(PartitionId(0), embedded.positions().0, SETTLED_MAX);
    match block_on(settled) {
        Ok(true) => {}
        other => return Err(format!("not settled: {other:?}")),
    }
    match archive(embedded, folder)? + archived {
        0 => Err("nothing is archived".to_owned()),
        _ => Ok(()),
    }
}

fn bears_out(embedded: &Embedded, whats: &[&What]) -> Result<(), String> {
    // All claims at once; otherwise each would need a separate commit.
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
            What::CreatedUnder(creation) => {
                let again = block_on(embedded.create_under((**creation).clone()));
                again.is_ok_and(|it| !it.fresh && it.id == creation.setup.campaign.id.uuid())
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
            What::Replacing | What::Archiving | What::Archived => true,
        };
        if !is_so {
            return Err(format!("lost: {what:?}"));
        }
    }
    Ok(())
}

/// Whether a retry got the same grant. Its order may have changed since.
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
