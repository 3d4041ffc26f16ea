//! Campaigns whose keys in Redis do not belong together: finds them, and has them rebuilt from the ledger.
//!
//! A key was deleted, has expired, was evicted or was overwritten. Scripts compare the counts in the campaign's hash
//! with its other keys (`whole.lua`). Where these differ, they decide nothing and note the campaign in `damaged:ID`.
//! The node that called takes the campaign's keys away and waits until the ledger has every entry that may be about
//! it. Then it brings the campaign back like one that has left (`recall.rs`). Other campaigns are not affected.
//!
//! A part of a spread campaign follows from the other parts, and entries in quarantine are not in the ledger's rows. In
//! these cases the partition halts with a loss of nothing, and the repair does the same (`repair/damage.rs`).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::connection::{ScriptReply, is_wrong_type, unavailable};
use qiang_core::{
    campaign::{AckLevel, Phase},
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, SettledPart},
};
use tokio::time::Instant;

use crate::{
    node::Node,
    partitions::Partitions,
    protocol::{campaign_meta::CampaignMeta, scripts::DAMAGE},
    shards::snapshot::of_ledger,
};

/// The pause before the ledger's position is read again.
const PAUSE: Duration = Duration::from_millis(20);
/// Entries in quarantine that are read at a time.
const QUARANTINE_PAGE: u32 = 1_000;

/// State of a campaign's keys in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Nothing is wrong with them.
    Whole,
    /// Some do not belong to the others.
    Damaged,
    /// They are taken away. No entry behind this one is about the campaign.
    Gone(Seq),
}

impl Partitions {
    /// Looks at a campaign's keys, and does this to damaged ones: `look`, `take` or `halt`, see `damage.lua`.
    async fn look_at_keys(
        &self,
        (partition, campaign): (PartitionId, CampaignId),
        is_open: bool,
        (what, reason): (&str, &str),
    ) -> Result<Keys, EngineError> {
        let asks = Some(AckLevel::Memory);
        let reply = self
            .call(partition, &DAMAGE, campaign, asks, &|command| {
                command.arg(u8::from(is_open)).arg(what).arg(reason)
            })
            .await?;
        match (reply.status.as_str(), reply.text().as_str()) {
            ("ok", "") => Ok(Keys::Whole),
            ("ok", entry) => {
                let entry = entry.parse();
                let unreadable = |_| unavailable("an entry cannot be read");
                entry.map(Keys::Gone).map_err(unreadable)
            }
            _ => Ok(Keys::Damaged),
        }
    }

    /// Whether a campaign's keys were damaged and are taken away.
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
    /// Takes the keys of a campaign away if they are damaged, and waits until the ledger has all that may be about it.
    /// Returns whether they are gone; `known` is what the ledger says of the home's part.
    ///
    /// # Errors
    /// If the ledger does not have everything in time, or if the campaign must be rebuilt by a repair of its partition:
    /// then that is halted.
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
            let partition = self.partitions.of_part(campaign, index);
            let place = (partition, campaign);
            let is_open = is_open && index == 0;
            let look = |what| self.partitions.look_at_keys(place, is_open, (what, ""));
            let mut keys = match look("look").await {
                Ok(Keys::Whole) => continue,
                Ok(keys) => keys,
                // Another part may be damaged, too: a repair needs all of them halted.
                Err(error) if parts > 1 => {
                    failed.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if parts > 1 {
                failed.get_or_insert(self.halt_damaged(place, is_open).await);
                continue;
            }
            if keys == Keys::Damaged && is_quarantined(ledger, place).await? {
                return Err(self.halt_damaged(place, is_open).await);
            }
            if keys == Keys::Damaged {
                // What the ledger lacks may be in these keys alone.
                let end = self.partitions.log_end(partition).await?;
                self.wait_settled(ledger, place, end).await?;
                keys = look("take").await?;
            }
            if let Keys::Gone(entry) = keys {
                tracing::warn!(
                    partition = partition.0,
                    %campaign,
                    entry,
                    "the keys of a campaign in Redis do not belong together; it is rebuilt from the ledger"
                );
                self.wait_settled(ledger, place, entry).await?;
                if is_quarantined(ledger, place).await? {
                    return Err(unavailable(format!(
                        "campaign {campaign} is gone from Redis, and the ledger has entries of it in quarantine: \
                         redrive them"
                    )));
                }
                are_gone = true;
            }
        }
        failed.map_or(Ok(are_gone), Err)
    }

    /// Checks a part of a spread campaign that a repair of other parts reads. If it is damaged or gone, its partition
    /// halts: it is repaired together with them.
    ///
    /// # Errors
    /// If the part cannot be read, or its partition was halted.
    pub(crate) async fn check_part(
        &self,
        ledger: &dyn Ledger,
        (partition, campaign): (PartitionId, CampaignId),
    ) -> Result<(), EngineError> {
        let known = ledger.settled_part(campaign, partition).await;
        let known = known.map_err(of_ledger)?;
        let is_open = known.is_some_and(|it| !matches!(it.phase, Phase::Draft | Phase::Closed));
        let place = (partition, campaign);
        match self
            .partitions
            .look_at_keys(place, is_open, ("look", ""))
            .await?
        {
            Keys::Whole => Ok(()),
            Keys::Damaged | Keys::Gone(_) => Err(self.halt_damaged(place, is_open).await),
        }
    }

    /// Has a repair of the partition rebuild the campaign, if it is still damaged; returns what its claims are answered
    /// until then.
    async fn halt_damaged(
        &self,
        (partition, campaign): (PartitionId, CampaignId),
        is_open: bool,
    ) -> EngineError {
        let reason = format!(
            "the keys of campaign {campaign} do not belong together: it is rebuilt from the ledger"
        );
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
        let until = Instant::now() + self.partitions.options().try_for;
        while ledger.settled(partition).await.map_err(of_ledger)? < entry {
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

    /// What a campaign's home says of it; none where its hash is of another type, too: then it is brought back.
    pub(crate) async fn readable_meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CampaignMeta>>, EngineError> {
        match self.partitions.meta(campaign).await {
            Err(error) if is_wrong_type(&error) && self.recalls.ledger().is_some() => Ok(None),
            known => known,
        }
    }
}

/// Whether a script has found keys of its campaign that do not belong together.
pub(crate) fn is_damaged(reply: &ScriptReply) -> bool {
    reply.status == "damaged"
}

/// Whether the ledger has entries of a campaign's part in quarantine.
async fn is_quarantined(
    ledger: &dyn Ledger,
    (partition, campaign): (PartitionId, CampaignId),
) -> Result<bool, EngineError> {
    let campaigns = quarantined(partition, ledger).await?;
    Ok(campaigns.contains(&campaign))
}

/// Campaigns of which the ledger does not have all that it has passed.
pub(crate) async fn quarantined(
    partition: PartitionId,
    ledger: &dyn Ledger,
) -> Result<BTreeSet<CampaignId>, EngineError> {
    let entries = quarantined_entries(partition, ledger).await?;
    Ok(entries.iter().map(|entry| entry.campaign).collect())
}

/// Entries of a partition that the ledger has in quarantine.
pub(crate) async fn quarantined_entries(
    partition: PartitionId,
    ledger: &dyn Ledger,
) -> Result<Vec<Entry>, EngineError> {
    let (mut entries, mut after) = (Vec::new(), (partition, 0));
    loop {
        let page = ledger.list_quarantined(Some(after), QUARANTINE_PAGE).await;
        let page = page.map_err(of_ledger)?;
        let is_last = page.len() < QUARANTINE_PAGE as usize;
        for it in page {
            if it.partition != partition {
                return Ok(entries);
            }
            after.1 = it.entry.seq;
            entries.push(it.entry);
        }
        if is_last {
            return Ok(entries);
        }
    }
}
