//! Report of `qiang reconcile`: its findings and its repairs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use qiang_core::{
    event::PartitionId,
    reconcile::{Difference, DifferenceKind},
};
use serde::Serialize;

/// Hint where to find overwritten values of a row.
const OVERWRITTEN: &str =
    "the ledger's row has the engine's values now; the operation log has the previous ones";
/// Hint if campaigns differ and the operator has not named the side that wins.
const CHOOSE: &str =
    "choose the side that wins by --campaigns-from engine or --campaigns-from ledger";

#[derive(Debug, Default, Serialize)]
pub(super) struct ReconcileFindings {
    differences: Vec<DifferenceRow>,
    in_flight: u64,
    /// Differences of campaign facts.
    pub(super) campaign_differences: Vec<CampaignFindingRow>,
    /// Campaigns and partitions that were not compared.
    pub(super) not_compared: Vec<NotComparedRow>,
    /// Campaigns that Redis has and the ledger does not, by partition.
    pub(super) missing_in_ledger: Vec<MissingCampaign>,
    /// Campaigns whose facts were copied from one side to the other.
    pub(super) repaired_campaigns: Vec<RepairedCampaign>,
    /// Campaigns whose sides agree because another change came first.
    pub(super) agreed_campaigns: Vec<AgreedCampaign>,
    /// Campaigns whose repair the ledger does not show yet.
    pub(super) pending_campaigns: Vec<PendingCampaign>,
    /// Campaigns whose facts were not repaired, or not wholly.
    pub(super) refused: Vec<RefusedCampaign>,
    /// Partitions that were not united because campaigns differ or cannot be read.
    pub(super) undecided: Vec<u16>,
    /// Partitions that were united with the ledger.
    pub(super) repaired: Vec<u16>,
    /// Partitions that were not united because another process repairs them.
    pub(super) waiting: Vec<u16>,
    /// Units that repairs withhold, from the ledger.
    pub(super) withheld: Vec<WithheldRow>,
}

#[derive(Debug, Serialize)]
struct DifferenceRow {
    partition: u16,
    kind: &'static str,
    campaign: String,
    number: u32,
    user: String,
    engine: String,
    ledger: String,
}

#[derive(Debug, Serialize)]
pub(super) struct CampaignFindingRow {
    pub(super) partition: u16,
    pub(super) kind: &'static str,
    pub(super) campaign: String,
    pub(super) engine: String,
    pub(super) ledger: String,
}

#[derive(Debug, Serialize)]
pub(super) struct NotComparedRow {
    pub(super) partition: u16,
    /// Null for the whole partition.
    pub(super) campaign: Option<String>,
    pub(super) reason: String,
}

#[derive(Debug, Serialize)]
pub(super) struct RepairedCampaign {
    pub(super) partition: u16,
    pub(super) campaign: String,
    pub(super) from: &'static str,
    /// Changes that were made, in order.
    pub(super) applied: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct AgreedCampaign {
    pub(super) partition: u16,
    pub(super) campaign: String,
    /// Whether values of the ledger's row were overwritten.
    pub(super) is_overwritten: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct PendingCampaign {
    pub(super) partition: u16,
    pub(super) campaign: String,
}

#[derive(Debug, Serialize)]
pub(super) struct RefusedCampaign {
    pub(super) partition: u16,
    pub(super) campaign: String,
    pub(super) reason: String,
    /// Changes that were made before the refusal, in order. They stay.
    pub(super) applied: Vec<String>,
    /// Whether values of the ledger's row were overwritten and the engine does not have them.
    pub(super) is_overwritten: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct WithheldRow {
    pub(super) partition: u16,
    pub(super) epoch: String,
    pub(super) campaign: String,
    pub(super) units: u64,
    pub(super) amount_minor: i64,
    #[serde(skip)]
    pub(super) text: String,
}

#[derive(Debug, Serialize)]
pub(super) struct MissingCampaign {
    pub(super) partition: u16,
    pub(super) campaign: String,
}

impl ReconcileFindings {
    pub(super) fn agrees(&self) -> bool {
        self.differences.is_empty()
            && self.campaign_differences.is_empty()
            && self.not_compared.is_empty()
            && self.refused.is_empty()
            && self.undecided.is_empty()
            && self.missing_in_ledger.is_empty()
            && self.waiting.is_empty()
    }

    /// Whether anything was changed.
    pub(super) fn has_repaired(&self) -> bool {
        let has_applied = |row: &RefusedCampaign| !row.applied.is_empty();
        !self.repaired.is_empty()
            || !self.repaired_campaigns.is_empty()
            || self.refused.iter().any(has_applied)
    }

    pub(super) fn add(&mut self, partition: PartitionId, differences: Vec<Difference>) {
        for difference in differences {
            if difference.kind == DifferenceKind::InFlight {
                self.in_flight += 1;
                continue;
            }
            self.differences.push(DifferenceRow {
                partition: partition.0,
                kind: difference.kind.name(),
                campaign: difference.campaign.to_string(),
                number: difference.number,
                user: difference.user.to_string(),
                engine: difference.engine,
                ledger: difference.ledger,
            });
        }
    }

    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string(self)?)?;
            return Ok(());
        }
        self.print_campaigns(&mut out)?;
        for row in &self.differences {
            writeln!(
                out,
                "partition {}: {} {}-{}: engine [{}], ledger [{}]",
                row.partition, row.kind, row.campaign, row.number, row.engine, row.ledger
            )?;
        }
        for MissingCampaign {
            partition,
            campaign,
        } in &self.missing_in_ledger
        {
            writeln!(
                out,
                "partition {partition}: the ledger does not have campaign {campaign}"
            )?;
        }
        for partition in &self.repaired {
            writeln!(out, "partition {partition}: united with the ledger")?;
        }
        for partition in &self.waiting {
            writeln!(
                out,
                "partition {partition}: not united, because another process repairs it"
            )?;
        }
        for withheld in &self.withheld {
            writeln!(
                out,
                "partition {}: withheld by {}",
                withheld.partition, withheld.text
            )?;
        }
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let kinds = self.differences.iter().map(|row| row.kind);
        for kind in kinds.chain(self.campaign_differences.iter().map(|row| row.kind)) {
            *counts.entry(kind).or_default() += 1;
        }
        for (kind, count) in counts {
            writeln!(out, "{count} {kind}")?;
        }
        let differences = self.differences.len() + self.campaign_differences.len();
        writeln!(
            out,
            "{differences} differences, {} in flight",
            self.in_flight
        )?;
        Ok(())
    }

    fn print_campaigns(&self, out: &mut impl Write) -> anyhow::Result<()> {
        for row in &self.campaign_differences {
            writeln!(
                out,
                "partition {}: {} {}: engine [{}], ledger [{}]",
                row.partition, row.kind, row.campaign, row.engine, row.ledger
            )?;
        }
        for row in &self.not_compared {
            let campaign = row.campaign.as_deref();
            let campaign = campaign.map_or_else(String::new, |id| format!(" campaign {id}"));
            writeln!(
                out,
                "partition {}: not compared{campaign}: {}",
                row.partition, row.reason
            )?;
        }
        for row in &self.repaired_campaigns {
            writeln!(
                out,
                "partition {}: campaign {} repaired from the {}: {}",
                row.partition,
                row.campaign,
                row.from,
                row.applied.join(", ")
            )?;
        }
        for row in &self.agreed_campaigns {
            let lost = match row.is_overwritten {
                true => format!("; {OVERWRITTEN}"),
                false => String::new(),
            };
            writeln!(
                out,
                "partition {}: campaign {} not repaired: both sides agree after another change{lost}",
                row.partition, row.campaign
            )?;
        }
        for row in &self.pending_campaigns {
            writeln!(
                out,
                "partition {}: campaign {}: settlement is pending; the ledger has the values after it",
                row.partition, row.campaign
            )?;
        }
        for row in &self.refused {
            let verb = if row.applied.is_empty() {
                "not repaired"
            } else {
                "partly repaired"
            };
            writeln!(
                out,
                "partition {}: campaign {} {verb}: {}",
                row.partition, row.campaign, row.reason
            )?;
            if !row.applied.is_empty() {
                let applied = row.applied.join(", ");
                writeln!(out, "    changes that the engine keeps: {applied}")?;
            }
            if row.is_overwritten {
                writeln!(out, "    {OVERWRITTEN}")?;
            }
        }
        for partition in &self.undecided {
            let differs = |row: &CampaignFindingRow| row.partition == *partition;
            let reason = match self.campaign_differences.iter().any(differs) {
                true if self.refused.is_empty() => format!("campaigns differ: {CHOOSE}"),
                true => "campaigns differ, and some are not repaired".to_owned(),
                false => "campaigns cannot be read: correct their rows first".to_owned(),
            };
            writeln!(out, "partition {partition}: not united, {reason}")?;
        }
        Ok(())
    }
}
