//! Admission: how many users may be on their way to a decision of one sale at a time, so that a crowd does not reach
//! whoever decides. It holds claims back and never decides them: who is admitted is decided by the engine alone.

use std::fmt;

/// Users admitted for each unit that is left, in percent. With less than 100 % units could wait for users who are not
/// let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdmissionRatio(u32);

/// The largest ratio, in percent.
pub const ADMISSION_PERCENT_MAX: u32 = 10_000;

/// A ratio out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an admission ratio is 100 to {ADMISSION_PERCENT_MAX} %, or 0 for none")]
pub struct BadAdmissionRatio;

impl AdmissionRatio {
    /// What a sale has when nothing else is said: three users for two units.
    pub const DEFAULT: Self = Self(150);

    /// A ratio of so many percent; none for 0, which admits everybody.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn of_percent(percent: u32) -> Result<Option<Self>, BadAdmissionRatio> {
        match percent {
            0 => Ok(None),
            100..=ADMISSION_PERCENT_MAX => Ok(Some(Self(percent))),
            _ => Err(BadAdmissionRatio),
        }
    }

    /// In percent.
    pub fn percent(self) -> u32 {
        self.0
    }

    /// How many users may be on their way while so many units are left: rounded up, and at least one, so that no unit
    /// is left because nobody is let in.
    pub fn users(self, remaining: u64) -> u32 {
        let users = remaining.saturating_mul(self.0.into()).div_ceil(100);
        u32::try_from(users).unwrap_or(u32::MAX).max(1)
    }
}

/// The admission of a sale as its terms state it: a ratio, or no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdmissionBound(Option<AdmissionRatio>);

impl AdmissionBound {
    /// A bound from its percentage; 0 is no bound.
    ///
    /// # Errors
    /// If the percentage is out of range.
    pub fn from_percent(percent: u32) -> Result<Self, BadAdmissionRatio> {
        AdmissionRatio::of_percent(percent).map(Self)
    }

    /// The percentage; 0 is no bound.
    pub fn percent(self) -> u32 {
        self.0.map_or(0, AdmissionRatio::percent)
    }

    /// The ratio; `None` if the sale admits all users.
    pub fn ratio(self) -> Option<AdmissionRatio> {
        self.0
    }
}

impl From<Option<AdmissionRatio>> for AdmissionBound {
    fn from(ratio: Option<AdmissionRatio>) -> Self {
        Self(ratio)
    }
}

impl fmt::Display for AdmissionRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::STOCK_MAX;

    #[test]
    fn users_are_rounded_up_and_never_none() {
        for (percent, remaining, users) in [
            (150, 100, 150),
            (150, 1, 2),
            (150, 3, 5),
            (150, 0, 1),
            (100, 7, 7),
            (10_000, u32::MAX.into(), u32::MAX),
            (10_000, STOCK_MAX, u32::MAX),
        ] {
            let ratio = AdmissionRatio::of_percent(percent).unwrap().unwrap();
            assert_eq!(ratio.users(remaining), users, "{percent} % of {remaining}");
        }
    }

    #[test]
    fn ratios_that_could_leave_units_behind_are_refused() {
        assert_eq!(AdmissionRatio::of_percent(0), Ok(None));
        for percent in [1, 99, ADMISSION_PERCENT_MAX + 1] {
            assert_eq!(AdmissionRatio::of_percent(percent), Err(BadAdmissionRatio));
        }
    }
}
