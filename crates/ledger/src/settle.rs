//! Executes settlement plans.
//!
//! One transaction takes a run of entries and the position after it, so an entry is settled exactly once however often
//! and by any worker it is delivered. The row of the position is locked first; only then is it known which entries are
//! new.
//!
//! Transactions of different partitions meet in the rows of accounts and campaigns. All lock them in one order, so that
//! deadlocks are rare: users' accounts by owner, then escrows and the outside by id, then campaigns by `ref`, then the
//! number of a direct posting, the place of an event. Rows that every transaction changes come last and are locked for
//! the shortest time.

use std::collections::BTreeSet;

use qiang_core::{
    campaign::Phase,
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    rows::{AccountKey, Contradiction, PostingRow, QuarantineRow, Value, phase_of},
    settlement::{
        self, CampaignChange, KnownCampaign, KnownCampaignColumns, KnownOrder, KnownOrderColumns,
        NewOrder, OrderChange, PacketClose, PaymentRow, ReturnRow, SaleSettingsRow, SettlementPlan,
        SettlementTriage, ShareGrant,
    },
    time::Timestamp,
};

use crate::{
    accounts::{accounts_of, adjust, by_key, credit, lock_account, post},
    campaigns::{campaign_row, has_campaign},
    dialect::{Dialect, Statement, fetch, fetch_of, sql},
    error::{WorkError, check_all},
    made_changes, quarantine, repairs,
    settled_positions::{lock_position, move_position, position},
    webhooks,
};

const KNOWN_CAMPAIGNS: Statement = sql!("known_campaigns");
const KNOWN_ORDERS: Statement = sql!("known_orders");
const ASSIGN_SHARES: Statement = sql!("assign_shares");
const ENTER_ORDERS: Statement = sql!("enter_orders");
const CHANGE_ORDERS: Statement = sql!("change_orders");
const ENTER_PAYMENTS: Statement = sql!("enter_payments");
const ENTER_RETURNS: Statement = sql!("enter_returns");
const ENTER_PART: Statement =
    sql!(both r#"INSERT INTO parts (campaign, "partition", phase) VALUES ($1, $2, 'scheduled')"#);
const CHANGE_PART: Statement = sql!(both include_str!("sql/change_part.sql"));
const PART_PHASES: Statement = sql!(both "SELECT phase FROM parts WHERE campaign = $1");
const LOCK_CAMPAIGNS: Statement = sql!("lock_campaigns");
const LOOSEN_ORDER: Statement =
    sql!(both "UPDATE orders SET one_per_user = 0 WHERE campaign = $1 AND number = $2");
const ENTER_FIRST_TERMS: Statement = sql!("enter_first_terms");
const ENTER_TERMS: Statement = sql!("enter_terms");
const CHANGE_CAMPAIGNS: Statement = sql!("change_campaigns");

/// Settles entries, skipping entries at or before the position. They must follow it without a gap. An entry that must
/// wait for a quarantined one goes into quarantine too. Returns the position afterwards.
pub(crate) async fn settle<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, WorkError> {
    if entries.is_empty() {
        // Locking a position makes one, and of this partition there may be none.
        return position::<D>(conn, partition).await;
    }
    let source = i64::from(partition.0);
    let position = lock_position::<D>(conn, source).await?;
    let entries = settlement::fresh(entries, position)?;
    let Some(last) = entries.last() else {
        return Ok(position);
    };
    settle_run::<D>(conn, partition, entries).await?;
    move_position::<D>(conn, source, last.seq).await?;
    Ok(last.seq)
}

/// Settles substitutes for entries between a position and `upto` that are gone from the log, and moves the position
/// past them. Changes nothing if the position is another one. Returns the position afterwards.
pub(crate) async fn settle_past<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
    (expected, upto): (Seq, Seq),
) -> Result<Seq, WorkError> {
    let source = i64::from(partition.0);
    let position = lock_position::<D>(conn, source).await?;
    if position != expected || position >= upto {
        return Ok(position);
    }
    settlement::check_stand_ins(entries, position, upto)?;
    if !entries.is_empty() {
        settle_run::<D>(conn, partition, entries).await?;
    }
    move_position::<D>(conn, source, upto).await?;
    Ok(upto)
}

/// Settles new entries, except entries that must wait for a quarantined one.
async fn settle_run<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<(), WorkError> {
    let source = i64::from(partition.0);
    let ids = settlement::campaigns_of(entries);
    let ids: Vec<String> = ids.iter().map(CampaignId::to_string).collect();
    let campaigns = known_campaigns::<D>(conn, source, &ids).await?;
    let blockers = quarantine::blockers::<D>(conn, source, &ids, &campaigns).await?;
    let SettlementTriage { now, later } = settlement::sort(entries, blockers);
    settle_known::<D>(conn, partition, &now, &campaigns).await?;
    quarantine::put::<D>(conn, partition, &later).await
}

/// Puts the entry after the position into quarantine.
pub(crate) async fn quarantine<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, WorkError> {
    let source = i64::from(partition.0);
    let position = lock_position::<D>(conn, source).await?;
    if entry.seq <= position {
        return Ok(position);
    }
    if entry.seq != position + 1 {
        let reason = format!(
            "cannot quarantine entry {} at position {position}",
            entry.seq
        );
        return Err(WorkError::damaged(reason));
    }
    let row = QuarantineRow::refused(entry, reason, now);
    quarantine::put::<D>(conn, partition, &[row]).await?;
    move_position::<D>(conn, source, entry.seq).await?;
    Ok(entry.seq)
}

/// Settles an entry that is in quarantine, unless it has to wait for one before it.
pub(crate) async fn redrive<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, WorkError> {
    let (source, at) = (i64::from(partition.0), seq as i64);
    if quarantine::get::<D>(conn, source, at).await?.is_none() {
        return Ok(false);
    }
    // With this lock no other transaction settles this partition or redrives its entries.
    lock_position::<D>(conn, source).await?;
    let Some(entry) = quarantine::get::<D>(conn, source, at).await? else {
        return Ok(false);
    };
    let campaign = entry.campaign.to_string();
    let blockers = quarantine::blockers_before::<D>(conn, source, &campaign, at).await?;
    let mut before = blockers.before(&entry);
    if before.is_none() && blockers.first().is_some() && !has_campaign::<D>(conn, &campaign).await?
    {
        before = blockers.first();
    }
    if let Some(before) = before {
        let reason = format!("entry {seq} waits for entry {before}");
        return Err(WorkError::damaged(reason));
    }
    let campaigns = known_campaigns::<D>(conn, source, &[campaign]).await?;
    settle_known::<D>(conn, partition, std::slice::from_ref(&entry), &campaigns).await?;
    quarantine::delete::<D>(conn, source, at).await?;
    Ok(true)
}

pub(crate) async fn known_campaigns<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    ids: &[String],
) -> Result<Vec<KnownCampaign>, WorkError> {
    let ids: Vec<[Value<'_>; 1]> = ids.iter().map(|id| [id.as_str().into()]).collect();
    let rows: Vec<KnownCampaignColumns> =
        fetch_of::<D, _, 1>(conn, &KNOWN_CAMPAIGNS, &[partition.into()], &ids).await?;
    Ok(rows
        .into_iter()
        .map(KnownCampaign::from_columns)
        .collect::<Result<_, Contradiction>>()?)
}

async fn settle_known<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    entries: &[Entry],
    campaigns: &[KnownCampaign],
) -> Result<(), WorkError> {
    let row = |(campaign, number): (i64, i64)| [campaign.into(), number.into()];
    let wanted = settlement::wanted_orders(entries, campaigns).into_iter();
    let wanted: Vec<[Value<'_>; 2]> = wanted.map(row).collect();
    let rows: Vec<KnownOrderColumns> =
        fetch_of::<D, _, 2>(conn, &KNOWN_ORDERS, &[], &wanted).await?;
    let orders: Result<Vec<_>, Contradiction> =
        rows.into_iter().map(KnownOrder::from_columns).collect();
    let orders = orders?;
    let plan = SettlementPlan::new(partition, entries, campaigns, &orders)?;
    write::<D>(conn, partition, plan).await
}

pub(crate) async fn write<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    mut plan: SettlementPlan<'_>,
) -> Result<(), WorkError> {
    assign_shares::<D>(conn, &plan).await?;
    change_orders::<D>(conn, &plan.leaving_orders).await?;
    let rows = Vec::from_iter(plan.new_orders.iter().map(NewOrder::columns));
    D::execute_rows(conn, &ENTER_ORDERS, &rows).await?;
    for (campaign, number) in &plan.loosened_orders {
        let order = [(*campaign).into(), (*number).into()];
        D::execute(conn, &LOOSEN_ORDER, &order).await?;
    }
    change_orders::<D>(conn, &plan.keeping_orders).await?;
    let rows = Vec::from_iter(plan.payments.iter().map(PaymentRow::columns));
    D::execute_rows(conn, &ENTER_PAYMENTS, &rows).await?;
    let rows = Vec::from_iter(plan.returns.iter().map(ReturnRow::columns));
    D::execute_rows(conn, &ENTER_RETURNS, &rows).await?;

    let (users, shared) = plan.accounts.split_at(plan.user_accounts);
    let mut ids = credit::<D>(conn, users).await?;
    ids.extend(find_accounts::<D>(conn, shared).await?);
    let amounts = shared.iter().map(|(_, amount)| *amount);
    let mut moves: Vec<_> = ids[users.len()..].iter().copied().zip(amounts).collect();
    moves.sort_unstable();
    plan.resolve_accounts(&ids);
    post::<D>(conn, &plan.postings).await?;
    adjust::<D>(conn, &moves).await?;
    write_campaigns::<D>(conn, partition, &plan).await?;
    for close in &plan.closes {
        sweep::<D>(conn, close, (ids[close.escrow], ids[close.owner])).await?;
    }
    for closed in &plan.closed {
        repairs::give_back::<D>(conn, partition, closed).await?;
    }
    made_changes::enter_made_changes::<D>(conn, &plan.made_changes).await?;
    webhooks::insert_webhook_events::<D>(conn, &plan.told).await
}

async fn assign_shares<D: Dialect>(
    conn: &mut D::Connection,
    plan: &SettlementPlan<'_>,
) -> Result<(), WorkError> {
    let rows = Vec::from_iter(plan.shares.iter().map(ShareGrant::columns));
    let asked = rows.len() as u64;
    let given = D::assigned(D::execute_rows(conn, &ASSIGN_SHARES, &rows).await?, asked);
    if given == asked {
        return Ok(());
    }
    let gone = asked.saturating_sub(given);
    let reason = format!("{gone} of {asked} granted shares are missing or have another amount");
    Err(WorkError::damaged(reason))
}

async fn change_orders<D: Dialect>(
    conn: &mut D::Connection,
    orders: &[OrderChange],
) -> Result<(), WorkError> {
    let rows = Vec::from_iter(orders.iter().map(OrderChange::columns));
    let changed = D::execute_rows(conn, &CHANGE_ORDERS, &rows).await?;
    Ok(check_all("orders", changed, orders.len())?)
}

/// Ids of shared accounts, in the same order. Missing accounts are opened, usually the outside's first one.
async fn find_accounts<D: Dialect>(
    conn: &mut D::Connection,
    accounts: &[(AccountKey<'_>, i64)],
) -> Result<Vec<i64>, WorkError> {
    let found = accounts_of::<D>(conn, accounts.iter().map(|(key, _)| key.owner)).await?;
    let found = by_key(&found);
    let mut ids = Vec::with_capacity(accounts.len());
    for (key, _) in accounts {
        match found.get(&key.columns()) {
            Some(id) => ids.push(*id),
            None => ids.extend(credit::<D>(conn, &[(*key, 0)]).await?),
        }
    }
    Ok(ids)
}

async fn write_campaigns<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    plan: &SettlementPlan<'_>,
) -> Result<(), WorkError> {
    let partition = i64::from(partition.0);
    for part in &plan.parts {
        if part.parts.is_some() {
            D::execute(conn, &ENTER_PART, &[part.campaign.into(), partition.into()]).await?;
        }
        let changed = change_part::<D>(conn, partition, part).await?;
        check_all("parts", changed, 1)?;
    }
    lock_campaigns::<D>(conn, plan).await?;
    for terms in &plan.terms {
        D::execute(conn, &ENTER_FIRST_TERMS, &[terms.campaign.into()]).await?;
        D::execute(conn, &ENTER_TERMS, &SaleSettingsRow::columns(terms)).await?;
    }
    change_campaigns::<D>(conn, &plan.campaigns).await?;
    for spread in &plan.spread {
        let phases = fetch::<D, (String,)>(conn, &PART_PHASES, &[spread.campaign.into()]).await?;
        let phases: Option<Vec<Phase>> = phases.iter().map(|(phase,)| phase_of(phase)).collect();
        let phases = phases.ok_or_else(|| WorkError::damaged("a part has a bad phase"))?;
        let change = CampaignChange::to_phase(spread.campaign, spread.phase(&phases)?);
        change_campaigns::<D>(conn, &[change]).await?;
    }
    Ok(())
}

/// Changes a campaign's counts, and those of the part that a partition has of it, if it is spread.
pub(crate) async fn change_counts<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    change: &CampaignChange,
) -> Result<(), WorkError> {
    change_part::<D>(conn, partition, change).await?;
    change_campaigns::<D>(conn, std::slice::from_ref(change)).await
}

async fn change_part<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    part: &CampaignChange,
) -> Result<u64, WorkError> {
    let values = [
        part.phase.map(Phase::name).into(),
        part.granted.into(),
        part.returned.into(),
        part.refunded.into(),
        part.campaign.into(),
        partition.into(),
    ];
    Ok(D::execute(conn, &CHANGE_PART, &values).await?)
}

/// Locks the campaigns of a plan by their `ref`, if there are several, if a phase follows from parts, or if terms are
/// entered, which another partition may enter as well. Another partition may have settled its part a moment ago: the
/// parts are read under this lock, so that of two transactions the one that commits last has seen both parts. A single
/// campaign without parts is locked by its change.
async fn lock_campaigns<D: Dialect>(
    conn: &mut D::Connection,
    plan: &SettlementPlan<'_>,
) -> Result<(), WorkError> {
    let changed = plan.campaigns.iter().map(|change| change.campaign);
    let spread = plan.spread.iter().map(|spread| spread.campaign);
    let refs: BTreeSet<i64> = changed.chain(spread).collect();
    if refs.len() > 1 || !plan.spread.is_empty() || !plan.terms.is_empty() {
        let refs: Vec<[Value<'_>; 1]> = refs.into_iter().map(|at| [at.into()]).collect();
        D::execute_rows(conn, &LOCK_CAMPAIGNS, &refs).await?;
    }
    Ok(())
}

async fn change_campaigns<D: Dialect>(
    conn: &mut D::Connection,
    changes: &[CampaignChange],
) -> Result<(), WorkError> {
    let rows = Vec::from_iter(changes.iter().map(CampaignChange::columns));
    let changed = D::execute_rows(conn, &CHANGE_CAMPAIGNS, &rows).await?;
    Ok(check_all("campaigns", changed, changes.len())?)
}

/// Refunds what is left in the escrow of a packet that is over.
async fn sweep<D: Dialect>(
    conn: &mut D::Connection,
    close: &PacketClose<'_>,
    (escrow, owner): (i64, i64),
) -> Result<(), WorkError> {
    let known = close.known;
    if close.is_spread {
        // Until all shards are closed and all units accounted for, the escrow holds other shards' money.
        let row = campaign_row::<D>(conn, &known.name).await?;
        let is_over = row.is_some_and(|row| {
            row.phase == Phase::Closed.name() && row.granted + row.returned == row.supply
        });
        if !is_over {
            return Ok(());
        }
    }
    let Some((_, residue)) = lock_account::<D>(conn, close.escrow_key()).await? else {
        return Err(WorkError::damaged(format!("{} has no escrow", known.name)));
    };
    if residue <= 0 {
        return Ok(());
    }
    let mut moves = [(escrow, -residue), (owner, residue)];
    moves.sort_unstable();
    adjust::<D>(conn, &moves).await?;
    let (seq, accounts) = (D::next_direct(conn).await?, (escrow, owner));
    let campaign = Some(known.campaign_ref);
    let posting = PostingRow::direct(seq, "residue", accounts, residue, campaign, close.at);
    post::<D>(conn, &[posting]).await
}
