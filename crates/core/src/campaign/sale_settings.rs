//! Terms of a sale that its seller may change until it ends: window, limit, price and admission.

use super::{Campaign, CampaignError, Phase, Rules, Sale};
use crate::{
    admission::AdmissionBound,
    money::Money,
    time::{Timestamp, Window, WindowError},
};

/// The terms of a sale at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleSettings {
    /// Time in which claims are accepted.
    pub window: Window,
    /// Units that one user may have.
    pub per_user_limit: u32,
    /// The price of one unit in minor units. Each order keeps the price at which it was granted.
    pub unit_price_minor: i64,
    /// Bound of users admitted to the engine.
    pub admission: AdmissionBound,
}

/// A change of the terms of a sale. `None` keeps a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SaleSettingsChange {
    /// The first instant at which claims are accepted.
    pub starts_at: Option<Timestamp>,
    /// The first instant at which claims are no longer accepted.
    pub ends_at: Option<Timestamp>,
    /// Units that one user may have. No user loses units by the change.
    pub per_user_limit: Option<u32>,
    /// The price of one unit in minor units, for orders that are granted from then on.
    pub unit_price_minor: Option<i64>,
    /// Bound of users admitted to the engine.
    pub admission: Option<AdmissionBound>,
}

impl SaleSettings {
    /// The terms of a campaign, if it is a sale.
    #[must_use]
    pub fn from_campaign(campaign: &Campaign) -> Option<Self> {
        Some(Self::from_sale(campaign.window, campaign.rules.sale()?))
    }

    /// The terms of a sale with such a window.
    #[must_use]
    pub fn from_sale(window: Window, sale: &Sale) -> Self {
        Self {
            window,
            per_user_limit: sale.per_user_limit(),
            unit_price_minor: sale.unit_price().minor,
            admission: sale.admission().into(),
        }
    }

    /// Replaces a sale's terms with these. They were checked when the change was decided.
    pub fn give(self, campaign: &mut Campaign) {
        if let Rules::Sale(sale) = &mut campaign.rules
            && let Ok(after) = self.rules(sale)
        {
            (*sale, campaign.window) = (after, self.window);
        }
    }

    /// Rules of a sale with these terms instead of its current ones.
    ///
    /// # Errors
    /// As [`Sale::new`].
    pub(crate) fn rules(&self, sale: &Sale) -> Result<Sale, CampaignError> {
        let price = Money::new(self.unit_price_minor, sale.unit_price().currency);
        let after = Sale::new(sale.stock(), self.per_user_limit, price, sale.hold_ms())?;
        Ok(after.with_admission(self.admission.ratio()))
    }
}

impl SaleSettingsChange {
    /// Whether the terms already have all new values.
    #[must_use]
    pub fn is_in(&self, terms: &SaleSettings) -> bool {
        let same = |wanted: Option<Timestamp>, is| wanted.is_none_or(|wanted| wanted == is);
        same(self.starts_at, terms.window.starts_at())
            && same(self.ends_at, terms.window.ends_at())
            && (self.per_user_limit).is_none_or(|limit| limit == terms.per_user_limit)
            && (self.unit_price_minor).is_none_or(|price| price == terms.unit_price_minor)
            && (self.admission).is_none_or(|bound| bound == terms.admission)
    }

    fn over(&self, terms: &SaleSettings) -> Result<SaleSettings, WindowError> {
        let (starts_at, ends_at) = (terms.window.starts_at(), terms.window.ends_at());
        Ok(SaleSettings {
            window: Window::new(
                self.starts_at.unwrap_or(starts_at),
                self.ends_at.unwrap_or(ends_at),
            )?,
            per_user_limit: self.per_user_limit.unwrap_or(terms.per_user_limit),
            unit_price_minor: self.unit_price_minor.unwrap_or(terms.unit_price_minor),
            admission: self.admission.unwrap_or(terms.admission),
        })
    }

    /// Terms of a sale in this phase after the change. `has_granted` says whether it has ever granted units.
    ///
    /// # Errors
    /// The first violated rule: the start of a sale that has opened and granted units does not change, and no new time
    /// is in the past. Then as [`Window::new`] and [`Sale::new`].
    pub fn apply(
        &self,
        terms: &SaleSettings,
        (sale, has_granted): (&Sale, bool),
        phase: Phase,
        now: Timestamp,
    ) -> Result<SaleSettings, CampaignError> {
        let starts_at = self.starts_at.unwrap_or(terms.window.starts_at());
        let ends_at = self.ends_at.unwrap_or(terms.window.ends_at());
        let opens_otherwise = starts_at != terms.window.starts_at();
        if opens_otherwise && phase != Phase::Scheduled && has_granted {
            return Err(CampaignError::HasOpened);
        }
        if opens_otherwise && starts_at < now || ends_at <= now {
            return Err(CampaignError::InThePast);
        }
        let after = self.over(terms).map_err(|_| CampaignError::Window)?;
        after.rules(sale).map(|_| after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms change only window, limit, price and admission of a sale.
    #[test]
    fn terms_change_nothing_else() {
        let price = Money::new(7, "CNY".parse().expect("a currency"));
        let hour = 3_600_000;
        let window = |millis| {
            let (from, upto) = (Timestamp::default(), Timestamp::from_millis(millis));
            Window::new(from, upto).expect("a window")
        };
        for percent in [0, 300] {
            let sale = Sale::new(10, 1, price, hour).expect("a sale");
            let admission = AdmissionBound::from_percent(percent).expect("a bound");
            let terms = SaleSettings {
                window: window(hour),
                per_user_limit: 4,
                unit_price_minor: 9,
                admission,
            };
            let after = terms.rules(&sale).expect("a sale");
            assert_eq!((after.per_user_limit(), after.unit_price().minor), (4, 9));
            assert_eq!(after.admission(), admission.ratio());
            assert_eq!((after.stock(), after.hold_ms()), (10, hour));
        }
    }
}
