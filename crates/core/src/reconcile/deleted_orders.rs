//! Orders of a sale that were settled, and whose rows were deleted from the ledger by hand.
//!
//! They are put back as rows, not settled again: an entry would pay an order a second time if the ledger still has its
//! payment, and would tell webhooks again.

use std::collections::{BTreeMap, HashMap};

use super::{
    repair::{EnginePart, PartFacts},
    rows::{GrantRow, PartRows},
};
use crate::{
    book::PaymentOutcome,
    campaign::{CampaignKind, Phase},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, PaymentRef, UserId},
    order::OrderState,
    payment::PaymentState,
    time::Timestamp,
};

/// An order whose rows the ledger lacks, as a whole or in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedOrder {
    /// Its number.
    pub number: u32,
    /// Its row.
    pub row: GrantRow,
    /// All its payments.
    pub payments: BTreeMap<PaymentRef, PaymentState>,
    /// Its entries, if the log still has them: they say when its steps were made.
    pub entries: Vec<Entry>,
}

/// Deleted orders of the part of a sale that a partition has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedOrders {
    /// The partition.
    pub partition: PartitionId,
    /// The sale.
    pub campaign: CampaignId,
    /// The orders, by number.
    pub orders: Vec<DeletedOrder>,
    /// Postings that are missing get places in the partition's log from this one on. No entry has them, and none will.
    pub place: Seq,
    /// Time of steps of which neither ledger nor log says when they were made.
    pub now: Timestamp,
}

impl DeletedOrder {
    /// Number of postings that it may need.
    #[must_use]
    pub fn postings_max(&self) -> u64 {
        self.payments.len() as u64 + 1
    }

    /// When a payment was settled, as the log says.
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

    /// When the order came to a state without a payment, as the log says.
    #[must_use]
    pub fn ended_at(&self, state: OrderState) -> Option<Timestamp> {
        self.at(|event| match event {
            Event::Cancelled { .. } => state == OrderState::Cancelled,
            Event::Expired { .. } => state == OrderState::Expired,
            Event::Returned { .. } => state == OrderState::Returned,
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

/// The orders of the engine's part that the ledger has settled, and whose order row or payments it lacks. There are
/// none unless the ledger has settled all that the engine has (`is_settled`): a missing row may be an entry that is not
/// settled yet. Orders of which both sides contradict each other, or for which there is no room beside what the
/// ledger has, are left out.
#[must_use]
pub fn deleted_orders(
    facts: &PartFacts,
    engine: &EnginePart,
    ledger: &PartRows,
    is_settled: bool,
) -> Vec<DeletedOrder> {
    if facts.kind != CampaignKind::Sale || !is_settled {
        return Vec::new();
    }
    let mut room = Room::of(facts, engine, ledger);
    let mut deleted = Vec::new();
    for (number, row) in &engine.rows.grants {
        // Returns of parts have rows of their own, which no repair restores.
        if engine.rows.returned_in_parts(*number) > 0 {
            continue;
        }
        let known = ledger.grants.get(number);
        let of_ledger: BTreeMap<_, _> = payments_of(ledger, *number);
        let of_engine = payments_of(&engine.rows, *number);
        let lacks_payment = of_engine.keys().any(|it| !of_ledger.contains_key(it));
        let lacks_rows = match known {
            Some(known) => (&known.user, known.state) == (&row.user, row.state) && lacks_payment,
            None => true,
        };
        if !lacks_rows {
            continue;
        }
        let mut payments = of_engine;
        let is_other = |(payment, state): (&PaymentRef, &PaymentState)| {
            payments.get(payment).is_some_and(|it| it != state)
        };
        if of_ledger.iter().any(is_other) {
            continue;
        }
        payments.extend(of_ledger);
        let mut order = DeletedOrder {
            number: *number,
            row: row.clone(),
            payments,
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
        if known.is_some() || room.take(&order.row) {
            deleted.push(order);
        }
    }
    deleted
}

fn payments_of(rows: &PartRows, number: u32) -> BTreeMap<PaymentRef, PaymentState> {
    let payments = rows.payments_of(number);
    payments
        .map(|(payment, state)| (payment.clone(), state))
        .collect()
}

/// Settled orders with partial returns that the ledger lacks. No repair restores their rows. As entries, their money
/// would move again.
#[must_use]
pub fn unrestorable_orders(engine: &EnginePart, ledger: &PartRows, is_settled: bool) -> Vec<u32> {
    let numbers = engine.rows.grants.keys().copied();
    let is_lacking = |number: &u32| {
        is_settled
            && !ledger.grants.contains_key(number)
            && engine.rows.returned_in_parts(*number) > 0
    };
    numbers.filter(is_lacking).collect()
}

/// Room for orders beside the ledger's own.
struct Room {
    units: u64,
    limit: u64,
    held: HashMap<UserId, u64>,
}

impl Room {
    fn of(facts: &PartFacts, engine: &EnginePart, ledger: &PartRows) -> Self {
        let mut held: HashMap<UserId, u64> = HashMap::new();
        for row in ledger.grants.values() {
            if row.state.keeps_units() {
                *held.entry(row.user.clone()).or_default() += u64::from(row.units());
            }
        }
        // A part that is closed has handed out what it has; the rest has gone back.
        let units = match engine.rows.phase {
            Phase::Closed => engine.rows.granted(),
            _ => engine.supply,
        };
        Self {
            units: units.saturating_sub(ledger.granted()),
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
        if units > self.units || *own + units > self.limit {
            return false;
        }
        *own += units;
        self.units -= units;
        true
    }
}
