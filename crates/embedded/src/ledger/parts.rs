//! The life of a campaign as it is settled: in one piece, or in parts that open, pause, end and close for
//! themselves, each in the log of its own partition.
//!
//! The logs are settled independently, so what the parts say arrives in any order between them. The campaign's phase
//! follows from the parts' phases alone, whatever that order was.

use qiang_core::{campaign::Phase, event::PartitionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StoreError;

/// What is added to a campaign's counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) granted: i64,
    pub(super) returned: i64,
    pub(super) refunded: i64,
}

/// Where a campaign stands, seen from one partition.
#[derive(Debug)]
pub(super) struct Life {
    r: i64,
    partition: PartitionId,
    /// The part's phase where the campaign is spread, and the campaign's where it is not.
    phase: Phase,
    /// Over how many partitions the campaign is spread; 1 if it is not.
    parts: u16,
}

impl Life {
    pub(super) fn load(
        conn: &Connection,
        r: i64,
        partition: PartitionId,
        phase: Phase,
        parts: u16,
    ) -> Result<Self, StoreError> {
        let phase = if parts > 1 {
            part(conn, r, partition)?
        } else {
            phase
        };
        Ok(Self {
            r,
            partition,
            phase,
            parts,
        })
    }

    /// Whether this partition has closed its part.
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Takes a campaign, or a part of it, out of its draft.
    pub(super) fn open(&mut self, conn: &Connection, parts: u16) -> Result<(), StoreError> {
        let first = self.parts <= 1 && self.phase == Phase::Draft;
        if parts <= 1 && self.parts <= 1 {
            return self.enter(conn, Phase::Scheduled);
        }
        if first {
            let mut statement =
                conn.prepare_cached("UPDATE campaigns SET parts = ?2 WHERE ref = ?1")?;
            statement.execute(params![self.r, parts])?;
            self.parts = parts;
        }
        let opened = phases(conn, self.r)?.len();
        if self.parts != parts || self.phase != Phase::Draft || opened >= usize::from(parts) {
            let what = format!("is opened there as one of {parts} parts, and {opened} are open");
            return Err(self.damaged(&what));
        }
        let mut insert = conn.prepare_cached(
            "INSERT INTO parts (campaign, partition, phase) VALUES (?1, ?2, 'scheduled')",
        )?;
        insert.execute(params![self.r, self.partition.0])?;
        self.phase = Phase::Scheduled;
        self.follow(conn)
    }

    /// Moves the campaign, or this part of it, into a phase.
    pub(super) fn enter(&mut self, conn: &Connection, phase: Phase) -> Result<(), StoreError> {
        if self.parts <= 1 {
            self.phase = phase;
            return set_phase(conn, self.r, phase);
        }
        self.check_opened()?;
        let mut statement = conn
            .prepare_cached("UPDATE parts SET phase = ?3 WHERE campaign = ?1 AND partition = ?2")?;
        statement.execute(params![self.r, self.partition.0, phase.name()])?;
        self.phase = phase;
        self.follow(conn)
    }

    /// Adds to the campaign's counts, and to those of the part.
    pub(super) fn count(&self, conn: &Connection, counts: Counts) -> Result<(), StoreError> {
        if counts == Counts::default() {
            return Ok(());
        }
        let Counts {
            granted,
            returned,
            refunded,
        } = counts;
        // All counts move in one statement: between two of them there could be more units than the supply.
        let mut statement = conn.prepare_cached(
            "UPDATE campaigns SET granted = granted + ?2, returned = returned + ?3, refunded = refunded + ?4 \
             WHERE ref = ?1",
        )?;
        statement.execute(params![self.r, granted, returned, refunded])?;
        if self.parts > 1 {
            self.check_opened()?;
            let mut statement = conn.prepare_cached(
                "UPDATE parts SET granted = granted + ?3, returned = returned + ?4, refunded = refunded + ?5 \
                 WHERE campaign = ?1 AND partition = ?2",
            )?;
            statement.execute(params![
                self.r,
                self.partition.0,
                granted,
                returned,
                refunded
            ])?;
        }
        Ok(())
    }

    /// Whether nothing of the campaign is to be had any more anywhere, and no unit is missing. Until then what escrow
    /// holds is somebody's.
    pub(super) fn is_over(&self, conn: &Connection) -> Result<bool, StoreError> {
        if self.parts <= 1 {
            return Ok(self.is_closed());
        }
        let mut statement = conn.prepare_cached(
            "SELECT phase = 'closed' AND granted + returned = supply FROM campaigns WHERE ref = ?1",
        )?;
        Ok(statement.query_row([self.r], |row| row.get(0))?)
    }

    /// The campaign follows its parts.
    fn follow(&self, conn: &Connection) -> Result<(), StoreError> {
        let phase = Phase::of_parts(self.parts.into(), &phases(conn, self.r)?);
        set_phase(conn, self.r, phase)
    }

    fn check_opened(&self) -> Result<(), StoreError> {
        if self.phase == Phase::Draft {
            return Err(self.damaged("is settled there, and was never opened there"));
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> StoreError {
        let (r, parts, partition) = (self.r, self.parts, self.partition.0);
        StoreError::damaged(format!(
            "campaign #{r}, in {parts} parts, partition {partition}: it {what}"
        ))
    }
}

fn set_phase(conn: &Connection, r: i64, phase: Phase) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached("UPDATE campaigns SET phase = ?2 WHERE ref = ?1")?;
    statement.execute(params![r, phase.name()])?;
    Ok(())
}

/// The phase of one part; a part without a row has not opened.
fn part(conn: &Connection, r: i64, partition: PartitionId) -> Result<Phase, StoreError> {
    let mut statement =
        conn.prepare_cached("SELECT phase FROM parts WHERE campaign = ?1 AND partition = ?2")?;
    let found = statement.query_row(params![r, partition.0], |row| row.get::<_, String>(0));
    found
        .optional()?
        .map_or(Ok(Phase::Draft), |word| read(&word))
}

/// The phases of all parts that have opened.
fn phases(conn: &Connection, r: i64) -> Result<Vec<Phase>, StoreError> {
    let mut statement = conn.prepare_cached("SELECT phase FROM parts WHERE campaign = ?1")?;
    let mut rows = statement.query([r])?;
    let mut phases = Vec::new();
    while let Some(row) = rows.next()? {
        phases.push(read(&row.get::<_, String>(0)?)?);
    }
    Ok(phases)
}

fn read(word: &str) -> Result<Phase, StoreError> {
    let phases = [Phase::Scheduled, Phase::Paused, Phase::Ended, Phase::Closed];
    let found = phases.into_iter().find(|phase| phase.name() == word);
    found.ok_or_else(|| StoreError::damaged(format!("a part is {word}")))
}
