//! Repairs as rows of `repairs`, `withheld` and `withheld_numbers`.

use super::{Contradiction, Value};
use crate::{
    event::PartitionId,
    id::CampaignId,
    ports::{NumberRange, RepairRecord, WithheldRecord},
    time::Timestamp,
};

/// Columns of a [`RepairRecord`], in the order of its fields.
pub type RepairColumns = (i64, String, String, i64, i64, i64, i64, String, Option<i64>);

/// Columns of a [`WithheldRecord`] without its numbers: partition, epoch, campaign id, units, amount, released_at.
pub type WithheldColumns = (i64, String, String, i64, i64, Option<i64>);

/// Columns: epoch, campaign id, first number, last number, step.
pub type WithheldNumbersColumns = (String, String, i64, i64, i64);

impl RepairRecord {
    /// Reads the columns.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn from_columns(columns: RepairColumns) -> Result<Self, Contradiction> {
        let (partition, epoch, follows, at, lost_from, lost_to, unnamed, reason, upto) = columns;
        let bad = |_| Contradiction::new(format!("repair {epoch} has a bad number"));
        Ok(Self {
            partition: PartitionId(partition.try_into().map_err(bad)?),
            at: Timestamp::from_millis(at),
            lost_from: lost_from.try_into().map_err(bad)?,
            lost_to: lost_to.try_into().map_err(bad)?,
            unnamed: unnamed.try_into().map_err(bad)?,
            upto: upto.map(u64::try_from).transpose().map_err(bad)?,
            reason,
            follows,
            epoch,
        })
    }

    /// Columns except `upto`.
    pub fn columns(&self) -> [Value<'_>; 8] {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        [
            i64::from(self.partition.0).into(),
            self.epoch.as_str().into(),
            self.follows.as_str().into(),
            self.at.as_millis().into(),
            number(self.lost_from).into(),
            number(self.lost_to).into(),
            number(self.unnamed).into(),
            self.reason.as_str().into(),
        ]
    }
}

impl WithheldRecord {
    /// Reads the columns of a partition's records, and of their numbers.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn all(
        columns: Vec<WithheldColumns>,
        numbers: Vec<WithheldNumbersColumns>,
    ) -> Result<Vec<Self>, Contradiction> {
        let bad = || Contradiction::new("a withheld record has a bad number");
        let unit = |number: i64| u32::try_from(number).map_err(|_| bad());
        let campaign = |id: &str| id.parse::<CampaignId>().map_err(|_| bad());
        let record = |(partition, epoch, id, units, amount_minor, released_at): WithheldColumns| {
            Ok(Self {
                partition: PartitionId(partition.try_into().map_err(|_| bad())?),
                campaign: campaign(&id)?,
                units: units.try_into().map_err(|_| bad())?,
                amount_minor,
                numbers: Vec::new(),
                released_at: released_at.map(Timestamp::from_millis),
                epoch,
            })
        };
        let mut all: Vec<Self> = columns
            .into_iter()
            .map(record)
            .collect::<Result<_, Contradiction>>()?;
        for (epoch, id, first, last, step) in numbers {
            let (campaign, step) = (campaign(&id)?, unit(step)?);
            let range = NumberRange {
                first: unit(first)?,
                last: unit(last)?,
                step,
            };
            let mut of = all.iter_mut();
            if let Some(of) = of.find(|it| it.epoch == epoch && it.campaign == campaign) {
                of.numbers.push(range);
            }
        }
        Ok(all)
    }

    /// Rows of `withheld_numbers`, for the campaign with this `ref`.
    pub fn number_rows(&self, campaign_ref: i64) -> impl ExactSizeIterator<Item = [Value<'_>; 6]> {
        self.numbers.iter().map(move |range| {
            [
                i64::from(self.partition.0).into(),
                self.epoch.as_str().into(),
                campaign_ref.into(),
                i64::from(range.first).into(),
                i64::from(range.last).into(),
                i64::from(range.step).into(),
            ]
        })
    }
}
