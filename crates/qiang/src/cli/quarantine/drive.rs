//! Settles or discards quarantined entries on behalf of an operator.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    process::ExitCode,
};

use qiang::Operator;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{ActionKind, Ledger, LedgerError, QuarantinedEntry, THE_SERVICE},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{LEFT, PAGE_MAX, QuarantineLine, place_of};

/// An entry by its partition and position.
type Place = (PartitionId, Seq);

/// Reason why a requested entry is left.
const NOT_ASIDE: &str = "not quarantined";

#[derive(Debug, Serialize)]
struct RemainingEntries {
    partition: u16,
    seq: Seq,
    why: String,
}

#[derive(Debug, Default, Serialize)]
struct DriveResult {
    /// Partitions and positions of settled entries.
    settled: Vec<(u16, Seq)>,
    left: Vec<RemainingEntries>,
}

/// Detail of the action on one entry, as the API records it.
fn detail((partition, seq): Place) -> Value {
    json!({ "entry": format!("{}-{seq}", partition.0) })
}

/// Whether an entry is in quarantine.
async fn is_aside(ledger: &dyn Ledger, place: Place) -> Result<bool, LedgerError> {
    let before = Some((place.0, place.1 - 1));
    let found = ledger.list_quarantined(before, 1).await?;
    Ok(found.first().map(place_of) == Some(place))
}

impl DriveResult {
    /// Drives one entry, and returns whether it is settled; an outage is an error.
    async fn drive(
        &mut self,
        ledger: &dyn Ledger,
        (partition, seq): Place,
    ) -> Result<bool, LedgerError> {
        let why = match ledger.redrive(partition, seq).await {
            Ok(true) => {
                self.settled.push((partition.0, seq));
                return Ok(true);
            }
            Ok(false) => NOT_ASIDE.to_owned(),
            Err(LedgerError::Damaged { reason }) => reason,
            Err(error @ LedgerError::Overflow) => error.to_string(),
            Err(error) => return Err(error),
        };
        let partition = partition.0;
        self.left.push(RemainingEntries {
            partition,
            seq,
            why,
        });
        Ok(false)
    }

    async fn drive_each(
        &mut self,
        ledger: &dyn Ledger,
        places: BTreeSet<Place>,
        by: &Operator,
    ) -> anyhow::Result<()> {
        for place in places {
            let mut recorded = None;
            if is_aside(ledger, place).await? {
                let detail = detail(place);
                let record = by.record(ledger, ActionKind::Redrive, THE_SERVICE, &detail);
                recorded = Some(record.await?);
            }
            let is_settled = self.drive(ledger, place).await?;
            if let Some(action) = recorded.filter(|_| !is_settled) {
                by.strike(ledger, action).await;
            }
        }
        Ok(())
    }

    async fn drive_all(&mut self, ledger: &dyn Ledger, by: &Operator) -> anyhow::Result<()> {
        let (mut after, mut recorded) = (None, None);
        loop {
            let page = ledger.list_quarantined(after, PAGE_MAX).await?;
            let places: Vec<_> = page.iter().map(place_of).collect();
            let Some(last) = places.last() else {
                if let Some(action) = recorded.filter(|_| self.settled.is_empty()) {
                    by.strike(ledger, action).await;
                }
                return Ok(());
            };
            if recorded.is_none() {
                let all = json!({ "all": true });
                let record = by.record(ledger, ActionKind::Redrive, THE_SERVICE, &all);
                recorded = Some(record.await?);
            }
            after = Some(*last);
            for place in places {
                self.drive(ledger, place).await?;
            }
        }
    }
}

/// Prints the entries that [`redrive`] would try. The ledger may refuse them again.
pub(super) async fn rehearse(
    ledger: &dyn Ledger,
    places: Option<BTreeSet<Place>>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let (mut tried, mut after) = (Vec::new(), None);
    loop {
        let page = ledger.list_quarantined(after, PAGE_MAX).await?;
        let is_asked_for = |row: &&QuarantinedEntry| {
            let asked = places.as_ref();
            asked.is_none_or(|asked| asked.contains(&place_of(row)))
        };
        tried.extend(
            page.iter()
                .filter(is_asked_for)
                .map(QuarantineLine::from_quarantined),
        );
        match page.last() {
            Some(last) => after = Some(place_of(last)),
            None => break,
        }
    }
    let found: BTreeSet<_> = tried
        .iter()
        .map(|row| (PartitionId(row.partition), row.seq))
        .collect();
    let absent: Vec<_> = places
        .unwrap_or_default()
        .difference(&found)
        .map(|place| (place.0.0, place.1))
        .collect();
    let mut out = io::stdout().lock();
    if json {
        let text = serde_json::json!({ "would_try": tried, "not_set_aside": absent });
        writeln!(out, "{text}")?;
    } else {
        for QuarantineLine {
            partition,
            seq,
            event,
            reason,
            ..
        } in &tried
        {
            writeln!(
                out,
                "would try {partition} {seq}: {event}, refused: {reason}"
            )?;
        }
        for (partition, seq) in &absent {
            writeln!(out, "{partition} {seq}: {NOT_ASIDE}")?;
        }
        writeln!(
            out,
            "{} entries would be tried; nothing was changed",
            tried.len()
        )?;
    }
    Ok(match absent.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(LEFT),
    })
}

pub(super) async fn redrive(
    ledger: &dyn Ledger,
    places: Option<BTreeSet<Place>>,
    by: &Operator,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut driven = DriveResult::default();
    let ended = match places {
        None => driven.drive_all(ledger, by).await,
        Some(places) => driven.drive_each(ledger, places, by).await,
    };
    // Settled entries are printed even if an error followed.
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&driven)?)?;
    } else {
        for (partition, seq) in &driven.settled {
            writeln!(out, "partition {partition}, entry {seq}: settled")?;
        }
        for left in &driven.left {
            let (partition, seq, why) = (left.partition, left.seq, &left.why);
            writeln!(out, "partition {partition}, entry {seq}: left: {why}")?;
        }
        let (settled, left) = (driven.settled.len(), driven.left.len());
        writeln!(out, "{settled} settled, {left} left")?;
    }
    ended?;
    Ok(match driven.left.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(LEFT),
    })
}

#[derive(Debug, Default, Serialize)]
struct DriveRequest {
    /// Partitions and positions of the grants that will be discarded.
    asked: Vec<(u16, Seq)>,
    left: Vec<RemainingEntries>,
}

pub(super) async fn discard(
    ledger: &dyn Ledger,
    places: BTreeSet<Place>,
    by: &Operator,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut done = DriveRequest::default();
    for place @ (partition, seq) in places {
        let mut recorded = None;
        if is_aside(ledger, place).await? {
            let detail = detail(place);
            let record = by.record(ledger, ActionKind::Discard, THE_SERVICE, &detail);
            recorded = Some(record.await?);
        }
        let why = match ledger.ask_discard(partition, seq).await {
            Ok(true) => {
                done.asked.push((partition.0, seq));
                continue;
            }
            Ok(false) => NOT_ASIDE.to_owned(),
            Err(LedgerError::Damaged { reason }) => reason,
            Err(error) => return Err(error.into()),
        };
        if let Some(action) = recorded {
            by.strike(ledger, action).await;
        }
        let partition = partition.0;
        done.left.push(RemainingEntries {
            partition,
            seq,
            why,
        });
    }
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&done)?)?;
    } else {
        for (partition, seq) in &done.asked {
            writeln!(
                out,
                "partition {partition}, entry {seq}: is being discarded"
            )?;
        }
        for left in &done.left {
            let (partition, seq, why) = (left.partition, left.seq, &left.why);
            writeln!(out, "partition {partition}, entry {seq}: left: {why}")?;
        }
    }
    Ok(match done.left.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(LEFT),
    })
}
