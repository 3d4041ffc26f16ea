//! Opening of campaigns: prefill of shares, then the entry that opens each shard.
//!
//! Any node may repeat each step: shares are written by offset, and an open shard does not change. The number of shards
//! is recorded before the first shard opens. So a node with another configuration that finishes the work uses the same
//! number. The home shard opens last; only then is the campaign known.

use std::time::Duration;

use crate::{
    campaigns::unopened_shards::UnopenedShards,
    connection::{Script, ScriptReply, unavailable},
    node::Node,
    protocol::{
        reply::share_text,
        scripts::{OPEN, PRELOAD_SHARES, SAVE_SHARD_COUNT},
    },
    shards::sums::sums_of,
};
use qiang_core::{
    admission::AdmissionRatio,
    book::Setup,
    campaign::{Campaign, Rules},
    event::PartitionId,
    fair_share::OwnerDigest,
    ports::EngineError,
    split::SplitRule,
    time::Timestamp,
};
use redis::Cmd;

/// Shares written by one call.
pub(crate) const CHUNK: usize = 1_000;
/// Maximum attempts of a step. The ledger is settled further before each one.
const ATTEMPTS_MAX: usize = 5;
/// Pause before the ledger is read again.
const PAUSE: Duration = Duration::from_millis(50);

const LEDGER_BEHIND: &str =
    "the ledger lacks entries of evicted campaigns: the campaign may have been open before";

/// Share of a campaign's supply and shares that one shard gets.
pub(crate) struct ShardShare {
    index: u16,
    parts: u16,
    pub(crate) supply: u64,
    pub(crate) funded_minor: i64,
    /// Numbers and amounts of its shares, in the order of grants.
    pub(crate) shares: Vec<(u32, i64)>,
}

impl ShardShare {
    pub(crate) fn from_setup(setup: &Setup, index: u16, parts: u16) -> Self {
        let supply = setup.campaign.supply();
        let shares: Vec<(u32, i64)> = (1..)
            .zip(setup.shares.iter().copied())
            .skip(usize::from(index))
            .step_by(usize::from(parts))
            .collect();
        let funded_minor = if parts == 1 {
            setup.campaign.funded_minor()
        } else {
            shares.iter().map(|(_, amount)| amount).sum()
        };
        Self {
            index,
            parts,
            supply: first_of(supply, parts, index),
            funded_minor,
            shares,
        }
    }
}

impl Node {
    /// Opens a campaign.
    pub(crate) async fn open(&self, setup: &Setup) -> Result<(), EngineError> {
        if self.open_together(setup).await? {
            return Ok(());
        }
        let id = setup.campaign.id;
        let Some(parts) = self.plan(setup).await? else {
            return Ok(());
        };
        // The home shard is the first one, and opens last.
        for index in (0..parts).rev() {
            let part = ShardShare::from_setup(setup, index, parts);
            self.open_part(self.partitions.for_part(id, index), setup, &part)
                .await?;
        }
        self.partitions.meta(id).await.map(drop)
    }

    /// Number of partitions over which the campaign is spread, decided by the first node that opens it. `None` if the
    /// campaign was evicted.
    ///
    /// The home is asked before a shard opens. A campaign that was evicted there may never have been in the other
    /// partitions that today's configuration uses. They would accept it as new.
    async fn plan(&self, setup: &Setup) -> Result<Option<u16>, EngineError> {
        let (id, parts) = (
            setup.campaign.id,
            self.partitions.parts_for(&setup.campaign),
        );
        let mut unopened = UnopenedShards::default();
        let home = self.partitions.home(id);
        let planned = self
            .step(
                home,
                &SAVE_SHARD_COUNT,
                setup,
                &mut unopened,
                &|command, unopened| {
                    // Some shards may be open already, and Redis may have lost the plan.
                    command.arg(unopened.parts.unwrap_or(parts));
                },
            )
            .await?;
        match planned.map(|reply| reply.text().parse().ok()) {
            Some(Some(parts)) => Ok(Some(parts)),
            // Redis has the campaign.
            Some(None) => Ok(self.partitions.meta(id).await?.map(|meta| meta.parts)),
            None => Ok(None),
        }
    }

    /// Opens a shard, unless it was open before, closed and evicted.
    async fn open_part(
        &self,
        partition: PartitionId,
        setup: &Setup,
        part: &ShardShare,
    ) -> Result<(), EngineError> {
        let mut unopened = UnopenedShards::default();
        let sums = sums_of(&part.shares);
        for (chunk, shares) in part.shares.chunks(CHUNK).enumerate() {
            let offset = chunk * CHUNK;
            let here: Vec<_> = sums
                .iter()
                .filter(|(at, _, _)| (offset..offset + shares.len()).contains(at))
                .collect();
            let warmed = self
                .step(
                    partition,
                    &PRELOAD_SHARES,
                    setup,
                    &mut unopened,
                    &|command, _| {
                        command.arg(offset).arg(here.len());
                        for (_, place, sum) in &here {
                            command.arg(place).arg(sum);
                        }
                        for (number, amount) in shares {
                            command.arg(share_text(*number, *amount));
                        }
                    },
                )
                .await?;
            if warmed.is_none() {
                return Ok(());
            }
        }
        let place = (part.parts, part.index);
        let campaign = (&setup.campaign, setup.campaign.window.starts_at());
        let fields = fields_of(campaign, place, part.supply, part.funded_minor);
        self.step(partition, &OPEN, setup, &mut unopened, &|command, _| {
            command.arg(part.shares.len()).arg(&fields);
        })
        .await
        .map(drop)
    }

    /// Runs one step of opening. `None` if the campaign was evicted. If Redis cannot exclude that, the ledger is read
    /// and the step repeated. If another campaign is evicted in the meantime, the ledger is read once more.
    async fn step(
        &self,
        partition: PartitionId,
        script: &'static Script,
        setup: &Setup,
        unopened: &mut UnopenedShards,
        arguments: &(dyn Fn(&mut Cmd, UnopenedShards) + Send + Sync),
    ) -> Result<Option<ScriptReply>, EngineError> {
        let campaign = (setup.campaign.id, setup.campaign.ack);
        let created_ms = setup.campaign.created_at.as_millis();
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 1 {
                // The ledger was read before, and lacked entries.
                tokio::time::sleep(PAUSE).await;
            }
            let known = *unopened;
            let reply = self
                .partitions
                .change(partition, script, campaign, &|command| {
                    command.arg(created_ms).arg(known.upto);
                    arguments(command, known);
                    command
                })
                .await?;
            if reply.is_ok() {
                return Ok(Some(reply));
            }
            if reply.status != "left" {
                let (name, status) = (script.name, &reply.status);
                let reason = format!("{name} replied {status} {}", reply.text());
                return Err(unavailable(reason));
            }
            match self.unopened(partition, setup.campaign.id).await? {
                Some(found) => *unopened = found,
                None => return Ok(None),
            }
        }
        Err(unavailable(LEDGER_BEHIND))
    }
}

/// Units that the shard at `index` of `parts` gets when the campaign opens.
pub(crate) fn first_of(supply: u64, parts: u16, index: u16) -> u64 {
    let parts = u64::from(parts);
    supply / parts + u64::from(u64::from(index) < supply % parts)
}

/// Fields of a campaign's hash when one of its shards opens. Redis finds a field of a hash this small by a scan from
/// the start. So the fields that each batch of claims reads or writes come first.
pub(crate) fn fields_of(
    (campaign, origin): (&Campaign, Timestamp),
    (parts, index): (u16, u16),
    supply: u64,
    funded_minor: i64,
) -> Vec<(&'static str, String)> {
    let window = campaign.window;
    let mut fields = vec![
        ("remaining", supply.to_string()),
        ("granted", "0".to_owned()),
        ("grants", "0".to_owned()),
        ("last", "0".to_owned()),
        ("kind", campaign.kind().name().to_owned()),
        ("phase", "s".to_owned()),
        ("starts", origin.as_millis().to_string()),
        ("ends", window.ends_at().as_millis().to_string()),
        ("version", "1".to_owned()),
    ];
    match &campaign.rules {
        Rules::Sale(sale) => {
            fields.push(("limit", campaign.per_user_limit().to_string()));
            fields.push(("price", sale.unit_price().minor.to_string()));
            fields.push(("hold", sale.hold_ms().to_string()));
            fields.push(("rule", "sale".to_owned()));
            let percent = sale.admission().map_or(0, AdmissionRatio::percent);
            fields.push(("admit", percent.to_string()));
        }
        Rules::RedPacket(packet) => {
            match packet.split.rule() {
                SplitRule::Lazy { min } => {
                    fields.push(("rule", "lazy".to_owned()));
                    fields.push(("money", packet.split.total().to_string()));
                    fields.push(("seed", packet.seed.to_string()));
                    fields.push(("min", min.to_string()));
                }
                _ => fields.push(("rule", "shares".to_owned())),
            }
            fields.push(("limit", campaign.per_user_limit().to_string()));
            fields.push(("hold", "0".to_owned()));
        }
    }
    fields.extend([
        ("parts", parts.to_string()),
        ("index", index.to_string()),
        ("first", "1".to_owned()),
        ("ack", campaign.ack.name().to_owned()),
        ("owner", OwnerDigest::of(&campaign.owner).to_string()),
        ("supply", supply.to_string()),
        ("funded", funded_minor.to_string()),
        ("returned", "0".to_owned()),
        ("refunded", "0".to_owned()),
    ]);
    if parts > 1 && index == 0 {
        // Its units move between shards, so the first shard has the number of all: see set_stock.lua.
        fields.push(("stock", campaign.supply().to_string()));
    }
    fields
}
