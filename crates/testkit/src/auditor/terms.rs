//! Window, limit and price of a sale, as changed by the logs.

use std::collections::BTreeMap;

use qiang_core::{
    campaign::{Campaign, Rules, Sale, SaleSettings},
    event::Seq,
};

/// Terms that a sale has had; empty for a red packet.
#[derive(Debug, Clone)]
pub(super) struct SaleTerms {
    first: Option<SaleSettings>,
    /// Changed terms by log, in order.
    later: BTreeMap<usize, Vec<SaleSettings>>,
    /// The newest terms of all logs, with the revision of the change.
    last: (Seq, Option<SaleSettings>),
}

impl SaleTerms {
    pub(super) fn of(campaign: &Campaign) -> Self {
        Self {
            first: SaleSettings::from_campaign(campaign),
            later: BTreeMap::new(),
            last: (0, None),
        }
    }

    /// Records a change. It returns an error for a red packet.
    pub(super) fn change(
        &mut self,
        log: usize,
        revision: Seq,
        terms: SaleSettings,
    ) -> Result<(), String> {
        if self.first.is_none() {
            return Err("the terms of a red packet were changed".to_owned());
        }
        self.later.entry(log).or_default().push(terms);
        if revision > self.last.0 {
            self.last = (revision, Some(terms));
        }
        Ok(())
    }

    /// Copies the newest terms to the campaign. The stock that they need may be added later, by another log.
    pub(super) fn give(&self, campaign: &mut Campaign) {
        if let (_, Some(mut terms)) = self.last {
            let most = u32::try_from(campaign.supply()).unwrap_or(u32::MAX);
            terms.per_user_limit = terms.per_user_limit.min(most);
            terms.give(campaign);
        }
    }

    /// All terms of the sale so far, in any log.
    pub(super) fn had(&self) -> Vec<SaleSettings> {
        let later = self.later.values().flatten().copied();
        self.first.into_iter().chain(later).collect()
    }

    /// The terms in force in a log.
    pub(super) fn in_log(&self, log: usize) -> Option<SaleSettings> {
        let last = self.later.get(&log).and_then(|all| all.last());
        last.copied().or(self.first)
    }
}

/// Adds units to the stock of a sale, or removes them.
pub(super) fn change_stock(
    campaign: &mut Campaign,
    units: i64,
    is_spread: bool,
) -> Result<(), String> {
    let Rules::Sale(sale) = &mut campaign.rules else {
        return Err("a red packet has no stock to change".to_owned());
    };
    let stock = sale.stock().saturating_add_signed(units);
    let mut limit = sale.per_user_limit();
    if is_spread {
        // The terms may be newer ones from another log.
        limit = limit.min(u32::try_from(stock).unwrap_or(u32::MAX));
    }
    let changed = Sale::new(stock, limit, sale.unit_price(), sale.hold_ms());
    let changed = changed.map_err(|error| error.to_string())?;
    *sale = changed.with_admission(sale.admission());
    Ok(())
}
