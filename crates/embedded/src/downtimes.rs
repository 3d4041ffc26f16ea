//! Downtimes of the engine, estimated from the newest log entry and the time in row `probe`. Holds pause during a
//! downtime.

use std::time::Duration;

use qiang_core::{
    book::{DOWNTIMES_MAX, Downtime},
    time::Timestamp,
};
use rusqlite::{Connection, params};

use crate::error::DataFileError;

/// Maximum downtimes stored. Above it, the oldest two are merged, as in the book: no hold is shorter after a restart.
const REMEMBERED_MAX: u32 = DOWNTIMES_MAX as u32;

/// The last instant at which the engine is known to have been up. `None` in a new file.
pub(crate) fn up(conn: &Connection) -> Result<Option<Timestamp>, DataFileError> {
    let newest = "SELECT max(at) FROM (SELECT at FROM probe UNION ALL \
                  SELECT at FROM (SELECT at FROM events ORDER BY seq DESC LIMIT 1))";
    let up: Option<i64> = conn.query_row(newest, [], |row| row.get(0))?;
    Ok(up.map(Timestamp::from_millis))
}

/// Records the downtime that ends now. A transaction must be open. From this call on, the engine counts as up since
/// `now`.
pub(crate) fn end(tx: &Connection, now: Timestamp) -> Result<(), DataFileError> {
    let up = up(tx)?;
    put(tx, up.unwrap_or(now), now)
}

/// Records a downtime from `up` to `now`. A transaction must be open. From this call on, the engine counts as up since
/// `now`.
pub(crate) fn put(tx: &Connection, up: Timestamp, now: Timestamp) -> Result<(), DataFileError> {
    let now_ms = now.as_millis();
    if up < now {
        tx.execute(
            "INSERT OR IGNORE INTO downtimes (ended, began) VALUES (?1, ?2)",
            params![now_ms, up.as_millis()],
        )?;
        while count(tx)? > REMEMBERED_MAX {
            merge_oldest(tx)?;
        }
    }
    tx.execute(
        "INSERT OR REPLACE INTO probe (id, at) VALUES (0, ?1)",
        [now_ms],
    )?;
    Ok(())
}

fn count(conn: &Connection) -> Result<u32, DataFileError> {
    Ok(conn.query_row("SELECT count(*) FROM downtimes", [], |row| row.get(0))?)
}

/// Merges the oldest two downtimes, so that the time between them counts as down.
fn merge_oldest(tx: &Connection) -> Result<(), DataFileError> {
    let oldest =
        "DELETE FROM downtimes WHERE ended = (SELECT min(ended) FROM downtimes) RETURNING began";
    let began: i64 = tx.query_row(oldest, [], |row| row.get(0))?;
    tx.execute(
        "UPDATE downtimes SET began = min(began, ?1) WHERE ended = (SELECT min(ended) FROM downtimes)",
        [began],
    )?;
    Ok(())
}

/// Length of the downtime that ended at this time; 0 if none did.
pub(crate) fn ended_at(conn: &Connection, now: Timestamp) -> Result<Duration, DataFileError> {
    let length = "SELECT coalesce(max(ended - began), 0) FROM downtimes WHERE ended = ?1";
    let millis: i64 = conn.query_row(length, [now.as_millis()], |row| row.get(0))?;
    Ok(Duration::from_millis(millis.unsigned_abs()))
}

/// All stored downtimes in order of time.
pub(crate) fn all(conn: &Connection) -> Result<Vec<Downtime>, DataFileError> {
    let mut statement = conn.prepare("SELECT began, ended FROM downtimes ORDER BY ended")?;
    let rows = statement.query_map([], |row| {
        let [began, ended] = [row.get(0)?, row.get(1)?].map(Timestamp::from_millis);
        Ok(Downtime { began, ended })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{self, DataFileKind};

    #[test]
    fn the_oldest_downtimes_are_merged() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = Timestamp::from_millis;
        let path = folder.path().join("qiang.db");
        let conn = file::open_writer(&path, DataFileKind::Engine, at(1)).unwrap();
        let conn = conn.unfenced();
        assert!(all(&conn).unwrap().is_empty(), "it is new");
        for n in 1..=i64::from(REMEMBERED_MAX) + 1 {
            file::probe(&conn, at(10 * n)).unwrap();
            end(&conn, at(10 * n + 7)).unwrap();
            end(&conn, at(10 * n + 7)).unwrap();
            end(&conn, at(10 * n + 6)).unwrap(); // // a clock that was set back
        }
        let downtimes = all(&conn).unwrap();
        assert_eq!(downtimes.len(), REMEMBERED_MAX as usize);
        let first = Downtime {
            began: at(10),
            ended: at(27),
        };
        assert_eq!(downtimes[0], first);
    }
}
