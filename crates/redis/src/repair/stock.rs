//! The stock of a sale whose first part has lost something.
//!
//! Rows say what users have, and not how many units there are. That stands in the ledger, as far as it has settled the
//! log, in its quarantine, and in the hash of the first part. Where the ledger is ahead, the hash is what Redis had
//! before: so a stock that the ledger has, or that waits in its quarantine, counts, and no unit that was taken out is
//! handed out again. Otherwise the hash is what all of the log has made of it. If entries are gone from the log all the
//! same, the repair appends what they have changed.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    event::{Event, PartitionId},
    id::CampaignId,
    ports::{EngineError, Ledger},
    reconcile::Repair,
    time::Timestamp,
};

use super::{Evidence, of_ledger, sides::BothSides, terms::later};
use crate::shards::snapshot::Revised;

/// Entries in quarantine that are read at a time.
const QUARANTINE_PAGE: u32 = 1_000;

/// What entries in quarantine change about sales.
#[derive(Default)]
pub(super) struct Changes {
    /// By how many units they change the stock.
    pub(super) stock: BTreeMap<CampaignId, i64>,
    /// The last terms.
    pub(super) terms: BTreeMap<CampaignId, Revised>,
    /// Campaigns whose rows or phase they change.
    pub(super) others: BTreeSet<CampaignId>,
}

/// What the entries in quarantine change. It is read when all of the log is settled or quarantined.
pub(super) async fn in_quarantine(
    partition: PartitionId,
    ledger: &dyn Ledger,
) -> Result<Changes, EngineError> {
    let mut changes = Changes::default();
    let mut after = (partition, 0);
    loop {
        let page = ledger.list_quarantined(Some(after), QUARANTINE_PAGE).await;
        let page = page.map_err(of_ledger)?;
        let is_last = page.len() < QUARANTINE_PAGE as usize;
        for quarantined in page {
            if quarantined.partition != partition {
                return Ok(changes);
            }
            after.1 = quarantined.entry.seq;
            let campaign = quarantined.entry.campaign;
            match quarantined.entry.event {
                Event::StockChanged { units } => {
                    *changes.stock.entry(campaign).or_default() += units;
                }
                Event::TermsChanged { revision, terms } => {
                    let known = changes.terms.entry(campaign).or_insert((revision, terms));
                    *known = later(*known, (revision, terms));
                }
                _ => {
                    changes.others.insert(campaign);
                }
            }
        }
        if is_last {
            return Ok(changes);
        }
    }
}

/// The stock of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stock {
    /// Units in all, those that are withheld included.
    pub(super) units: u64,
    /// What neither the log nor the ledger has of it.
    beyond: i64,
}

impl Stock {
    /// The stock, from the first part of a sale and what is known of its partition.
    pub(super) fn of(first: &BothSides, evidence: &Evidence) -> Self {
        let remembered = first.snapshot.as_ref().and_then(|it| it.stock);
        let quarantined = evidence.quarantined.stock.get(&first.facts.campaign);
        Self::known(
            first.campaign.supply() as i64 + quarantined.copied().unwrap_or(0),
            remembered.filter(|_| !evidence.noted.ledger_is_ahead),
        )
    }

    fn known(settled: i64, remembered: Option<u64>) -> Self {
        let units = remembered.map_or(settled, |units| units as i64).max(0);
        Self {
            units: units as u64,
            beyond: units - settled,
        }
    }

    /// Gives a sale that is not spread this stock, less what it withholds.
    pub(super) fn give(self, part: &mut BothSides) {
        let withheld = part.snapshot.as_ref().map_or(0, |before| before.withheld.0);
        part.engine.supply = self.units.saturating_sub(withheld);
    }

    /// The other parts of a spread sale have so many units: what nobody knows any more has brought them there.
    pub(super) fn at_least(self, elsewhere: u64) -> Self {
        let more = elsewhere.saturating_sub(self.units);
        Self {
            units: self.units + more,
            beyond: self.beyond + more as i64,
        }
    }

    /// Has the log say what it has lost of the stock: units come before they are granted, and go when all others are
    /// back.
    pub(super) fn append(self, repair: &mut Repair, now: Timestamp) {
        if self.beyond == 0 {
            return;
        }
        let place = |is: fn(&Event) -> bool| repair.append.iter().position(|(_, event)| is(event));
        let opened = place(|event| matches!(event, Event::Opened { .. }));
        let over = place(|event| matches!(event, Event::Ended | Event::Closed { .. }));
        let at = match self.beyond > 0 {
            true => opened.map_or(0, |opened| opened + 1),
            false => over.unwrap_or(repair.append.len()),
        };
        let units = self.beyond;
        repair
            .append
            .insert(at, (now, Event::StockChanged { units }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_counts_unless_the_ledger_is_ahead() {
        let check = |settled, remembered, units, beyond| {
            assert_eq!(Stock::known(settled, remembered), Stock { units, beyond });
        };
        check(10, None, 10, 0);
        check(10, Some(10), 10, 0);
        check(10, Some(4), 4, -6);
        check(10, Some(14), 14, 4);
        check(-1, None, 0, 1);
        let raised = Stock::known(10, None).at_least(12);
        assert_eq!((raised.units, raised.beyond), (12, 2));
        assert_eq!(
            Stock::known(10, Some(14)).at_least(12),
            Stock::known(10, Some(14))
        );
    }
}
