//! A partition, and a campaign of it, as both sides have them.

use super::*;

/// What Redis has of a partition.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// Fields of its state, see `keys.rs`.
    pub state: BTreeMap<String, String>,
    /// Nodes, each with the milliseconds of its last sighting, its term, and the last entry that it has observed.
    pub nodes: BTreeMap<String, String>,
    /// What repairs have done, oldest first.
    pub repairs: Vec<String>,
    /// Units that are withheld, by campaign.
    pub withheld: BTreeMap<CampaignId, u32>,
}

/// A part of a campaign from both sides.
pub(super) struct BothSides {
    pub(super) facts: PartFacts,
    pub(super) meta: CampaignMeta,
    pub(super) engine: EnginePart,
    pub(super) ledger: PartRows,
    /// Fields of the campaign's hash for one that Redis has lost.
    pub(super) fields: Vec<(&'static str, String)>,
}

type Read = (BothSides, Option<PartSnapshot>, Timestamp);

impl RedisEngine {
    /// Reads a campaign's part on both sides; none where the partition has no part of it, or nothing happened to it
    /// yet.
    pub(super) async fn read_part(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
        evidence: &Evidence,
    ) -> Result<Option<Read>, EngineError> {
        let partitions = &self.node.partitions;
        let now = partitions.time(partition).await?;
        let snapshot = partitions.snapshot(partition, campaign).await?;
        let place = match &snapshot {
            Some(snapshot) => Some((snapshot.facts.parts, snapshot.facts.index)),
            None => partitions.place(ledger, partition, campaign).await?,
        };
        let Some(place) = place else {
            return Ok(None);
        };
        let known = settled(ledger, campaign, partition, place);
        let Some(known) = known.await.map_err(of_ledger)? else {
            // Redis has what the ledger does not know: nothing can be held against it.
            return Ok(None);
        };
        if let Some(snapshot) = snapshot {
            if snapshot.facts.parts > 1 {
                partitions
                    .check_transfers(partition, &snapshot.facts)
                    .await?;
            }
            let sides = BothSides {
                facts: snapshot.facts,
                meta: snapshot.meta.clone(),
                engine: snapshot.part.clone(),
                ledger: known.rows,
                fields: Vec::new(),
            };
            return Ok(Some((sides, Some(snapshot), now)));
        }
        let happened = evidence.kept.contains_key(&campaign);
        if known.settled.phase == Phase::Draft && !happened {
            return Ok(None); // It is opened as any other draft.
        }
        let sides = partitions.lost_part(partition, place, known).await?;
        Ok(Some((sides, None, now)))
    }

    /// The rows of a campaign's part, of the engine and of the ledger, and whether the ledger knows the campaign at
    /// all: where it does not, it has no rows, and will not get them from the log. None where the partition has no part
    /// of it.
    pub(super) async fn both_sides(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<(PartRows, PartRows, bool)>, EngineError> {
        let partitions = &self.node.partitions;
        // In this order: a campaign is in the ledger before it is in Redis.
        let snapshot = partitions.snapshot(partition, campaign).await?;
        let place = match &snapshot {
            Some(snapshot) => Some((snapshot.facts.parts, snapshot.facts.index)),
            None => partitions.place(ledger, partition, campaign).await?,
        };
        let Some(place) = place else {
            return Ok(None);
        };
        let known = settled(ledger, campaign, partition, place).await;
        let known = known.map_err(of_ledger)?;
        let engine = snapshot.map_or_else(
            || PartRows::new(Phase::Draft),
            |snapshot| snapshot.part.rows,
        );
        let is_known = known.is_some();
        let known = known.map_or_else(|| PartRows::new(Phase::Draft), |known| known.rows);
        Ok(Some((engine, known, is_known)))
    }
}
