//! Units of spread campaigns in the engine, over all parts of each. Parts may pass units on while they are read one
//! after the other. So each is read twice, and only campaigns that did not change in between are compared.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;

use super::{CAMPAIGNS_MAX, EngineReader};

/// Maximum repeated reads of campaigns that move units.
const READS_MAX: usize = 5;

/// Spread campaign with all its parts.
pub(super) struct SpreadTotals {
    pub(super) campaign: Arc<str>,
    /// Units in all parts, including withheld units and units in transfers that have not arrived.
    pub(super) units: i64,
    /// Total units, from the first part.
    pub(super) stock: Option<i64>,
}

/// One part, with all units that it has or sends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartUnits {
    index: i64,
    parts: i64,
    /// Units without withheld ones.
    supply: i64,
    withheld: i64,
    stock: Option<i64>,
    /// Number of the last transfer that arrived, by the part's partition that sent it.
    arrived: Vec<i64>,
    /// Transfers that are not known to have arrived: receiving partition, number, units.
    moving: Vec<(u16, i64, i64)>,
    /// Whether the partition grants, in a term of this server. Otherwise entries may be lost without being noticed yet.
    is_open: bool,
}

type Parts = BTreeMap<Arc<str>, BTreeMap<u16, PartUnits>>;

/// Units of these campaigns, if all their parts are there, grant, and pass no units on at the moment.
pub(super) async fn read(
    reader: &mut EngineReader,
    campaigns: Vec<Arc<str>>,
) -> anyhow::Result<Vec<SpreadTotals>> {
    let (mut wholes, mut campaigns) = (Vec::new(), campaigns);
    let mut before = parts_of(reader, &campaigns).await?;
    for _ in 0..READS_MAX {
        if campaigns.is_empty() {
            break;
        }
        let now = parts_of(reader, &campaigns).await?;
        campaigns.retain(|campaign| {
            let is_still = before.get(campaign) == now.get(campaign);
            if is_still && let Some(parts) = now.get(campaign) {
                wholes.extend(whole(campaign, parts));
            }
            !is_still
        });
        before = now;
    }
    Ok(wholes)
}

/// Adds the parts up. `None` if a part is missing, or its partition does not grant, because it may be under repair.
fn whole(campaign: &Arc<str>, parts: &BTreeMap<u16, PartUnits>) -> Option<SpreadTotals> {
    let count = parts.values().next()?.parts;
    let is_all = i64::try_from(parts.len()) == Ok(count);
    if !is_all || parts.values().any(|part| !part.is_open) {
        return None;
    }
    let mut units = 0;
    for (giver, part) in parts {
        units += part.supply + part.withheld;
        for (taker, number, moving) in &part.moving {
            let arrived = parts.get(taker).and_then(|taker| {
                let last = taker.arrived.get(usize::from(*giver))?;
                (last >= number).then_some(())
            });
            if arrived.is_none() {
                units += moving;
            }
        }
    }
    let first = parts.values().find(|part| part.index == 0);
    Some(SpreadTotals {
        campaign: Arc::clone(campaign),
        units,
        stock: first.and_then(|part| part.stock),
    })
}

async fn parts_of(reader: &mut EngineReader, campaigns: &[Arc<str>]) -> anyhow::Result<Parts> {
    let mut all = Parts::new();
    if campaigns.is_empty() {
        return Ok(all);
    }
    for partition in 0..reader.partitions {
        let state = reader.key_of(partition, "partition");
        reader.conn = reader.servers.for_key(&state).await?;
        for some in campaigns.chunks(CAMPAIGNS_MAX) {
            let mut pipe = redis::pipe();
            pipe.atomic().cmd("INFO").arg("replication");
            pipe.cmd("HMGET").arg(&state).arg(&["open", "server"]);
            for campaign in some {
                let key = reader.key_of(partition, &format!("c:{campaign}"));
                let fields = ["parts", "index", "supply", "withheld", "stock"].map(str::to_owned);
                let arrived = (0..reader.partitions).map(|giver| format!("from:{giver}"));
                let fields: Vec<String> = fields.into_iter().chain(arrived).collect();
                pipe.cmd("HMGET").arg(&key).arg(fields);
                pipe.cmd("HGETALL").arg(format!("{key}:transfers"));
            }
            let answer: Vec<redis::Value> = pipe
                .query_async(&mut reader.conn)
                .await
                .context("cannot read Redis")?;
            let mut answer = answer.into_iter();
            let unreadable = "the partition's state cannot be read";
            let (info, term) = answer.next().zip(answer.next()).context(unreadable)?;
            let info: String = redis::from_redis_value(info).context(unreadable)?;
            let term: [Option<String>; 2] = redis::from_redis_value(term).context(unreadable)?;
            let is_open = is_open(&info, &term);
            for campaign in some {
                let unreadable =
                    || format!("the engine's parts of campaign {campaign} cannot be read");
                let (numbers, moving) = (answer.next(), answer.next());
                let (numbers, moving) = numbers.zip(moving).with_context(unreadable)?;
                let numbers = redis::from_redis_value::<Vec<Option<i64>>>(numbers);
                let moving = redis::from_redis_value::<BTreeMap<u16, String>>(moving);
                let numbers = numbers.with_context(unreadable)?;
                let moving = moving.with_context(unreadable)?;
                let [parts, index, supply, withheld, stock, arrived @ ..] = &numbers[..] else {
                    continue;
                };
                let (Some(parts), Some(index), Some(supply)) = (*parts, *index, *supply) else {
                    continue;
                };
                let moving = moving.iter().map(|(taker, text)| transfer(*taker, text));
                let part = PartUnits {
                    index,
                    parts,
                    supply,
                    withheld: withheld.unwrap_or(0),
                    stock: *stock,
                    arrived: arrived.iter().map(|last| last.unwrap_or(0)).collect(),
                    moving: moving.collect::<Option<_>>().with_context(unreadable)?,
                    is_open,
                };
                let of = all.entry(Arc::clone(campaign)).or_default();
                of.insert(partition, part);
            }
        }
    }
    Ok(all)
}

/// Whether the partition with these fields `open` and `server` is open in the current term of its server. After a
/// failover or a restart it is not open, until nodes have compared their observations with the remaining log.
fn is_open(info: &str, [open, server]: &[Option<String>; 2]) -> bool {
    let own = info
        .lines()
        .find_map(|line| line.strip_prefix("master_replid:"));
    let is_primary = info.lines().any(|line| line.trim() == "role:master");
    let is_own = |server: &String| own.is_some_and(|own| own.starts_with(server.as_str()));
    is_primary && open.is_some() && server.as_ref().is_some_and(is_own)
}

/// Number and units of a transfer to a part. The shares follow in the text.
fn transfer(taker: u16, text: &str) -> Option<(u16, i64, i64)> {
    let mut lines = text.lines();
    let number = lines.next()?.parse().ok()?;
    Some((taker, number, lines.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: i64, supply: i64, withheld: i64) -> PartUnits {
        PartUnits {
            index,
            parts: 2,
            supply,
            withheld,
            stock: (index == 0).then_some(20),
            arrived: vec![0, 0],
            moving: Vec::new(),
            is_open: true,
        }
    }

    fn units(parts: [PartUnits; 2]) -> Option<(i64, Option<i64>)> {
        let parts = (0..).zip(parts).collect();
        whole(&"X".into(), &parts).map(|whole| (whole.units, whole.stock))
    }

    #[test]
    fn units_of_transfers_count_until_they_arrive() {
        let (giver, taker) = (part(0, 6, 1), part(1, 10, 0));
        assert_eq!(units([giver.clone(), taker.clone()]), Some((17, Some(20))));
        let sends = PartUnits {
            moving: vec![transfer(1, "4\n3\n1 5").unwrap()],
            ..giver.clone()
        };
        assert_eq!(units([sends.clone(), taker.clone()]), Some((20, Some(20))));
        let has = PartUnits {
            arrived: vec![4, 0],
            supply: 13,
            ..taker.clone()
        };
        assert_eq!(units([sends, has]), Some((20, Some(20))));
    }

    #[test]
    fn parts_that_are_missing_or_do_not_grant_are_not_compared() {
        let (first, second) = (part(0, 10, 0), part(1, 10, 0));
        let closed = PartUnits {
            is_open: false,
            ..second.clone()
        };
        assert_eq!(units([first.clone(), closed]), None);
        let of_three = PartUnits { parts: 3, ..first };
        assert_eq!(units([of_three, second]), None);
    }

    #[test]
    fn partition_in_a_term_of_another_server_is_not_open() {
        let info = "# Replication\r\nrole:master\r\nmaster_replid:0123456789abcdef\r\n";
        let check = |info: &str, open: Option<&str>, server: Option<&str>, expected: bool| {
            let term = [open, server].map(|text| text.map(str::to_owned));
            assert_eq!(is_open(info, &term), expected, "{term:?}");
        };
        check(info, Some("e 1"), Some("01234567"), true);
        check(info, None, Some("01234567"), false);
        check(info, Some("e 1"), Some("76543210"), false);
        check(info, Some("e 1"), None, false);
        let replica = info.replace("master\r", "slave\r");
        check(&replica, Some("e 1"), Some("01234567"), false);
    }
}
