//! Facts of campaigns, such as phase, stock and terms: compared with the ledger, and repaired from the side that the
//! operator names.

use std::time::{Duration, Instant};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::Tally,
    event::PartitionId,
    id::CampaignId,
    ports::{ActionKind, Engine as _, EngineError, Restatement, SampleEngine as _},
    reconcile::{
        CampaignComparison, CampaignDifference, CampaignFacts, CampaignRefusal, CampaignSource,
        ComparedCampaign, NotCompared,
    },
};
use qiang_redis::PartitionState;
use serde_json::{Value, json};

use super::{AGAIN_AFTER, Maintenance};
use crate::operator::Operator;

/// Commands of a repair are sent this soon after the comparison, or not at all: the campaign may have been changed
/// since.
const COMMANDS_WITHIN: Duration = Duration::from_secs(3);
/// Times that a campaign is compared which changes, or whose entries are not settled, and the pause between.
const COMPARE_MAX: u32 = 50;
const COMPARE_PAUSE: Duration = Duration::from_millis(20);
/// Times that a campaign is looked for which the engine does not have.
const LOOK_FOR_MAX: u32 = 3;
/// Entries that may be settled after a refusal before the row is set back: the row itself has to be as it was left.
const SETTLED_SINCE_MAX: u64 = 10_000;

/// A campaign whose facts differ.
#[derive(Debug)]
pub struct DifferingCampaign {
    /// Both sides.
    pub compared: ComparedCampaign,
    /// Differences that were there twice.
    pub differences: Vec<CampaignDifference>,
}

/// What was found about the campaigns of a partition.
#[derive(Debug, Default)]
pub struct CampaignFindings {
    /// Campaigns whose facts differ.
    pub differing: Vec<DifferingCampaign>,
    /// Campaigns that are not compared, and why; all of the partition where none is named.
    pub not_compared: Vec<(Option<CampaignId>, NotCompared)>,
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
    /// Compares the facts of a partition's campaigns, of one or of all that are live. A campaign that changes is
    /// compared again, and one that differs a second time a moment later.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer.
    pub async fn compare_campaigns(
        &self,
        partition: PartitionId,
        only: Option<CampaignId>,
    ) -> anyhow::Result<CampaignFindings> {
        let mut found = CampaignFindings::default();
        if matches!(self.state(partition), PartitionState::Halted { .. }) {
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

    /// Both sides of a campaign's part if they differ, or why they are not compared.
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

    /// Repairs a campaign's facts from one side. The inner error says why nothing was written.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer. What was asked for is in the record of actions then.
    pub async fn repair_campaign(
        &self,
        compared: &ComparedCampaign,
        source: CampaignSource,
        by: &Operator,
    ) -> anyhow::Result<Result<(), CampaignRefusal>> {
        let mut compared = compared.clone();
        for _ in 0..COMPARE_MAX {
            let began = Instant::now();
            let repaired = match source {
                CampaignSource::Engine => self.restate(&compared, source, by).await?.map(drop),
                CampaignSource::Ledger => self.command(&compared, began, by).await?,
            };
            if repaired != Err(CampaignRefusal::Changed) {
                return Ok(repaired);
            }
            // It was settled or changed since the comparison: what differs now may be something else.
            let (partition, campaign) = (compared.partition, compared.campaign);
            match self.compare_campaign(partition, campaign).await? {
                Ok(Some(again)) => compared = again,
                Ok(None) => return Ok(Ok(())),
                Err(_) => break,
            }
        }
        Ok(Err(CampaignRefusal::Changed))
    }

    /// Sets the ledger's row to the engine's facts; returns the row then.
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

    /// Has the engine take over the ledger's facts. The ledger's row goes back to the engine's facts first: what the
    /// commands change settles on top of it.
    async fn command(
        &self,
        compared: &ComparedCampaign,
        began: Instant,
        by: &Operator,
    ) -> anyhow::Result<Result<(), CampaignRefusal>> {
        let campaign = compared.campaign;
        let now = self.engine.server_time(compared.partition).await?;
        let tally: Option<Tally> = self.engine.present_tally(campaign).await?;
        let record = self.ledger.campaign(campaign).await?;
        let (Some(tally), Some(record)) = (tally, record) else {
            return Ok(Err(CampaignRefusal::Changed));
        };
        let commands = compared.commands(tally.granted, now, record.campaign.currency());
        let commands = match commands {
            Ok(commands) => commands,
            Err(refused) => return Ok(Err(refused)),
        };
        let restated = self.restate(compared, CampaignSource::Ledger, by).await?;
        let restated = match restated {
            Ok(restated) => restated,
            Err(refused) => return Ok(Err(refused)),
        };
        for (n, command) in commands.into_iter().enumerate() {
            if began.elapsed() > COMMANDS_WITHIN {
                if n == 0 {
                    self.set_back(compared, restated, by).await?;
                }
                return Ok(Err(CampaignRefusal::Changed));
            }
            let (kind, detail) = action_of(&command);
            let action = by.action(kind, campaign, &detail);
            self.ledger.record(&action).await?;
            by.log(&action);
            let Err(error) = self.engine.submit(command).await else {
                continue;
            };
            if matches!(error, EngineError::Uncertain { .. }) {
                return Err(error.into());
            }
            self.ledger.strike(action.id).await?;
            if n == 0 {
                self.set_back(compared, restated, by).await?;
            }
            return match error {
                EngineError::Refused(refusal) => {
                    Ok(Err(CampaignRefusal::Engine(refusal.to_string())))
                }
                error => Err(error.into()),
            };
        }
        Ok(Ok(()))
    }

    /// Gives a row back the facts that the engine has refused: they are reported, and not lost. A row that was changed
    /// since stays.
    async fn set_back(
        &self,
        compared: &ComparedCampaign,
        restated: CampaignFacts,
        by: &Operator,
    ) -> anyhow::Result<()> {
        let detail = json!({ "campaigns_from": "ledger", "refused": true });
        let (from, upto) = compared.settled;
        let restatement = Restatement {
            campaign: compared.campaign,
            partition: compared.partition,
            settled: (from, upto.saturating_add(SETTLED_SINCE_MAX)),
            seen: restated,
            becomes: compared.row,
            action: by.action(ActionKind::Change, compared.campaign, &detail),
        };
        if self.ledger.restate(&restatement).await? {
            by.log(&restatement.action);
        }
        Ok(())
    }
}

/// How a command is recorded.
fn action_of(command: &Command) -> (ActionKind, Value) {
    match command {
        Command::Act {
            action: CampaignAction::Pause,
            ..
        } => (ActionKind::Pause, json!({ "campaigns_from": "ledger" })),
        Command::Act { .. } => (ActionKind::Resume, json!({ "campaigns_from": "ledger" })),
        Command::SetStock { stock, .. } => {
            let detail = json!({ "campaigns_from": "ledger", "stock": stock });
            (ActionKind::Change, detail)
        }
        Command::SetTerms { change, .. } => {
            let detail = json!({
                "campaigns_from": "ledger",
                "starts_at_ms": change.starts_at.map(|at| at.as_millis()),
                "ends_at_ms": change.ends_at.map(|at| at.as_millis()),
                "per_user_limit": change.per_user_limit,
                "unit_price_minor": change.unit_price_minor,
                "admission_percent": change.admission.map(|bound| bound.percent()),
            });
            (ActionKind::Change, detail)
        }
        _ => (ActionKind::Change, json!({ "campaigns_from": "ledger" })),
    }
}

/// The facts that are other than these.
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
