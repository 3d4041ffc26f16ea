//! Settled orders of a sale, and shares of a red packet, whose ledger rows were deleted by hand.
//!
//! Their rows are restored, and not settled again: if the ledger still has the payment, an entry would pay the order a
//! second time, or the user of a share. It would also repeat webhook events.

use std::collections::{BTreeMap, HashMap};

use super::{
    repair::{EnginePart, PartFacts},
    rows::{GrantRow, PartRows},
};
use crate::{
    book::PaymentOutcome,
    campaign::{CampaignKind, Phase},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::OrderState,
    payment::PaymentState,
    time::Timestamp,
};

/// An order or a share whose ledger rows are missing, in full or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedOrder {
    /// Number.
    pub number: u32,
    /// Row.
    pub row: GrantRow,
    /// All its payments.
    pub payments: BTreeMap<PaymentRef, PaymentState>,
    /// Returns of parts whose rows the ledger lacks: keys and units.
    pub returns: BTreeMap<IdempotencyKey, u32>,
    /// Cancellations of parts whose rows the ledger lacks: keys and units.
    pub cancellations: BTreeMap<IdempotencyKey, u32>,
    /// Its entries, if the log still has them: they say when its steps were made.
    pub entries: Vec<Entry>,
}

/// Deleted orders or shares of a partition's part of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedOrders {
    /// The partition.
    pub partition: PartitionId,
    /// The campaign.
    pub campaign: CampaignId,
    /// The orders or shares, by number.
    pub orders: Vec<DeletedOrder>,
    /// First position in the partition's log for missing postings. No entry has these positions, and none will.
    pub place: Seq,
    /// Time for steps whose time neither the ledger nor the log has.
    pub now: Timestamp,
}

impl DeletedOrder {
    /// Maximum number of postings that it needs.
    #[must_use]
    pub fn postings_max(&self) -> u64 {
        self.payments.len() as u64 + 1
    }

    /// Time at which a payment was settled, from the log.
    #[must_use]
    pub fn paid_at(&self, payment: &PaymentRef) -> Option<Timestamp> {
        let is_it = |event: &Event| match event {
            Event::Paid { payment: by, .. }
            | Event::Reinstated { payment: by, .. }
            | Event::RefundDue { payment: by, .. } => by == payment,
            _ => false,
        };
        self.at(is_it)
    }

    /// Time at which the order reached a state without a payment, from the log.
    #[must_use]
    pub fn ended_at(&self, state: OrderState) -> Option<Timestamp> {
        self.at(|event| match event {
            Event::Cancelled { .. } => state == OrderState::Cancelled,
            Event::Expired { .. } => state == OrderState::Expired,
            Event::Returned { .. } => state == OrderState::Returned,
            _ => false,
        })
    }

    /// When a part was cancelled or returned under a key, as the log says.
    #[must_use]
    pub fn part_at(&self, key: &IdempotencyKey) -> Option<Timestamp> {
        self.at(|event| match event {
            Event::Returned { part, .. } => part.as_ref().is_some_and(|part| part.key == *key),
            Event::PartCancelled { part, .. } => part.key == *key,
            _ => false,
        })
    }

    /// The payment that pays the order.
    #[must_use]
    pub fn paid_by(&self) -> Option<&PaymentRef> {
        let mut paying = self
            .payments
            .iter()
            .filter(|(_, state)| state.outcome != PaymentOutcome::RefundDue);
        paying.next().map(|(payment, _)| payment)
    }

    fn at(&self, is_step: impl Fn(&Event) -> bool) -> Option<Timestamp> {
        let mut steps = self.entries.iter().filter(|entry| is_step(&entry.event));
        steps.next_back().map(|entry| entry.at)
    }
}

/// Orders of the engine's part that the ledger has settled, but lacks as an order row or a payment, and shares that it
/// has settled and lacks. Empty unless the ledger has settled all that the engine has (`is_settled`), because a missing
/// row may belong to an unsettled entry. Orders on which both sides contradict each other are left out. So are orders
/// and shares that exceed the supply, the packet's money or a limit together with the ledger's rows.
#[must_use]
pub fn deleted_orders(
    facts: &PartFacts,
    engine: &EnginePart,
    ledger: &PartRows,
    is_settled: bool,
) -> Vec<DeletedOrder> {
    if !is_settled {
        return Vec::new();
    }
    let mut room = RemainingRoom::from_facts(facts, engine, ledger);
    if facts.kind == CampaignKind::RedPacket {
        return deleted_shares(engine, ledger, room);
    }
    let mut deleted = Vec::new();
    for (number, row) in &engine.rows.grants {
        if engine.rows.returned_in_parts(*number) > 0 {
            deleted.extend(deleted_parts(*number, &engine.rows, ledger));
            continue;
        }
        let known = ledger.grants.get(number);
        let cancellations = missing_cancellations(*number, &engine.rows, ledger);
        let lacks_rows = known.is_none_or(|known| {
            (&known.user, known.state) == (&row.user, row.state)
                && known.cancelled == row.cancelled
                && (lacks_payment(*number, &engine.rows, ledger) || !cancellations.is_empty())
        });
        if !lacks_rows {
            continue;
        }
        let Some(payments) = united_payments(*number, &engine.rows, ledger) else {
            continue;
        };
        let mut order = DeletedOrder {
            number: *number,
            row: row.clone(),
            payments,
            returns: BTreeMap::new(),
            cancellations,
            entries: Vec::new(),
        };
        let paying = order.payments.values();
        let paying = paying.filter(|state| state.outcome != PaymentOutcome::RefundDue);
        order.row.state = match (row.state, paying.count()) {
            (state @ (OrderState::Paid | OrderState::Returned), 1) => state,
            // The ledger has settled a step that the engine has lost.
            (OrderState::Held, 1) if known.is_none() => OrderState::Paid,
            (state, 0) if !matches!(state, OrderState::Paid | OrderState::Returned) => state,
            _ => continue,
        };
        if order.row.state == OrderState::Paid {
            // The engine may have lost returns that the ledger still has.
            let in_parts = ledger.returned_in_parts(*number);
            let units = in_parts.saturating_sub(order.row.returned);
            order.row.return_units(units);
        }
        if known.is_some() || room.take(&order.row) {
            deleted.push(order);
        }
    }
    deleted
}

/// An order with partial returns that lacks returns or payments in the ledger. Its row is there, and says that as many
/// units were returned as the returns of both sides have. Other rows of orders with partial returns are not restored.
fn deleted_parts(number: u32, engine: &PartRows, ledger: &PartRows) -> Option<DeletedOrder> {
    let (row, known) = (engine.grants.get(&number)?, ledger.grants.get(&number)?);
    let payments = united_payments(number, engine, ledger)?;
    let pays = |state: &&PaymentState| state.outcome != PaymentOutcome::RefundDue;
    let is_same = (&row.user, row.state) == (&known.user, known.state);
    let returns = engine.returns_of(number);
    let returns = returns.filter(|(key, _)| {
        let key = (number, (*key).clone());
        !ledger.returns.contains_key(&key)
    });
    let returns: BTreeMap<_, _> = returns.map(|(key, units)| (key.clone(), units)).collect();
    let units = returns.values().copied().fold(0, u32::saturating_add);
    let lacks_rows = units > 0 || lacks_payment(number, engine, ledger);
    let is_provable = is_same && lacks_rows && units == ledger.unnamed_returns(number);
    let is_paid_once = payments.values().filter(pays).count() == 1;
    (is_provable && is_paid_once).then(|| DeletedOrder {
        number,
        row: known.clone(),
        payments,
        returns,
        cancellations: missing_cancellations(number, engine, ledger),
        entries: Vec::new(),
    })
}

/// Granted shares of a packet that the ledger lacks and has room for.
fn deleted_shares(
    engine: &EnginePart,
    ledger: &PartRows,
    mut room: RemainingRoom,
) -> Vec<DeletedOrder> {
    let rows = engine.rows.grants.iter();
    let lacking = rows.filter(|(number, _)| !ledger.grants.contains_key(*number));
    let restorable = lacking.filter(|(_, row)| room.take(row));
    let share = |(number, row): (&u32, &GrantRow)| DeletedOrder {
        number: *number,
        row: row.clone(),
        payments: BTreeMap::new(),
        returns: BTreeMap::new(),
        cancellations: BTreeMap::new(),
        entries: Vec::new(),
    };
    restorable.map(share).collect()
}

/// Partial cancellations of an order whose rows the ledger lacks. Empty if they contradict the cancelled units that the
/// ledger's row of the order has.
fn missing_cancellations(
    number: u32,
    engine: &PartRows,
    ledger: &PartRows,
) -> BTreeMap<IdempotencyKey, u32> {
    let all = engine.cancellations_of(number);
    let missing = all.filter(|(key, _)| {
        let key = (number, (*key).clone());
        !ledger.cancellations.contains_key(&key)
    });
    let missing: BTreeMap<_, _> = missing.map(|(key, units)| (key.clone(), units)).collect();
    let there = ledger.cancellations_of(number).map(|(_, units)| units);
    let all = there.chain(missing.values().copied());
    let units = all.fold(0, u32::saturating_add);
    let cancelled = ledger.grants.get(&number).map(|row| row.cancelled);
    match cancelled.is_none_or(|cancelled| cancelled == units) {
        true => missing,
        false => BTreeMap::new(),
    }
}

fn payments_of(rows: &PartRows, number: u32) -> BTreeMap<PaymentRef, PaymentState> {
    let payments = rows.payments_of(number);
    payments
        .map(|(payment, state)| (payment.clone(), state))
        .collect()
}

/// Whether the engine has a payment of an order that the ledger lacks.
fn lacks_payment(number: u32, engine: &PartRows, ledger: &PartRows) -> bool {
    let mut payments = engine.payments_of(number);
    payments.any(|(it, _)| !ledger.payments.contains_key(&(number, it.clone())))
}

/// Payments of an order on both sides; `None` if the sides contradict each other.
fn united_payments(
    number: u32,
    engine: &PartRows,
    ledger: &PartRows,
) -> Option<BTreeMap<PaymentRef, PaymentState>> {
    let mut payments = payments_of(engine, number);
    for (payment, state) in ledger.payments_of(number) {
        if *payments.entry(payment.clone()).or_insert(state) != state {
            return None;
        }
    }
    Some(payments)
}

/// Settled orders with partial returns that the ledger lacks, in full or as a payment, and that [`deleted_orders`]
/// leaves out. No repair restores their rows. As entries, their money would move again.
#[must_use]
pub fn unrestorable_orders(engine: &EnginePart, ledger: &PartRows, is_settled: bool) -> Vec<u32> {
    if !is_settled {
        return Vec::new();
    }
    let engine = &engine.rows;
    let is_lacking = |(number, row): &(&u32, &GrantRow)| {
        let number = **number;
        let known = ledger.grants.get(&number);
        let lacks_rows = known.is_none_or(|known| {
            known.user == row.user
                && lacks_payment(number, engine, ledger)
                && deleted_parts(number, engine, ledger).is_none()
        });
        lacks_rows && engine.returned_in_parts(number) > 0
    };
    let lacking = engine.grants.iter().filter(is_lacking);
    lacking.map(|(number, _)| *number).collect()
}

/// Supply, money and limits that the ledger's rows leave for others.
struct RemainingRoom {
    units: u64,
    /// Minor units of a packet.
    money: Option<i64>,
    limit: u64,
    held: HashMap<UserId, u64>,
}

impl RemainingRoom {
    fn from_facts(facts: &PartFacts, engine: &EnginePart, ledger: &PartRows) -> Self {
        let mut held: HashMap<UserId, u64> = HashMap::new();
        for row in ledger.grants.values() {
            if row.state.keeps_units() {
                *held.entry(row.user.clone()).or_default() += u64::from(row.units());
            }
        }
        // A closed part has only its grants; the rest has gone back to the owner.
        let units = match engine.rows.phase {
            Phase::Closed => engine.rows.granted(),
            _ => engine.supply,
        };
        let money = match (facts.kind, engine.rows.phase) {
            (CampaignKind::Sale, _) => None,
            (CampaignKind::RedPacket, Phase::Closed) => Some(engine.rows.amount_minor()),
            (CampaignKind::RedPacket, _) => Some(engine.funded_minor),
        };
        Self {
            units: units.saturating_sub(ledger.granted()),
            money: money.map(|money| money - ledger.amount_minor()),
            limit: facts.limit.map_or(u64::MAX, u64::from),
            held,
        }
    }

    fn take(&mut self, row: &GrantRow) -> bool {
        if !row.state.keeps_units() {
            return true;
        }
        let units = u64::from(row.units());
        let own = self.held.entry(row.user.clone()).or_default();
        let money = self.money.map(|money| money - row.amount_minor);
        let lacks_money = money.is_some_and(|left| left < 0);
        if units > self.units || lacks_money || *own + units > self.limit {
            return false;
        }
        *own += units;
        self.units -= units;
        self.money = money;
        true
    }
}
