//! Rows of the table `archives`, and the entries deleted for them.

use std::path::{Path, PathBuf};

use qiang_core::{
    event::Seq,
    ports::{LogArchive, LogStretch},
    time::{Month, Timestamp},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{PARTITION, error::DataFileError, ledger::settle, log};

/// Entries deleted in one transaction: about two milliseconds.
const REMOVED_MAX: u64 = 2_000;

/// Campaigns whose whole log stays, because their rows are rebuilt from it: the ledger refused some of their entries.
const KEPT: &str =
    "SELECT c.ref FROM set_aside s JOIN campaigns c ON c.id = s.campaign WHERE s.partition = 0";

/// Archive as recorded in the ledger's file.
pub(crate) struct ArchiveRow {
    pub(super) stretch: LogStretch,
    /// File name without its folder.
    pub(super) file: String,
    pub(super) sha256: String,
    folder: String,
}

impl ArchiveRow {
    /// Candidate paths of the file: in this folder, next to the ledger's file, and where it was written.
    pub(super) fn places(&self, ledger: &Path, folder: Option<&Path>) -> Vec<PathBuf> {
        let folders = [folder, ledger.parent(), Some(Path::new(&self.folder))];
        let folders = folders.into_iter().flatten();
        folders.map(|folder| folder.join(&self.file)).collect()
    }
}

/// All archives in log order.
pub(super) fn all(conn: &Connection) -> Result<Vec<ArchiveRow>, DataFileError> {
    let sql = "SELECT first, last, month, file, folder, sha256 FROM archives ORDER BY first";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
        all.push(ArchiveRow {
            stretch: LogStretch {
                month: month(&row.get::<_, String>(2)?)?,
                first: first as Seq,
                last: last as Seq,
            },
            file: row.get(3)?,
            folder: row.get(4)?,
            sha256: row.get(5)?,
        });
    }
    Ok(all)
}

pub(super) fn month(text: &str) -> Result<Month, DataFileError> {
    let bad = |_| DataFileError::damaged(format!("an archive of the month {text}"));
    text.parse().map_err(bad)
}

/// Returns up to `max` months before `before` that are over, fully settled and not archived.
pub(super) fn next(
    conn: &Connection,
    before: Month,
    now: impl FnOnce() -> Timestamp,
    max: usize,
) -> Result<Vec<LogStretch>, DataFileError> {
    // One transaction: the reads see one commit. An entry that a wrong clock dated into the future belongs to the month
    // around it.
    let tx = conn.unchecked_transaction()?;
    let (settled, head) = (settle::position(&tx, PARTITION)?, log::head(&tx)?);
    // Read the clock after the transaction has begun. With an earlier time, an entry committed in between would count
    // as dated into the future, and its month as unsettled.
    let now = now();
    let before = before.min(Month::containing(now));
    let mut behind = all(&tx)?.pop().map(|archive| archive.stretch);
    let mut found = Vec::new();
    while found.len() < max {
        let first = behind.map_or(1, |stretch| stretch.last + 1);
        let begins = Timestamp::from_millis(i64::MIN);
        let Some((_, at)) = first_of(&tx, first, (begins, now))? else {
            break;
        };
        // One archive per month: an entry dated before the end of the last archive belongs to the next month.
        let earliest = behind.map_or(Month::containing(at), |stretch| stretch.month.next());
        let month = Month::containing(at).max(earliest);
        if month >= before {
            break;
        }
        // This scans the whole month.
        let next = first_of(&tx, first, (month.next().begins(), now))?;
        let last = next.map_or(head, |(seq, _)| seq - 1);
        if last > settled {
            break;
        }
        let stretch = LogStretch { month, first, last };
        found.push(stretch);
        behind = Some(stretch);
    }
    Ok(found)
}

/// Position and time of the first entry from `from` on that was decided in this period.
fn first_of(
    conn: &Connection,
    from: Seq,
    (since, until): (Timestamp, Timestamp),
) -> Result<Option<(Seq, Timestamp)>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, at FROM events WHERE seq >= ?1 AND at >= ?2 AND at <= ?3 ORDER BY seq LIMIT 1",
    )?;
    let wanted = params![from as i64, since.as_millis(), until.as_millis()];
    let found = statement.query_row(wanted, |row| {
        let seq: i64 = row.get(0)?;
        Ok((seq as Seq, Timestamp::from_millis(row.get(1)?)))
    });
    Ok(found.optional()?)
}

/// Records that an archive holds its stretch of the log.
///
/// # Errors
///
/// The stretch does not follow the last archive, or it is not settled.
pub(super) fn insert(
    conn: &Connection,
    now: Timestamp,
    archive: &LogArchive,
) -> Result<(), DataFileError> {
    let path = Path::new(&archive.file);
    let [folder, file] = [path.parent().map(Path::as_os_str), path.file_name()]
        .map(|part| part.and_then(|part| part.to_str()).unwrap_or_default());
    let LogStretch { month, first, last } = archive.stretch;
    let (archived, settled) = (log::archived(conn)?, settle::position(conn, PARTITION)?);
    if first != archived + 1 || last > settled {
        return Err(DataFileError::damaged(format!(
            "entries {first} to {last} cannot be archived: {archived} are archived, {settled} settled"
        )));
    }
    conn.execute(
        "INSERT INTO archives (first, last, month, file, folder, sha256, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            first as i64,
            last as i64,
            month.to_string(),
            file,
            folder,
            archive.sha256,
            now.as_millis()
        ],
    )?;
    Ok(())
}

/// The archive of the first entry that is archived and still in the log.
pub(super) fn unfinished(conn: &Connection) -> Result<Option<ArchiveRow>, DataFileError> {
    let sql = format!(
        "SELECT seq FROM events WHERE seq <= ?1 AND campaign NOT IN ({KEPT}) ORDER BY seq LIMIT 1"
    );
    let archived = log::archived(conn)? as i64;
    let left = conn
        .prepare_cached(&sql)?
        .query_row([archived], |row| row.get::<_, i64>(0).map(|seq| seq as Seq));
    let Some(left) = left.optional()? else {
        return Ok(None);
    };
    let mut all = all(conn)?.into_iter();
    Ok(all.find(|archive| (archive.stretch.first..=archive.stretch.last).contains(&left)))
}

/// Deletes up to [`REMOVED_MAX`] archived entries after a position, at most up to `last`. Returns the position reached.
pub(super) fn remove(conn: &Connection, after: Seq, last: Seq) -> Result<Seq, DataFileError> {
    let bound = log::archived(conn)?.min(settle::position(conn, PARTITION)?);
    if last > bound {
        let reason = format!(
            "cannot remove entries up to {last}: only entries up to {bound} are archived and settled"
        );
        return Err(DataFileError::damaged(reason));
    }
    let upto = last.min(after + REMOVED_MAX);
    let sql =
        format!("DELETE FROM events WHERE seq > ?1 AND seq <= ?2 AND campaign NOT IN ({KEPT})");
    conn.prepare_cached(&sql)?
        .execute(params![after as i64, upto as i64])?;
    let mut next = conn.prepare_cached("SELECT min(seq) FROM events WHERE seq > ?1")?;
    let next: Option<i64> = next.query_row([upto as i64], |row| row.get(0))?;
    Ok(next.map_or(last, |next| last.min(next as Seq - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{DataFileKind, open_writer};

    #[test]
    fn an_entry_that_comes_while_months_are_looked_for_hides_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qiang.db");
        let (then, now) = (
            Timestamp::default(),
            Timestamp::from_millis(1_700_000_000_000),
        );
        let writer = open_writer(&path, DataFileKind::Engine, now).unwrap();
        let writer = writer.unfenced();
        let enter = |seq: i64, at: Timestamp| {
            let sql = "INSERT INTO events (seq, at, campaign, kind) VALUES (?1, ?2, 1, 0)";
            writer.execute(sql, params![seq, at.as_millis()]).unwrap();
        };
        enter(1, then);
        let settled = "INSERT INTO settled (partition, seq) VALUES (0, 1)
                       ON CONFLICT DO UPDATE SET seq = excluded.seq";
        writer.execute(settled, []).unwrap();
        let reader = Connection::open(&path).unwrap();
        // The entry is committed after the search began, and its date is later than the time at that moment.
        let late = || {
            enter(2, now);
            Timestamp::from_millis(now.as_millis() - 1)
        };
        let found = next(&reader, Month::containing(now), late, 10).unwrap();
        let month = Month::containing(then);
        let stretch = LogStretch {
            month,
            first: 1,
            last: 1,
        };
        assert_eq!(found, [stretch]);
    }
}
