//! Entries that are set aside: kept, counted, listed, and settled after all.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{QuarantineCount, QuarantinedEntry},
    quarantine::Blockers,
    time::Timestamp,
};

use crate::{
    dialect::Dialect,
    error::StoreError,
    rows::{AsideColumns, AsideRow, KnownCampaign},
    settle,
};

/// How much of a reason is kept, in characters.
const REASON_MAX: usize = 2_000;

/// A run of entries, in those that can be settled now and those that have to wait.
pub(crate) struct Sorted<'a> {
    pub(crate) now: Cow<'a, [Entry]>,
    pub(crate) later: Vec<AsideRow>,
}

/// Sorts the entries that follow a position, of campaigns by these ids. Where nothing is set quarantine, that is one look.
pub(crate) async fn sort<'a, D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &'a [Entry],
    ids: &[String],
    known: &[KnownCampaign],
) -> Result<Sorted<'a>, StoreError> {
    let all = Sorted {
        now: Cow::Borrowed(entries),
        later: Vec::new(),
    };
    let source = i64::from(partition.0);
    if !D::any_quarantined(conn, source).await? {
        return Ok(all);
    }
    let known: HashSet<CampaignId> = known.iter().map(|known| known.id).collect();
    let mut waiting = HashMap::new();
    for (campaign, first) in D::first_quarantined(conn, source, ids).await? {
        let id: CampaignId = campaign
            .parse()
            .map_err(|_| damaged_at(first, "has a bad campaign"))?;
        let behind = match known.contains(&id) {
            true => Behind::These(blockers::<D>(conn, source, &campaign, i64::MAX).await?),
            false => Behind::First(place(first)?),
        };
        waiting.insert(id, behind);
    }
    if waiting.is_empty() {
        return Ok(all);
    }
    let (mut now, mut later) = (Vec::with_capacity(entries.len()), Vec::new());
    for entry in entries {
        let before = waiting
            .get(&entry.campaign)
            .and_then(|behind| behind.before(entry));
        let Some(before) = before else {
            now.push(entry.clone());
            continue;
        };
        let reason = format!("it waits for entry {before}");
        later.push(row(entry, reason, Some(before), entry.at));
        if let Some(Behind::These(blockers)) = waiting.get_mut(&entry.campaign) {
            blockers.add(entry);
        }
    }
    let now = Cow::Owned(now);
    Ok(Sorted { now, later })
}

/// What entries of a campaign have to wait for.
enum Behind {
    /// What they follow from, among these.
    These(Blockers),
    /// The first of them: the ledger does not have the campaign.
    First(Seq),
}

impl Behind {
    fn before(&self, entry: &Entry) -> Option<Seq> {
        match self {
            Self::These(blockers) => blockers.before(entry),
            Self::First(first) => Some(*first),
        }
    }
}

/// What is set aside of a campaign before a place.
async fn blockers<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    campaign: &str,
    before: i64,
) -> Result<Blockers, StoreError> {
    let mut blockers = Blockers::default();
    for (seq, text) in D::quarantined_of(conn, partition, campaign, before).await? {
        blockers.add(&entry_of(seq, &text)?);
    }
    Ok(blockers)
}

/// Sets the entry behind the position aside.
pub(crate) async fn quarantine<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, StoreError> {
    let source = i64::from(partition.0);
    let position = D::hold_position(conn, source).await? as Seq;
    if entry.seq <= position {
        return Ok(position);
    }
    if entry.seq != position + 1 {
        let reason = format!("entry {} was to be set aside at {position}", entry.seq);
        return Err(StoreError::damaged(reason));
    }
    let row = row(entry, reason.to_owned(), None, now);
    D::put_quarantined(conn, source, &[row]).await?;
    D::move_position(conn, source, entry.seq as i64).await?;
    Ok(entry.seq)
}

/// Settles an entry that is set quarantine, if nothing is before it that it has to wait for.
pub(crate) async fn redrive<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, StoreError> {
    let (source, at) = (i64::from(partition.0), seq as i64);
    if D::quarantined_at(conn, source, at).await?.is_none() {
        return Ok(false);
    }
    // From here on nobody else settles this partition, or drives its entries again.
    D::hold_position(conn, source).await?;
    let Some(text) = D::quarantined_at(conn, source, at).await? else {
        return Ok(false);
    };
    let entry = entry_of(at, &text)?;
    let campaign = entry.campaign.to_string();
    let blockers = blockers::<D>(conn, source, &campaign, at).await?;
    let mut before = blockers.before(&entry);
    if before.is_none() && blockers.first().is_some() && !D::has_campaign(conn, &campaign).await? {
        before = blockers.first();
    }
    if let Some(before) = before {
        let reason = format!("entry {seq} waits for entry {before}");
        return Err(StoreError::damaged(reason));
    }
    settle::carry_late::<D>(conn, partition, &entry).await?;
    D::take_back(conn, source, at).await?;
    Ok(true)
}

/// How many entries of a partition are set aside.
pub(crate) async fn count<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<QuarantineCount, StoreError> {
    let (refused, waiting) = D::count_quarantined(conn, i64::from(partition.0)).await?;
    Ok(QuarantineCount {
        refused: refused.unsigned_abs(),
        waiting: waiting.unsigned_abs(),
    })
}

/// Entries that are set quarantine, by partition and place.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
    after: Option<(PartitionId, Seq)>,
    limit: u32,
) -> Result<Vec<QuarantinedEntry>, StoreError> {
    let after = after.map_or((-1, 0), |(partition, seq)| {
        (i64::from(partition.0), seq as i64)
    });
    let rows = D::list_quarantined(conn, after, i64::from(limit)).await?;
    rows.into_iter().map(listed).collect()
}

fn listed(row: AsideColumns) -> Result<QuarantinedEntry, StoreError> {
    let (partition, seq, text, reason, waits_for, at) = row;
    let partition = partition
        .try_into()
        .map_err(|_| damaged_at(seq, "has a bad partition"))?;
    Ok(QuarantinedEntry {
        partition: PartitionId(partition),
        entry: entry_of(seq, &text)?,
        reason,
        waits_for: waits_for.map(place).transpose()?,
        at: Timestamp::from_millis(at),
    })
}

fn row(entry: &Entry, reason: String, waits_for: Option<Seq>, at: Timestamp) -> AsideRow {
    AsideRow {
        seq: entry.seq as i64,
        campaign: entry.campaign.to_string(),
        entry: entry.to_text(),
        // What a database says may be long, and have characters that another one does not take.
        reason: reason
            .chars()
            .filter(|character| !character.is_control())
            .take(REASON_MAX)
            .collect(),
        waits_for: waits_for.map(|seq| seq as i64),
        at: at.as_millis(),
    }
}

fn entry_of(seq: i64, text: &str) -> Result<Entry, StoreError> {
    let entry = Entry::from_text(text).ok();
    let entry = entry.filter(|entry| entry.seq as i64 == seq);
    entry.ok_or_else(|| damaged_at(seq, "is no entry"))
}

fn place(seq: i64) -> Result<Seq, StoreError> {
    seq.try_into().map_err(|_| damaged_at(seq, "has no place"))
}

fn damaged_at(seq: i64, what: &str) -> StoreError {
    StoreError::damaged(format!("entry {seq}, which is in quarantine, {what}"))
}
