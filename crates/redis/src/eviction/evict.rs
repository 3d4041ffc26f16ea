//! Eviction of closed campaigns from Redis, once the ledger has all of their entries and their retention has ended.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use qiang_core::{
    campaign::{AckLevel, CampaignKind, Phase},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RetireResult, SettledPart},
};

use crate::{
    node::Node, protocol::scripts::EVICT, quarantined::quarantined,
    shards::snapshot::engine_error_from_ledger,
};

/// Maximum campaigns of a partition checked by one step.
const SLICE: usize = 256;
/// Campaigns checked at a time.
const AT_A_TIME: usize = 8;
/// Delay until a campaign that must stay is checked again.
const AGAIN_MS: i64 = 60_000;
/// Delay if the ledger cannot read the campaign.
const DAMAGED_AGAIN_MS: i64 = 86_400_000;
/// Rows that are read from the ledger at a time.
const ROWS_PAGE: u32 = 10_000;

impl Node {
    /// Evicts closed campaigns of a partition, one slice.
    pub(crate) async fn retire(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<RetireResult, EngineError> {
        if !self.partitions.get(partition).is_open() {
            return Ok(RetireResult::default());
        }
        let kept_ms = self.partitions.options().closed_campaign_ttl.as_millis() as i64;
        let now_ms = self.now_ms(partition).await?;
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command
            .arg(self.partitions.keys().closed(partition))
            .arg("-inf")
            .arg(now_ms - kept_ms)
            .arg("LIMIT")
            .arg(0)
            .arg(SLICE);
        let due: Vec<String> = self.partitions.query(partition, &command).await?;
        if due.is_empty() {
            return Ok(RetireResult::default());
        }
        // In this order: what is closed by then has everything that is settled by now.
        let settled = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let quarantined = quarantined(partition, ledger).await?;
        let looks: Vec<_> = due
            .iter()
            .filter_map(|id| id.parse::<CampaignId>().ok())
            .map(|campaign| {
                self.retire_one(
                    (partition, campaign),
                    ledger,
                    settled,
                    &quarantined,
                    now_ms - kept_ms,
                )
            })
            .collect();
        let mut looks = stream::iter(looks).buffer_unordered(AT_A_TIME);
        let mut retired = RetireResult {
            campaigns: 0,
            more: due.len() >= SLICE,
        };
        // A campaign that cannot be read delays no other: the first error is returned at the end.
        let mut first = None;
        while let Some(looked) = looks.next().await {
            match looked {
                Ok(has_left) => retired.campaigns += u64::from(has_left),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        first.map_or(Ok(retired), Err)
    }

    async fn retire_one(
        &self,
        (partition, campaign): (PartitionId, CampaignId),
        ledger: &dyn Ledger,
        settled: Seq,
        quarantined: &BTreeSet<CampaignId>,
        due_ms: i64,
    ) -> Result<bool, EngineError> {
        let (partitions, again_ms) = (&self.partitions, due_ms + AGAIN_MS);
        if self.is_waited_for(partition, campaign).await? {
            self.look_later(partition, campaign, again_ms).await?;
            return Ok(false);
        }
        let place = |parts| partitions.index_of(partition, campaign, parts);
        let known = match closed_part(ledger, (partition, campaign), place).await {
            Ok(known) => known.filter(|_| !quarantined.contains(&campaign)),
            Err(error) => {
                // Otherwise the next step would read it first again.
                let is_damaged = matches!(error, LedgerError::Damaged { .. });
                let at_ms = if is_damaged {
                    due_ms + DAMAGED_AGAIN_MS
                } else {
                    again_ms
                };
                if is_damaged {
                    tracing::error!(
                        partition = partition.0,
                        %campaign,
                        %error,
                        "the ledger cannot read a closed campaign; it stays in Redis"
                    );
                }
                self.look_later(partition, campaign, at_ms).await?;
                return Err(engine_error_from_ledger(error));
            }
        };
        let Some((known, orders)) = known else {
            self.look_later(partition, campaign, again_ms).await?;
            return Ok(false);
        };
        let created_ms = known.record.campaign.created_at.as_millis();
        let orders = orders.map_or_else(String::new, |orders| orders.to_string());
        let asks = Some(AckLevel::Memory);
        let reply = partitions
            .call(partition, &EVICT, campaign, asks, &|command| {
                command.arg(settled).arg(created_ms).arg(numbers_of(&known));
                command.arg(&orders).arg(again_ms)
            })
            .await?;
        if reply.text() == "differs" {
            tracing::error!(
                partition = partition.0,
                %campaign,
                "the ledger lacks data of a closed campaign; it stays in Redis"
            );
        }
        Ok(reply.is_ok())
    }

    /// Whether a shard must stay, as far as Redis alone shows: one of its orders is held; or it is the first shard, and
    /// another one is here. The first shard is evicted last. It has the campaign's meta, which ticks need as long as a
    /// hold of any shard may expire.
    async fn is_waited_for(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let partitions = &self.partitions;
        let mut get = redis::cmd("HMGET");
        get.arg(partitions.keys().campaign(partition, campaign));
        get.arg(&["first", "grants", "parts", "kind", "extended"]);
        type Fields = (
            Option<u64>,
            Option<u64>,
            Option<u16>,
            Option<String>,
            Option<String>,
        );
        let (first, grants, parts, kind, extended): Fields =
            partitions.query(partition, &get).await?;
        let is_sale = kind.as_deref() == Some(CampaignKind::Sale.name());
        let oldest = first.zip(grants).filter(|_| is_sale);
        let is_held = oldest.is_some_and(|(first, grants)| first <= grants);
        if is_held || extended.is_some_and(|extended| !extended.is_empty()) {
            return Ok(true);
        }
        let is_first = partitions.home(campaign) == partition;
        for part in 1..parts.filter(|_| is_first).unwrap_or(1) {
            let other = partitions.for_part(campaign, part);
            // The content of an unreachable shard is unknown.
            let is_open = partitions.get(other).is_open();
            if !is_open || partitions.has_part(campaign, other).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn look_later(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        at_ms: i64,
    ) -> Result<(), EngineError> {
        let partitions = &self.partitions;
        let mut later = redis::cmd("ZADD");
        later.arg(partitions.keys().closed(partition));
        later.arg("XX").arg(at_ms).arg(campaign.to_string());
        let later = partitions.query::<i64>(partition, &later);
        later.await.map(drop)
    }
}

/// Counters that Redis must have for a shard, if the ledger can compute them.
fn numbers_of(known: &SettledPart) -> String {
    let record = &known.record;
    match known.parts {
        1 => format!(
            "{} {} {}",
            record.granted, record.returned, record.refunded_minor
        ),
        _ => String::new(),
    }
}

/// A closed shard in the ledger, with the number of its orders if it is a sale. They may be fewer than Redis has
/// numbered, if a repair could not name a user. `None` while another shard is not closed, because units may return from
/// there. `place` maps the number of shards to this shard's place.
async fn closed_part(
    ledger: &dyn Ledger,
    (partition, campaign): (PartitionId, CampaignId),
    place: impl Fn(u16) -> Option<(u16, u16)>,
) -> Result<Option<(SettledPart, Option<u64>)>, LedgerError> {
    let known = ledger.settled_part(campaign, partition).await?;
    let Some(known) = known.filter(|known| known.record.phase == Phase::Closed) else {
        return Ok(None);
    };
    if known.record.campaign.kind() == CampaignKind::RedPacket {
        return Ok(Some((known, None)));
    }
    let (parts, index) = place(known.parts).map_or((1, 0), |(parts, index)| {
        (u32::from(parts), u32::from(index))
    });
    let (mut count, mut after) = (0, 0);
    loop {
        let page = ledger.settled_rows(campaign, after, ROWS_PAGE).await?;
        let own = page.iter().filter(|row| (row.number - 1) % parts == index);
        count += own.count() as u64;
        match page.last() {
            Some(last) if page.len() == ROWS_PAGE as usize => after = last.number,
            _ => return Ok(Some((known, Some(count)))),
        }
    }
}
