//! Prints partitions as text and as JSON. JSON fields have their names in the API's bodies.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use jiff::Timestamp as Calendar;
use qiang::{PartitionHealth, maintenance::Maintenance};
use qiang_core::{
    event::PartitionId,
    ports::{NodeSighting, RepairRecord, RepairReport, RepairState, WithheldRecord},
    time::Timestamp,
};
use serde_json::{Value, json};

/// Steps that follow a move of the ledger.
const AFTER_A_MOVE: &str = "\
next:
  1. start the nodes and workers with the new configuration; they repair all partitions from the ledger
  2. wait until `/readyz` of each node says `ready`: all partitions are open
  3. run `qiang reconcile`: it finds no difference
  4. keep the old Redis until then; a process with the old configuration does not start";

/// Prints where the ledger was moved, what was compared before, and the next steps.
pub(super) fn moved(from: &str, to: &str, has_left: bool) -> io::Result<()> {
    let compared = match has_left {
        true => "nothing was compared: entries of the old Redis that the ledger lacks are lost",
        false => "compared: the ledger has all entries of the old Redis",
    };
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "ledger moved from {from} to {to}\n{compared}\n{AFTER_A_MOVE}"
    )
}

pub(super) fn list(maintenance: &Maintenance, json: bool) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    for partition in maintenance.partitions() {
        let state = maintenance.state(partition);
        match json {
            true => writeln!(out, "{}", brief(partition, &state))?,
            false => writeln!(out, "{:>4}  {state}", partition.0)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn inspect(
    maintenance: &Maintenance,
    partition: PartitionId,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let state = maintenance.state(partition);
    let (repairs, withheld) = maintenance.records(partition).await?;
    let mut out = io::stdout().lock();
    if json {
        let (view, settled) = maintenance.view(partition).await?;
        let mut all = brief(partition, &state);
        all["settled"] = json!(settled);
        all["engine"] = json!(view.state);
        all["nodes"] = view.nodes.iter().map(node).collect();
        all["repairs"] = repairs.iter().map(recorded).collect();
        all["withheld"] = withheld.iter().map(kept_back).collect();
        writeln!(out, "{all}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (found, settled) = maintenance.inspect(partition).await?;
    writeln!(out, "{state}\nsettled {settled}")?;
    for (field, value) in &found.state {
        writeln!(out, "{field} {value}")?;
    }
    for (node, seen) in &found.nodes {
        writeln!(out, "node {node}: seen, term, observed {seen}")?;
    }
    for (campaign, units) in &found.withheld {
        writeln!(out, "withheld {units} of {campaign}")?;
    }
    for repair in &found.repairs {
        writeln!(out, "repair: {repair}")?;
    }
    for repair in &repairs {
        writeln!(out, "recorded {}", describe(repair))?;
        let of = withheld.iter().filter(|it| it.epoch == repair.epoch);
        for withheld in of {
            writeln!(out, "recorded {}", withheld_of(withheld))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn repair(state: RepairState, json: bool) -> anyhow::Result<()> {
    let (result, text, report) = match state {
        RepairState::Whole => ("whole", "nothing is lost", None),
        RepairState::Waiting => ("waiting", "another process repairs the partition", None),
        RepairState::Repaired(report) => ("repaired", "", Some(report)),
    };
    let is_repaired = report.is_some();
    let report = report.unwrap_or_default();
    let RepairReport {
        campaigns,
        restored,
        appended,
        unnamed,
        withheld,
        out_of_service,
        conflicts,
    } = &report;
    let conflicts: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
    let mut out = io::stdout().lock();
    if json {
        let body = json!({
            "result": result, "campaigns": campaigns, "restored": restored, "appended": appended,
            "unnamed": unnamed, "withheld": withheld, "out_of_service": out_of_service, "conflicts": conflicts
        });
        writeln!(out, "{body}")?;
        return Ok(());
    }
    if !is_repaired {
        writeln!(out, "{text}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{campaigns} campaigns: {restored} rows restored, {appended} entries appended, {unnamed} entries unknown, \
         {withheld} units withheld, {out_of_service} campaigns out of service"
    )?;
    for conflict in &conflicts {
        writeln!(out, "not kept: {conflict}")?;
    }
    Ok(())
}

/// A partition and its state.
fn brief(partition: PartitionId, state: &PartitionHealth) -> Value {
    let (status, reason) = match state {
        PartitionHealth::Open => ("open", None),
        PartitionHealth::Gathering => ("gathering", None),
        PartitionHealth::Halted { reason, .. } => ("halted", Some(reason)),
        PartitionHealth::Unreachable { reason } => ("unreachable", Some(reason)),
    };
    let mut brief = json!({ "partition": partition.0, "status": status });
    if let Some(reason) = reason {
        brief["reason"] = json!(reason);
    }
    brief
}

fn node(it: &NodeSighting) -> Value {
    json!({ "node": it.node, "seen_at": written(it.seen_at), "term": it.term, "observed": it.observed })
}

fn recorded(it: &RepairRecord) -> Value {
    let lost = (it.lost_to + 1).saturating_sub(it.lost_from);
    let mut repair = json!({
        "epoch": it.epoch, "at": written(it.at), "lost": lost, "unnamed": it.unnamed, "reason": it.reason
    });
    if let Some(upto) = it.upto {
        repair["upto"] = json!(upto);
    }
    repair
}

fn kept_back(it: &WithheldRecord) -> Value {
    let mut withheld = json!({
        "epoch": it.epoch, "campaign": it.campaign.to_string(), "units": it.units, "amount_minor": it.amount_minor
    });
    if let Some(at) = it.released_at {
        withheld["released_at"] = json!(written(at));
    }
    withheld
}

/// A time as text.
fn written(at: Timestamp) -> String {
    let at = Calendar::from_millisecond(at.as_millis()).unwrap_or_default();
    format!("{at:.3}")
}

/// A repair as text.
fn describe(repair: &RepairRecord) -> String {
    let RepairRecord {
        epoch,
        follows,
        at,
        lost_from,
        lost_to,
        unnamed,
        reason,
        upto,
        ..
    } = repair;
    let at = written(*at);
    let follows = if follows.is_empty() {
        "nothing"
    } else {
        follows.as_str()
    };
    let lost = match lost_from > lost_to {
        true => "nothing lost".to_owned(),
        false => format!("{lost_from} to {lost_to} lost"),
    };
    let end = upto.map_or_else(
        || "not finished".to_owned(),
        |upto| format!("log at {upto}"),
    );
    format!("epoch {epoch} follows {follows}, at {at}: {lost}, {unnamed} unknown, {end}: {reason}")
}

/// The units that a repair withheld, as text.
pub(crate) fn withheld_of(withheld: &WithheldRecord) -> String {
    let WithheldRecord {
        epoch,
        campaign,
        units,
        amount_minor,
        numbers,
        released_at,
        ..
    } = withheld;
    let ranges = numbers.iter().map(|range| match range.first == range.last {
        true => range.first.to_string(),
        false if range.step == 1 => format!("{}-{}", range.first, range.last),
        false => format!("{}-{} by {}", range.first, range.last, range.step),
    });
    let ranges: Vec<String> = ranges.collect();
    let numbers = match ranges.is_empty() {
        true => String::new(),
        false => format!(", numbers {}", ranges.join(" ")),
    };
    let since =
        released_at.map_or_else(String::new, |at| format!(", restocked at {}", written(at)));
    format!("{epoch}: {units} units of {campaign}, worth {amount_minor}{numbers}{since}")
}
