//! Restoration of orders and shares whose rows were deleted from the ledger. It runs before a repair unites a campaign,
//! so that these orders and shares do not become new entries.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    campaign::CampaignKind,
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError},
    reconcile::{DeletedOrder, DeletedOrders, deleted_orders, unrestorable_orders},
};
use tokio::sync::Mutex;

use super::{EPOCH_GAP, engine_error_from_ledger, group::HeldEntries, sides::BothSides};
use crate::{
    partitions::Partitions, quarantined::quarantined_entries, repair::rebuild::NotedChange,
    repair_offer::Loss,
};

/// Orders restored in one transaction.
const ORDERS_AT_ONCE: usize = 500;

/// Knowledge of a repair about rows that the ledger should have.
pub(super) struct OrderRestoration {
    /// Whether the ledger had settled everything that the engine has when the repair began.
    is_settled: bool,
    /// Log positions for missing postings, after all entries of the previous epoch and before all of the next one: the
    /// next free position, and the last one.
    places: Mutex<(Seq, Seq)>,
}

impl OrderRestoration {
    /// Restoration for the state that was recorded when the repair began. `end` is the position to which it has moved
    /// the ledger.
    pub(super) fn from_loss(loss: &Loss, noted: &NotedChange, end: Seq) -> Self {
        let is_whole = loss.to < loss.from && loss.answers_from == loss.from;
        Self {
            is_settled: is_whole && !loss.epoch.is_empty() && noted.settled == noted.head,
            places: Mutex::new((end.saturating_sub(EPOCH_GAP) + 1, end)),
        }
    }

    /// Takes `count` positions, and returns the first one; `None` if fewer are left.
    async fn take(&self, count: u64) -> Option<Seq> {
        let mut places = self.places.lock().await;
        let (next, last) = *places;
        places.0 = next.checked_add(count).filter(|next| *next <= last)?;
        Some(next)
    }
}

/// Restores the rows of settled orders and shares that the ledger lacks, and adds them to the ledger's rows of each
/// shard. Rows that cannot be restored do not stop the repair. Orders are entered again, as if they had not been
/// settled. Shares are not, because their users would be paid again: the log names them.
pub(super) async fn restore(
    held: &[HeldEntries<'_>],
    ledger: &dyn Ledger,
    partitions: &Partitions,
    members: &mut [(usize, BothSides)],
    rows: &[&OrderRestoration],
) -> Result<(), EngineError> {
    for (place, part) in members.iter_mut() {
        let (rebuild, attempt) = (&held[*place].rebuild, &held[*place].attempt);
        let rows = rows[*place];
        let unrestorable = unrestorable_orders(&part.engine, &part.ledger, rows.is_settled);
        for number in &unrestorable {
            leave_order(part, *number);
        }
        let facts = &part.facts;
        let mut orders = deleted_orders(facts, &part.engine, &part.ledger, rows.is_settled);
        orders.retain(|order| !unrestorable.contains(&order.number));
        if orders.is_empty() {
            continue;
        }
        let (partition, campaign) = (rebuild.partition, facts.campaign);
        let waiting = in_quarantine(ledger, partition, campaign).await?;
        orders.retain(|order| !waiting.contains(&order.number));
        find_entries(partitions, partition, campaign, &mut orders).await?;
        let is_packet = facts.kind == CampaignKind::RedPacket;
        for orders in orders.chunks(ORDERS_AT_ONCE) {
            let postings = orders.iter().map(DeletedOrder::postings_max).sum();
            let Some(first) = rows.take(postings).await else {
                if is_packet {
                    leave(part, orders, "too many shares were deleted");
                    continue;
                }
                tracing::warn!(%campaign, "too many orders were deleted from the ledger: they are entered again");
                break;
            };
            let deleted = DeletedOrders {
                partition,
                campaign,
                orders: orders.to_vec(),
                place: first,
                now: part.now,
            };
            rebuild.check().await?;
            match ledger.restore_orders(&deleted, attempt).await {
                Err(error @ (LedgerError::Damaged { .. } | LedgerError::Overflow)) if is_packet => {
                    leave(part, orders, &error.to_string());
                    continue;
                }
                Err(error @ (LedgerError::Damaged { .. } | LedgerError::Overflow)) => {
                    tracing::warn!(%campaign, %error, "cannot restore orders that were deleted from the ledger");
                    continue;
                }
                restored => restored.map_err(engine_error_from_ledger)?,
            }
            tracing::warn!(
                partition = partition.0,
                %campaign,
                orders = orders.len(),
                "orders or shares that were deleted from the ledger are restored"
            );
            note(part, orders);
        }
    }
    // A share whose user was deleted is not free.
    let granted = members.iter();
    let granted: BTreeSet<u32> = granted
        .flat_map(|(_, part)| part.ledger.grants.keys().copied())
        .collect();
    for (_, part) in members {
        part.free.retain(|(number, _)| !granted.contains(number));
    }
    Ok(())
}

/// Adds orders to the ledger's rows of a shard.
fn note(part: &mut BothSides, orders: &[DeletedOrder]) {
    for order in orders {
        let payments = order.payments.iter();
        let payments = payments.map(|(it, state)| ((order.number, it.clone()), *state));
        part.ledger.payments.extend(payments);
        let returns = order.returns.iter();
        let returns = returns.map(|(key, units)| ((order.number, key.clone()), *units));
        part.ledger.returns.extend(returns);
        let cancellations = order.cancellations.iter();
        let cancellations = cancellations.map(|(key, units)| ((order.number, key.clone()), *units));
        part.ledger.cancellations.extend(cancellations);
        let known = part.ledger.grants.entry(order.number);
        known.or_insert_with(|| order.row.clone());
    }
}

/// Leaves an order with partial returns as it is on both sides. Its rows are not restored. As entries, its money would
/// move again.
fn leave_order(part: &mut BothSides, number: u32) {
    let (engine, ledger) = (&part.engine.rows, &mut part.ledger);
    if !ledger.grants.contains_key(&number)
        && let Some(row) = engine.grants.get(&number)
    {
        ledger.grants.insert(number, row.clone());
        let returns = engine.returns_of(number);
        let returns = returns.map(|(key, units)| ((number, key.clone()), units));
        ledger.returns.extend(returns);
        let cancellations = engine.cancellations_of(number);
        let cancellations = cancellations.map(|(key, units)| ((number, key.clone()), units));
        ledger.cancellations.extend(cancellations);
    }
    for (payment, state) in engine.payments_of(number) {
        let known = ledger.payments.entry((number, payment.clone()));
        known.or_insert(state);
    }
    tracing::error!(
        campaign = %part.facts.campaign,
        number,
        "rows of an order with partial returns were deleted from the ledger; restore them from a backup"
    );
}

/// Leaves shares that cannot be restored as they are on both sides.
fn leave(part: &mut BothSides, shares: &[DeletedOrder], reason: &str) {
    let numbers: Vec<u32> = shares.iter().map(|share| share.number).collect();
    tracing::error!(
        campaign = %part.facts.campaign,
        ?numbers,
        reason,
        "shares were deleted from the ledger; restore their rows from a backup"
    );
    note(part, shares);
}

/// Numbers of the orders with entries in quarantine: their rows come from there.
async fn in_quarantine(
    ledger: &dyn Ledger,
    partition: PartitionId,
    campaign: CampaignId,
) -> Result<BTreeSet<u32>, EngineError> {
    let entries = quarantined_entries(partition, ledger).await?;
    let of_campaign = entries.iter().filter(|entry| entry.campaign == campaign);
    Ok(of_campaign
        .filter_map(|entry| entry.event.number())
        .collect())
}

/// Finds the entries of orders that the log still keeps.
async fn find_entries(
    partitions: &Partitions,
    partition: PartitionId,
    campaign: CampaignId,
    orders: &mut [DeletedOrder],
) -> Result<(), EngineError> {
    let mut found: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
    let wanted: BTreeSet<u32> = orders.iter().map(|order| order.number).collect();
    let mut after = 0;
    loop {
        let entries = partitions.entries_behind(partition, after).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in entries {
            let number = entry.event.number();
            if let Some(number) = number.filter(|it| wanted.contains(it))
                && entry.campaign == campaign
            {
                found.entry(number).or_default().push(entry);
            }
        }
    }
    for order in orders {
        order.entries = found.remove(&order.number).unwrap_or_default();
    }
    Ok(())
}
