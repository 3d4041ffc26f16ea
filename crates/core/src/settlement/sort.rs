//! Which entries of a run can be settled, and which have to wait for entries in quarantine.

use std::{borrow::Cow, collections::HashMap};

use crate::{event::Entry, id::CampaignId, quarantine::Blockers, rows::QuarantineRow};

/// A run of entries, in those that can be settled now and those that go into quarantine behind others.
#[derive(Debug)]
pub struct Sorted<'a> {
    /// What can be settled.
    pub now: Cow<'a, [Entry]>,
    /// What has to wait.
    pub later: Vec<QuarantineRow>,
}

/// Sorts entries by what is in quarantine of their campaigns in this partition.
#[must_use]
pub fn sort<'a>(entries: &'a [Entry], mut blockers: HashMap<CampaignId, Blockers>) -> Sorted<'a> {
    let (mut now, mut later) = (Cow::Borrowed(entries), Vec::new());
    if blockers.is_empty() {
        return Sorted { now, later };
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
    Sorted { now, later }
}
