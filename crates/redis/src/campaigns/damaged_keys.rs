//! Campaigns with mismatched keys in Redis: finds them, and rebuilds them from the ledger.
//!
//! A key was deleted, has expired, was evicted or was overwritten. Scripts compare the counts in the campaign's hash
//! with its other keys (`whole.lua`). If these differ, they decide nothing and record the campaign in `damaged:ID`. The
//! calling node removes the campaign's keys and waits until the ledger has each entry that may be about it. Then it
//! reloads the campaign like an evicted one (`recall.rs`). Other campaigns are not affected.
//!
//! A shard of a spread campaign depends on the other shards, and quarantined entries are not in the ledger's rows. In
//! these cases the partition halts with an empty loss, and the repair rebuilds the campaign (`repair/damage.rs`). A
//! spread campaign whose shards are removed already waits for its quarantine first.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    campaign::{AckLevel, Phase},
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, SettledPart},
};
use tokio::time::Instant;

use crate::{
    connection::{is_wrong_type, unavailable},
    node::Node,
    partitions::Partitions,
    protocol::{campaign_meta::CachedCampaign, scripts::DAMAGE},
    quarantined::{incompleteness, quarantined},
    shards::snapshot::engine_error_from_ledger,
};

/// Pause before the ledger's position is read again.
const PAUSE: Duration = Duration::from_millis(20);

/// State of a campaign's keys in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CampaignKeys {
    /// They match.
    Whole,
    /// Some do not match the others.
    Damaged,
    /// They are removed. No later entry than this one is about the campaign.
    Gone(Seq),
}

impl Partitions {
    /// Checks a campaign's keys, and applies an action to damaged ones: `look`, `take` or `halt`, see `damage.lua`.
    async fn look_at_keys(
        &self,
        (partition, campaign): (PartitionId, CampaignId),
        is_open: bool,
        (what, reason): (&str, &str),
    ) -> Result<CampaignKeys, EngineError> {
        let asks = Some(AckLevel::Memory);
        let reply = self
            .call(partition, &DAMAGE, campaign, asks, &|command| {
                command.arg(u8::from(is_open)).arg(what).arg(reason)
            })
            .await?;
        match (reply.status.as_str(), reply.text().as_str()) {
            ("ok", "") => Ok(CampaignKeys::Whole),
            ("ok", entry) => {
                let entry = entry.parse();
                let unreadable = |_| unavailable("an entry cannot be read");
                entry.map(CampaignKeys::Gone).map_err(unreadable)
            }
            _ => Ok(CampaignKeys::Damaged),
        }
    }

    /// Whether a closed campaign's keys match, or are absent because it was evicted.
    pub(crate) async fn are_whole(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let keys = self.look_at_keys((partition, campaign), false, ("look", ""));
        Ok(keys.await? == CampaignKeys::Whole)
    }

    /// Whether a campaign's keys were damaged and are removed.
    pub(crate) async fn are_gone(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let mut get = redis::cmd("HGET");
        get.arg(self.keys().partition(partition));
        get.arg(format!("damaged:{campaign}"));
        let noted: Option<String> = self.query(partition, &get).await?;
        Ok(noted.is_some_and(|noted| noted != "?"))
    }
}

impl Node {
    /// Removes the keys of a damaged campaign, and waits until the ledger has all entries that may be about it. Returns
    /// whether they are gone. `known` is the home's shard in the ledger.
    ///
    /// # Errors
    /// If the ledger lacks entries for too long. If the campaign needs a repair of its partition, which is then halted.
    pub(crate) async fn take_damaged(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
        known: &SettledPart,
        is_behind: bool,
    ) -> Result<bool, EngineError> {
        let (parts, mut are_gone, mut failed) = (known.parts.max(1), false, None);
        let is_open = !is_behind && !matches!(known.phase, Phase::Draft | Phase::Closed);
        for index in 0..parts {
            let partition = self.partitions.for_part(campaign, index);
            let place = (partition, campaign);
            let is_open = is_open && index == 0;
            let look = |what| self.partitions.look_at_keys(place, is_open, (what, ""));
            let mut keys = match look("look").await {
                Ok(CampaignKeys::Whole) => continue,
                Ok(keys) => keys,
                // Another shard may be damaged too, and a repair needs all of them halted.
                Err(error) if parts > 1 => {
                    failed.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if parts > 1 {
                let kept_out = match keys {
                    CampaignKeys::Gone(_) => self.kept_out(ledger, campaign, parts).await?,
                    _ => None,
                };
                failed.get_or_insert(match kept_out {
                    Some(error) => error,
                    None => self.halt_damaged(place, is_open).await,
                });
                continue;
            }
            if keys == CampaignKeys::Damaged && is_quarantined(ledger, place).await? {
                return Err(self.halt_damaged(place, is_open).await);
            }
            if keys == CampaignKeys::Damaged {
                // Only these keys may have what the ledger lacks.
                let end = self.partitions.log_end(partition).await?;
                self.wait_settled(ledger, place, end).await?;
                keys = look("take").await?;
            }
            if let CampaignKeys::Gone(entry) = keys {
                tracing::warn!(
                    partition = partition.0,
                    %campaign,
                    entry,
                    "campaign keys in Redis do not match; the campaign is rebuilt from the ledger"
                );
                self.wait_settled(ledger, place, entry).await?;
                if is_quarantined(ledger, place).await? {
                    return Err(unavailable(format!(
                        "campaign {campaign} is gone from Redis, and has entries in quarantine: \
                         redrive them"
                    )));
                }
                are_gone = true;
            }
        }
        failed.map_or(Ok(are_gone), Err)
    }

    /// Why a spread campaign with a removed shard stays out of service. A repair could not rebuild the shard, so it
    /// would halt partitions in vain.
    async fn kept_out(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
        parts: u16,
    ) -> Result<Option<EngineError>, EngineError> {
        let partitions: Vec<_> = self.partitions.of_parts(campaign, parts).collect();
        let reason = incompleteness(ledger, campaign, &partitions).await?;
        Ok(reason
            .map(|reason| unavailable(format!("campaign {campaign} is out of service: {reason}"))))
    }

    /// Checks a shard that a repair of other shards reads. If it is damaged or gone, its partition halts, to be
    /// repaired together with them.
    ///
    /// # Errors
    /// If the shard cannot be read, or its partition was halted.
    pub(crate) async fn check_part(
        &self,
        ledger: &dyn Ledger,
        (partition, campaign): (PartitionId, CampaignId),
    ) -> Result<(), EngineError> {
        let known = ledger.settled_part(campaign, partition).await;
        let known = known.map_err(engine_error_from_ledger)?;
        let is_open = known.is_some_and(|it| !matches!(it.phase, Phase::Draft | Phase::Closed));
        let place = (partition, campaign);
        match self
            .partitions
            .look_at_keys(place, is_open, ("look", ""))
            .await?
        {
            CampaignKeys::Whole => Ok(()),
            CampaignKeys::Damaged | CampaignKeys::Gone(_) => {
                Err(self.halt_damaged(place, is_open).await)
            }
        }
    }

    /// Halts the partition for a repair of the campaign, if it is still damaged. Returns the error for its claims until
    /// then.
    async fn halt_damaged(
        &self,
        (partition, campaign): (PartitionId, CampaignId),
        is_open: bool,
    ) -> EngineError {
        let reason =
            format!("the keys of campaign {campaign} do not match: it is rebuilt from the ledger");
        let (place, halt) = ((partition, campaign), ("halt", reason.as_str()));
        match self.partitions.look_at_keys(place, is_open, halt).await {
            Ok(_) => {
                self.partitions.get(partition).suspect();
                unavailable(reason)
            }
            Err(error) => error,
        }
    }

    async fn wait_settled(
        &self,
        ledger: &dyn Ledger,
        (partition, campaign): (PartitionId, CampaignId),
        entry: Seq,
    ) -> Result<(), EngineError> {
        let until = Instant::now() + self.partitions.options().claim_timeout;
        while ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?
            < entry
        {
            if Instant::now() >= until {
                return Err(unavailable(format!(
                    "campaign {campaign} is rebuilt once the ledger has entry {entry} of partition {}",
                    partition.0
                )));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Meta of a campaign at its home. `None` also if its hash has another type: then it is reloaded.
    pub(crate) async fn readable_meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CachedCampaign>>, EngineError> {
        match self.partitions.meta(campaign).await {
            Err(error) if is_wrong_type(&error) && self.recalls.ledger().is_some() => Ok(None),
            known => known,
        }
    }
}

/// Whether the ledger has entries of a shard in quarantine.
async fn is_quarantined(
    ledger: &dyn Ledger,
    (partition, campaign): (PartitionId, CampaignId),
) -> Result<bool, EngineError> {
    let campaigns = quarantined(partition, ledger).await?;
    Ok(campaigns.contains(&campaign))
}
