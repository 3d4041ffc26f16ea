//! A partition, and a shard in it, as both sides have them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join3;
use qiang_core::{
    campaign::{Campaign, Phase},
    event::{PartitionId, Seq},
    fair_share::OwnerDigest,
    id::CampaignId,
    ports::{EngineError, Ledger},
    reconcile::{EnginePart, OwnerReturn, PartFacts, PartRows, UserUnits},
    time::Timestamp,
};

use super::engine_error_from_ledger;
use crate::{
    campaigns::opening::{fields_of, first_of},
    engine::RedisEngine,
    protocol::campaign_meta::CachedCampaign,
    shards::snapshot::{PartSnapshot, SettledRows, SettledSnapshot, facts_of, settled},
};

/// State of a partition in Redis.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Fields of its state, see `keys.rs`.
    pub state: BTreeMap<String, String>,
    /// Nodes, each with the milliseconds of its last sighting, its term, and the last entry that it has observed.
    pub nodes: BTreeMap<String, String>,
    /// Descriptions of past repairs, oldest first.
    pub repairs: Vec<String>,
    /// Withheld units by campaign.
    pub withheld: BTreeMap<CampaignId, u64>,
}

/// A shard from both sides.
pub(crate) struct BothSides {
    pub(crate) campaign: Campaign,
    pub(crate) facts: PartFacts,
    pub(crate) meta: CachedCampaign,
    /// State in Redis; if Redis has nothing, the state at the opening of the shard.
    pub(crate) engine: EnginePart,
    pub(crate) ledger: PartRows,
    /// Amounts returned to the owner, if the ledger has closed it.
    pub(crate) closed: Option<OwnerReturn>,
    /// Numbers and amounts of the shares, of all shards, that no user has in the ledger.
    pub(crate) free: Vec<(u32, i64)>,
    /// Fields of the campaign's hash for a shard that Redis has lost.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) snapshot: Option<PartSnapshot>,
    /// The last change of a sale's terms that the ledger has settled: `campaign` has these terms.
    pub(crate) settled_revision: Seq,
    /// Units of a spread campaign's shard that are withheld as before, and the numbers of shares among them.
    pub(crate) withheld: u64,
    pub(crate) withheld_shares: BTreeSet<u32>,
    pub(crate) now: Timestamp,
}

/// Rows of a shard on both sides.
pub(super) struct ComparedSides {
    pub(super) engine: PartRows,
    /// Users of a sale whose count differs from their orders.
    pub(super) wrong_users: Vec<UserUnits>,
    pub(super) ledger: PartRows,
    /// Whether the ledger has the campaign. If not, it has no rows, and will not get them from the log.
    pub(super) is_known: bool,
}

/// Result of reading a campaign.
pub(super) enum CampaignRead {
    /// Its shards in the partitions that are repaired, each with the partition's index in the group.
    Members(Vec<(usize, BothSides)>),
    /// The ledger cannot read it, for this reason.
    Unreadable(String),
}

impl BothSides {
    /// Whether Redis or the ledger has anything of it.
    pub(super) fn is_known(&self) -> bool {
        self.snapshot.is_some() || self.ledger.phase != Phase::Draft
    }
}

impl RedisEngine {
    /// Reads a campaign's shard on both sides, with the campaign's rows of the ledger. `None` if the ledger does not
    /// have the campaign.
    pub(super) async fn read_part(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
        place: (u16, u16),
        rows: &SettledRows,
    ) -> Result<Option<BothSides>, EngineError> {
        let partitions = &self.node.partitions;
        let known = async {
            let known = ledger.settled_part(campaign, partition).await;
            known.map_err(engine_error_from_ledger)
        };
        let (snapshot, now, known) = try_join3(
            partitions.snapshot(partition, campaign),
            partitions.time(partition),
            known,
        )
        .await?;
        let place = snapshot.as_ref().map_or(place, |snapshot| {
            (snapshot.facts.parts, snapshot.facts.index)
        });
        let Some(known) = known else {
            // Only Redis has the campaign, so there is nothing to compare it with.
            return Ok(None);
        };
        let known = SettledSnapshot::from_settled(known, rows, place);
        let Some(snapshot) = snapshot else {
            return Ok(Some(lost_part(place, known, now)));
        };
        Ok(Some(BothSides {
            settled_revision: known.settled.record.terms_revision,
            facts: PartFacts {
                currency: Some(known.settled.record.campaign.currency()),
                ..snapshot.facts
            },
            campaign: known.settled.record.campaign,
            meta: snapshot.meta.clone(),
            engine: snapshot.part.clone(),
            ledger: known.rows,
            closed: known.settled.closed,
            free: known.free,
            fields: Vec::new(),
            snapshot: Some(snapshot),
            withheld: 0,
            withheld_shares: BTreeSet::new(),
            now,
        }))
    }

    /// Rows of a shard in the engine and in the ledger. `None` if the partition has no shard of the campaign.
    pub(super) async fn both_sides(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<ComparedSides>, EngineError> {
        let partitions = &self.node.partitions;
        // In this order, because a campaign is in the ledger before it is in Redis.
        let snapshot = partitions.snapshot(partition, campaign).await?;
        let place = match &snapshot {
            Some(snapshot) => Some((snapshot.facts.parts, snapshot.facts.index)),
            None => partitions.place(ledger, partition, campaign).await?,
        };
        let Some(place) = place else {
            return Ok(None);
        };
        let has_none = snapshot.is_none();
        let known = settled(ledger, campaign, partition, place).await;
        let known = known.map_err(engine_error_from_ledger)?;
        if has_none
            && known
                .as_ref()
                .is_some_and(|known| known.rows.phase == Phase::Closed)
        {
            return Ok(None); // It was evicted.
        }
        let (engine, wrong_users) = match snapshot {
            Some(snapshot) => (snapshot.part.rows, snapshot.wrong_users),
            None => (PartRows::new(Phase::Draft), Vec::new()),
        };
        Ok(Some(ComparedSides {
            engine,
            wrong_users,
            is_known: known.is_some(),
            ledger: known.map_or_else(|| PartRows::new(Phase::Draft), |known| known.rows),
        }))
    }
}

/// A shard that Redis has lost, in its state before the first grant.
pub(crate) fn lost_part(
    (parts, index): (u16, u16),
    known: SettledSnapshot,
    now: Timestamp,
) -> BothSides {
    let settled_revision = known.settled.record.terms_revision;
    let origin = known.settled.record.first_start;
    let campaign = known.settled.record.campaign;
    let facts = facts_of(&campaign, parts, index);
    let meta = CachedCampaign {
        id: campaign.id,
        owner: OwnerDigest::of(&campaign.owner),
        kind: campaign.kind(),
        origin,
        window: campaign.window,
        limit: campaign.per_user_limit(),
        hold_ms: facts.hold_ms,
        parts,
        ack: campaign.ack,
        admission: campaign.admission(),
    };
    let mut rows = PartRows::new(known.settled.phase);
    if rows.phase == Phase::Draft {
        rows.phase = Phase::Scheduled;
    }
    let mut engine = EnginePart {
        rows,
        shares: Vec::new(),
        supply: first_of(campaign.supply(), parts, index),
        funded_minor: campaign.funded_minor(),
        numbered: 0,
    };
    if facts.fixed_shares {
        let own = known.rows.grants.iter();
        let own = own.map(|(number, row)| (*number, row.amount_minor));
        let is_first = |number: u32| (number - 1) % u32::from(parts) == u32::from(index);
        let shares = known.free.iter().copied().chain(own);
        engine.shares = shares.filter(|(number, _)| is_first(*number)).collect();
        engine.shares.sort_unstable();
    }
    if facts.fixed_shares && parts > 1 {
        engine.funded_minor = engine.shares.iter().map(|(_, amount)| amount).sum();
    }
    let fields = fields_of(
        (&campaign, origin),
        (parts, index),
        engine.supply,
        engine.funded_minor,
    );
    BothSides {
        settled_revision,
        campaign,
        facts,
        meta,
        engine,
        ledger: known.rows,
        closed: known.settled.closed,
        free: known.free,
        fields,
        snapshot: None,
        withheld: 0,
        withheld_shares: BTreeSet::new(),
        now,
    }
}
