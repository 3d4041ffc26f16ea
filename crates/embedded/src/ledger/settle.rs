//! Executes settlement plans.
//!
//! One transaction takes a run of entries and the position after it, so an entry is settled exactly once however
//! often it comes. Each statement is prepared once for all its rows.

use std::collections::HashSet;

use qiang_core::{
    campaign::Phase,
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    rows::{PostingRow, QuarantineRow, phase_of},
    settlement::{
        self, CampaignChange, KnownCampaign, KnownCampaignColumns, KnownOrder, KnownOrderColumns,
        NewOrder, OrderChange, PacketClose, PaymentRow, ReturnRow, SaleSettingsRow, SettlementPlan,
        SettlementTriage,
    },
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    accounts::{self, Accounts},
    bound_values::{BoundValues, execute_rows},
    known::{KnownCampaigns, changed_by},
    made_changes, quarantine, repairs, webhooks,
};
use crate::error::DataFileError;

pub(crate) fn position(conn: &Connection, partition: PartitionId) -> Result<Seq, DataFileError> {
    let mut statement = conn.prepare_cached("SELECT seq FROM settled WHERE partition = ?1")?;
    let seq = statement.query_row([partition.0], |row| row.get::<_, i64>(0));
    Ok(seq.optional()?.unwrap_or(0) as Seq)
}

/// The positions of all partitions of which something is settled.
pub(crate) fn positions(conn: &Connection) -> Result<Vec<(PartitionId, Seq)>, DataFileError> {
    let mut statement = conn.prepare("SELECT partition, seq FROM settled ORDER BY partition")?;
    let rows = statement.query_map([], |row| {
        Ok((PartitionId(row.get(0)?), row.get::<_, i64>(1)? as Seq))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn move_position(
    conn: &Connection,
    partition: PartitionId,
    position: Seq,
) -> Result<(), DataFileError> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO settled (partition, seq) VALUES (?1, ?2) \
         ON CONFLICT (partition) DO UPDATE SET seq = excluded.seq",
    )?;
    statement.execute(params![partition.0, position as i64])?;
    Ok(())
}

/// Settles entries, skipping entries at or before the position. They must follow it without a gap. An entry that must
/// wait for a quarantined one goes into quarantine too. Returns the position afterwards.
pub(crate) fn settle(
    conn: &Connection,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, DataFileError> {
    settle_knowing(conn, partition, entries, &mut KnownCampaigns::default())
}

/// The same for a writer that remembers campaigns.
pub(crate) fn settle_knowing(
    conn: &Connection,
    partition: PartitionId,
    entries: &[Entry],
    remembered: &mut KnownCampaigns,
) -> Result<Seq, DataFileError> {
    let position = position(conn, partition)?;
    let entries = settlement::fresh(entries, position)?;
    let Some(last) = entries.last() else {
        return Ok(position);
    };
    settle_run(conn, partition, entries, remembered)?;
    move_position(conn, partition, last.seq)?;
    Ok(last.seq)
}

/// Settles substitutes for entries between a position and `upto` that are gone from the log, and moves the position
/// past them. Changes nothing if the position is another one. Returns the position afterwards.
pub(crate) fn settle_past(
    conn: &Connection,
    partition: PartitionId,
    entries: &[Entry],
    (expected, upto): (Seq, Seq),
) -> Result<Seq, DataFileError> {
    let position = position(conn, partition)?;
    if position != expected || position >= upto {
        return Ok(position);
    }
    settlement::check_stand_ins(entries, position, upto)?;
    settle_run(conn, partition, entries, &mut KnownCampaigns::default())?;
    move_position(conn, partition, upto)?;
    Ok(upto)
}

/// Settles new entries, except entries that must wait for a quarantined one.
fn settle_run(
    conn: &Connection,
    partition: PartitionId,
    entries: &[Entry],
    remembered: &mut KnownCampaigns,
) -> Result<(), DataFileError> {
    let ids = settlement::campaigns_of(entries);
    let (mut campaigns, mut unknown) = (Vec::with_capacity(ids.len()), Vec::new());
    for id in &ids {
        match remembered.take(*id) {
            Some(known) => campaigns.push(known),
            None => unknown.push(*id),
        }
    }
    campaigns.extend(known_campaigns(conn, partition, &unknown)?);
    let blockers = quarantine::blockers(conn, partition, &ids, &campaigns)?;
    let SettlementTriage { now, later } = settlement::sort(entries, blockers);
    let changed = settle_known(conn, partition, &now, &campaigns)?;
    quarantine::put(conn, partition, &later)?;
    remembered.put_back(campaigns, &changed);
    Ok(())
}

/// Puts the entry after the position into quarantine.
pub(crate) fn quarantine(
    conn: &Connection,
    now: Timestamp,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, DataFileError> {
    let position = position(conn, partition)?;
    if entry.seq <= position {
        return Ok(position);
    }
    if entry.seq != position + 1 {
        let reason = format!(
            "cannot quarantine entry {} at position {position}",
            entry.seq
        );
        return Err(DataFileError::damaged(reason));
    }
    let row = QuarantineRow::refused(entry, reason, now);
    quarantine::put(conn, partition, &[row])?;
    move_position(conn, partition, entry.seq)?;
    Ok(entry.seq)
}

/// Settles an entry that is in quarantine, unless it has to wait for one before it.
pub(crate) fn redrive(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, DataFileError> {
    let Some(entry) = quarantine::get(conn, partition, seq)? else {
        return Ok(false);
    };
    let campaigns = known_campaigns(conn, partition, &[entry.campaign])?;
    let blockers = quarantine::blockers_before(conn, partition, entry.campaign, seq)?;
    // If the ledger lacks the campaign, all its entries wait for the first one.
    let first = blockers.first().filter(|_| campaigns.is_empty());
    if let Some(before) = blockers.before(&entry).or(first) {
        let reason = format!("entry {seq} waits for entry {before}");
        return Err(DataFileError::damaged(reason));
    }
    settle_known(conn, partition, std::slice::from_ref(&entry), &campaigns)?;
    quarantine::delete(conn, partition, seq)?;
    Ok(true)
}

pub(super) fn known_campaigns(
    conn: &Connection,
    partition: PartitionId,
    ids: &[CampaignId],
) -> Result<Vec<KnownCampaign>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT c.ref, c.id, c.kind, c.owner, c.currency, c.per_user_limit = 1 AND c.terms_revision = 0, \
         c.hold_ms, c.parts, c.phase, p.phase, \
         EXISTS (SELECT 1 FROM webhooks w WHERE (w.owner IS NULL OR w.owner = c.owner) \
         AND (w.campaigns = '' OR instr(w.campaigns, c.id) > 0)) \
         FROM campaigns c LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = ?1 WHERE c.id = ?2",
    )?;
    let mut known = Vec::with_capacity(ids.len());
    for id in ids {
        let row = statement.query_row(params![partition.0, id.to_string()], |row| {
            KnownCampaignColumns::try_from(row)
        });
        known.extend(
            row.optional()?
                .map(KnownCampaign::from_columns)
                .transpose()?,
        );
    }
    Ok(known)
}

fn known_orders(
    conn: &Connection,
    wanted: &[(i64, i64)],
) -> Result<Vec<KnownOrder>, DataFileError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare_cached(
        "SELECT o.campaign, o.number, o.user, o.quantity, o.amount, o.state, o.returned_in_parts, \
         o.cancelled_in_parts, o.extension_ms, ( \
             SELECT p.amount FROM payments p WHERE p.campaign = o.campaign AND p.number = o.number \
             AND p.outcome IN ('paid', 'reinstated') LIMIT 1 \
         ) FROM orders o WHERE o.campaign = ?1 AND o.number = ?2",
    )?;
    let mut known = Vec::with_capacity(wanted.len());
    for key in wanted {
        let row = statement.query_row(*key, |row| KnownOrderColumns::try_from(row));
        known.extend(row.optional()?.map(KnownOrder::from_columns).transpose()?);
    }
    Ok(known)
}

/// Returns the campaigns that the entries have changed.
fn settle_known(
    conn: &Connection,
    partition: PartitionId,
    entries: &[Entry],
    campaigns: &[KnownCampaign],
) -> Result<HashSet<i64>, DataFileError> {
    let orders = known_orders(conn, &settlement::wanted_orders(entries, campaigns))?;
    let plan = SettlementPlan::new(partition, entries, campaigns, &orders)?;
    let changed = changed_by(&plan);
    write(conn, partition, plan, campaigns)?;
    Ok(changed)
}

/// Writes the rows of a plan.
pub(super) fn write(
    conn: &Connection,
    partition: PartitionId,
    mut plan: SettlementPlan<'_>,
    campaigns: &[KnownCampaign],
) -> Result<(), DataFileError> {
    assign_shares(conn, &plan, campaigns)?;
    change_orders(conn, &plan.leaving_orders)?;
    let enter = "INSERT INTO orders (campaign, number, user, quantity, amount, state, one_per_user, granted_at, \
                 hold_until, updated_at, key, returned_in_parts, cancelled_in_parts, extension_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    execute_rows(conn, enter, plan.new_orders.iter().map(NewOrder::columns))?;
    for order in &plan.loosened_orders {
        let sql = "UPDATE orders SET one_per_user = 0 WHERE campaign = ?1 AND number = ?2";
        conn.prepare_cached(sql)?.execute(*order)?;
    }
    change_orders(conn, &plan.keeping_orders)?;
    let enter = "INSERT INTO payments (campaign, number, payment, outcome, amount, at, currency) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    execute_rows(conn, enter, plan.payments.iter().map(PaymentRow::columns))?;
    let enter = "INSERT INTO order_returns (campaign, number, key, quantity, amount, at, kind) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    execute_rows(conn, enter, plan.returns.iter().map(ReturnRow::columns))?;
    let ids = add_to_accounts(conn, &plan)?;
    plan.resolve_accounts(&ids);
    accounts::post(conn, &plan.postings)?;
    write_campaigns(conn, partition, &plan)?;
    for close in &plan.closes {
        sweep(conn, close, (ids[close.escrow], ids[close.owner]))?;
    }
    for closed in &plan.closed {
        repairs::give_back(conn, partition, closed)?;
    }
    made_changes::enter_made_changes(conn, &plan.made_changes)?;
    webhooks::insert_webhook_events(conn, &plan.told)
}

fn assign_shares(
    conn: &Connection,
    plan: &SettlementPlan<'_>,
    campaigns: &[KnownCampaign],
) -> Result<(), DataFileError> {
    if plan.shares.is_empty() {
        return Ok(());
    }
    let mut assign = conn.prepare_cached(
        "UPDATE shares SET user = ?3, granted_at = ?5, amount = ?4 \
         WHERE campaign = ?1 AND number = ?2 AND user IS NULL AND coalesce(amount, ?4) = ?4",
    )?;
    for share in &plan.shares {
        if assign.execute(share.columns().map(BoundValues))? != 1 {
            let mut known = campaigns.iter();
            let known = known.find(|known| known.campaign_ref == share.campaign);
            let id = known.map_or("an unknown campaign", |known| &known.name);
            let number = share.number;
            let reason = format!("share {number} of {id} is missing or has another amount");
            return Err(DataFileError::damaged(reason));
        }
    }
    Ok(())
}

fn change_orders(conn: &Connection, orders: &[OrderChange]) -> Result<(), DataFileError> {
    let sql = "UPDATE orders SET state = ?3, updated_at = coalesce(?4, updated_at), returned_in_parts = ?5, \
               quantity = ?6, amount = ?7, cancelled_in_parts = ?8, hold_until = hold_until + ?9, \
               extension_ms = extension_ms + ?9 \
               WHERE campaign = ?1 AND number = ?2";
    execute_rows(conn, sql, orders.iter().map(OrderChange::columns))
}

/// Moves the accounts; returns their ids in the same order.
fn add_to_accounts(
    conn: &Connection,
    plan: &SettlementPlan<'_>,
) -> Result<Vec<i64>, DataFileError> {
    if plan.accounts.is_empty() {
        return Ok(Vec::new());
    }
    let mut accounts = Accounts::prepare(conn)?;
    let moved = plan.accounts.iter();
    moved
        .map(|(key, amount)| accounts.add(*key, *amount))
        .collect()
}

fn write_campaigns(
    conn: &Connection,
    partition: PartitionId,
    plan: &SettlementPlan<'_>,
) -> Result<(), DataFileError> {
    for part in &plan.parts {
        let key = (part.campaign, partition.0);
        if part.parts.is_some() {
            let mut insert = conn.prepare_cached(
                "INSERT INTO parts (campaign, partition, phase) VALUES (?1, ?2, 'scheduled')",
            )?;
            insert.execute(key)?;
        }
        let mut update = conn.prepare_cached(
            "UPDATE parts SET phase = coalesce(?3, phase), granted = granted + ?4, returned = returned + ?5, \
             refunded = refunded + ?6 WHERE campaign = ?1 AND partition = ?2",
        )?;
        let phase = part.phase.map(Phase::name);
        update.execute(params![
            key.0,
            key.1,
            phase,
            part.granted,
            part.returned,
            part.refunded
        ])?;
    }
    for terms in &plan.terms {
        let first = "INSERT OR IGNORE INTO sale_terms \
                     SELECT ref, 0, created_at, starts_at, ends_at, per_user_limit, unit_price, admission \
                     FROM campaigns WHERE ref = ?1 AND terms_revision = 0";
        conn.prepare_cached(first)?.execute([terms.campaign])?;
    }
    let enter = "INSERT OR IGNORE INTO sale_terms VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    execute_rows(conn, enter, plan.terms.iter().map(SaleSettingsRow::columns))?;
    change_campaigns(conn, &plan.campaigns)?;
    for spread in &plan.spread {
        let mut statement = conn.prepare_cached("SELECT phase FROM parts WHERE campaign = ?1")?;
        let phases = statement.query_map([spread.campaign], |row| row.get::<_, String>(0))?;
        let phases = phases.map(|word| {
            let word = word?;
            phase_of(&word).ok_or_else(|| {
                DataFileError::damaged(format!("a shard has the unknown phase {word}"))
            })
        });
        let phases: Vec<Phase> = phases.collect::<Result<_, DataFileError>>()?;
        let phase = spread.phase(&phases)?;
        change_campaigns(conn, &[CampaignChange::to_phase(spread.campaign, phase)])?;
    }
    Ok(())
}

/// Applies changes of campaigns. The latest terms count.
///
/// All counts and the phase move in one statement: between two of them there could be more units than the supply.
fn change_campaigns(conn: &Connection, changes: &[CampaignChange]) -> Result<(), DataFileError> {
    let sql = "UPDATE campaigns SET phase = coalesce(?2, phase), parts = coalesce(?3, parts), \
               granted = granted + ?4, returned = returned + ?5, refunded = refunded + ?6, supply = supply + ?7, \
               starts_at = iif(?8 > terms_revision, ?9, starts_at), \
               ends_at = iif(?8 > terms_revision, ?10, ends_at), \
               per_user_limit = iif(?8 > terms_revision, ?11, per_user_limit), \
               unit_price = iif(?8 > terms_revision, ?12, unit_price), \
               admission = iif(?8 > terms_revision, ?13, admission), \
               updated_at = max(updated_at, coalesce(?14, 0)), \
               terms_revision = max(terms_revision, coalesce(?8, 0)) WHERE ref = ?1";
    execute_rows(conn, sql, changes.iter().map(CampaignChange::columns))
}

/// Refunds what is left in the escrow of a packet that is over.
fn sweep(
    conn: &Connection,
    close: &PacketClose<'_>,
    (escrow, owner): (i64, i64),
) -> Result<(), DataFileError> {
    let campaign_ref = close.known.campaign_ref;
    if close.is_spread {
        // Until all shards are closed and all units accounted for, the escrow holds other shards' money.
        let mut statement = conn.prepare_cached(
            "SELECT phase = 'closed' AND granted + returned = supply FROM campaigns WHERE ref = ?1",
        )?;
        if !statement.query_row([campaign_ref], |row| row.get(0))? {
            return Ok(());
        }
    }
    let residue = accounts::balance(conn, close.escrow_key())?;
    if residue <= 0 {
        return Ok(());
    }
    let mut accounts = Accounts::prepare(conn)?;
    accounts.add(close.escrow_key(), -residue)?;
    accounts.add(close.owner_key(), residue)?;
    let (seq, ids) = (accounts::next_direct(conn)?, (escrow, owner));
    let posting = PostingRow::direct(seq, "residue", ids, residue, Some(campaign_ref), close.at);
    accounts::post(conn, &[posting])
}
