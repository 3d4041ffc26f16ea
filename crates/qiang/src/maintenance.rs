//! What operators do to partitions, beside the nodes and workers that serve them: looking, repairing, reconciling.

mod campaigns;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::ensure;
use qiang_api::UsageError;
use qiang_core::{
    book::{CampaignAction, Command},
    campaign::Phase,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{
        ActionKind, Clock, Engine as _, EventLog as _, Ledger, LedgerError, OperatorEngine as _,
        PartitionView, RepairEngine as _, RepairRecord, RepairState, RetireEngine as _,
        THE_SERVICE, WithheldRecord,
    },
    reconcile::{Difference, DifferenceKind},
};
use qiang_redis::{Inspection, Options, PartitionState, RedisEngine};
use serde_json::json;

pub use self::campaigns::{CampaignFindings, CampaignRepair, DifferingCampaign, RepairOutcome};
use crate::{
    config::{Config, EngineKind},
    distributed::{
        LedgerBackend,
        binding::{self, Binder},
    },
    operator::Operator,
};

/// How long to wait before what seems to differ is looked at again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Repairs that are shown, the newest ones.
const REPAIRS_SHOWN: u32 = 20;

/// Connects to the engine that the ledger belongs to. Where it never had one, any is taken.
async fn attach(
    config: &Config,
    ledger: &Arc<dyn Ledger>,
    positions: &[(PartitionId, Seq)],
) -> anyhow::Result<RedisEngine> {
    let options = config.redis_options();
    if ledger.binding().await?.is_none() {
        return Ok(RedisEngine::attach(options, positions).await?);
    }
    let mut binder = Binder::start(Arc::clone(ledger), &options).await?;
    let identity = Some(binder.identity());
    let engine = RedisEngine::attach(
        Options {
            identity,
            ..options
        },
        positions,
    )
    .await?;
    if let Err(refused) = binder.settle_in().await {
        engine.close().await;
        return Err(refused);
    }
    Ok(engine)
}

/// The engine on Redis and its ledger, in the hands of an operator. Nothing is served or settled by it, but for what a
/// repair settles.
pub struct Maintenance {
    engine: RedisEngine,
    backend: LedgerBackend,
    ledger: Arc<dyn Ledger>,
}

impl Maintenance {
    /// Connects to what the configuration names. Nothing is made: neither a ledger in a file nor the state of
    /// partitions in Redis.
    ///
    /// # Errors
    /// When Redis or the ledger cannot be used, or is not there.
    pub async fn open(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let backend = Self::ledger_of(config, clock).await?;
        let ledger = backend.ledger();
        let positions = ledger.positions().await?;
        let engine = attach(config, &ledger, &positions).await?;
        engine.recall_from(Arc::clone(&ledger));
        Ok(Self {
            engine,
            backend,
            ledger,
        })
    }

    /// The ledger, which must be there.
    async fn ledger_of(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<LedgerBackend> {
        if config.engine.kind == EngineKind::Embedded {
            let line = "the embedded engine has neither partitions to look after nor a ledger of its own to be held \
                        against; this is for `--engine redis`";
            return Err(UsageError::new(line).into());
        }
        if config.ledger.url().is_none() {
            let path = &config.engine.data;
            ensure!(
                tokio::fs::try_exists(path).await?,
                "there is no ledger in {}: name its file with --data, or its database with --ledger",
                path.display()
            );
        }
        LedgerBackend::open(config, clock).await
    }

    /// Moves the ledger to the Redis that the configuration names, with what the ledger has: it is rebuilt there.
    /// Returns the locations before and now; none if the ledger is there already.
    ///
    /// # Errors
    /// When processes still use the Redis that the ledger belongs to, or the ledger cannot be used.
    pub async fn adopt(
        config: &Config,
        clock: Arc<dyn Clock>,
        by: &Operator,
    ) -> anyhow::Result<Option<(String, String)>> {
        let backend = Self::ledger_of(config, clock).await?;
        let ledger = backend.ledger();
        let options = config.redis_options();
        let detail = json!({ "adopt": options.prefix });
        by.record(&*ledger, ActionKind::Repair, THE_SERVICE, &detail)
            .await?;
        let adopted = binding::adopt(&*ledger, &options).await;
        backend.close().await?;
        adopted
    }

    /// All partitions.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        self.engine.partitions()
    }

    pub(crate) fn engine(&self) -> &RedisEngine {
        &self.engine
    }

    pub(crate) fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::clone(&self.ledger)
    }

    /// Whether a partition grants.
    #[must_use]
    pub fn state(&self, partition: PartitionId) -> PartitionState {
        self.engine.state(partition)
    }

    /// What Redis has of a partition, with its nodes taken apart, and up to where the ledger has it.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn view(&self, partition: PartitionId) -> anyhow::Result<(PartitionView, u64)> {
        let settled = self.ledger.settled(partition).await?;
        Ok((self.engine.view(partition).await?, settled))
    }

    /// What Redis has of a partition, and up to where the ledger has it.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn inspect(&self, partition: PartitionId) -> anyhow::Result<(Inspection, u64)> {
        let settled = self.ledger.settled(partition).await?;
        Ok((self.engine.inspect(partition).await?, settled))
    }

    /// What the ledger has written down of a partition's repairs, newest first, and what they have withheld.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn records(
        &self,
        partition: PartitionId,
    ) -> anyhow::Result<(Vec<RepairRecord>, Vec<WithheldRecord>)> {
        let repairs = self.ledger.repairs(partition, REPAIRS_SHOWN).await?;
        Ok((repairs, self.ledger.withheld(partition).await?))
    }

    /// Writes down what somebody does to a partition.
    async fn record(
        &self,
        by: &Operator,
        kind: ActionKind,
        partition: PartitionId,
    ) -> anyhow::Result<()> {
        let detail = json!({ "partition": partition.0 });
        by.record(&*self.ledger, kind, THE_SERVICE, &detail).await
    }

    /// Repairs a partition that has lost something, without waiting for anybody.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer, or when they hold what cannot be repaired.
    pub async fn repair(
        &self,
        partition: PartitionId,
        by: &Operator,
    ) -> anyhow::Result<RepairState> {
        self.record(by, ActionKind::Repair, partition).await?;
        Ok(self.engine.repair(partition, &*self.ledger, true).await?)
    }

    /// Ends a partition's halt without a repair; false where it is not halted.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer.
    pub async fn resume(&self, partition: PartitionId, by: &Operator) -> anyhow::Result<bool> {
        self.record(by, ActionKind::Resume, partition).await?;
        let resumed = self.engine.resume_as_it_is(partition, &*self.ledger);
        Ok(resumed.await?)
    }

    /// Gives back what repairs have withheld in a partition; returns how many units.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer.
    pub async fn release_withheld(
        &self,
        partition: PartitionId,
        by: &Operator,
    ) -> anyhow::Result<u64> {
        self.record(by, ActionKind::Release, partition).await?;
        let released = self.engine.release_withheld(partition, &*self.ledger);
        Ok(released.await?)
    }

    /// Closes every campaign of a partition that is not closed, on all partitions that have a part of it. Each is told
    /// to `on_closed` as soon as it is closed.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer, or a campaign cannot be closed; or what `on_closed` fails with.
    pub async fn close_campaigns(
        &self,
        partition: PartitionId,
        by: &Operator,
        mut on_closed: impl FnMut(CampaignId) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for campaign in self.engine.live_campaigns(partition, &*self.ledger).await? {
            if self.engine.has_part(campaign, partition).await? {
                // The ledger may not know yet that it was closed before.
                let before = self.engine.tally(campaign).await?;
                let is_open = before.is_none_or(|tally| tally.phase != Phase::Closed);
                if is_open {
                    let detail = json!({ "partition": partition.0 });
                    by.record(&*self.ledger, ActionKind::Close, campaign, &detail)
                        .await?;
                }
                let action = CampaignAction::Close;
                self.engine
                    .submit(Command::Act { campaign, action })
                    .await?;
                if is_open {
                    on_closed(campaign)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the ledger has a campaign, or Redis has something of it.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer.
    pub async fn has_campaign(&self, campaign: CampaignId) -> anyhow::Result<bool> {
        match self.ledger.campaign(campaign).await {
            // It is there, and cannot be read.
            Ok(Some(_)) | Err(LedgerError::Damaged { .. }) => return Ok(true),
            Ok(None) => {}
            Err(error) => return Err(error.into()),
        }
        for partition in self.partitions() {
            if self.engine.has_part(campaign, partition).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The campaigns that a partition has and the ledger does not know at all: this one if it is such a campaign, or
    /// all that are live. Those of `skip` are left out.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer.
    pub async fn missing_in_ledger(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
        skip: &BTreeSet<CampaignId>,
    ) -> anyhow::Result<Vec<CampaignId>> {
        let mut missing = Vec::new();
        let compared = self.compared(partition, only).await?.into_iter();
        for campaign in compared.filter(|campaign| !skip.contains(campaign)) {
            // In this order: a campaign is in the ledger before it is in Redis.
            if self.engine.has_part(campaign, partition).await?
                && self.ledger.campaign(campaign).await?.is_none()
            {
                missing.push(campaign);
            }
        }
        Ok(missing)
    }

    async fn compared(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
    ) -> anyhow::Result<Vec<CampaignId>> {
        Ok(match only {
            Some(campaign) => vec![campaign],
            None => self.engine.live_campaigns(partition, &*self.ledger).await?,
        })
    }

    /// Where a partition differs from the ledger, in one campaign or in all that are live; what is in flight counts as
    /// a difference of its own kind. What differs is looked at twice: claims may have been decided while it was read.
    /// Campaigns of `skip` are left out.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer.
    pub async fn differences(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
        skip: &BTreeSet<CampaignId>,
    ) -> anyhow::Result<Vec<Difference>> {
        let mut found = Vec::new();
        let compared = self.compared(partition, only).await?.into_iter();
        for campaign in compared.filter(|campaign| !skip.contains(campaign)) {
            let look = || self.engine.differences(partition, campaign, &*self.ledger);
            let first = look().await?;
            if first.iter().all(is_in_flight) {
                found.extend(first);
                continue;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
            let before: BTreeSet<Difference> = first.into_iter().collect();
            let again = look().await?.into_iter();
            found.extend(again.filter(|it| is_in_flight(it) || before.contains(it)));
        }
        Ok(found)
    }

    /// Adds to each side what only the other has, while the partition is halted for a moment.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer. A partition that stays halted is repaired by nodes, or by hand.
    pub async fn unite(
        &self,
        partition: PartitionId,
        by: &Operator,
    ) -> anyhow::Result<RepairState> {
        let detail = json!({ "partition": partition.0, "reconcile": true });
        by.record(&*self.ledger, ActionKind::Repair, THE_SERVICE, &detail)
            .await?;
        Ok(self.engine.unite(partition, &*self.ledger).await?)
    }

    /// Disconnects.
    ///
    /// # Errors
    /// When the ledger fails while closing.
    pub async fn close(&self) -> anyhow::Result<()> {
        self.engine.close().await;
        self.backend.close().await
    }
}

fn is_in_flight(difference: &Difference) -> bool {
    difference.kind == DifferenceKind::InFlight
}
