//! Rules that split a total, and their names.

use std::str::FromStr;

use thiserror::Error;

use crate::string_enum::string_enum;

/// Rule that splits a total. Bounds are in minor units and inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SplitRule {
    /// Bell-shaped around the mean, inside `min..=max`.
    Normal {
        /// The smallest share; at least 1.
        min: i64,
        /// The largest share; at least `min`.
        max: i64,
    },
    /// Each share uniform between `min` and twice the mean of the remaining money, less `min`; then shuffled.
    DoubleAverage {
        /// The smallest share; at least 1.
        min: i64,
    },
    /// All shares equal. If the count does not divide the total, randomly chosen shares are 1 unit larger.
    Equal,
    /// Like `DoubleAverage`, but each amount is drawn from the remaining money when it is claimed.
    Lazy {
        /// The smallest share; at least 1.
        min: i64,
    },
}

impl SplitRule {
    /// Creates the rule with this name and these bounds. A missing `min` is 1.
    ///
    /// # Errors
    /// If a required bound is missing, or the rule does not have a given bound.
    pub fn from_parts(
        name: RuleName,
        min: Option<i64>,
        max: Option<i64>,
    ) -> Result<Self, RulePartsError> {
        let smallest = min.unwrap_or(1);
        match (name, max) {
            (RuleName::Normal, Some(max)) => Ok(Self::Normal { min: smallest, max }),
            (RuleName::Normal, None) => Err(RulePartsError::MaxMissing),
            (name, Some(_)) => Err(RulePartsError::MaxGiven { name }),
            (RuleName::Equal, None) if min.is_some() => Err(RulePartsError::MinGiven),
            (RuleName::DoubleAverage, None) => Ok(Self::DoubleAverage { min: smallest }),
            (RuleName::Equal, None) => Ok(Self::Equal),
            (RuleName::Lazy, None) => Ok(Self::Lazy { min: smallest }),
        }
    }

    /// Inverse of [`SplitRule::from_parts`]: the name, and the bounds of the rule.
    pub fn parts(&self) -> (RuleName, Option<i64>, Option<i64>) {
        let min = (*self != Self::Equal).then(|| self.min());
        (self.name(), min, self.max())
    }

    /// Name of the rule.
    pub fn name(&self) -> RuleName {
        match self {
            Self::Normal { .. } => RuleName::Normal,
            Self::DoubleAverage { .. } => RuleName::DoubleAverage,
            Self::Equal => RuleName::Equal,
            Self::Lazy { .. } => RuleName::Lazy,
        }
    }

    /// Smallest share in minor units; 1 for a rule without such a bound, because no share is empty.
    pub fn min(&self) -> i64 {
        match *self {
            Self::Normal { min, .. } | Self::DoubleAverage { min } | Self::Lazy { min } => min,
            Self::Equal => 1,
        }
    }

    /// Largest share in minor units, if the rule has such a bound.
    pub fn max(&self) -> Option<i64> {
        match *self {
            Self::Normal { max, .. } => Some(max),
            Self::DoubleAverage { .. } | Self::Equal | Self::Lazy { .. } => None,
        }
    }
}

/// Name of a rule, as in requests, in the ledger and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleName {
    /// `normal`: [`SplitRule::Normal`].
    Normal,
    /// `double_average`: [`SplitRule::DoubleAverage`].
    DoubleAverage,
    /// `equal`: [`SplitRule::Equal`].
    Equal,
    /// `lazy`: [`SplitRule::Lazy`].
    Lazy,
}

string_enum!(RuleName {
    Normal = "normal",
    DoubleAverage = "double_average",
    Equal = "equal",
    Lazy = "lazy",
});

impl FromStr for RuleName {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_name(text).ok_or(UnknownRule)
    }
}

/// Error for a text that names no rule.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("expected one of normal, double_average, equal, lazy")]
pub struct UnknownRule;

/// Error for bounds that do not belong to the rule.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RulePartsError {
    /// `normal` needs a largest share.
    #[error("the rule normal needs a largest share")]
    MaxMissing,
    /// Only `normal` has a largest share.
    #[error("the rule {name} has no largest share")]
    MaxGiven {
        /// The rule.
        name: RuleName,
    },
    /// All shares of `equal` are the same.
    #[error("the rule equal has no smallest share")]
    MinGiven,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in [
            RuleName::Normal,
            RuleName::DoubleAverage,
            RuleName::Equal,
            RuleName::Lazy,
        ] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!("Normal".parse::<RuleName>(), Err(UnknownRule));
        assert_eq!("".parse::<RuleName>(), Err(UnknownRule));
    }

    #[test]
    fn a_rule_reads_back_from_its_parts() {
        let rules = [
            SplitRule::Normal { min: 2, max: 9 },
            SplitRule::DoubleAverage { min: 3 },
            SplitRule::Equal,
            SplitRule::Lazy { min: 4 },
        ];
        for rule in rules {
            let (name, min, max) = rule.parts();
            assert_eq!(SplitRule::from_parts(name, min, max), Ok(rule));
        }
    }

    #[test]
    fn bounds_belong_to_their_rules() {
        let check = |name, min, max, expected| {
            assert_eq!(SplitRule::from_parts(name, min, max), expected);
        };
        let lazy = Ok(SplitRule::Lazy { min: 1 });
        check(RuleName::Lazy, None, None, lazy);
        let normal = Err(RulePartsError::MaxMissing);
        check(RuleName::Normal, Some(1), None, normal);
        check(
            RuleName::Equal,
            Some(1),
            None,
            Err(RulePartsError::MinGiven),
        );
        for name in [RuleName::DoubleAverage, RuleName::Equal, RuleName::Lazy] {
            let given = Err(RulePartsError::MaxGiven { name });
            check(name, None, Some(9), given);
        }
    }
}
