//! The `WaitingRoom` port of the embedded engine: a table in its file. A queue entry is answered after its commit,
//! which also has the other tasks of its batch.

use std::time::Duration;

use async_trait::async_trait;
use qiang_core::{
    book::{Claim, Refusal},
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::{ActiveQueues, EngineError, LedgerError, QueueHead, WaitingRoom},
    queue_entry::{QueueDecision, QueueEntry, QueueLimits, QueueStatus},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::{Embedded, PARTITION, error::DataFileError, ledger_file::job, reader::query};

/// Maximum results deleted in one transaction.
const FORGOTTEN_MAX: u32 = 2_000;

#[async_trait]
impl WaitingRoom for Embedded {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PARTITION]
    }

    async fn enter(
        &self,
        claim: &Claim,
        now: Timestamp,
        limits: QueueLimits,
    ) -> Result<Option<QueueStatus>, EngineError> {
        let claim = claim.clone();
        let entered = job(self, 0, move |context| {
            enter(context.conn, &claim, now, limits)
        });
        Ok(entered.await.map_err(engine_error)??)
    }

    async fn standing(
        &self,
        campaign: CampaignId,
        user: &UserId,
    ) -> Result<Option<QueueStatus>, EngineError> {
        let (user, now) = (user.clone(), self.clock.now());
        let standing = query(&self.readers, move |conn| {
            standing(conn, campaign, &user, now)
        });
        standing.await.map_err(engine_error)
    }

    /// Takes no lease: no other process has the file. Deletes expired results.
    async fn lines(&self, _: PartitionId, _: Duration) -> Result<ActiveQueues, EngineError> {
        let now = self.clock.now();
        let read = query(&self.readers, move |conn| {
            Ok((lines(conn)?, is_over(conn, now)?))
        });
        let (campaigns, over) = read.await.map_err(engine_error)?;
        if over {
            let forgotten = job(self, 0, move |context| forget(context.conn, now));
            forgotten.await.map_err(engine_error)?;
        }
        Ok(ActiveQueues {
            campaigns,
            own: true,
            leased: false,
        })
    }

    async fn head(&self, campaign: CampaignId, limit: usize) -> Result<QueueHead, EngineError> {
        let head = query(&self.readers, move |conn| head(conn, campaign, limit));
        head.await.map_err(engine_error)
    }

    async fn record(
        &self,
        campaign: CampaignId,
        decided: &[(QueueEntry, QueueDecision)],
        now: Timestamp,
        limits: QueueLimits,
    ) -> Result<(), EngineError> {
        let kept_ms = i64::try_from(limits.result_ttl_ms).unwrap_or(i64::MAX);
        let (decided, forget_at) = (decided.to_vec(), now.plus_millis(kept_ms));
        let recorded = job(self, 0, move |context| {
            record(context.conn, campaign, &decided, forget_at)
        });
        recorded.await.map_err(engine_error)
    }

    fn rebuilt(&self) -> u64 {
        0
    }
}

/// Reads a column that counts something.
fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(at).map(|n| n.max(0).unsigned_abs())
}

fn engine_error(error: LedgerError) -> EngineError {
    match error {
        LedgerError::Uncertain { reason } => EngineError::Uncertain { reason },
        other => EngineError::unavailable(other.to_string()),
    }
}

fn enter(
    conn: &Connection,
    claim: &Claim,
    now: Timestamp,
    limits: QueueLimits,
) -> Result<Result<Option<QueueStatus>, Refusal>, DataFileError> {
    let (campaign, user) = (claim.campaign.to_string(), claim.user.as_str());
    let mut find = conn.prepare_cached(
        "SELECT number, decision IS NULL, place FROM queue_entries WHERE campaign = ?1 AND user = ?2",
    )?;
    let found: Option<(u64, bool, String)> = find
        .query_row(params![campaign, user], |row| {
            Ok((count(row, 0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    if let Some((number, true, place)) = &found {
        let place = QueueEntry::parse(claim.campaign, claim.user.clone(), place);
        let place = place.ok_or_else(|| unreadable(claim.campaign, *number))?;
        return match place.check_repeated(claim) {
            Ok(()) => waiting(conn, &campaign, *number).map(|standing| Ok(Some(standing))),
            Err(refusal) => Ok(Err(refusal)),
        };
    }
    let mut room =
        conn.prepare_cached("SELECT last, waiting FROM waiting_rooms WHERE campaign = ?1")?;
    let room = room.query_row([&campaign], |row| Ok((count(row, 0)?, count(row, 1)?)));
    let (last, here): (u64, u64) = room.optional()?.unwrap_or_default();
    let mut all = conn
        .prepare_cached("SELECT coalesce(sum(waiting), 0) FROM waiting_rooms WHERE waiting > 0")?;
    let all = all.query_row([], |row| count(row, 0))?;
    if here >= limits.entries_max || all >= limits.partition_entries_max {
        return Ok(Ok(None));
    }
    if let Some((before, ..)) = found {
        conn.prepare_cached("DELETE FROM queue_entries WHERE campaign = ?1 AND number = ?2")?
            .execute(params![campaign, before as i64])?;
    }
    let place = QueueEntry {
        number: last + 1,
        entered_at: now,
        claim: claim.clone(),
    };
    conn.prepare_cached(
        "INSERT INTO waiting_rooms (campaign, last, waiting) VALUES (?1, 1, 1) \
         ON CONFLICT (campaign) DO UPDATE SET last = last + 1, waiting = waiting + 1",
    )?
    .execute([&campaign])?;
    conn.prepare_cached(
        "INSERT INTO queue_entries (campaign, number, user, place) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        campaign,
        place.number as i64,
        user,
        place.to_text()
    ])?;
    waiting(conn, &campaign, place.number).map(|standing| Ok(Some(standing)))
}

/// Status of a queue entry that waits. Entries ahead of it are older, so the difference of the numbers bounds their
/// count.
fn waiting(conn: &Connection, campaign: &str, number: u64) -> Result<QueueStatus, DataFileError> {
    let mut first = conn.prepare_cached(
        "SELECT min(number) FROM queue_entries WHERE campaign = ?1 AND decision IS NULL",
    )?;
    let first: Option<i64> = first.query_row([campaign], |row| row.get(0))?;
    let first = first.map_or(number, |first| first.max(0).unsigned_abs());
    let ahead = number.saturating_sub(first);
    Ok(QueueStatus::Waiting { number, ahead })
}

fn standing(
    conn: &Connection,
    campaign: CampaignId,
    user: &UserId,
    now: Timestamp,
) -> Result<Option<QueueStatus>, DataFileError> {
    // One transaction for both reads: the entry may be decided in between.
    let tx = conn.unchecked_transaction()?;
    let mut find = tx.prepare_cached(
        "SELECT number, decision FROM queue_entries \
         WHERE campaign = ?1 AND user = ?2 AND (forget_at IS NULL OR forget_at > ?3)",
    )?;
    let id = campaign.to_string();
    let found: Option<(u64, Option<String>)> = find
        .query_row(params![id, user.as_str(), now.as_millis()], |row| {
            Ok((count(row, 0)?, row.get(1)?))
        })
        .optional()?;
    match found {
        None => Ok(None),
        Some((number, None)) => waiting(&tx, &id, number).map(Some),
        Some((number, Some(text))) => {
            let decision = QueueDecision::parse(campaign, &text);
            let decision = decision.ok_or_else(|| unreadable(campaign, number))?;
            Ok(Some(QueueStatus::Decided { number, decision }))
        }
    }
}

fn unreadable(campaign: CampaignId, number: u64) -> DataFileError {
    DataFileError::damaged(format!(
        "place {number} of campaign {campaign} cannot be read"
    ))
}

fn lines(conn: &Connection) -> Result<Vec<CampaignId>, DataFileError> {
    let mut lines =
        conn.prepare_cached("SELECT campaign FROM waiting_rooms WHERE waiting > 0 ORDER BY 1")?;
    let ids = lines.query_map([], |row| row.get::<_, String>(0))?;
    let mut campaigns = Vec::new();
    for id in ids {
        let id = id?.parse();
        campaigns
            .push(id.map_err(|_| DataFileError::damaged("the line of a campaign has a bad id"))?);
    }
    Ok(campaigns)
}

fn head(conn: &Connection, campaign: CampaignId, limit: usize) -> Result<QueueHead, DataFileError> {
    let id = campaign.to_string();
    let mut here = conn.prepare_cached("SELECT waiting FROM waiting_rooms WHERE campaign = ?1")?;
    let waiting = here.query_row([&id], |row| count(row, 0)).optional()?;
    let mut first = conn.prepare_cached(
        "SELECT number, user, place FROM queue_entries \
         WHERE campaign = ?1 AND decision IS NULL ORDER BY number LIMIT ?2",
    )?;
    let mut rows = first.query(params![id, limit as i64])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, user, place) = (
            count(row, 0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
        );
        let user = UserId::new(&user).ok();
        let place = user.and_then(|user| QueueEntry::parse(campaign, user, &place));
        places.push(place.ok_or_else(|| unreadable(campaign, number))?);
    }
    Ok(QueueHead {
        waiting: waiting.unwrap_or_default(),
        places,
    })
}

fn record(
    conn: &Connection,
    campaign: CampaignId,
    decided: &[(QueueEntry, QueueDecision)],
    forget_at: Timestamp,
) -> Result<(), DataFileError> {
    let id = campaign.to_string();
    // Compares the whole entry: its user may have a newer one by now.
    let mut set = conn.prepare_cached(
        "UPDATE queue_entries SET decision = ?4, forget_at = ?5 \
         WHERE campaign = ?1 AND number = ?2 AND place = ?3 AND decision IS NULL",
    )?;
    let mut changed = 0;
    for (place, decision) in decided {
        let (text, decision) = (place.to_text(), decision.to_text());
        let values = params![
            id,
            place.number as i64,
            text,
            decision,
            forget_at.as_millis()
        ];
        changed += set.execute(values)?;
    }
    conn.prepare_cached("UPDATE waiting_rooms SET waiting = waiting - ?2 WHERE campaign = ?1")?
        .execute(params![id, changed as i64])?;
    Ok(())
}

fn is_over(conn: &Connection, now: Timestamp) -> Result<bool, DataFileError> {
    let mut over = conn.prepare_cached(
        "SELECT 1 FROM queue_entries WHERE decision IS NOT NULL AND forget_at <= ?1 LIMIT 1",
    )?;
    Ok(over.exists([now.as_millis()])?)
}

fn forget(conn: &Connection, now: Timestamp) -> Result<(), DataFileError> {
    conn.prepare_cached(
        "DELETE FROM queue_entries WHERE (campaign, number) IN (SELECT campaign, number \
         FROM queue_entries WHERE decision IS NOT NULL AND forget_at <= ?1 LIMIT ?2)",
    )?
    .execute(params![now.as_millis(), FORGOTTEN_MAX])?;
    Ok(())
}
