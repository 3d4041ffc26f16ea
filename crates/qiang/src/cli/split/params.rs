//! The options that describe a split.

use anyhow::{Context as _, anyhow};
use qiang_core::split::{RuleName, RulePartsError, Split, SplitRule};

/// What to split and how; the same for drawing and for verifying, since the commitment covers all of it.
#[derive(Debug, clap::Args)]
pub(super) struct ParamArgs {
    /// The money to split, in minor units
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    total: i64,
    /// How many shares
    #[arg(long, value_name = "SHARES")]
    count: u32,
    /// normal, double_average, equal or lazy
    #[arg(long)]
    rule: RuleName,
    /// The smallest share, in minor units (1 if absent)
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    min: Option<i64>,
    /// The largest share, in minor units; needed by the rule normal, and by no other
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
    max: Option<i64>,
}

impl ParamArgs {
    /// The split described.
    pub(super) fn split(&self) -> anyhow::Result<Split> {
        let wrong = |error| match error {
            RulePartsError::MaxMissing => anyhow!("give --max: {error}"),
            RulePartsError::MaxGiven { .. } => anyhow!("leave --max away: {error}"),
            RulePartsError::MinGiven => anyhow!("leave --min away: {error}"),
        };
        let rule = SplitRule::from_parts(self.rule, self.min, self.max).map_err(wrong)?;
        Split::new(self.total, self.count, rule)
            .context("change --total, --count, --min or --max so that the split is possible")
    }
}
