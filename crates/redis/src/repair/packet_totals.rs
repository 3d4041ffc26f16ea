//! Shares and money of a spread packet, over all its parts. Parts may pass shares on while they are read one after the
//! other, so they are read twice and compared only if nothing has moved.

use std::collections::BTreeMap;

use qiang_core::{event::PartitionId, id::CampaignId, ports::EngineError};

use crate::{connection::unavailable, partitions::Partitions, protocol::reply::share};

/// One part, with the shares that it sends. Withheld ones are included.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartTotals {
    partition: PartitionId,
    shares: i64,
    minor: i64,
    /// Last transfer that arrived, by the partition that sent it.
    arrived: Vec<i64>,
    moving: Vec<MovingShares>,
}

/// Shares that are not known to have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MovingShares {
    receiver: u16,
    number: i64,
    shares: i64,
    minor: i64,
}

impl MovingShares {
    fn read(receiver: u16, text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (number, shares) = (lines.next()?.parse().ok()?, lines.next()?.parse().ok()?);
        let amounts = lines.map(|line| Some(share(line)?.1));
        Some(Self {
            receiver,
            number,
            shares,
            minor: amounts.sum::<Option<i64>>()?,
        })
    }
}

/// Number and money of the shares of a spread packet. `None` if a part is missing or does not grant, or shares moved
/// during the read.
pub(super) async fn packet_totals(
    partitions: &Partitions,
    campaign: CampaignId,
    parts: u16,
) -> Result<Option<(u64, i64)>, EngineError> {
    let Some(before) = read_parts(partitions, campaign, parts).await? else {
        return Ok(None);
    };
    let again = read_parts(partitions, campaign, parts).await?;
    Ok(again.filter(|again| *again == before).and(sum(&before)))
}

async fn read_parts(
    partitions: &Partitions,
    campaign: CampaignId,
    parts: u16,
) -> Result<Option<Vec<PartTotals>>, EngineError> {
    let mut totals = Vec::with_capacity(parts.into());
    for index in 0..parts {
        let partition = partitions.for_part(campaign, index);
        if !partitions.get(partition).is_open() {
            return Ok(None);
        }
        let keys = partitions.keys();
        let fields = ["supply", "withheld", "funded", "withheld_minor"].map(str::to_owned);
        let givers = partitions.list().iter().map(|giver| giver.id.0);
        let fields = fields
            .into_iter()
            .chain(givers.map(|giver| format!("from:{giver}")));
        let mut numbers = redis::cmd("HMGET");
        numbers.arg(keys.campaign(partition, campaign));
        numbers.arg(fields.collect::<Vec<_>>());
        let numbers: Vec<Option<i64>> = partitions.query(partition, &numbers).await?;
        let mut moving = redis::cmd("HGETALL");
        moving.arg(keys.for_campaign(partition, campaign, "transfers"));
        let moving: BTreeMap<u16, String> = partitions.query(partition, &moving).await?;
        let [supply, withheld, funded, withheld_minor, arrived @ ..] = &numbers[..] else {
            return Ok(None);
        };
        let (Some(supply), Some(funded)) = (*supply, *funded) else {
            return Ok(None);
        };
        let moving = moving
            .iter()
            .map(|(receiver, text)| MovingShares::read(*receiver, text));
        let unreadable = || unavailable(format!("transfers of campaign {campaign} cannot be read"));
        totals.push(PartTotals {
            partition,
            shares: supply + withheld.unwrap_or(0),
            minor: funded + withheld_minor.unwrap_or(0),
            arrived: arrived.iter().map(|last| last.unwrap_or(0)).collect(),
            moving: moving.collect::<Option<_>>().ok_or_else(unreadable)?,
        });
    }
    Ok(Some(totals))
}

fn sum(parts: &[PartTotals]) -> Option<(u64, i64)> {
    let (mut shares, mut minor) = (0, 0);
    for part in parts {
        shares += part.shares;
        minor += part.minor;
        for moving in &part.moving {
            let receiver = parts.iter().find(|it| it.partition.0 == moving.receiver);
            let last = receiver.and_then(|it| it.arrived.get(usize::from(part.partition.0)));
            if last.is_none_or(|last| *last < moving.number) {
                shares += moving.shares;
                minor += moving.minor;
            }
        }
    }
    Some((u64::try_from(shares).ok()?, minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::reply::share_text;

    #[test]
    fn shares_of_transfers_count_until_they_arrive() {
        let text = format!("4\n2\n{}\n{}", share_text(7, 30), share_text(9, 12));
        let moving = MovingShares::read(1, &text).unwrap();
        let part = |n: u16, shares, minor| PartTotals {
            partition: PartitionId(n),
            shares,
            minor,
            arrived: vec![0, 0],
            moving: Vec::new(),
        };
        let giver = PartTotals {
            moving: vec![moving],
            ..part(0, 8, 58)
        };
        let receiver = part(1, 10, 100);
        assert_eq!(sum(&[giver.clone(), receiver.clone()]), Some((20, 200)));
        let has_them = PartTotals {
            arrived: vec![4, 0],
            ..part(1, 12, 142)
        };
        assert_eq!(sum(&[giver, has_them]), Some((20, 200)));
    }
}
