//! Options that describe a split.

use anyhow::{Context as _, anyhow};
use qiang_core::split::{RuleName, RulePartsError, Split, SplitRule};

/// Parameters of a split. Drawing and verifying take the same, since the commitment covers all of them.
#[derive(Debug, clap::Args)]
pub(super) struct ParamArgs {
    /// The money to split, in minor units
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    total: i64,
    /// The number of shares
    #[arg(long, value_name = "SHARES")]
    count: u32,
    /// The split rule: normal, double_average, equal or lazy
    #[arg(long)]
    rule: RuleName,
    /// The smallest share, in minor units (1 if absent)
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    min: Option<i64>,
    /// The largest share, in minor units; required for the rule normal, refused for the others
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    max: Option<i64>,
}

impl ParamArgs {
    /// The split that the options describe.
    pub(super) fn split(&self) -> anyhow::Result<Split> {
        let wrong = |error| match error {
            RulePartsError::MaxMissing => anyhow!("give --max: {error}"),
            RulePartsError::MaxGiven { .. } => anyhow!("omit --max: {error}"),
            RulePartsError::MinGiven => anyhow!("omit --min: {error}"),
        };
        let rule = SplitRule::from_parts(self.rule, self.min, self.max).map_err(wrong)?;
        Split::new(self.total, self.count, rule)
            .context("impossible split: change --total, --count, --min or --max")
    }
}
