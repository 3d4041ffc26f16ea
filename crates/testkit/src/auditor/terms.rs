//! Window, limit and price of a sale, as the logs have changed them.

use std::collections::BTreeMap;

use qiang_core::{
    campaign::{Campaign, Rules, Sale, Terms},
    event::Seq,
};

/// The terms that a sale has had; none of a packet.
#[derive(Debug, Clone)]
pub(super) struct SaleTerms {
    first: Option<Terms>,
    /// All that it has had since, in each log.
    later: BTreeMap<usize, Vec<Terms>>,
    /// The last ones of all logs, after the number of the change.
    last: (Seq, Option<Terms>),
}

impl SaleTerms {
    pub(super) fn of(campaign: &Campaign) -> Self {
        Self {
            first: Terms::of(campaign),
            later: BTreeMap::new(),
            last: (0, None),
        }
    }

    /// Takes over a change; refuses one of a packet.
    pub(super) fn change(&mut self, log: usize, revision: Seq, terms: Terms) -> Result<(), String> {
        if self.first.is_none() {
            return Err("a packet's terms were changed".to_owned());
        }
        self.later.entry(log).or_default().push(terms);
        if revision > self.last.0 {
            self.last = (revision, Some(terms));
        }
        Ok(())
    }

    /// Puts the last terms into the campaign. The stock for which they were allowed may come later, in another log.
    pub(super) fn give(&self, campaign: &mut Campaign) {
        if let (_, Some(mut terms)) = self.last {
            let most = u32::try_from(campaign.supply()).unwrap_or(u32::MAX);
            terms.per_user_limit = terms.per_user_limit.min(most);
            terms.give(campaign);
        }
    }

    /// All terms that the sale has had, in any log.
    pub(super) fn had(&self) -> Vec<Terms> {
        let later = self.later.values().flatten().copied();
        self.first.into_iter().chain(later).collect()
    }

    /// The terms that a log goes by.
    pub(super) fn in_log(&self, log: usize) -> Option<Terms> {
        let last = self.later.get(&log).and_then(|all| all.last());
        last.copied().or(self.first)
    }
}

/// Adds units to the stock of a sale, or takes some out of it.
pub(super) fn change_stock(
    campaign: &mut Campaign,
    units: i64,
    is_spread: bool,
) -> Result<(), String> {
    let Rules::Sale(sale) = &mut campaign.rules else {
        return Err("a packet has no stock to change".to_owned());
    };
    let stock = sale.stock().saturating_add_signed(units);
    let mut limit = sale.per_user_limit();
    if is_spread {
        // The terms may be later ones, of another log.
        limit = limit.min(u32::try_from(stock).unwrap_or(u32::MAX));
    }
    let changed = Sale::new(stock, limit, sale.unit_price(), sale.hold_ms());
    let changed = changed.map_err(|error| error.to_string())?;
    *sale = changed.with_admission(sale.admission());
    Ok(())
}
