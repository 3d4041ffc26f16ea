//! Campaigns that have left Redis come back from the ledger when somebody asks for one. So do those whose keys were
//! damaged (`damage.rs`).
//!
//! The rows come first, in as many calls as they need, and nobody finds anything under them. The hash comes last, and
//! only where all of them are in place. So a node that dies in between leaves nothing that counts, and what it leaves
//! goes with the next campaigns that leave. Two nodes that bring the same campaign back write the same rows.

mod rows;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::connection::{ScriptReply, unavailable};
use qiang_core::{
    campaign::Phase,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, SettledPart},
    time::Timestamp,
};
use tokio::time::Instant;

use self::rows::united;
use crate::{
    campaigns::damaged_keys::is_damaged,
    intake::{
        batcher::PendingClaim,
        reload_queue::{Need, Wanted},
    },
    node::Node,
    protocol::campaign_meta::CampaignMeta,
    repair::{sides::lost_part, withhold_again},
    shards::snapshot::{SettledSnapshot, of_ledger, settled_rows},
};

/// How often one is begun again because somebody else was faster.
const ATTEMPTS_MAX: usize = 5;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// How often claims are submitted again because their campaign was brought back.
const RESUBMITS_MAX: u8 = 20;

/// What an attempt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// It is there.
    There,
    /// Some of what was missing is there, and the next part is as below.
    Further,
    /// Somebody else has changed something meanwhile, or the ledger is behind.
    Again,
}

/// What a ledger says of parts that are not here.
enum SettledParts {
    /// It has all there is of them; each with up to where it was settled before that was read.
    Missing(Vec<(PartitionId, Seq, SettledPart)>),
    /// It is behind what has left.
    Behind,
    /// One of them is open, and its keys were not taken away.
    Open,
}

impl Node {
    /// A campaign's meta, once it is brought back if it has left; none if no engine has ever taken it up.
    pub(crate) async fn meta(
        &self,
        campaign: CampaignId,
    ) -> Result<Option<Arc<CampaignMeta>>, EngineError> {
        self.meta_for((campaign, Need::Any)).await
    }

    /// The same for what it is needed for.
    pub(crate) async fn meta_for(
        &self,
        wanted: Wanted,
    ) -> Result<Option<Arc<CampaignMeta>>, EngineError> {
        let known = self.readable_meta(wanted.0).await?;
        if known.is_some() || !self.recall_until(wanted, self.in_time()).await? {
            return Ok(known);
        }
        self.partitions.meta(wanted.0).await
    }

    /// Has claims decided of a campaign that Redis does not have: once it is back, if it has left. Others are answered
    /// by what is given for a campaign that nobody knows.
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
            // Those who came later give up with the first: they came soon after.
            let until = Instant::now() + node.patience(oldest);
            let recalled = node.recall_again(campaign, again, until).await;
            node.recalls.leave_claims(count);
            match recalled {
                Ok(true) => {
                    for mut pending in batch {
                        pending.recalls += 1;
                        node.resubmit(pending);
                    }
                }
                Ok(false) => unknown(batch),
                Err(error) => refuse(batch, &error),
            }
        });
    }

    /// Calls a script of a campaign, again where it does not find the campaign because that had left, and is back.
    pub(crate) async fn call_back<F: Future<Output = Result<ScriptReply, EngineError>>>(
        &self,
        wanted: Wanted,
        call: impl Fn() -> F,
    ) -> Result<ScriptReply, EngineError> {
        let until = self.in_time();
        for _ in 0..ATTEMPTS_MAX {
            let reply = call().await?;
            if !is_missing(&reply) || !self.recall_until(wanted, until).await? {
                return Ok(reply);
            }
        }
        Err(leaving(wanted.0))
    }

    /// Until when a campaign is waited for.
    fn in_time(&self) -> Instant {
        Instant::now() + self.partitions.options().try_for
    }

    /// As [`recall`](Self::recall), for claims that were submitted again so many times because it was not there after
    /// all.
    async fn recall_again(
        &self,
        campaign: CampaignId,
        again: u8,
        until: Instant,
    ) -> Result<bool, EngineError> {
        if again >= RESUBMITS_MAX {
            return Err(leaving(campaign));
        }
        if again > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        self.recall_until((campaign, Need::Any), until).await
    }

    /// Whether a script has not found a campaign because it had left, and it is back: then it is to be called again.
    pub(crate) async fn is_back(
        &self,
        campaign: CampaignId,
        reply: &ScriptReply,
    ) -> Result<bool, EngineError> {
        Ok(is_missing(reply) && self.recall(campaign).await?)
    }

    /// Sees to it that Redis has a campaign that has left. False where nobody has it: neither Redis nor a ledger that
    /// has everything of what has left.
    pub(crate) async fn recall(&self, campaign: CampaignId) -> Result<bool, EngineError> {
        self.recall_until((campaign, Need::Any), self.in_time())
            .await
    }

    /// The same in time, whatever a ledger or Redis does. One that takes longer is brought back all the same, for those
    /// who ask later.
    async fn recall_until(&self, wanted: Wanted, until: Instant) -> Result<bool, EngineError> {
        if self.recalls.ledger().is_none() {
            return Ok(false);
        }
        let mut is_new = false;
        loop {
            let (mut outcome, begins) = self.recalls.join(wanted)?;
            let known = tokio::time::timeout_at(until, outcome.wait_for(Option::is_some)).await;
            let known = known.map_err(|_| late(wanted.0))?;
            let known = known.ok().and_then(|known| known.clone());
            is_new |= begins;
            match known {
                // It may have come, closed and left since others began to look for it.
                Some(Ok(false)) if !is_new => is_new = true,
                Some(recalled) => return recalled,
                None => return Err(EngineError::Stopping),
            }
        }
    }

    /// Brings a campaign back for all who wait for it.
    pub(crate) async fn recall_asked(&self, wanted: Wanted) {
        let mut recalling = self.recalls.begin(wanted);
        recalling.outcome = match self.recalls.ledger() {
            Some(ledger) => self.recall_now(&**ledger, wanted).await,
            None => Ok(false),
        };
    }

    async fn recall_now(&self, ledger: &dyn Ledger, wanted: Wanted) -> Result<bool, EngineError> {
        let campaign = wanted.0;
        let home = self.partitions.home(campaign);
        for _ in 0..ATTEMPTS_MAX {
            // Before anything else is read: all of that is of then, or of later.
            let upto = ledger.settled(home).await.map_err(of_ledger)?;
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
                return Ok(is_here);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(lacking(campaign))
    }

    /// Whether Redis has a campaign that a ledger, which was settled up to an entry before, does not have as closed: it
    /// may have been opened, and settled, since Redis was asked. None where it, or a part of it, may have left; so may
    /// one whose first part is over as far as the ledger knows, which may lack what came last in the others.
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
        // The home opens last. So whoever has not found another part misses one that has left or is lost.
        for partition in self.partitions.of_campaign(&meta) {
            if !self.partitions.has_part(campaign, partition).await? {
                return Ok(None);
            }
        }
        Ok(Some(true))
    }

    /// Whether something has left a partition of which a ledger that is settled up to an entry does not have all.
    async fn is_behind(&self, partition: PartitionId, upto: Seq) -> Result<bool, EngineError> {
        let mut get = redis::cmd("HGET");
        get.arg(self.partitions.keys().partition(partition));
        let left = self.partitions.query(partition, get.arg("left"));
        let left: Option<Seq> = left.await?;
        Ok(left.is_some_and(|left| upto < left))
    }

    /// Brings back what is missing of a campaign's parts, the first one last. False where the ledger has not closed one
    /// of these.
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
            .map(|index| self.partitions.of_part(campaign, index))
            .collect();
        self.recall_these(ledger, &partitions, wanted).await
    }

    /// Brings parts back, in this order, those that are not here and that the ledger has closed. False where the
    /// ledger, which has everything that has left, has not: then one was never here, or is lost.
    pub(crate) async fn recall_these(
        &self,
        ledger: &dyn Ledger,
        partitions: &[PartitionId],
        wanted: Wanted,
    ) -> Result<bool, EngineError> {
        let campaign = wanted.0;
        // An attempt that has put a part back has not failed; there are no more of these than parts.
        let (mut failed, mut further) = (0, 0);
        while failed < ATTEMPTS_MAX && further <= partitions.len() {
            let attempt = match self.settled_parts(ledger, partitions, campaign).await? {
                SettledParts::Missing(parts) => self.put_all_back(ledger, wanted, parts).await?,
                SettledParts::Behind => Attempt::Again,
                SettledParts::Open => return Ok(false),
            };
            match attempt {
                Attempt::There => return Ok(true),
                Attempt::Further => further += 1,
                Attempt::Again => failed += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(lacking(campaign))
    }

    /// What the ledger says of those parts that are not here.
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
            // Before anything else is read: all of that is of then, or of later.
            let upto = ledger.settled(partition).await.map_err(of_ledger)?;
            let known = ledger.settled_part(campaign, partition).await;
            let known = known.map_err(of_ledger)?;
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

    /// Reads the rows of all parts once, and puts those of each in place.
    async fn put_all_back(
        &self,
        ledger: &dyn Ledger,
        (campaign, need): Wanted,
        missing: Vec<(PartitionId, Seq, SettledPart)>,
    ) -> Result<Attempt, EngineError> {
        let Some((_, _, known)) = missing.first() else {
            return Ok(Attempt::There);
        };
        let kind = known.record.campaign.kind();
        let rows = settled_rows(ledger, campaign, kind).await;
        let rows = rows.map_err(|error| unreadable(campaign, error))?;
        let mut otherwise = Attempt::Again;
        for (partition, upto, known) in missing {
            let place = self.partitions.index_of(partition, campaign, known.parts);
            let place = place.ok_or_else(|| unavailable("a part is in another partition"))?;
            let now = Timestamp::from_millis(self.now_ms(partition).await?);
            let is_closed = known.phase == Phase::Closed;
            let mut part = lost_part(place, SettledSnapshot::of(known, &rows, place), now);
            let accounted = match is_closed {
                true => BTreeSet::new(),
                false => withhold_again(ledger, partition, &mut part).await?,
            };
            let part = (&part, united(&part, accounted));
            if self.put_back(partition, part, (upto, need)).await? == Attempt::Again {
                return Ok(otherwise);
            }
            otherwise = Attempt::Further;
            self.invalidate(campaign);
        }
        Ok(Attempt::There)
    }
}

/// Whether a script has not found its campaign, or not as it must be.
fn is_missing(reply: &ScriptReply) -> bool {
    reply.status == "unknown" && reply.text == b"campaign" || is_damaged(reply)
}

/// Error of reading a campaign from the ledger.
fn unreadable(campaign: CampaignId, error: LedgerError) -> EngineError {
    match error {
        LedgerError::Damaged { reason } => unavailable(format!(
            "campaign {campaign} is out of service: the ledger cannot read it: {reason}"
        )),
        error => of_ledger(error),
    }
}

fn late(campaign: CampaignId) -> EngineError {
    unavailable(format!(
        "campaign {campaign} is not in Redis, and the ledger has not said in time whether it has left"
    ))
}

fn leaving(campaign: CampaignId) -> EngineError {
    unavailable(format!("campaign {campaign} leaves as soon as it is back"))
}

fn lacking(campaign: CampaignId) -> EngineError {
    unavailable(format!(
        "campaign {campaign} has left Redis, and the ledger does not have all of it at the moment"
    ))
}

fn refuse(batch: Vec<PendingClaim>, error: &EngineError) {
    for pending in batch {
        pending.answer.send(Err(error.clone()));
    }
}
