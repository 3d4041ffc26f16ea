//! Taking a campaign up: warm-up of its shares, then the entry that opens it, part by part.
//!
//! Every step may be repeated, by any node: shares are put in place by offset, and what is open stays as it is. The
//! number of parts is written down before the first part opens, so that a node with another configuration that
//! finishes the work spreads the campaign alike. The home part opens last: only then is the campaign known.

use std::time::Duration;

use crate::connection::{Script, ScriptReply, unavailable};
use crate::{
    campaigns::unopened_shards::Unopened,
    node::Node,
    protocol::{
        reply::share_text,
        scripts::{OPEN, PRELOAD_SHARES, SAVE_SHARD_COUNT},
    },
};
use qiang_core::{
    admission::AdmissionRatio,
    book::Setup,
    campaign::{Campaign, Rules},
    event::PartitionId,
    ports::EngineError,
    split::SplitRule,
    time::Timestamp,
};
use redis::Cmd;

/// Shares put in place by one call.
pub(crate) const CHUNK: usize = 1_000;
/// How often a step is tried, as of a ledger that is settled further each time.
const ATTEMPTS_MAX: usize = 5;
/// The pause before the ledger is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// After how many shares a sum of what is left is kept; as in the scripts.
const SUM_EVERY: usize = 1_000;

const LEDGER_BEHIND: &str =
    "the ledger does not have all that has left Redis: the campaign may have been open";

/// What one part gets of a campaign.
pub(crate) struct Part {
    index: u16,
    parts: u16,
    pub(crate) supply: u64,
    pub(crate) funded_minor: i64,
    /// Numbers and amounts of its shares, in the order in which they are handed out.
    pub(crate) shares: Vec<(u32, i64)>,
}

impl Part {
    pub(crate) fn of(setup: &Setup, index: u16, parts: u16) -> Self {
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
    /// Takes a campaign up.
    pub(crate) async fn open(&self, setup: &Setup) -> Result<(), EngineError> {
        if self.open_together(setup).await? {
            return Ok(());
        }
        let id = setup.campaign.id;
        let Some(parts) = self.plan(setup).await? else {
            return Ok(());
        };
        // The home part, which is the first, comes last.
        for index in (0..parts).rev() {
            let part = Part::of(setup, index, parts);
            self.open_part(self.partitions.of_part(id, index), setup, &part)
                .await?;
        }
        self.partitions.meta(id).await.map(drop)
    }

    /// Over how many partitions the campaign is spread, as the first node to open it has decided; none if it has left.
    ///
    /// This is asked of the home before anything is opened: what has left there may never have been in the other
    /// partitions over which it would be spread today, and they would take it for new.
    async fn plan(&self, setup: &Setup) -> Result<Option<u16>, EngineError> {
        let (id, parts) = (
            setup.campaign.id,
            self.partitions.parts_for(&setup.campaign),
        );
        let mut unopened = Unopened::default();
        let home = self.partitions.home(id);
        let planned = self
            .step(
                home,
                &SAVE_SHARD_COUNT,
                setup,
                &mut unopened,
                &|command, unopened| {
                    // Some parts may be open already, and Redis may have lost the plan.
                    command.arg(unopened.parts.unwrap_or(parts));
                },
            )
            .await?;
        match planned.map(|reply| reply.text().parse().ok()) {
            Some(Some(parts)) => Ok(Some(parts)),
            // It is here.
            Some(None) => Ok(self.partitions.meta(id).await?.map(|meta| meta.parts)),
            None => Ok(None),
        }
    }

    /// Opens a part, unless it has been open, and is over for so long that it has left.
    async fn open_part(
        &self,
        partition: PartitionId,
        setup: &Setup,
        part: &Part,
    ) -> Result<(), EngineError> {
        let mut unopened = Unopened::default();
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

    /// One step of opening; none if the campaign has left. Where it may have, that is asked of the ledger, and the step
    /// is done again; another campaign may leave meanwhile, and the ledger has to be asked once more.
    async fn step(
        &self,
        partition: PartitionId,
        script: &'static Script,
        setup: &Setup,
        unopened: &mut Unopened,
        arguments: &(dyn Fn(&mut Cmd, Unopened) + Send + Sync),
    ) -> Result<Option<ScriptReply>, EngineError> {
        let campaign = (setup.campaign.id, setup.campaign.ack);
        let created_ms = setup.campaign.created_at.as_millis();
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 1 {
                // The ledger was asked, and has not had enough.
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
                let reason = format!("{name} was answered {status} {}", reply.text());
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

/// How many of a campaign's units a part of this place among so many gets when it opens.
pub(crate) fn first_of(supply: u64, parts: u16, index: u16) -> u64 {
    let parts = u64::from(parts);
    supply / parts + u64::from(u64::from(index) < supply % parts)
}

/// The sums of the last 1000, 2000, … shares: the offset at which each run begins, its number, its sum.
pub(crate) fn sums_of(shares: &[(u32, i64)]) -> Vec<(usize, usize, i64)> {
    let mut sums = Vec::new();
    let mut sum = 0;
    for (at, (_, amount)) in shares.iter().enumerate().rev() {
        sum += amount;
        let length = shares.len() - at;
        if length.is_multiple_of(SUM_EVERY) {
            sums.push((at, length / SUM_EVERY, sum));
        }
    }
    sums
}

/// The fields of a campaign's hash when it opens, for the part of this place among so many. Redis finds a field of so
/// small a hash by going through it from the start, so those come first that every batch of claims reads or writes.
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
        ("supply", supply.to_string()),
        ("funded", funded_minor.to_string()),
        ("returned", "0".to_owned()),
        ("refunded", "0".to_owned()),
    ]);
    if parts > 1 && index == 0 {
        // Its units move between parts: the first one knows how many there are, see set_stock.lua.
        fields.push(("stock", campaign.supply().to_string()));
    }
    fields
}
