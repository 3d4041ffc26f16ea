//! Campaigns whose keys do not match: a key was deleted, has expired, was evicted, overwritten or set back.
//!
//! Such a campaign is rebuilt like one that Redis has lost. Its keys are removed once the ledger has each entry of the
//! log, so the ledger's rows are complete. Until the halt ends, a repair that stops and starts again does the same.

use std::{collections::BTreeSet, sync::LazyLock};

use qiang_core::{
    campaign::{CampaignKind, Phase},
    event::PartitionId,
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairEngine as _},
};

use super::engine_error_from_ledger;
use crate::{
    connection::{KeySpace, eval, is_wrong_type},
    engine::RedisEngine,
    protocol::scripts::{OLDER, SKIPPED},
    quarantined::quarantined,
    repair::rebuild::Rebuild,
};

/// Script that names the mismatched key of each campaign.
static LOOK: LazyLock<String> = LazyLock::new(|| {
    let parts = [
        OLDER,
        SKIPPED,
        include_str!("../lua/whole.lua"),
        include_str!("../lua/repair_look.lua"),
    ];
    parts.concat()
});
/// Prefix of a partition's fields that name damaged campaigns.
const NOTED: &str = "damaged:";
/// Campaigns that one call checks.
const LOOK_AT: usize = 100;
/// Keys of a campaign that a repair writes, in the order of `repair_look.lua`.
const KEYS: [&str; 8] = [
    "",
    ":shares",
    ":sums",
    ":users",
    ":orders",
    ":payments",
    ":transfers",
    ":keys",
];

fn keys_of(keys: &KeySpace, partition: PartitionId, campaign: CampaignId) -> Vec<String> {
    let hash = keys.campaign(partition, campaign);
    KEYS.iter().map(|rest| format!("{hash}{rest}")).collect()
}

impl RedisEngine {
    /// Removes the keys of damaged campaigns, so that they are rebuilt from the ledger, and returns these campaigns. If
    /// the ledger lacks entries of one, or has some in quarantine, rows that Redis can still read stay and are united
    /// with the ledger's. `late` are closed campaigns that the repair also unites.
    pub(super) async fn drop_damaged(
        &self,
        rebuild: &Rebuild<'_>,
        ledger: &dyn Ledger,
        is_settled: bool,
        late: &BTreeSet<CampaignId>,
    ) -> Result<BTreeSet<CampaignId>, EngineError> {
        let (partition, partitions) = (rebuild.partition, &self.node.partitions);
        let mut names = redis::cmd("HKEYS");
        names.arg(partitions.keys().partition(partition));
        let names: Vec<String> = partitions.query_unfenced(partition, &names).await?;
        let noted = names.iter().filter_map(|name| name.strip_prefix(NOTED));
        let mut damaged: BTreeSet<CampaignId> = noted.filter_map(|id| id.parse().ok()).collect();
        let mut looked_at = self.live_campaigns(partition, ledger).await?;
        looked_at.extend(late);
        for campaigns in looked_at.chunks(LOOK_AT) {
            let keys = campaigns.iter();
            let keys = keys.flat_map(|campaign| keys_of(partitions.keys(), partition, *campaign));
            let look = eval(&LOOK, &keys.collect::<Vec<_>>());
            let broken: Vec<String> = partitions.query_unfenced(partition, &look).await?;
            let broken = campaigns.iter().zip(&broken);
            let broken = broken.filter(|(_, key)| !key.is_empty());
            damaged.extend(broken.map(|(campaign, _)| *campaign));
        }
        if damaged.is_empty() {
            return Ok(damaged);
        }
        let quarantined = quarantined(partition, ledger).await?;
        for campaign in &damaged {
            let known = match ledger.settled_part(*campaign, partition).await {
                Err(LedgerError::Damaged { .. }) => None,
                known => known.map_err(engine_error_from_ledger)?,
            };
            let is_complete = is_settled
                && !quarantined.contains(campaign)
                && known.as_ref().is_some_and(|it| it.phase != Phase::Draft);
            let kind = known.as_ref().map(|it| it.record.campaign.kind());
            tracing::warn!(
                partition = partition.0,
                %campaign,
                is_complete,
                "campaign keys in Redis do not match; the repair rebuilds the campaign"
            );
            for (key, rest) in keys_of(partitions.keys(), partition, *campaign)
                .iter()
                .zip(KEYS)
            {
                let follows =
                    kind == Some(CampaignKind::Sale) && matches!(rest, ":users" | ":keys");
                if is_complete || follows || self.has_wrong_type(partition, key, rest).await? {
                    rebuild.clear(key).await?;
                }
            }
        }
        Ok(damaged)
    }

    async fn has_wrong_type(
        &self,
        partition: PartitionId,
        key: &str,
        rest: &str,
    ) -> Result<bool, EngineError> {
        let mut length = redis::cmd(if rest == ":shares" { "LLEN" } else { "HLEN" });
        length.arg(key);
        let partitions = &self.node.partitions;
        let length: Result<i64, EngineError> = partitions.query_unfenced(partition, &length).await;
        match length {
            Ok(_) => Ok(false),
            Err(error) if is_wrong_type(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
