//! Splits a run into entries that can be settled and entries that must wait for quarantined ones.

use std::{borrow::Cow, collections::HashMap};

use crate::{event::Entry, id::CampaignId, quarantine::QuarantineBlockers, rows::QuarantineRow};

/// A run of entries, split into those for settlement and those for quarantine.
#[derive(Debug)]
pub struct SettlementTriage<'a> {
    /// Entries that can be settled.
    pub now: Cow<'a, [Entry]>,
    /// Entries that must wait.
    pub later: Vec<QuarantineRow>,
}

/// Splits entries by the quarantined entries of their campaigns in this partition.
#[must_use]
pub fn sort<'a>(
    entries: &'a [Entry],
    mut blockers: HashMap<CampaignId, QuarantineBlockers>,
) -> SettlementTriage<'a> {
    let (mut now, mut later) = (Cow::Borrowed(entries), Vec::new());
    if blockers.is_empty() {
        return SettlementTriage { now, later };
    }
    now.to_mut().retain(|entry| {
        let blockers = blockers.get_mut(&entry.campaign);
        let Some((blockers, before)) = blockers.and_then(|b| b.before(entry).map(|seq| (b, seq)))
        else {
            return true;
        };
        later.push(QuarantineRow::waiting(entry, before));
        blockers.add(entry);
        false
    });
    SettlementTriage { now, later }
}
