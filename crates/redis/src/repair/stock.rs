//! Stock of a sale whose first shard has lost something.
//!
//! Rows contain what users have, and not the number of units. That number is in the ledger up to the settled position,
//! in its quarantine, and in the hash of the first shard. If the ledger is ahead, the hash is an older state of Redis.
//! Then the stock in the ledger and its quarantine counts, so no removed unit is granted again. Otherwise the hash
//! reflects the whole log. If entries are still missing from the log, the repair appends their changes.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    event::{Event, PartitionId},
    id::CampaignId,
    ports::{EngineError, Ledger},
    reconcile::Repair,
    time::Timestamp,
};

use super::{Evidence, engine_error_from_ledger, sides::BothSides, terms::later};
use crate::shards::snapshot::Revised;

/// Quarantined entries per read.
const QUARANTINE_PAGE: u32 = 1_000;

/// Changes of sales by entries in quarantine.
#[derive(Default)]
pub(super) struct QuarantinedChanges {
    /// Change of the stock, in units.
    pub(super) stock: BTreeMap<CampaignId, i64>,
    /// The last terms.
    pub(super) terms: BTreeMap<CampaignId, Revised>,
    /// Campaigns whose rows or phase they change.
    pub(super) others: BTreeSet<CampaignId>,
}

/// Reads the changes by entries in quarantine. All of the log must be settled or quarantined before.
pub(super) async fn in_quarantine(
    partition: PartitionId,
    ledger: &dyn Ledger,
) -> Result<QuarantinedChanges, EngineError> {
    let mut changes = QuarantinedChanges::default();
    let mut after = (partition, 0);
    loop {
        let page = ledger.list_quarantined(Some(after), QUARANTINE_PAGE).await;
        let page = page.map_err(engine_error_from_ledger)?;
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
pub(super) struct SaleStock {
    /// All units, including withheld ones.
    pub(super) units: u64,
    /// Units of it that neither the log nor the ledger has.
    beyond: i64,
}

impl SaleStock {
    /// Stock by the first shard of a sale and the evidence about its partition.
    pub(super) fn from_sides(first: &BothSides, evidence: &Evidence) -> Self {
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

    /// Sets the supply of a sale that is not spread: this stock, less what it withholds.
    pub(super) fn give(self, part: &mut BothSides) {
        let withheld = part.snapshot.as_ref().map_or(0, |before| before.withheld.0);
        part.engine.supply = self.units.saturating_sub(withheld);
    }

    /// Raises the stock to the units of a spread sale's other shards. A lost entry must have added them there.
    pub(super) fn at_least(self, elsewhere: u64) -> Self {
        let more = elsewhere.saturating_sub(self.units);
        Self {
            units: self.units + more,
            beyond: self.beyond + more as i64,
        }
    }

    /// Appends the change of stock that the log has lost. Added units come before their grants, and removed units after
    /// all others are returned.
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
            assert_eq!(
                SaleStock::known(settled, remembered),
                SaleStock { units, beyond }
            );
        };
        check(10, None, 10, 0);
        check(10, Some(10), 10, 0);
        check(10, Some(4), 4, -6);
        check(10, Some(14), 14, 4);
        check(-1, None, 0, 1);
        let raised = SaleStock::known(10, None).at_least(12);
        assert_eq!((raised.units, raised.beyond), (12, 2));
        assert_eq!(
            SaleStock::known(10, Some(14)).at_least(12),
            SaleStock::known(10, Some(14))
        );
    }
}
