//! Reload of campaigns from the ledger: evicted ones when a payment, a cancellation or a return needs them, and
//! campaigns with damaged keys (`damaged_keys.rs`). Other callers are answered from the ledger (`settled_answers.rs`).
//!
//! The rows come first, in as many calls as they need, and no script finds them. The hash comes last, and only once all
//! rows are in place. So a node that dies in between leaves nothing visible, and its rows are removed by a later
//! eviction. Two nodes that reload the same campaign write the same rows.

mod rows;
pub(crate) mod settled_answers;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use qiang_core::{
    campaign::Phase,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, SettledPart},
    time::Timestamp,
};
use tokio::time::Instant;

use self::{rows::united, settled_answers::SettledRecord};
use crate::{
    connection::{ScriptReply, unavailable},
    intake::{
        batcher::PendingClaim,
        reload_queue::{ReloadNeed, ReloadResult, Wanted},
    },
    node::Node,
    protocol::campaign_meta::{CachedCampaign, FoundCampaign},
    repair::{sides::lost_part, withhold_again},
    shards::snapshot::{SettledSnapshot, engine_error_from_ledger, settled_rows},
};

/// Maximum attempts of a reload that other processes interrupt.
const ATTEMPTS_MAX: usize = 5;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum times that a claim is submitted again because its campaign was reloaded.
const RESUBMITS_MAX: u8 = 20;

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReloadAttempt {
    /// Redis has the campaign.
    There,
    /// Some missing shards are reloaded; the next shard failed as in `Again`.
    Further,
    /// Another process changed something in between, or the ledger lags.
    Again,
}

/// Ledger state of the shards that Redis lacks.
enum SettledParts {
    /// The ledger has all entries of them. Each shard is given with the entry up to which the ledger was settled before
    /// the read.
    Missing(Vec<(PartitionId, Seq, SettledPart)>),
    /// The ledger lags behind what was evicted.
    Behind,
    /// One of them is open, and its keys were not removed.
    Open,
}

impl Node {
    /// Meta of a campaign, which is reloaded if it was evicted. `None` if no engine ever opened it.
    pub(crate) async fn reloaded_meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CachedCampaign>>, EngineError> {
        match self.find((campaign, ReloadNeed::Owed)).await? {
            FoundCampaign::Here(meta) => Ok(Some(meta)),
            FoundCampaign::Settled(_) | FoundCampaign::Unknown => Ok(None),
        }
    }

    /// A campaign in Redis, or in the ledger if it was evicted and need not be reloaded. This node may know the meta of
    /// a campaign that was evicted since: see [`if_settled`](Self::if_settled).
    pub(crate) async fn find(&self, wanted: Wanted) -> Result<FoundCampaign, EngineError> {
        let mut known = self.readable_meta(wanted.0).await?;
        if known.is_none() {
            match self.recall_until(wanted, self.in_time()).await? {
                ReloadResult::Here => known = self.partitions.meta(wanted.0).await?,
                ReloadResult::Settled(record) => return Ok(FoundCampaign::Settled(record)),
                ReloadResult::Unknown => {}
            }
        }
        Ok(known.map_or(FoundCampaign::Unknown, FoundCampaign::Here))
    }

    /// Decides claims of a campaign that Redis lacks, after it is reloaded. If the campaign is unknown, `unknown`
    /// answers them.
    pub(crate) fn recall_for(
        self: &Arc<Self>,
        campaign: CampaignId,
        batch: Vec<PendingClaim>,
        unknown: impl FnOnce(Vec<PendingClaim>) + Send + 'static,
    ) {
        if self.recalls.ledger().is_none() {
            return unknown(batch);
        }
        let count = batch.len();
        if !self.recalls.enter_claims(count) {
            return refuse(batch, &EngineError::Overloaded);
        }
        let node = Arc::clone(self);
        tokio::spawn(async move {
            let again = batch.iter().map(|it| it.recalls).max().unwrap_or(0);
            let oldest = batch.iter().map(|it| it.since_ms).min().unwrap_or(0);
            // Later claims give up with the first one, because they came soon after it.
            let until = Instant::now() + node.patience(oldest);
            let recalled = node.recall_again(campaign, again, until).await;
            match recalled {
                Ok(ReloadResult::Here) => {
                    for mut pending in batch {
                        pending.recalls += 1;
                        node.resubmit(pending);
                    }
                }
                Ok(ReloadResult::Settled(record)) => {
                    node.answer_settled(&record, batch, until).await;
                }
                Ok(ReloadResult::Unknown) => unknown(batch),
                Err(error) => refuse(batch, &error),
            }
            node.recalls.leave_claims(count);
        });
    }

    /// Calls a script of a campaign. Repeats the call if the campaign was evicted and is reloaded.
    pub(crate) async fn call_back<F: Future<Output = Result<ScriptReply, EngineError>>>(
        &self,
        wanted: Wanted,
        call: impl Fn() -> F,
    ) -> Result<ScriptReply, EngineError> {
        let until = self.in_time();
        for _ in 0..ATTEMPTS_MAX {
            let reply = call().await?;
            if !reply.is_missing() || self.recall_until(wanted, until).await? != ReloadResult::Here
            {
                return Ok(reply);
            }
        }
        Err(leaving(wanted.0))
    }

    /// Deadline of the wait for a campaign.
    pub(crate) fn in_time(&self) -> Instant {
        Instant::now() + self.partitions.options().claim_timeout
    }

    /// As [`recall`](Self::recall), for claims that were submitted `again` times because the campaign was missing after
    /// a reload.
    async fn recall_again(
        &self,
        campaign: CampaignId,
        again: u8,
        until: Instant,
    ) -> Result<ReloadResult, EngineError> {
        if again >= RESUBMITS_MAX {
            return Err(leaving(campaign));
        }
        if again > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        self.recall_until((campaign, ReloadNeed::Any), until).await
    }

    /// Whether a script did not find an evicted campaign, and it is reloaded now. Then the script must be called again.
    pub(crate) async fn is_back(
        &self,
        campaign: CampaignId,
        reply: &ScriptReply,
    ) -> Result<bool, EngineError> {
        Ok(reply.is_missing() && self.recall(campaign).await? == ReloadResult::Here)
    }

    /// Looks for a campaign that Redis lacks, or that is damaged there. An evicted one is not reloaded.
    pub(crate) async fn recall(&self, campaign: CampaignId) -> Result<ReloadResult, EngineError> {
        self.recall_until((campaign, ReloadNeed::Any), self.in_time())
            .await
    }

    /// As [`recall`](Self::recall), with a deadline, however slow the ledger or Redis is. A reload that takes longer
    /// still finishes, for later callers.
    async fn recall_until(
        &self,
        wanted: Wanted,
        until: Instant,
    ) -> Result<ReloadResult, EngineError> {
        if self.recalls.ledger().is_none() {
            return Ok(ReloadResult::Unknown);
        }
        let mut is_new = false;
        loop {
            let (mut outcome, begins) = self.recalls.join(wanted)?;
            let known = tokio::time::timeout_at(until, outcome.wait_for(Option::is_some)).await;
            let known = known.map_err(|_| late(wanted.0))?;
            let known = known.ok().and_then(|known| known.clone());
            is_new |= begins;
            match known {
                // It may have been opened or changed, closed and evicted since other callers began to look for it.
                Some(Ok(ReloadResult::Unknown | ReloadResult::Settled(_))) if !is_new => {
                    is_new = true;
                }
                Some(recalled) => return recalled,
                None => return Err(EngineError::Stopping),
            }
        }
    }

    /// Reloads a campaign for all callers that wait for it.
    pub(crate) async fn recall_asked(&self, wanted: Wanted) {
        let mut recalling = self.recalls.begin(wanted);
        recalling.outcome = match self.recalls.ledger() {
            Some(ledger) => self.recall_now(&**ledger, wanted).await,
            None => Ok(ReloadResult::Unknown),
        };
    }

    async fn recall_now(
        &self,
        ledger: &dyn Ledger,
        wanted: Wanted,
    ) -> Result<ReloadResult, EngineError> {
        let campaign = wanted.0;
        let home = self.partitions.home(campaign);
        if wanted.1 == ReloadNeed::Any
            && let Some(known) = self.kept_record(campaign).await?
        {
            return Ok(known);
        }
        for _ in 0..ATTEMPTS_MAX {
            // Read first, so that all later reads are at least as new.
            let upto = ledger
                .settled(home)
                .await
                .map_err(engine_error_from_ledger)?;
            let known = ledger.settled_part(campaign, home).await;
            let known = known.map_err(|error| unreadable(campaign, error))?;
            let are_gone = match &known {
                Some(known) => {
                    let is_behind = self.is_behind(home, upto).await?;
                    let taken = self.take_damaged(ledger, campaign, known, is_behind);
                    Box::pin(taken).await?
                }
                None => false,
            };
            if let Some(known) = &known
                && wanted.1 == ReloadNeed::Any
                && known.record.phase == Phase::Closed
                && !are_gone
            {
                match self.settled_record(ledger, campaign, known.parts).await? {
                    SettledRecord::Whole(record) => return Ok(ReloadResult::Settled(record)),
                    SettledRecord::Here => return Ok(ReloadResult::Here),
                    SettledRecord::Behind => {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    SettledRecord::Contradictory => {}
                }
            }
            let found = match known {
                Some(known) if are_gone || known.record.phase == Phase::Closed => {
                    let parts = Box::pin(self.recall_parts(ledger, wanted, known.parts)).await?;
                    parts.then_some(true)
                }
                known => {
                    let is_first_over = known.is_some_and(|known| known.phase == Phase::Closed);
                    self.is_here(campaign, (upto, is_first_over)).await?
                }
            };
            if let Some(is_here) = found {
                return Ok(match is_here {
                    true => ReloadResult::Here,
                    false => ReloadResult::Unknown,
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(lacking(campaign))
    }

    /// Whether Redis has a campaign that the ledger, settled up to `upto` before, does not have as closed. It may have
    /// been opened and settled since Redis was asked. `None` if it or a shard of it may have been evicted. This
    /// includes a campaign whose first shard is closed in the ledger, because the ledger may lack the last entries of
    /// the other shards.
    async fn is_here(
        &self,
        campaign: CampaignId,
        (upto, is_first_over): (Seq, bool),
    ) -> Result<Option<bool>, EngineError> {
        let home = self.partitions.home(campaign);
        if !self.partitions.has_part(campaign, home).await? {
            let may_have_left = is_first_over || self.is_behind(home, upto).await?;
            return Ok((!may_have_left).then_some(false));
        }
        let Some(meta) = self.readable_meta(campaign).await? else {
            return Ok(None);
        };
        // The home opens last. So if another shard is missing, it was evicted or lost.
        for partition in self.partitions.for_campaign(&meta) {
            if !self.partitions.has_part(campaign, partition).await? {
                return Ok(None);
            }
        }
        Ok(Some(true))
    }

    /// Whether a ledger settled up to `upto` lacks entries of a campaign that was evicted from a partition.
    async fn is_behind(&self, partition: PartitionId, upto: Seq) -> Result<bool, EngineError> {
        let mut get = redis::cmd("HGET");
        get.arg(self.partitions.keys().partition(partition));
        let left = self.partitions.query(partition, get.arg("left"));
        let left: Option<Seq> = left.await?;
        Ok(left.is_some_and(|left| upto < left))
    }

    /// Reloads the missing shards of a campaign, the first shard last. False if one of them is not closed in the
    /// ledger.
    async fn recall_parts(
        &self,
        ledger: &dyn Ledger,
        wanted: Wanted,
        parts: u16,
    ) -> Result<bool, EngineError> {
        let campaign = wanted.0;
        let home = self.partitions.home(campaign);
        let _permit = self.recalls.permit(home).await;
        let partitions: Vec<_> = (0..parts)
            .rev()
            .map(|index| self.partitions.for_part(campaign, index))
            .collect();
        self.recall_these(ledger, &partitions, wanted).await
    }

    /// Reloads missing shards that the ledger has closed, in this order. False if the ledger, which has all entries of
    /// evicted ones, does not have one as closed. Then the shard was never here, or is lost.
    pub(crate) async fn recall_these(
        &self,
        ledger: &dyn Ledger,
        partitions: &[PartitionId],
        wanted: Wanted,
    ) -> Result<bool, EngineError> {
        let campaign = wanted.0;
        // An attempt that reloaded a shard has not failed; there are at most as many of these as shards.
        let (mut failed, mut further) = (0, 0);
        while failed < ATTEMPTS_MAX && further <= partitions.len() {
            let attempt = match self.settled_parts(ledger, partitions, campaign).await? {
                SettledParts::Missing(parts) => self.put_all_back(ledger, wanted, parts).await?,
                SettledParts::Behind => ReloadAttempt::Again,
                SettledParts::Open => return Ok(false),
            };
            match attempt {
                ReloadAttempt::There => return Ok(true),
                ReloadAttempt::Further => further += 1,
                ReloadAttempt::Again => failed += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(lacking(campaign))
    }

    /// Ledger state of those shards that Redis lacks.
    async fn settled_parts(
        &self,
        ledger: &dyn Ledger,
        partitions: &[PartitionId],
        campaign: CampaignId,
    ) -> Result<SettledParts, EngineError> {
        let mut missing = Vec::new();
        for partition in partitions.iter().copied() {
            if self.partitions.has_part(campaign, partition).await? {
                continue;
            }
            // Read first, so that all later reads are at least as new.
            let upto = ledger
                .settled(partition)
                .await
                .map_err(engine_error_from_ledger)?;
            let known = ledger.settled_part(campaign, partition).await;
            let known = known.map_err(engine_error_from_ledger)?;
            let is_gone = self.partitions.are_gone(partition, campaign).await?;
            let is_all = |known: &SettledPart| match known.phase {
                Phase::Closed => true,
                Phase::Draft => false,
                _ => is_gone && known.parts <= 1,
            };
            match known.filter(is_all) {
                Some(known) => missing.push((partition, upto, known)),
                None if self.is_behind(partition, upto).await? => return Ok(SettledParts::Behind),
                None => return Ok(SettledParts::Open),
            }
        }
        Ok(SettledParts::Missing(missing))
    }

    /// Reads the rows of all shards once, and writes those of each missing shard.
    async fn put_all_back(
        &self,
        ledger: &dyn Ledger,
        (campaign, need): Wanted,
        missing: Vec<(PartitionId, Seq, SettledPart)>,
    ) -> Result<ReloadAttempt, EngineError> {
        let Some((_, _, known)) = missing.first() else {
            return Ok(ReloadAttempt::There);
        };
        let kind = known.record.campaign.kind();
        let rows = settled_rows(ledger, campaign, kind).await;
        let rows = rows.map_err(|error| unreadable(campaign, error))?;
        let mut otherwise = ReloadAttempt::Again;
        for (partition, upto, known) in missing {
            let place = self.partitions.index_of(partition, campaign, known.parts);
            let place = place.ok_or_else(|| unavailable("a shard is in another partition"))?;
            let now = Timestamp::from_millis(self.now_ms(partition).await?);
            let is_closed = known.phase == Phase::Closed;
            let mut part = lost_part(
                place,
                SettledSnapshot::from_settled(known, &rows, place),
                now,
            );
            let accounted = match is_closed {
                true => BTreeSet::new(),
                false => withhold_again(ledger, partition, &mut part).await?,
            };
            let part = (&part, united(&part, accounted));
            if self.put_back(partition, part, (upto, need)).await? == ReloadAttempt::Again {
                return Ok(otherwise);
            }
            otherwise = ReloadAttempt::Further;
            self.invalidate(campaign);
        }
        Ok(ReloadAttempt::There)
    }
}

/// Error of reading a campaign from the ledger.
fn unreadable(campaign: CampaignId, error: LedgerError) -> EngineError {
    match error {
        LedgerError::Damaged { reason } => unavailable(format!(
            "campaign {campaign} is out of service: the ledger cannot read it: {reason}"
        )),
        error => engine_error_from_ledger(error),
    }
}

fn late(campaign: CampaignId) -> EngineError {
    unavailable(format!(
        "campaign {campaign} is not in Redis, and the ledger has not said in time whether it has left"
    ))
}

fn leaving(campaign: CampaignId) -> EngineError {
    unavailable(format!("campaign {campaign} is evicted after each reload"))
}

fn lacking(campaign: CampaignId) -> EngineError {
    unavailable(format!(
        "campaign {campaign} was evicted, and the ledger does not have all of it now"
    ))
}

fn refuse(batch: Vec<PendingClaim>, error: &EngineError) {
    for pending in batch {
        pending.answer.send(Err(error.clone()));
    }
}
