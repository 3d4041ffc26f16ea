//! Admission: limits the users of one sale that the engine decides at a time, so that a crowd does not overload the
//! engine. It only delays or refuses claims before a decision; grants are decided by the engine alone.

use std::fmt;

/// Admitted users per remaining unit, in percent. Below 100 %, units could wait for users who are not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdmissionRatio(u32);

/// The largest ratio, in percent.
pub const ADMISSION_PERCENT_MAX: u32 = 10_000;

/// Error of a ratio that is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an admission ratio is 100 to {ADMISSION_PERCENT_MAX} %, or 0 for none")]
pub struct BadAdmissionRatio;

impl AdmissionRatio {
    /// Default of a sale: three users for two units.
    pub const DEFAULT: Self = Self(150);

    /// Ratio of a percentage; `None` for 0, which admits all users.
    ///
    /// # Errors
    /// If it is out of range.
    pub fn from_percent(percent: u32) -> Result<Option<Self>, BadAdmissionRatio> {
        match percent {
            0 => Ok(None),
            100..=ADMISSION_PERCENT_MAX => Ok(Some(Self(percent))),
            _ => Err(BadAdmissionRatio),
        }
    }

    /// The percentage.
    pub fn percent(self) -> u32 {
        self.0
    }

    /// Number of users admitted while `remaining` units are left: rounded up, and at least one, so that every unit can
    /// be claimed.
    pub fn users(self, remaining: u64) -> u32 {
        let users = remaining.saturating_mul(self.0.into()).div_ceil(100);
        u32::try_from(users).unwrap_or(u32::MAX).max(1)
    }
}

/// Admission of a sale in its terms: a ratio, or no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdmissionBound(Option<AdmissionRatio>);

impl AdmissionBound {
    /// A bound from its percentage; 0 is no bound.
    ///
    /// # Errors
    /// If the percentage is out of range.
    pub fn from_percent(percent: u32) -> Result<Self, BadAdmissionRatio> {
        AdmissionRatio::from_percent(percent).map(Self)
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
            let ratio = AdmissionRatio::from_percent(percent).unwrap().unwrap();
            assert_eq!(ratio.users(remaining), users, "{percent} % of {remaining}");
        }
    }

    #[test]
    fn ratios_that_could_leave_units_behind_are_refused() {
        assert_eq!(AdmissionRatio::from_percent(0), Ok(None));
        for percent in [1, 99, ADMISSION_PERCENT_MAX + 1] {
            assert_eq!(
                AdmissionRatio::from_percent(percent),
                Err(BadAdmissionRatio)
            );
        }
    }
}
