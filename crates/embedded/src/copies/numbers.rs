//! Skips, in a restored file, the order numbers that may have been given since the backup.

use std::{collections::HashMap, fs::File, path::Path};

use qiang_core::{event::Seq, ports::Clock as _, skipped_numbers::numbers_to_skip};
use rusqlite::{Connection, params};

use crate::{
    PARTITION, clock::SystemClock, error::DataFileError, fence::begin_unfenced, file,
    file::DataFileKind,
};

/// Skips numbers in a restored copy of an engine's file. Returns the number of sales with a skip.
///
/// `head` is the last log position of the copy; `None` if the copy is a standalone ledger. If the replaced file is
/// readable, the skip starts after its numbers too.
pub(super) fn skip(copy: &Path, replaced: &Path, head: Option<Seq>) -> Result<u64, DataFileError> {
    let Some(head) = head else {
        return Ok(0); // // a standalone ledger has no engine
    };
    let conn = Connection::open(copy)?;
    file::migrate(&conn, DataFileKind::Engine)?;
    let last = last_numbers(&conn)?;
    let given = given_in(replaced);
    let tx = begin_unfenced(&conn)?;
    let epoch: String = tx.query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0))?;
    tx.execute(
        "INSERT INTO repairs (partition, epoch, follows, at, lost_from, lost_to, unnamed, reason, upto) \
         VALUES (?1, ?2, '', ?3, ?4, ?5, 0, 'restored from a backup', ?5)",
        params![PARTITION.0, epoch, SystemClock.now().as_millis(), head as i64 + 1, head as i64],
    )?;
    let mut skipped = 0;
    for (id, sale) in last.iter().filter(|(_, sale)| sale.is_open) {
        let floor = given
            .get(id)
            .map_or(sale.last, |given| given.last.max(sale.last));
        let chance: u32 =
            tx.query_row("SELECT abs(random() % ?1)", [u32::MAX], |row| row.get(0))?;
        let more = numbers_to_skip(floor, chance);
        let (first, last) = (sale.last.saturating_add(1), floor + more);
        if first > last {
            continue; // // no number is left
        }
        tx.execute(
            "INSERT INTO withheld (partition, epoch, campaign, units, amount) VALUES (?1, ?2, ?3, 0, 0)",
            params![PARTITION.0, epoch, sale.campaign_ref],
        )?;
        tx.execute(
            "INSERT INTO withheld_numbers (partition, epoch, campaign, first_number, last_number, step) \
             VALUES (?1, ?2, ?3, ?4, ?5, 1)",
            params![PARTITION.0, epoch, sale.campaign_ref, first, last],
        )?;
        skipped += 1;
    }
    tx.commit()?;
    drop(conn);
    File::open(copy)?.sync_all()?;
    Ok(skipped)
}

/// Sale row with its last number.
struct NumberedIds {
    campaign_ref: i64,
    is_open: bool,
    /// Last number given or skipped; 0 if there is none.
    last: u32,
}

fn last_numbers(conn: &Connection) -> Result<HashMap<String, NumberedIds>, DataFileError> {
    let mut statement = conn.prepare(
        "SELECT c.id, c.ref, c.phase <> 'closed', coalesce(max(n.number), 0) FROM campaigns c LEFT JOIN ( \
         SELECT campaign, max(number) AS number FROM orders GROUP BY campaign \
         UNION ALL SELECT campaign, max(number) FROM events WHERE number IS NOT NULL GROUP BY campaign \
         UNION ALL SELECT campaign, max(last_number) FROM withheld_numbers GROUP BY campaign) n \
         ON n.campaign = c.ref WHERE c.kind = 'sale' GROUP BY c.ref",
    )?;
    let rows = statement.query_map([], |row| {
        let (campaign_ref, is_open, last) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let sale = NumberedIds {
            campaign_ref,
            is_open,
            last,
        };
        Ok((row.get(0)?, sale))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Last numbers in a replaced file. A missing or unreadable file gives an empty map.
fn given_in(path: &Path) -> HashMap<String, NumberedIds> {
    if !path.exists() {
        return HashMap::new();
    }
    let read = file::open_reader(path);
    match read.and_then(|conn| last_numbers(&conn)) {
        Ok(given) => given,
        Err(error) => {
            let reason = error.chain();
            tracing::warn!(
                reason,
                "cannot read the replaced file; order numbers are skipped without it"
            );
            HashMap::new()
        }
    }
}
