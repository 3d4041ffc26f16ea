//! Prints one reading, for scripts and for terminals without the screen.

use std::{fmt::Write as _, time::Duration};

use super::{
    figures::{Figures, PartitionFigures},
    reader::MetricsReader,
};
use crate::service::Service;

/// Prints the figures of one interval.
pub(super) async fn once(
    service: &Service,
    mut reader: MetricsReader,
    every: Duration,
) -> anyhow::Result<()> {
    reader.read().await?;
    tokio::time::sleep(every).await;
    let figures = reader.read().await?;
    service.print(&figures, text)
}

fn text(figures: &Figures) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_text(figures, &mut text);
    text.trim_end().to_owned()
}

fn write_text(figures: &Figures, out: &mut String) -> std::fmt::Result {
    writeln!(out, "claims/s      {}", number(figures.claims_per_s))?;
    for (outcome, rate) in outcomes(figures) {
        writeln!(out, "  {outcome:<16} {}", number(rate))?;
    }
    writeln!(out, "latency       {}", latency(figures))?;
    writeln!(out, "admitted      {}", admitted(figures))?;
    writeln!(out, "queue         {}", figures.queue_length)?;
    writeln!(
        out,
        "lag           {} entries",
        figures.settlement_lag_entries
    )?;
    writeln!(out, "waiting       {} places", figures.queue_entries)?;
    writeln!(out, "connections   {}", figures.connections)?;
    writeln!(out, "partitions    {}", partitions(figures))?;
    for alarm in figures.alarms() {
        writeln!(out, "alarm         {alarm}")?;
    }
    if let Some(why) = &figures.no_campaigns {
        writeln!(out, "campaigns     {why}")?;
    }
    for campaign in &figures.campaigns {
        let (id, title, state) = (&campaign.id, &campaign.title, &campaign.state);
        let (phase, remaining, supply) = (state.phase, state.remaining, state.supply);
        let rate = number(campaign.granted_per_s);
        writeln!(
            out,
            "{id} {phase:<7} {remaining} of {supply} left, {rate}/s  {title}"
        )?;
    }
    Ok(())
}

/// Outcomes that occurred, the most frequent first.
pub(super) fn outcomes(figures: &Figures) -> Vec<(&str, f64)> {
    let all = figures.outcomes_per_s.iter();
    let there = all.filter(|(_, rate)| **rate > 0.0);
    let mut outcomes: Vec<_> = there.map(|(name, rate)| (name.as_str(), *rate)).collect();
    outcomes.sort_by(|a, b| b.1.total_cmp(&a.1));
    outcomes
}

pub(super) fn latency(figures: &Figures) -> String {
    match &figures.latency_ms {
        None => "-".to_owned(),
        Some(it) => format!(
            "p50 {} p90 {} p99 {} ms",
            number(it.p50),
            number(it.p90),
            number(it.p99)
        ),
    }
}

pub(super) fn admitted(figures: &Figures) -> String {
    match figures.gate_pass_ratio {
        None => "-".to_owned(),
        Some(share) => format!("{:.1} %", share * 100.0),
    }
}

pub(super) fn partitions(figures: &Figures) -> String {
    let count =
        |is: fn(&PartitionFigures) -> bool| figures.partitions.iter().filter(|it| is(it)).count();
    let ready = count(|it| it.is_ready);
    let lacking = count(|it| it.replicas_missing > 0);
    match (figures.partitions.len(), lacking) {
        // The embedded engine has one partition and reports no state of it.
        (0, _) if figures.is_stopped => "0 of 1 grant".to_owned(),
        (0, _) => "1 of 1 grant".to_owned(),
        (all, 0) => format!("{ready} of {all} grant"),
        (all, lacking) => format!("{ready} of {all} grant, {lacking} lack replicas"),
    }
}

/// A number with its significant digits.
pub(super) fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
