//! Parts of spread campaigns: which one a partition has, and what the parts that have lost nothing have.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::connection::{Arguments, eval_at_maxmemory, unavailable};
use qiang_core::{
    campaign::{AckLevel, Campaign, CampaignKind, Phase},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, SettledPart},
};
use tokio::time::Instant;

use super::of_ledger;
use crate::{
    campaigns::opening::first_of,
    partitions::Partitions,
    protocol::{
        reply::{Row, share},
        scripts::REJECT_TRANSFERS,
    },
    shards::snapshot::{Revised, terms_in},
};

/// For how long units of a part that is read stay where they are, unless its repair is over before.
const FREEZE_MS: u64 = 5_000;
/// In how much of this time all parts must be read twice.
const READ_MAX: Duration = Duration::from_millis(FREEZE_MS / 2);
/// Users whose shares are read by one call.
const USERS_PAGE: usize = 2_000;

/// Reads and freezes one part. It is read in the term of its partition, as everything that something is decided by.
const FREEZE: &str = include_str!("../lua/repair_freeze.lua");

/// A part that is repaired: its partition, and the last transfer that it may have begun before.
pub(super) type Lost = (PartitionId, Seq);

/// What the parts of a spread campaign have that have lost nothing.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// Units that they have handed out, returned, can hand out, withhold, or are sending to each other.
    pub(super) units: u64,
    /// The stock of a sale, if its first part is among them and says it.
    pub(super) stock: Option<u64>,
    /// The latest terms of a sale that any of them has.
    pub(super) terms: Option<Revised>,
    /// Numbers of the shares among them.
    pub(super) shares: BTreeSet<u32>,
    /// The last transfer that each of them has begun.
    pub(super) sent: BTreeMap<PartitionId, u64>,
    /// How many there are, and how many that were not opened yet.
    pub(super) there: u16,
    pub(super) unopened: u16,
}

/// A part as `repair_freeze.lua` replies it.
type Reply = (
    String,
    String,
    HashMap<String, String>,
    HashMap<String, String>,
    Vec<String>,
);

struct Standing {
    giver: PartitionId,
    taker: PartitionId,
    number: u64,
    units: u64,
    shares: Vec<u32>,
}

impl Partitions {
    /// Over how many partitions a campaign is spread, and what it is; none if the ledger does not know it.
    pub(super) async fn parts_of(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<Option<(u16, CampaignKind)>, EngineError> {
        let settled = ledger.settled_part(campaign, self.home(campaign)).await;
        match settled.map_err(of_ledger)? {
            Some(settled) => self.parts_in(campaign, &settled).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same of a campaign whose first part was read.
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

    /// Over how many partitions a campaign is to be spread, as its home has it; `None` if it was never opened there.
    async fn plan_of(&self, campaign: CampaignId) -> Result<Option<u16>, EngineError> {
        let home = self.home(campaign);
        let key = self.keys().plan(home, campaign);
        self.query_unfenced(home, redis::cmd("GET").arg(key)).await
    }

    /// Over how many partitions a campaign is spread whose row the ledger cannot read; `None` if the ledger does not
    /// have it. Also whether it is a draft there.
    pub(super) async fn parts_of_unreadable(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<Option<(u16, bool)>, EngineError> {
        let outline = ledger.campaign_outline(campaign).await;
        let Some(outline) = outline.map_err(of_ledger)? else {
            return Ok(None);
        };
        let plan = match outline.is_draft {
            true => self.plan_of(campaign).await?,
            false => None,
        };
        let parts = plan.unwrap_or(1).max(outline.parts);
        Ok(Some((parts, outline.is_draft)))
    }

    /// The part of a campaign that a partition has, as number of parts and place among them; none where it has no part.
    pub(super) async fn place(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<(u16, u16)>, EngineError> {
        let parts = self.parts_of(ledger, campaign).await?;
        Ok(parts.and_then(|(parts, _)| self.index_of(partition, campaign, parts)))
    }

    /// Reads all parts of a spread campaign but those that are repaired, so that no unit is missed: nothing leaves any
    /// of them while they are read, and they have rejected the transfers from and to parts that are repaired.
    pub(super) async fn elsewhere(
        &self,
        token: &str,
        campaign: &Campaign,
        parts: u16,
        lost: &[Lost],
    ) -> Result<Elsewhere, EngineError> {
        let (id, since) = (campaign.id, Instant::now());
        let others: Vec<(u16, PartitionId)> = (0..parts)
            .map(|index| (index, self.of_part(id, index)))
            .filter(|(_, partition)| lost.iter().all(|(lost, _)| lost != partition))
            .collect();
        let (mut standing, mut found) = (Vec::new(), Elsewhere::default());
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
                // It is opened later, with what it was to have at first.
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
            // Whatever has become of it since: it has not come to a part that is repaired.
            found.shares.extend(transfer.shares);
            let last = arrived.get(&(transfer.giver, transfer.taker));
            if last.is_none_or(|last| *last < transfer.number) {
                found.units += transfer.units;
            }
        }
        Ok(found)
    }

    /// Lets units leave the parts again that were read.
    pub(super) async fn thaw(&self, token: &str, campaign: CampaignId, read: &Elsewhere) {
        for partition in read.sent.keys() {
            let command = self.freeze_command(*partition, campaign, token, 0, false);
            // Otherwise they do after a while.
            let _: Result<Reply, EngineError> = self.query(*partition, &command).await;
        }
    }

    /// Makes the surviving parts reject transfers that the lost ones had sent, and forget those to them: no units are
    /// in flight between both from then on. If a surviving part knows a later transfer of a lost one, it refuses the
    /// step: returns that lost part and the transfer.
    pub(super) async fn reject_transfers(
        &self,
        token: &str,
        (campaign, parts): (CampaignId, u16),
        lost: &[Lost],
    ) -> Result<Option<Lost>, EngineError> {
        for index in 0..parts {
            let partition = self.of_part(campaign, index);
            if lost.iter().any(|(lost, _)| *lost == partition) {
                continue;
            }
            // No units may leave it for a lost part afterwards.
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
            keys.of_campaign(partition, campaign, "shares"),
        ];
        let mut command = eval_at_maxmemory(FREEZE, &keys);
        command.arg(token).arg(millis).arg(u8::from(with_shares));
        command
    }

    /// Adds the shares that users of a part have. A share that could still be had before was read before.
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
                let row = Row::parse(CampaignKind::RedPacket, text);
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

/// What a journal has for one part.
fn read_standing(giver: PartitionId, taker: &str, transfer: &str) -> Option<Standing> {
    let mut lines = transfer.split('\n');
    Some(Standing {
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
        "units of campaign {id} may have moved while its parts were read"
    ))
}

fn unreadable_part(campaign: CampaignId, partition: PartitionId) -> EngineError {
    unavailable(format!(
        "the part of campaign {campaign} in partition {} cannot be read",
        partition.0
    ))
}
