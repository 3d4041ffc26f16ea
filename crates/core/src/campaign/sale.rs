//! Rules of a flash sale.

use super::{CampaignError, HOLD_MS_MAX, STOCK_MAX, STOCK_PRICE_MINOR_MAX};
use crate::{admission::AdmissionRatio, money::Money};

/// Rules of a flash sale. [`Sale::new`] ensures that its numbers are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sale {
    stock: u64,
    per_user_limit: u32,
    unit_price: Money,
    hold_ms: u32,
    admission: Option<AdmissionRatio>,
}

impl Sale {
    /// A sale of `stock` units at `unit_price`, at most `per_user_limit` per user. Unpaid orders are held `hold_ms`.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn new(
        stock: u64,
        per_user_limit: u32,
        unit_price: Money,
        hold_ms: i64,
    ) -> Result<Self, CampaignError> {
        let mut faults = Self::faults(stock, per_user_limit, unit_price, hold_ms);
        if let Some(fault) = faults.next() {
            return Err(fault);
        }
        Ok(Self {
            stock,
            per_user_limit,
            unit_price,
            hold_ms: hold_ms as u32, // at most HOLD_MS_MAX
            admission: Some(AdmissionRatio::DEFAULT),
        })
    }

    /// All violated rules of such a sale. If the stock is invalid, rules that depend on it are skipped.
    pub fn faults(
        stock: u64,
        per_user_limit: u32,
        unit_price: Money,
        hold_ms: i64,
    ) -> impl Iterator<Item = CampaignError> {
        let has_stock = (1..=STOCK_MAX).contains(&stock);
        // A stock in range fits.
        let priced = if has_stock { stock as i64 } else { 1 };
        let whole = unit_price.minor.saturating_mul(priced);
        let has_limit = (1..=stock).contains(&u64::from(per_user_limit));
        let rules = [
            (has_stock, CampaignError::Stock),
            (has_limit || !has_stock, CampaignError::Limit),
            (
                (0..=STOCK_PRICE_MINOR_MAX).contains(&whole),
                CampaignError::Price,
            ),
            ((1..=HOLD_MS_MAX).contains(&hold_ms), CampaignError::Hold),
        ];
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken.map(|(_, fault)| fault)
    }

    /// The same sale with another admission ratio; `None` admits all users.
    #[must_use]
    pub fn with_admission(self, admission: Option<AdmissionRatio>) -> Self {
        Self { admission, ..self }
    }

    /// Ratio of admitted users to remaining units; `None` admits all users.
    pub fn admission(&self) -> Option<AdmissionRatio> {
        self.admission
    }

    /// The same sale with another stock.
    ///
    /// # Errors
    /// As [`Sale::new`]: the limit, or the price of the whole stock, may no longer be valid.
    pub fn with_stock(self, stock: u64) -> Result<Self, CampaignError> {
        let (limit, price) = (self.per_user_limit, self.unit_price);
        let sale = Self::new(stock, limit, price, self.hold_ms())?;
        Ok(sale.with_admission(self.admission))
    }

    /// Units for sale.
    pub fn stock(&self) -> u64 {
        self.stock
    }

    /// Units that one user may have.
    pub fn per_user_limit(&self) -> u32 {
        self.per_user_limit
    }

    /// The price of one unit.
    pub fn unit_price(&self) -> Money {
        self.unit_price
    }

    /// Time for which an unpaid order keeps its units, in milliseconds.
    pub fn hold_ms(&self) -> i64 {
        self.hold_ms.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sale_refuses_impossible_numbers() {
        let cny = |minor| Money::new(minor, "CNY".parse().unwrap());
        assert!(Sale::new(100, 1, cny(0), 1).is_ok());
        assert_eq!(Sale::new(0, 1, cny(1), 1), Err(CampaignError::Stock));
        assert_eq!(
            Sale::new(STOCK_MAX + 1, 1, cny(1), 1),
            Err(CampaignError::Stock)
        );
        assert_eq!(Sale::new(10, 11, cny(1), 1), Err(CampaignError::Limit));
        assert_eq!(Sale::new(10, 0, cny(1), 1), Err(CampaignError::Limit));
        assert_eq!(Sale::new(10, 1, cny(-1), 1), Err(CampaignError::Price));
        assert_eq!(
            Sale::new(10, 1, cny(i64::MAX / 2), 1),
            Err(CampaignError::Price)
        );
        assert_eq!(Sale::new(10, 1, cny(1), 0), Err(CampaignError::Hold));
        // The largest stock at its largest possible price, and one more of either.
        assert!(Sale::new(STOCK_MAX, u32::MAX, cny(1), 1).is_ok());
        for (stock, minor) in [(STOCK_MAX, 2), (1 << 52, 2), (STOCK_MAX / 3 + 1, 3)] {
            let dear = Sale::new(stock, 1, cny(minor), 1);
            assert_eq!(dear, Err(CampaignError::Price), "{stock} at {minor}");
        }
        assert!(Sale::new(STOCK_MAX / 3, 1, cny(3), 1).is_ok());
        let sale = Sale::new(10, 4, cny(1), 1).unwrap();
        assert_eq!(sale.with_stock(4).map(|sale| sale.stock()), Ok(4));
        assert_eq!(sale.with_stock(3), Err(CampaignError::Limit));
    }
}
