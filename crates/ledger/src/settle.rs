//! Settlement: transport_options log entries into the books.
//!
//! One transaction takes a run of entries and the position after it, so an entry is settled exactly once however
//! often it comes and whoever brings it: the row of the position is locked first, and only then is it known which
//! entries are new. What they do is worked out in memory and written in few statements.
//!
//! Transactions of different partitions meet in the rows of accounts and campaigns. All lock them in one order, so
//! that they wait for each other and seldom stand in a circle: users' accounts by owner, then escrows and the
//! outside by id, then campaigns by `ref`, then the number of a direct posting. Rows that everybody moves come last
//! and are held for the shortest time.

mod life;
mod orders;
pub(crate) mod plan;

use std::collections::{BTreeSet, HashMap, HashSet};

use qiang_core::{
    campaign::Phase,
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::LedgerError,
};

use self::plan::{CampaignPlan, Close, Plan};
use crate::{
    dialect::Dialect,
    error::StoreError,
    quarantine::{self, Sorted},
    rows::{
        AccountKey, CampaignChange, DIRECT, KnownCampaign, OrderChange, PartChange, PostingRow,
        phase_of,
    },
};

/// Carries entries over, skipping those at or before the position. They must follow it without a gap. Those that have
/// to wait for one that is set aside are set aside behind it. Returns the position afterwards.
pub(crate) async fn settle<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, StoreError> {
    let source = i64::from(partition.0);
    if entries.is_empty() {
        // Holding a position makes one, and of this partition there may be none.
        let found = D::positions(conn, Some(source)).await?;
        return Ok(found.first().map_or(0, |(_, seq)| *seq as Seq));
    }
    let position = D::hold_position(conn, source).await? as Seq;
    let entries = fresh(entries, position)?;
    let Some(last) = entries.last() else {
        return Ok(position);
    };
    carry::<D>(conn, partition, entries).await?;
    D::move_position(conn, source, last.seq as i64).await?;
    Ok(last.seq)
}

/// Carries entries over that are new, or sets those aside that have to wait for others.
async fn carry<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<(), StoreError> {
    let source = i64::from(partition.0);
    let ids: BTreeSet<CampaignId> = entries.iter().map(|entry| entry.campaign).collect();
    let ids: Vec<String> = ids.iter().map(CampaignId::to_string).collect();
    let mut campaigns = D::known_campaigns(conn, source, &ids).await?;
    let Sorted { now, later } =
        quarantine::sort::<D>(conn, partition, entries, &ids, &campaigns).await?;
    if !later.is_empty() {
        // A campaign of which all has to wait is left as it is; a part of it may not even be there.
        let touched: HashSet<CampaignId> = now.iter().map(|entry| entry.campaign).collect();
        campaigns.retain(|known| touched.contains(&known.id));
    }
    carry_known::<D>(conn, partition, &now, &campaigns).await?;
    if !later.is_empty() {
        D::put_quarantined(conn, source, &later).await?;
    }
    Ok(())
}

/// Carries an entry over that was set aside.
pub(crate) async fn carry_late<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entry: &Entry,
) -> Result<(), StoreError> {
    let ids = [entry.campaign.to_string()];
    let campaigns = D::known_campaigns(conn, i64::from(partition.0), &ids).await?;
    carry_known::<D>(conn, partition, std::slice::from_ref(entry), &campaigns).await
}

async fn carry_known<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
    campaigns: &[KnownCampaign],
) -> Result<(), StoreError> {
    let refs: HashMap<_, _> = campaigns.iter().map(|known| (known.id, known.r)).collect();
    let wanted = orders::wanted(entries, &refs);
    let orders = match wanted.is_empty() {
        true => Vec::new(),
        false => D::known_orders(conn, &wanted).await?,
    };
    let plan = plan::plan(partition, entries, campaigns, &orders)?;
    write::<D>(conn, partition, &plan).await
}

/// The entries behind the position.
fn fresh(entries: &[Entry], position: Seq) -> Result<&[Entry], StoreError> {
    let old = entries
        .iter()
        .take_while(|entry| entry.seq <= position)
        .count();
    let fresh = &entries[old..];
    for (expected, entry) in (position + 1..).zip(fresh) {
        if entry.seq != expected {
            let reason = format!(
                "settlement at {} was given entry {}",
                expected - 1,
                entry.seq
            );
            return Err(LedgerError::Damaged { reason }.into());
        }
    }
    Ok(fresh)
}

async fn write<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    plan: &Plan<'_>,
) -> Result<(), StoreError> {
    if !plan.shares.is_empty() {
        let (asked, given) = (
            plan.shares.len() as u64,
            D::assign_shares(conn, &plan.shares).await?,
        );
        if given != asked {
            let gone = asked.saturating_sub(given);
            let reason = format!(
                "of {asked} shares that were granted, {gone} are gone, or have another amount"
            );
            return Err(StoreError::damaged(reason));
        }
    }
    write_orders::<D>(conn, plan).await?;
    let ids = move_users::<D>(conn, &plan.accounts).await?;
    let place = |place: i64| ids[place as usize];
    let posting = |posting: &PostingRow| PostingRow {
        debit: place(posting.debit),
        credit: place(posting.credit),
        ..*posting
    };
    let postings: Vec<_> = plan.postings.iter().map(posting).collect();
    if !postings.is_empty() {
        D::post(conn, &postings).await?;
    }
    move_hot::<D>(conn, &plan.accounts, &ids).await?;
    write_campaigns::<D>(conn, partition, &plan.campaigns).await?;
    for campaign in &plan.campaigns {
        if let Some(close) = campaign.close {
            sweep::<D>(conn, campaign, close, &plan.accounts, &ids).await?;
        }
    }
    Ok(())
}

/// Orders that give up their units come first: whoever may have one may have given one back and taken another.
async fn write_orders<D: Dialect>(
    conn: &mut D::Connection,
    plan: &Plan<'_>,
) -> Result<(), StoreError> {
    let keeps = |change: &&OrderChange| change.state.keeps_units();
    let (keeping, leaving): (Vec<OrderChange>, Vec<OrderChange>) =
        plan.changed_orders.iter().partition(keeps);
    if !leaving.is_empty() {
        D::change_orders(conn, &leaving).await?;
    }
    if !plan.new_orders.is_empty() {
        D::enter_orders(conn, &plan.new_orders).await?;
    }
    if !keeping.is_empty() {
        D::change_orders(conn, &keeping).await?;
    }
    if !plan.payments.is_empty() {
        D::enter_payments(conn, &plan.payments).await?;
    }
    Ok(())
}

/// Moves users' accounts and finds the others; the ids of all, by their places.
async fn move_users<D: Dialect>(
    conn: &mut D::Connection,
    accounts: &[(AccountKey<'_>, i64)],
) -> Result<Vec<i64>, StoreError> {
    let mut ids = vec![0; accounts.len()];
    let hot = |place: &usize| accounts[*place].0.purpose.is_hot();
    let (hot, mut users): (Vec<usize>, Vec<usize>) = (0..accounts.len()).partition(hot);
    users.sort_unstable_by_key(|place| accounts[*place].0);
    if !users.is_empty() {
        let moves: Vec<_> = users.iter().map(|place| accounts[*place]).collect();
        for (place, id) in users.into_iter().zip(D::credit(conn, &moves).await?) {
            ids[place] = id;
        }
    }
    if !hot.is_empty() {
        let owners: Vec<_> = hot.iter().map(|place| accounts[*place].0.owner).collect();
        let found = D::accounts_of(conn, &owners).await?;
        let found: HashMap<_, _> = found
            .iter()
            .map(|account| (account.key(), account.id))
            .collect();
        for place in hot {
            let key = accounts[place].0;
            ids[place] = match found.get(&key.columns()) {
                Some(id) => *id,
                None => open::<D>(conn, key).await?,
            };
        }
    }
    Ok(ids)
}

/// Opens an account; the outside's first one, as a rule.
async fn open<D: Dialect>(
    conn: &mut D::Connection,
    key: AccountKey<'_>,
) -> Result<i64, StoreError> {
    let opened = D::credit(conn, &[(key, 0)]).await?;
    let id = opened.first().copied();
    id.ok_or_else(|| StoreError::damaged("an account is gone"))
}

/// Moves the accounts that everybody moves.
async fn move_hot<D: Dialect>(
    conn: &mut D::Connection,
    accounts: &[(AccountKey<'_>, i64)],
    ids: &[i64],
) -> Result<(), StoreError> {
    let hot = accounts
        .iter()
        .zip(ids)
        .filter(|((key, _), _)| key.purpose.is_hot());
    let mut moves: Vec<_> = hot.map(|((_, amount), id)| (*id, *amount)).collect();
    moves.sort_unstable();
    if !moves.is_empty() {
        D::shift(conn, &moves).await?;
    }
    Ok(())
}

async fn write_campaigns<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    campaigns: &[CampaignPlan<'_>],
) -> Result<(), StoreError> {
    let partition = i64::from(partition.0);
    let mut changes = Vec::with_capacity(campaigns.len());
    for CampaignPlan {
        known,
        life,
        granted,
        returned,
        refunded,
        ..
    } in campaigns
    {
        let (campaign, granted, returned, refunded) = (known.r, *granted, *returned, *refunded);
        let phase = life.moved_to();
        if life.is_spread() {
            if life.opened_parts().is_some() {
                D::enter_part(conn, campaign, partition).await?;
            }
            let part = PartChange {
                campaign,
                phase,
                granted,
                returned,
                refunded,
            };
            D::change_part(conn, partition, &part).await?;
        }
        changes.push(CampaignChange {
            campaign,
            phase: phase.filter(|_| !life.is_spread()),
            parts: life.opened_parts(),
            granted,
            returned,
            refunded,
        });
    }
    changes.retain(|change| change.changes_something());
    if !changes.is_empty() {
        D::change_campaigns(conn, &changes).await?;
    }
    // The rows of the campaigns are locked now: nobody else reads the phases of their parts at the same time.
    for CampaignPlan { known, life, .. } in campaigns {
        if life.is_spread() && life.moved_to().is_some() {
            let phases = D::part_phases(conn, known.r).await?;
            let phases: Option<Vec<Phase>> = phases.iter().map(|phase| phase_of(phase)).collect();
            let phases = phases.ok_or_else(|| StoreError::damaged("a part has a bad phase"))?;
            let whole = CampaignChange {
                phase: Some(life.whole(&phases)?),
                ..CampaignChange::nothing(known.r)
            };
            D::change_campaigns(conn, &[whole]).await?;
        }
    }
    Ok(())
}

/// Money that an earlier fault left in escrow goes home after the last close, in a posting of its own. Both accounts
/// are locked by now.
async fn sweep<D: Dialect>(
    conn: &mut D::Connection,
    campaign: &CampaignPlan<'_>,
    close: Close,
    accounts: &[(AccountKey<'_>, i64)],
    ids: &[i64],
) -> Result<(), StoreError> {
    let known = campaign.known;
    if campaign.life.is_spread() {
        // Until all parts are closed and all units accounted for, what escrow holds is somebody's.
        let row = D::campaign(conn, &known.name).await?;
        let over = row.is_some_and(|row| {
            row.phase == Phase::Closed.name() && row.granted + row.returned == row.supply
        });
        if !over {
            return Ok(());
        }
    }
    let Some((escrow, residue)) = D::hold(conn, accounts[close.escrow].0).await? else {
        return Err(StoreError::damaged(format!("{} has no escrow", known.name)));
    };
    if residue <= 0 {
        return Ok(());
    }
    let owner = ids[close.owner];
    let mut moves = [(escrow, -residue), (owner, residue)];
    moves.sort_unstable();
    D::shift(conn, &moves).await?;
    let posting = PostingRow {
        source: DIRECT,
        seq: D::next_direct(conn).await?,
        kind: "residue",
        debit: escrow,
        credit: owner,
        amount: residue,
        campaign: Some(known.r),
        number: None,
        at: close.at,
    };
    Ok(D::post(conn, &[posting]).await?)
}
