//! Reads the archived entries of one campaign.

use std::path::Path;

use qiang_core::{
    event::{Entry, Seq},
    id::CampaignId,
};
use rusqlite::{Connection, OptionalExtension as _};

use super::{
    file,
    rows::{self, ArchiveRow},
};
use crate::{
    error::DataFileError,
    log::{self, EventRefs},
};

/// Returns all archived entries of a campaign in log order. It searches every archive.
pub(crate) fn entries_of(conn: &Connection, id: CampaignId) -> Result<Vec<Entry>, DataFileError> {
    let ledger = Path::new(conn.path().unwrap_or_default());
    let mut entries = Vec::new();
    for archive in rows::all(conn)? {
        // A fault of an archive is not reported as damage of the ledger's file.
        let missing = || DataFileError::Archived {
            file: archive.file.clone(),
        };
        let found = find(ledger, &archive).ok_or_else(missing)?;
        read(&found, id, archive.stretch.last, &mut entries).map_err(|_| missing())?;
    }
    Ok(entries)
}

fn find(ledger: &Path, archive: &ArchiveRow) -> Option<Connection> {
    let places = archive.places(ledger, None).into_iter();
    let mut found = places.filter_map(|path| file::open(&path).ok());
    found.find(|conn| file::described(conn).is_ok_and(|found| found == archive.stretch))
}

fn read(
    archive: &Connection,
    id: CampaignId,
    last: Seq,
    entries: &mut Vec<Entry>,
) -> Result<(), DataFileError> {
    let campaign = "SELECT ref FROM campaigns WHERE id = ?1";
    let campaign = archive.query_row(campaign, [id.to_string()], |row| row.get(0));
    let Some(campaign) = campaign.optional()? else {
        return Ok(());
    };
    let mut refs = EventRefs::default();
    refs.insert(id, campaign);
    log::read_of(archive, &mut refs, campaign, last, |entry| {
        entries.push(entry)
    })
}
