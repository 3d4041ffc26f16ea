//! Campaign facts, such as phase, stock and terms: comparison with the ledger, and repair from the side that the
//! operator names.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Command, Refusal, SaleCorrection},
    campaign::Tally,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::{ActionKind, Engine as _, EngineError, EventLog as _, Restatement, SampleEngine as _},
    reconcile::{
        CampaignComparison, CampaignDifference, CampaignFacts, CampaignRefusal, CampaignSource,
        ComparedCampaign, NotCompared,
    },
};
use qiang_redis::PartitionHealth;
use serde_json::{Value, json};

use super::{AGAIN_AFTER, Maintenance};
use crate::operator::Operator;

/// A repair sends no command later than this after the comparison. The engine refuses stock and terms that were changed
/// since, but a pause, a resumption or a close does not say which phase it expects.
const COMMANDS_WITHIN: Duration = Duration::from_secs(3);
/// Maximum comparisons of a campaign that changes or has unsettled entries, and the pause between them.
const COMPARE_MAX: u32 = 50;
const COMPARE_PAUSE: Duration = Duration::from_millis(20);
/// Maximum attempts to find a campaign that the engine does not have.
const LOOK_FOR_MAX: u32 = 3;
/// Maximum entries that may settle between a refusal and the reset of the row. The row must be unchanged as well.
const SETTLED_SINCE_MAX: u64 = 10_000;
/// Maximum wait for the ledger to show the facts that the engine took over.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// A campaign whose facts differ.
#[derive(Debug)]
pub struct DifferingCampaign {
    /// Both sides.
    pub compared: ComparedCampaign,
    /// Differences that two comparisons found.
    pub differences: Vec<CampaignDifference>,
}

/// Result of comparing the campaigns of a partition.
#[derive(Debug, Default)]
pub struct CampaignFindings {
    /// Campaigns whose facts differ.
    pub differing: Vec<DifferingCampaign>,
    /// Campaigns that are not compared, with the reason. An entry without a campaign covers the whole partition.
    pub not_compared: Vec<(Option<CampaignId>, NotCompared)>,
}

/// Report of a repair of a campaign's facts.
#[derive(Debug, Default)]
pub struct CampaignRepair {
    /// Changes that were made, in order, as text.
    pub applied: Vec<String>,
    /// The entry with which the ledger has all changes of the engine, and its partition. `None` if there are none.
    pub settled_with: Option<(PartitionId, Seq)>,
    /// Whether the ledger's row has lost values that the engine did not take over. The operation log has these values.
    pub is_overwritten: bool,
    /// Result.
    pub outcome: RepairOutcome,
}

/// Result of a repair of a campaign's facts.
#[derive(Debug, Default)]
pub enum RepairOutcome {
    /// One side took over the other's values.
    Repaired,
    /// Both sides agree, because another change came first. The repair wrote nothing.
    #[default]
    Agreed,
    /// The campaign is not repaired, or only in part.
    Refused(CampaignRefusal),
    /// Redis or the ledger did not answer.
    Failed(anyhow::Error),
}

impl CampaignFindings {
    /// Campaigns whose rows cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = CampaignId> + '_ {
        let found = self.not_compared.iter();
        let found = found.filter(|(_, reason)| reason.is_unreadable());
        found.filter_map(|(campaign, _)| *campaign)
    }
}

impl Maintenance {
    /// Compares the facts of a partition's campaigns: of one, or of all that are live. A campaign that changes during
    /// the comparison is compared again. A campaign that differs is compared again a moment later.
    ///
    /// # Errors
    /// If Redis or the ledger does not answer.
    pub async fn compare_campaigns(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
    ) -> anyhow::Result<CampaignFindings> {
        let mut found = CampaignFindings::default();
        if matches!(self.state(partition), PartitionHealth::Halted { .. }) {
            found.not_compared.push((None, NotCompared::NotOpen));
            return Ok(found);
        }
        let mut suspected = Vec::new();
        for campaign in self.compared(partition, only).await? {
            match self.compare_campaign(partition, campaign).await? {
                Ok(compared) => suspected.extend(compared),
                Err(NotCompared::NotOpen) => {
                    found.not_compared.push((None, NotCompared::NotOpen));
                    break;
                }
                Err(reason) => found.not_compared.push((Some(campaign), reason)),
            }
        }
        if suspected.is_empty() {
            return Ok(found);
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        for before in suspected {
            let again = self.compare_campaign(partition, before.campaign).await?;
            match again {
                Ok(None) => {}
                Ok(Some(compared)) => {
                    let before = before.differences();
                    let mut differences = compared.differences();
                    differences.retain(|difference| before.contains(difference));
                    if !differences.is_empty() {
                        found.differing.push(DifferingCampaign {
                            compared,
                            differences,
                        });
                    }
                }
                Err(reason) => found.not_compared.push((Some(before.campaign), reason)),
            }
        }
        Ok(found)
    }

    /// Both sides of a campaign's shard if they differ, or the reason why they are not compared.
    async fn compare_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> anyhow::Result<Result<Option<ComparedCampaign>, NotCompared>> {
        let mut reason = NotCompared::Changing;
        for n in 1..=COMPARE_MAX {
            let compared = self
                .engine
                .compare_campaign(partition, campaign, &*self.ledger);
            match compared.await? {
                CampaignComparison::Absent => return Ok(Ok(None)),
                CampaignComparison::Compared(compared) => {
                    let differs = !compared.differences().is_empty();
                    return Ok(Ok(differs.then_some(*compared)));
                }
                CampaignComparison::NotCompared(reason) => return Ok(Err(reason)),
                CampaignComparison::Unsettled(why) => reason = why,
            }
            if reason == NotCompared::NotInEngine && n >= LOOK_FOR_MAX {
                break;
            }
            tokio::time::sleep(COMPARE_PAUSE).await;
        }
        Ok(Err(reason))
    }

    /// Repairs a campaign's facts from one side. If entries were settled since the comparison, it compares again and
    /// repairs the campaign if the differences are the same. If the campaign itself was changed since, it leaves the
    /// decision to the operator.
    pub async fn repair_campaign(
        &self,
        compared: &ComparedCampaign,
        source: CampaignSource,
        by: &Operator,
    ) -> CampaignRepair {
        let mut repair = CampaignRepair::default();
        repair.outcome = match self.repair_steps(compared, source, by, &mut repair).await {
            Ok(outcome) => outcome,
            Err(error) => RepairOutcome::Failed(error),
        };
        repair
    }

    async fn repair_steps(
        &self,
        compared: &ComparedCampaign,
        source: CampaignSource,
        by: &Operator,
        repair: &mut CampaignRepair,
    ) -> anyhow::Result<RepairOutcome> {
        let (partition, campaign) = (compared.partition, compared.campaign);
        let differences = compared.differences();
        let mut compared = compared.clone();
        for _ in 0..COMPARE_MAX {
            let began = Instant::now();
            let repaired = match source {
                CampaignSource::Engine => {
                    let restated = self.restate(&compared, source, by).await?;
                    restated.map(|row| {
                        let changed = facts_json(&row, &compared.row);
                        repair.applied.push(text_of(&changed));
                    })
                }
                CampaignSource::Ledger => self.command(&compared, began, by, repair).await?,
            };
            match repaired {
                Ok(()) => return Ok(RepairOutcome::Repaired),
                Err(CampaignRefusal::Changed) if repair.applied.is_empty() => {}
                Err(refused) => return Ok(RepairOutcome::Refused(refused)),
            }
            match self.compare_campaign(partition, campaign).await? {
                Ok(Some(again)) if again.differences() == differences => compared = again,
                Ok(None) => return Ok(RepairOutcome::Agreed),
                // Another change came first, so the new difference may be intended.
                Ok(Some(_)) | Err(_) => break,
            }
        }
        Ok(RepairOutcome::Refused(CampaignRefusal::Changed))
    }

    /// Waits until the ledger has these entries, for a bounded time. Returns the partitions that are not settled by
    /// then.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn pending_settlement(
        &self,
        entries: &BTreeMap<PartitionId, Seq>,
    ) -> anyhow::Result<BTreeSet<PartitionId>> {
        let until = Instant::now() + SETTLED_WITHIN;
        loop {
            let mut pending = BTreeSet::new();
            for (partition, entry) in entries {
                if self.ledger.settled(*partition).await? < *entry {
                    pending.insert(*partition);
                }
            }
            if pending.is_empty() || Instant::now() >= until {
                return Ok(pending);
            }
            tokio::time::sleep(COMPARE_PAUSE).await;
        }
    }

    /// Sets the ledger's row to the engine's facts. Returns the new row.
    async fn restate(
        &self,
        compared: &ComparedCampaign,
        source: CampaignSource,
        by: &Operator,
    ) -> anyhow::Result<Result<CampaignFacts, CampaignRefusal>> {
        let becomes = match compared.restated_row() {
            Ok(becomes) => becomes,
            Err(refused) => return Ok(Err(refused)),
        };
        let detail = json!({
            "campaigns_from": source.name(),
            "was": facts_json(&compared.row, &becomes),
            "is": facts_json(&becomes, &compared.row),
        });
        let restatement = Restatement {
            campaign: compared.campaign,
            partition: compared.partition,
            settled: compared.settled,
            seen: compared.row,
            becomes,
            action: by.action(ActionKind::Change, compared.campaign, &detail),
        };
        Ok(match self.ledger.restate(&restatement).await? {
            true => {
                by.log(&restatement.action);
                Ok(becomes)
            }
            false => Err(CampaignRefusal::Changed),
        })
    }

    /// Makes the engine take over the ledger's facts. First sets the ledger's row to the engine's facts, so that
    /// settlement of the commands' entries applies to it. The engine refuses a command if the sale was changed since
    /// the comparison.
    async fn command(
        &self,
        compared: &ComparedCampaign,
        began: Instant,
        by: &Operator,
        repair: &mut CampaignRepair,
    ) -> anyhow::Result<Result<(), CampaignRefusal>> {
        let campaign = compared.campaign;
        let now = self.engine.server_time(compared.partition).await?;
        let tally: Option<Tally> = self.engine.present_tally(campaign).await?;
        let record = self.ledger.campaign(campaign).await?;
        let (Some(tally), Some(record)) = (tally, record) else {
            return Ok(Err(CampaignRefusal::Changed));
        };
        let campaign_rules = (record.campaign.currency(), record.campaign.payment_policy);
        let commands = compared.commands(tally.granted, now, campaign_rules);
        let commands = match commands {
            Ok(commands) => commands,
            Err(refused) => return Ok(Err(refused)),
        };
        let restated = self.restate(compared, CampaignSource::Ledger, by).await?;
        let restated = match restated {
            Ok(restated) => restated,
            Err(refused) => return Ok(Err(refused)),
        };
        repair.is_overwritten = true;
        for (n, command) in commands.iter().enumerate() {
            let failed = match began.elapsed() > COMMANDS_WITHIN {
                true => Err(CampaignRefusal::Changed),
                false => self.submit_correction(command, by, repair).await?,
            };
            if let Err(refused) = failed {
                let left = &commands[n..];
                repair.is_overwritten = !self.give_back(compared, &restated, left, by).await?;
                return Ok(Err(refused));
            }
        }
        repair.is_overwritten = false;
        Ok(Ok(()))
    }

    /// Records and submits one command. If its outcome is uncertain, returns an error and keeps the record.
    async fn submit_correction(
        &self,
        command: &Command,
        by: &Operator,
        repair: &mut CampaignRepair,
    ) -> anyhow::Result<Result<(), CampaignRefusal>> {
        let Some(campaign) = command.campaign() else {
            return Ok(Ok(()));
        };
        let (kind, detail) = action_of(command);
        let action = by.action(kind, campaign, &detail);
        self.ledger.record(&action).await?;
        by.log(&action);
        let Err(error) = self.engine.submit(command.clone()).await else {
            repair.applied.push(match kind {
                ActionKind::Change => text_of(&detail),
                other => other.name().to_owned(),
            });
            let home = self.engine.home_position(campaign).0;
            repair.settled_with = Some((home, self.engine.head(home).await?));
            return Ok(Ok(()));
        };
        if matches!(error, EngineError::Uncertain { .. }) {
            let text = match kind {
                ActionKind::Change => text_of(&detail),
                other => other.name().to_owned(),
            };
            let doubt = format!("it is not known whether the engine took this: {text}");
            return Err(anyhow::Error::from(error).context(doubt));
        }
        self.ledger.strike(action.id).await?;
        Ok(Err(match error {
            EngineError::Refused(Refusal::Changed) => CampaignRefusal::Changed,
            other => CampaignRefusal::Engine(other.to_string()),
        }))
    }

    /// Restores the ledger's facts of commands that the engine refused, so that these facts are not lost. Returns
    /// whether the row has all of them again. A fact that was changed since keeps its new value.
    async fn give_back(
        &self,
        compared: &ComparedCampaign,
        restated: &CampaignFacts,
        commands: &[Command],
        by: &Operator,
    ) -> anyhow::Result<bool> {
        for _ in 0..COMPARE_MAX {
            let position = self.ledger.settled(compared.partition).await?;
            let Some(record) = self.ledger.campaign(compared.campaign).await? else {
                return Ok(false);
            };
            let seen = record.facts();
            let Some(becomes) = compared.row_given_back(restated, &seen, commands) else {
                return Ok(false);
            };
            let detail = json!({
                "campaigns_from": "ledger",
                "refused": true,
                "is": facts_json(&becomes, &seen),
            });
            let restatement = Restatement {
                campaign: compared.campaign,
                partition: compared.partition,
                settled: (position, position.saturating_add(SETTLED_SINCE_MAX)),
                seen,
                becomes,
                action: by.action(ActionKind::Change, compared.campaign, &detail),
            };
            if self.ledger.restate(&restatement).await? {
                by.log(&restatement.action);
                return Ok(compared.has_given_back(&becomes, commands));
            }
            tokio::time::sleep(COMPARE_PAUSE).await;
        }
        Ok(false)
    }
}

/// The changes of an operation's detail, as text: `stock 150, per_user_limit 2`.
fn text_of(detail: &Value) -> String {
    let fields = detail.as_object().into_iter().flatten();
    let changes = fields.filter(|(name, value)| *name != "campaigns_from" && !value.is_null());
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(value) => format!("{name} {value}"),
        other => format!("{name} {other}"),
    };
    changes.map(text).collect::<Vec<_>>().join(", ")
}

/// Kind and detail of the operation that records a command.
fn action_of(command: &Command) -> (ActionKind, Value) {
    match command {
        Command::Act {
            action: CampaignAction::Pause,
            ..
        } => (ActionKind::Pause, json!({ "campaigns_from": "ledger" })),
        Command::Act { .. } => (ActionKind::Resume, json!({ "campaigns_from": "ledger" })),
        Command::Correct { correction, .. } => {
            let detail = match &**correction {
                SaleCorrection::Stock { stock, .. } => {
                    json!({ "campaigns_from": "ledger", "stock": stock })
                }
                SaleCorrection::Terms { change, .. } => json!({
                    "campaigns_from": "ledger",
                    "starts_at_ms": change.starts_at.map(|at| at.as_millis()),
                    "ends_at_ms": change.ends_at.map(|at| at.as_millis()),
                    "per_user_limit": change.per_user_limit,
                    "unit_price_minor": change.unit_price_minor,
                    "admission_percent": change.admission.map(|bound| bound.percent()),
                }),
            };
            (ActionKind::Change, detail)
        }
        _ => (ActionKind::Change, json!({ "campaigns_from": "ledger" })),
    }
}

/// The facts that differ from `other`, as JSON.
fn facts_json(facts: &CampaignFacts, other: &CampaignFacts) -> Value {
    let mut found = serde_json::Map::new();
    let mut put = |name: &str, differs: bool, value: Value| {
        if differs {
            found.insert(name.to_owned(), value);
        }
    };
    put(
        "phase",
        facts.phase != other.phase,
        facts.phase.name().into(),
    );
    put("supply", facts.supply != other.supply, facts.supply.into());
    let starts_at = [facts, other].map(|it| it.window.starts_at().as_millis());
    put(
        "starts_at_ms",
        starts_at[0] != starts_at[1],
        starts_at[0].into(),
    );
    let ends_at = [facts, other].map(|it| it.window.ends_at().as_millis());
    put("ends_at_ms", ends_at[0] != ends_at[1], ends_at[0].into());
    put(
        "per_user_limit",
        facts.per_user_limit != other.per_user_limit,
        facts.per_user_limit.into(),
    );
    put(
        "unit_price_minor",
        facts.unit_price_minor != other.unit_price_minor,
        facts.unit_price_minor.into(),
    );
    put(
        "hold_ms",
        facts.hold_ms != other.hold_ms,
        facts.hold_ms.into(),
    );
    put(
        "admission_percent",
        facts.admission != other.admission,
        facts.admission.map(|bound| bound.percent()).into(),
    );
    put("ack", facts.ack != other.ack, facts.ack.name().into());
    found.into()
}
