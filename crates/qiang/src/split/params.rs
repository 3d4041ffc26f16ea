//! The options that describe a split.

use anyhow::{Context, bail};
use qiang_core::split::{RuleName, Split, SplitRule};

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
    ///
    /// # Errors
    /// One line that says which option to change.
    pub(super) fn split(&self) -> anyhow::Result<Split> {
        if self.rule != RuleName::Normal && self.max.is_some() {
            bail!(
                "leave --max away: the rule {} has no largest share",
                self.rule
            );
        }
        if self.rule == RuleName::Equal && self.min.is_some() {
            bail!("leave --min away: the rule equal has no smallest share");
        }
        let min = self.min.unwrap_or(1);
        let rule = match self.rule {
            RuleName::Normal => SplitRule::Normal {
                min,
                max: self
                    .max
                    .context("give --max: the rule normal needs a largest share")?,
            },
            RuleName::DoubleAverage => SplitRule::DoubleAverage { min },
            RuleName::Equal => SplitRule::Equal,
            RuleName::Lazy => SplitRule::Lazy { min },
        };
        Split::new(self.total, self.count, rule)
            .context("change --total, --count, --min or --max so that the split is possible")
    }
}
