//! Waiting rooms of campaigns.

use qiang_core::id::CampaignId;
use rusqlite::Connection;

use crate::error::DataFileError;

/// Adds a waiting room to a campaign. Idempotent.
pub(crate) fn add(conn: &Connection, id: CampaignId) -> Result<(), DataFileError> {
    conn.prepare_cached("INSERT OR IGNORE INTO waiting_rooms (campaign) VALUES (?1)")?
        .execute([id.to_string()])?;
    Ok(())
}

/// Whether a campaign has a waiting room.
pub(crate) fn has(conn: &Connection, id: CampaignId) -> Result<bool, DataFileError> {
    let mut found = conn.prepare_cached("SELECT 1 FROM waiting_rooms WHERE campaign = ?1")?;
    Ok(found.exists([id.to_string()])?)
}
