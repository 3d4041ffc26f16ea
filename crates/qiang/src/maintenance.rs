//! Maintenance of partitions by operators, beside running nodes and workers: inspection, repair and reconciliation.

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
        ActionKind, Clock, Engine as _, EngineError, EventLog as _, Ledger, LedgerError,
        OperatorEngine as _, PartitionView, RepairEngine as _, RepairRecord, RepairState,
        RetireEngine as _, THE_SERVICE, WithheldRecord,
    },
    reconcile::{Difference, DifferenceKind},
};
use qiang_redis::{Inspection, PartitionHealth, RedisEngine, RedisOptions};
use serde_json::json;
use uuid::Uuid;

pub use self::campaigns::{CampaignFindings, CampaignRepair, DifferingCampaign, RepairOutcome};
pub use crate::distributed::old_log::OldLog;
use crate::{
    config::{EngineKind, NodeConfig},
    distributed::{
        LedgerBackend,
        binding::{self, Binder},
    },
    operator::Operator,
};

/// Pause before apparent differences are compared again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Repairs that are shown, newest first.
const REPAIRS_SHOWN: u32 = 20;

/// Connects to the engine that the ledger belongs to. If the ledger has no engine yet, connects to any.
async fn attach(
    config: &NodeConfig,
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
        RedisOptions {
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

/// Differences that one comparison of a partition has found. Claims may have been decided during it.
#[derive(Debug)]
pub struct ApparentDifferences {
    partition: PartitionId,
    /// Campaigns that differ or have entries in flight.
    campaigns: Vec<(CampaignId, Vec<Difference>)>,
}

impl ApparentDifferences {
    /// Whether they must be compared again: entries in flight alone need not be.
    #[must_use]
    pub fn is_compared_again(&self) -> bool {
        let mut found = self.campaigns.iter().flat_map(|(_, found)| found);
        !found.all(is_in_flight)
    }

    /// Waits before the next comparison, if there is one.
    pub async fn pause(&self) {
        if self.is_compared_again() {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

/// The engine on Redis and its ledger, opened by an operator. It serves no claims, and it settles only entries that a
/// repair settles.
pub struct Maintenance {
    engine: RedisEngine,
    backend: LedgerBackend,
    ledger: Arc<dyn Ledger>,
}

impl Maintenance {
    /// Connects to the engine and the ledger that the configuration names. Creates nothing: neither a ledger file nor
    /// the state of partitions in Redis.
    ///
    /// # Errors
    /// If Redis or the ledger does not exist or cannot be used.
    pub async fn open(config: &NodeConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
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

    /// Opens the ledger. It must exist.
    async fn ledger_of(
        config: &NodeConfig,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<LedgerBackend> {
        if config.engine.kind == EngineKind::Embedded {
            let line = "the embedded engine has no partitions to maintain and no separate ledger to compare with; this \
                        is for `--engine redis`";
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

    /// Moves the ledger to the Redis that the configuration names. The engine there is rebuilt from the ledger. Returns
    /// the locations before and after the move; `None` if the ledger belongs to this location already.
    ///
    /// # Errors
    /// If processes still use the Redis that the ledger belongs to, if the ledger lacks entries of it, or if the ledger
    /// or that Redis cannot be used.
    pub async fn adopt(
        config: &NodeConfig,
        clock: Arc<dyn Clock>,
        by: &Operator,
        old: &OldLog,
    ) -> anyhow::Result<Option<(String, String)>> {
        let backend = Self::ledger_of(config, clock).await?;
        let ledger = backend.ledger();
        let options = config.redis_options();
        let detail = json!({ "adopt": options.prefix });
        let action = by.record(&*ledger, ActionKind::Repair, THE_SERVICE, &detail);
        let action = action.await?;
        let adopted = binding::adopt(&*ledger, &options, old).await;
        let has_changed_nothing = match &adopted {
            Ok(moved) => moved.is_none(),
            // Only a call of the ledger may have moved it.
            Err(error) => error.downcast_ref::<LedgerError>().is_none(),
        };
        if has_changed_nothing {
            by.strike(&*ledger, action).await;
        }
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
    pub fn state(&self, partition: PartitionId) -> PartitionHealth {
        self.engine.state(partition)
    }

    /// State of a partition in Redis with the nodes that it has seen, and the ledger's position.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn view(&self, partition: PartitionId) -> anyhow::Result<(PartitionView, u64)> {
        let settled = self.ledger.settled(partition).await?;
        Ok((self.engine.view(partition).await?, settled))
    }

    /// Raw state of a partition in Redis, as text fields, and the ledger's position.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn inspect(&self, partition: PartitionId) -> anyhow::Result<(Inspection, u64)> {
        let settled = self.ledger.settled(partition).await?;
        Ok((self.engine.inspect(partition).await?, settled))
    }

    /// The ledger's records of a partition's repairs, newest first, and of the units that they withhold.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn records(
        &self,
        partition: PartitionId,
    ) -> anyhow::Result<(Vec<RepairRecord>, Vec<WithheldRecord>)> {
        let repairs = self.ledger.repairs(partition, REPAIRS_SHOWN).await?;
        Ok((repairs, self.ledger.withheld(partition).await?))
    }

    /// Records an operator's action on a partition.
    async fn record(
        &self,
        by: &Operator,
        kind: ActionKind,
        partition: PartitionId,
    ) -> anyhow::Result<Uuid> {
        let detail = json!({ "partition": partition.0 });
        by.record(&*self.ledger, kind, THE_SERVICE, &detail).await
    }

    /// Repairs a partition after a loss of data, without waiting for missing node reports.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer, or their data cannot be repaired.
    pub async fn repair(
        &self,
        partition: PartitionId,
        by: &Operator,
    ) -> anyhow::Result<RepairState> {
        let action = self.record(by, ActionKind::Repair, partition).await?;
        let repaired = self.engine.repair(partition, &*self.ledger, true).await;
        // A repair that fails may have made some of its steps.
        if matches!(repaired, Ok(RepairState::Whole | RepairState::Waiting)) {
            by.strike(&*self.ledger, action).await;
        }
        Ok(repaired?)
    }

    /// Ends a partition's halt without a repair. Returns false if the partition is not halted.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn resume(&self, partition: PartitionId, by: &Operator) -> anyhow::Result<bool> {
        let action = self.record(by, ActionKind::Resume, partition).await?;
        let resumed = self.engine.resume_as_it_is(partition, &*self.ledger);
        let resumed = resumed.await;
        if matches!(resumed, Ok(false)) {
            by.strike(&*self.ledger, action).await;
        }
        Ok(resumed?)
    }

    /// Restocks the units that repairs withhold in a partition. Returns the number of units.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn release_withheld(
        &self,
        partition: PartitionId,
        by: &Operator,
    ) -> anyhow::Result<u64> {
        let action = self.record(by, ActionKind::Release, partition).await?;
        let released = self.engine.release_withheld(partition, &*self.ledger);
        let released = released.await;
        if has_changed_nothing(&released, |units| *units == 0) {
            by.strike(&*self.ledger, action).await;
        }
        Ok(released?)
    }

    /// Closes every open campaign of a partition, on all partitions that have a shard of it. Calls `on_closed` with
    /// each campaign once it is closed.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer, a campaign cannot be closed, or `on_closed` fails.
    pub async fn close_campaigns(
        &self,
        partition: PartitionId,
        by: &Operator,
        mut on_closed: impl FnMut(CampaignId) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for campaign in self.engine.live_campaigns(partition, &*self.ledger).await? {
            if self.engine.has_part(campaign, partition).await? {
                // The campaign may be closed already, and the ledger may not have that entry yet.
                let before = self.engine.tally(campaign).await?;
                let is_open = before.is_none_or(|tally| tally.phase != Phase::Closed);
                let mut recorded = None;
                if is_open {
                    let detail = json!({ "partition": partition.0 });
                    let record = by.record(&*self.ledger, ActionKind::Close, campaign, &detail);
                    recorded = Some(record.await?);
                }
                let action = CampaignAction::Close;
                let closed = self.engine.submit(Command::Act { campaign, action }).await;
                if let Some(action) = recorded
                    && has_changed_nothing(&closed, |_| false)
                {
                    by.strike(&*self.ledger, action).await;
                }
                closed?;
                if is_open {
                    on_closed(campaign)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the ledger has a campaign, or Redis has any shard of it.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn has_campaign(&self, campaign: CampaignId) -> anyhow::Result<bool> {
        match self.ledger.campaign(campaign).await {
            // The campaign exists, even if its row cannot be read.
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

    /// Campaigns that a partition has and the ledger does not know: checks `only`, or all live campaigns, except those
    /// in `skip`.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn missing_in_ledger(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
        skip: &BTreeSet<CampaignId>,
    ) -> anyhow::Result<Vec<CampaignId>> {
        let mut missing = Vec::new();
        let compared = self.compared(partition, only).await?.into_iter();
        for campaign in compared.filter(|campaign| !skip.contains(campaign)) {
            // The order matters: a campaign is in the ledger before it is in Redis.
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

    /// Differences between a partition and the ledger, in one campaign or in all that are live. Entries in flight count
    /// as differences of their own kind. A campaign that differs is compared twice, because claims may be decided
    /// during the first comparison. Campaigns in `skip` are left out.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn differences(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
        skip: &BTreeSet<CampaignId>,
    ) -> anyhow::Result<Vec<Difference>> {
        let apparent = self.apparent_differences(partition, only, skip).await?;
        apparent.pause().await;
        self.confirmed(apparent, skip).await
    }

    /// The first comparison of [`Self::differences`].
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn apparent_differences(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
        skip: &BTreeSet<CampaignId>,
    ) -> anyhow::Result<ApparentDifferences> {
        let mut campaigns = Vec::new();
        for campaign in self.compared(partition, only).await? {
            if !skip.contains(&campaign) {
                let found = self.engine.differences(partition, campaign, &*self.ledger);
                campaigns.push((campaign, found.await?));
            }
        }
        campaigns.retain(|(_, found)| !found.is_empty());
        Ok(ApparentDifferences {
            partition,
            campaigns,
        })
    }

    /// The second comparison of [`Self::differences`], after a pause: the differences that both have found.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn confirmed(
        &self,
        apparent: ApparentDifferences,
        skip: &BTreeSet<CampaignId>,
    ) -> anyhow::Result<Vec<Difference>> {
        let partition = apparent.partition;
        let mut confirmed = Vec::new();
        let campaigns = apparent.campaigns.into_iter();
        for (campaign, found) in campaigns.filter(|(campaign, _)| !skip.contains(campaign)) {
            if found.iter().all(is_in_flight) {
                confirmed.extend(found);
                continue;
            }
            let before: BTreeSet<Difference> = found.into_iter().collect();
            let again = self.engine.differences(partition, campaign, &*self.ledger);
            let again = again.await?.into_iter();
            confirmed.extend(again.filter(|it| is_in_flight(it) || before.contains(it)));
        }
        Ok(confirmed)
    }

    /// Adds to each side the data that only the other side has. The partition halts for a moment.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer. If the partition stays halted, a node or an operator repairs it.
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
    /// If the ledger fails while closing.
    pub async fn close(&self) -> anyhow::Result<()> {
        self.engine.close().await;
        self.backend.close().await
    }
}

/// Whether a command has certainly changed nothing: it was refused, or its result says so.
fn has_changed_nothing<T>(done: &Result<T, EngineError>, is_nothing: impl Fn(&T) -> bool) -> bool {
    match done {
        Ok(done) => is_nothing(done),
        Err(error) => !matches!(error, EngineError::Uncertain { .. }),
    }
}

fn is_in_flight(difference: &Difference) -> bool {
    difference.kind == DifferenceKind::InFlight
}
