//! Buyers of sales in the engine, with the units that it counts for each. They are read in pages. So a sale with
//! entries after the moment at which its numbers were read is left out.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;

use super::{AuditedPart, EngineReader, InFlight};

/// Buyers per call.
const USERS_MAX: usize = 2_000;

/// Buyers of one part of a sale.
pub(super) struct PartUsers {
    pub(super) partition: u16,
    pub(super) campaign: Arc<str>,
    /// Each with the counted units.
    pub(super) users: Vec<(String, i64)>,
}

/// Buyers of the sales among a partition's parts, which were read at the log's end `head`.
pub(super) async fn read(
    reader: &mut EngineReader,
    (partition, head): (u16, i64),
    parts: &[AuditedPart],
) -> anyhow::Result<Vec<PartUsers>> {
    let own = parts.iter().filter(|part| part.partition == partition);
    let sales = own.filter(|part| part.is_sale());
    let mut found = Vec::new();
    for part in sales {
        let campaign = Arc::clone(&part.campaign);
        let users = users_of(reader, partition, &campaign).await?;
        found.push(PartUsers {
            partition,
            campaign,
            users,
        });
    }
    let end: Option<i64> = redis::cmd("HGET")
        .arg(reader.key_of(partition, "partition"))
        .arg("seq")
        .query_async(&mut reader.conn)
        .await
        .context("cannot read Redis")?;
    let mut later: Vec<(u16, InFlight)> = Vec::new();
    let end = end.unwrap_or(i64::MAX);
    if reader.flight(partition, head, end, &mut later).await? != 0 {
        // Some of these entries are settled and trimmed already, so any sale may have changed.
        return Ok(Vec::new());
    }
    let changed: BTreeSet<_> = later.iter().map(|(_, entry)| &entry.campaign).collect();
    found.retain(|part| !changed.contains(&part.campaign));
    Ok(found)
}

async fn users_of(
    reader: &mut EngineReader,
    partition: u16,
    campaign: &str,
) -> anyhow::Result<Vec<(String, i64)>> {
    let key = reader.key_of(partition, &format!("c:{campaign}:users"));
    let (mut users, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let (next, fields): (String, Vec<String>) = redis::cmd("HSCAN")
            .arg(&key)
            .arg(&cursor)
            .arg("COUNT")
            .arg(USERS_MAX)
            .query_async(&mut reader.conn)
            .await
            .with_context(|| format!("cannot read {key}"))?;
        for pair in fields.chunks_exact(2) {
            let units = pair[1]
                .split('\t')
                .next()
                .and_then(|units| units.parse().ok());
            let units = units.with_context(|| format!("{} of {key} cannot be read", pair[0]))?;
            users.push((pair[0].clone(), units));
        }
        if next == "0" {
            // A page may have a field twice.
            users.sort();
            users.dedup();
            return Ok(users);
        }
        cursor = next;
    }
}
