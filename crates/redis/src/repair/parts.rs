//! Shards of spread campaigns: the shard of a partition, and the content of the shards that lost nothing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use qiang_core::{
    campaign::{AckLevel, Campaign, CampaignKind, Phase},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LiveCampaign, SettledPart},
};
use tokio::time::Instant;

use super::engine_error_from_ledger;
use crate::{
    campaigns::opening::first_of,
    connection::{Arguments, eval_at_maxmemory, unavailable},
    partitions::Partitions,
    protocol::{
        reply::{GrantLine, share},
        scripts::REJECT_TRANSFERS,
    },
    shards::snapshot::{Revised, terms_in},
};

/// Milliseconds for which no units leave a shard that is read, unless its repair ends earlier.
const FREEZE_MS: u64 = 5_000;
/// Time within which all shards must be read twice.
const READ_MAX: Duration = Duration::from_millis(FREEZE_MS / 2);
/// Users whose shares one call reads.
const USERS_PAGE: usize = 2_000;

/// Script that reads and freezes one shard. The read is fenced by the term of its partition, because decisions depend
/// on it.
const FREEZE: &str = include_str!("../lua/repair_freeze.lua");

/// A shard that is repaired: its partition, and the last transfer that it may have begun before.
pub(super) type Lost = (PartitionId, Seq);

/// Content of the shards of a spread campaign that lost nothing.
#[derive(Debug, Default)]
pub(super) struct SurvivingShards {
    /// Units that they have granted, returned, still offer, withhold, or are sending to each other.
    pub(super) units: u64,
    /// The stock of a sale, if its first shard is among them and has it.
    pub(super) stock: Option<u64>,
    /// The latest terms of a sale in any of them.
    pub(super) terms: Option<Revised>,
    /// Numbers of their shares.
    pub(super) shares: BTreeSet<u32>,
    /// The last transfer that each of them has begun.
    pub(super) sent: BTreeMap<PartitionId, u64>,
    /// Number of open ones, and of unopened ones.
    pub(super) there: u16,
    pub(super) unopened: u16,
}

/// A shard as `repair_freeze.lua` replies it.
type Reply = (
    String,
    String,
    HashMap<String, String>,
    HashMap<String, String>,
    Vec<String>,
);

struct PendingTransfer {
    giver: PartitionId,
    taker: PartitionId,
    number: u64,
    units: u64,
    shares: Vec<u32>,
}

impl Partitions {
    /// Number of shards of a campaign, and its kind; `None` if the ledger does not have it.
    pub(super) async fn parts_of(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<Option<(u16, CampaignKind)>, EngineError> {
        let settled = ledger.settled_part(campaign, self.home(campaign)).await;
        match settled.map_err(engine_error_from_ledger)? {
            Some(settled) => self.parts_in(campaign, &settled).await.map(Some),
            None => Ok(None),
        }
    }

    /// As `parts_of`, for a campaign whose first shard was read.
    pub(super) async fn parts_in(
        &self,
        campaign: CampaignId,
        settled: &SettledPart,
    ) -> Result<(u16, CampaignKind), EngineError> {
        let kind = settled.record.campaign.kind();
        if settled.record.phase != Phase::Draft || settled.parts > 1 {
            return Ok((settled.parts, kind));
        }
        let plan = self.plan_of(campaign).await?;
        let parts = plan.unwrap_or_else(|| self.parts_for(&settled.record.campaign));
        Ok((parts, kind))
    }

    /// Planned number of shards of a campaign, as recorded at its home; `None` if no plan is there.
    async fn plan_of(&self, campaign: CampaignId) -> Result<Option<u16>, EngineError> {
        let home = self.home(campaign);
        let key = self.keys().plan(home, campaign);
        self.query_unfenced(home, redis::cmd("GET").arg(key)).await
    }

    /// Number of shards of a campaign whose row the ledger cannot read, and whether the ledger has a shard of it as
    /// opened. `None` if the ledger does not have it.
    pub(super) async fn parts_of_unreadable(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<Option<(u16, bool)>, EngineError> {
        let outline = ledger.campaign_outline(campaign).await;
        let Some(outline) = outline.map_err(engine_error_from_ledger)? else {
            return Ok(None);
        };
        let plan = match outline.is_draft {
            true => self.plan_of(campaign).await?,
            false => None,
        };
        let parts = plan.unwrap_or(1).max(outline.parts);
        let is_opened = !outline.is_draft || outline.parts > 1;
        Ok(Some((parts, is_opened)))
    }

    /// Whether a partition may have a shard of a campaign. Shards of a draft may have been planned since.
    pub(super) fn may_have(&self, partition: PartitionId, campaign: &LiveCampaign) -> bool {
        let LiveCampaign { id, outline } = campaign;
        outline.is_draft || self.index_of(partition, *id, outline.parts).is_some()
    }

    /// Number of shards of a campaign, and the index of this partition's shard; `None` if it has no shard.
    pub(super) async fn place(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<(u16, u16)>, EngineError> {
        let parts = self.parts_of(ledger, campaign).await?;
        Ok(parts.and_then(|(parts, _)| self.index_of(partition, campaign, parts)))
    }

    /// Reads all shards of a spread campaign that are not repaired, without missing a unit. No unit leaves them during
    /// the reads, and they have rejected the transfers from and to shards that are repaired.
    pub(super) async fn elsewhere(
        &self,
        token: &str,
        campaign: &Campaign,
        parts: u16,
        lost: &[Lost],
    ) -> Result<SurvivingShards, EngineError> {
        let (id, since) = (campaign.id, Instant::now());
        let others: Vec<(u16, PartitionId)> = (0..parts)
            .map(|index| (index, self.for_part(id, index)))
            .filter(|(_, partition)| lost.iter().all(|(lost, _)| lost != partition))
            .collect();
        let (mut standing, mut found) = (Vec::new(), SurvivingShards::default());
        for (_, partition) in &others {
            let reply = self.freeze(*partition, id, token, false).await?;
            let (status, held, _, journal, _) = reply;
            if status == "ok" && held.is_empty() {
                return Err(may_have_moved(id));
            }
            for (taker, transfer) in &journal {
                let read = read_standing(*partition, taker, transfer);
                standing.push(read.ok_or_else(|| unreadable_part(id, *partition))?);
            }
        }
        let mut arrived: BTreeMap<(PartitionId, PartitionId), u64> = BTreeMap::new();
        for (index, partition) in &others {
            let reply = self.freeze(*partition, id, token, true).await?;
            let (status, held, fields, _, shares) = reply;
            if status != "ok" {
                // It is opened later, with its initial units.
                found.unopened += 1;
                let first = first_of(campaign.supply(), parts, *index);
                found.units += first;
                if campaign.kind() == CampaignKind::RedPacket {
                    let numbers = 1 + u32::from(*index)..=campaign.supply() as u32;
                    found.shares.extend(numbers.step_by(usize::from(parts)));
                }
                continue;
            }
            if held.is_empty() || since.elapsed() > READ_MAX {
                return Err(may_have_moved(id));
            }
            found.there += 1;
            let bad = || unreadable_part(id, *partition);
            let number = |name: &str| {
                let value = fields.get(name).map_or("0", String::as_str);
                value.parse::<u64>().map_err(|_| bad())
            };
            found.units += number("supply")? + number("withheld")?;
            found.sent.insert(*partition, number("sent")?);
            if *index == 0 && fields.contains_key("stock") {
                found.stock = Some(number("stock")?);
            }
            let terms = terms_in(&fields);
            found.terms = found
                .terms
                .into_iter()
                .chain(terms)
                .max_by_key(|known| known.0);
            for (_, giver) in &others {
                let last = number(&format!("from:{}", giver.0))?;
                arrived.insert((*giver, *partition), last);
            }
            let withheld = fields.get("withheld_shares").map_or("", String::as_str);
            let texts = shares.iter().map(String::as_str).chain(withheld.lines());
            for text in texts {
                found.shares.insert(share(text).ok_or_else(bad)?.0);
            }
            if campaign.kind() == CampaignKind::RedPacket {
                self.granted_shares(*partition, id, &mut found.shares)
                    .await?;
            }
        }
        for transfer in standing {
            // In any state, it has not reached a shard that is repaired.
            found.shares.extend(transfer.shares);
            let last = arrived.get(&(transfer.giver, transfer.taker));
            if last.is_none_or(|last| *last < transfer.number) {
                found.units += transfer.units;
            }
        }
        Ok(found)
    }

    /// Lets units leave the shards again that were read.
    pub(super) async fn thaw(&self, token: &str, campaign: CampaignId, read: &SurvivingShards) {
        for partition in read.sent.keys() {
            let command = self.freeze_command(*partition, campaign, token, 0, false);
            // If this fails, the freeze expires.
            let _: Result<Reply, EngineError> = self.query(*partition, &command).await;
        }
    }

    /// Makes the surviving shards reject transfers that the lost ones sent, and delete those to them. From then on no
    /// units move between both. If a surviving shard knows a later transfer of a lost one, it refuses the step: then
    /// the result is that lost shard and the transfer.
    pub(super) async fn reject_transfers(
        &self,
        token: &str,
        (campaign, parts): (CampaignId, u16),
        lost: &[Lost],
    ) -> Result<Option<Lost>, EngineError> {
        for index in 0..parts {
            let partition = self.for_part(campaign, index);
            if lost.iter().any(|(lost, _)| *lost == partition) {
                continue;
            }
            // No units may leave it for a lost shard afterwards.
            self.freeze(partition, campaign, token, false).await?;
            for (lost, last) in lost {
                let asks = Some(AckLevel::Memory);
                let arguments: Arguments<'_> = &|command| command.arg(lost.0).arg(*last);
                let call = self.call(partition, &REJECT_TRANSFERS, campaign, asks, arguments);
                let rejected = call.await?;
                if rejected.is_stale() {
                    let last = rejected.text().parse();
                    let last = last.map_err(|_| unreadable_part(campaign, partition))?;
                    return Ok(Some((*lost, last)));
                }
            }
        }
        Ok(None)
    }

    async fn freeze(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        token: &str,
        with_shares: bool,
    ) -> Result<Reply, EngineError> {
        let command = self.freeze_command(partition, campaign, token, FREEZE_MS, with_shares);
        self.query(partition, &command).await
    }

    fn freeze_command(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        token: &str,
        millis: u64,
        with_shares: bool,
    ) -> redis::Cmd {
        let keys = self.keys();
        let keys = [
            keys.campaign(partition, campaign),
            keys.transfers(partition, campaign),
            keys.for_campaign(partition, campaign, "shares"),
        ];
        let mut command = eval_at_maxmemory(FREEZE, &keys);
        command.arg(token).arg(millis).arg(u8::from(with_shares));
        command
    }

    /// Adds the shares that users of a shard have. Shares that were free earlier were read earlier.
    async fn granted_shares(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        shares: &mut BTreeSet<u32>,
    ) -> Result<(), EngineError> {
        let key = self.keys().users(partition, campaign);
        let mut cursor = "0".to_owned();
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(&key).arg(&cursor).arg("COUNT").arg(USERS_PAGE);
            let (next, fields): (String, Vec<String>) = self.query(partition, &command).await?;
            for text in fields.iter().skip(1).step_by(2) {
                let row = GrantLine::parse(CampaignKind::RedPacket, text);
                let row = row.ok_or_else(|| unreadable_part(campaign, partition))?;
                shares.insert(row.number);
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

/// Parses a journal's transfer to one shard.
fn read_standing(giver: PartitionId, taker: &str, transfer: &str) -> Option<PendingTransfer> {
    let mut lines = transfer.split('\n');
    Some(PendingTransfer {
        giver,
        taker: PartitionId(taker.parse().ok()?),
        number: lines.next()?.parse().ok()?,
        units: lines.next()?.parse().ok()?,
        shares: lines
            .map(|text| share(text).map(|(number, _)| number))
            .collect::<Option<_>>()?,
    })
}

fn may_have_moved(id: CampaignId) -> EngineError {
    unavailable(format!(
        "units of campaign {id} may have moved while its shards were read"
    ))
}

fn unreadable_part(campaign: CampaignId, partition: PartitionId) -> EngineError {
    unavailable(format!(
        "the shard of campaign {campaign} in partition {} cannot be read",
        partition.0
    ))
}
