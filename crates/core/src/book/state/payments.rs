//! Payments for a campaign's orders, parts of orders that were restocked, and extended holds. Most campaigns have none.

use hashbrown::HashMap;

use super::hold_extensions::HoldExtensions;
use crate::{
    book::{PaymentOutcome, grants::fingerprint},
    id::PaymentRef,
    order::{PartKind, ReturnPart},
    time::Timestamp,
};

/// Fingerprints and outcomes of payments, by order number.
type ByOrder = HashMap<u32, Vec<(u64, PaymentOutcome)>>;

/// A part of an order that was restocked.
#[derive(Debug, Clone, Copy)]
struct PartRecord {
    /// Fingerprint of its key.
    key: u64,
    units: u32,
    kind: PartKind,
}

/// Payments of orders, and parts that were restocked.
#[derive(Debug, Default)]
struct PaymentRecords {
    payments: ByOrder,
    /// Parts, by order number.
    parts: HashMap<u32, Vec<PartRecord>>,
    /// Units that were cancelled while an order was held, by order number.
    cancelled: HashMap<u32, u32>,
    extensions: HoldExtensions,
}

/// Payments, returns and extended holds of a campaign. Uses no memory while there are none.
#[derive(Debug, Default)]
pub(in crate::book) struct Payments(Option<Box<PaymentRecords>>);

impl Payments {
    fn for_number(&self, number: u32) -> &[(u64, PaymentOutcome)] {
        let payments = self.0.as_ref().and_then(|all| all.payments.get(&number));
        payments.map_or(&[], Vec::as_slice)
    }

    fn parts(&self, number: u32) -> &[PartRecord] {
        let parts = self.0.as_ref().and_then(|all| all.parts.get(&number));
        parts.map_or(&[], Vec::as_slice)
    }

    /// Whether this part was restocked before, in this way. `None` if its key is new; false if the key names another
    /// part.
    pub(in crate::book) fn has_part(
        &self,
        number: u32,
        kind: PartKind,
        part: &ReturnPart,
    ) -> Option<bool> {
        let key = fingerprint(part.key.as_str());
        let known = self.parts(number).iter().find(|known| known.key == key)?;
        Some((known.kind, known.units) == (kind, part.quantity))
    }

    pub(in crate::book) fn count_parts(&self, number: u32) -> u32 {
        self.parts(number).len() as u32
    }

    /// Units of an order that were cancelled while it was held.
    pub(in crate::book) fn cancelled(&self, number: u32) -> u32 {
        let cancelled = self.0.as_ref().and_then(|all| all.cancelled.get(&number));
        cancelled.copied().unwrap_or(0)
    }

    pub(in crate::book) fn note_cancelled(&mut self, number: u32, units: u32) {
        if units > 0 {
            let records = self.0.get_or_insert_default();
            let cancelled = records.cancelled.entry(number).or_default();
            *cancelled = cancelled.saturating_add(units);
        }
    }

    /// Milliseconds by which the hold of an order was extended; 0 if it was not.
    pub(in crate::book) fn extension_ms(&self, number: u32) -> i64 {
        let extensions = self.0.as_ref().map(|all| &all.extensions);
        extensions.map_or(0, |extensions| extensions.extension_ms(number))
    }

    /// Extended holds of held orders: ends without downtimes, ascending, and numbers.
    pub(in crate::book) fn extended(&self) -> impl Iterator<Item = (Timestamp, u32)> {
        let extensions = self.0.iter().map(|all| &all.extensions);
        extensions.flat_map(HoldExtensions::held)
    }

    /// Number of extended holds of held orders.
    pub(in crate::book) fn extended_holds(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.extensions.held_count())
    }

    /// Records that the hold of an order was extended; `until` is its end if the order is still held.
    pub(in crate::book) fn note_extension(
        &mut self,
        number: u32,
        extension_ms: i64,
        until: Option<Timestamp>,
    ) {
        let records = self.0.get_or_insert_default();
        records.extensions.add(number, extension_ms, until);
    }

    /// Records that an order is no longer held.
    pub(in crate::book) fn end_extension(&mut self, number: u32) {
        if let Some(records) = &mut self.0 {
            records.extensions.end(number);
        }
    }

    /// Records the key of a part. The units of a cancellation are recorded by [`Payments::note_cancelled`].
    pub(in crate::book) fn note_part(&mut self, number: u32, kind: PartKind, part: &ReturnPart) {
        let records = self.0.get_or_insert_default();
        records.parts.entry(number).or_default().push(PartRecord {
            key: fingerprint(part.key.as_str()),
            units: part.quantity,
            kind,
        });
    }

    /// Outcome of a payment that was received before, if it was.
    pub(super) fn outcome(&self, number: u32, payment: &PaymentRef) -> Option<PaymentOutcome> {
        let fingerprint = fingerprint(payment.as_str());
        let mut payments = self.for_number(number).iter();
        payments.find(|known| known.0 == fingerprint).map(|it| it.1)
    }

    /// Number of payments with a refund due.
    pub(in crate::book) fn refunds_due(&self, number: u32) -> u32 {
        let is_due = |known: &&(u64, PaymentOutcome)| known.1 == PaymentOutcome::RefundDue;
        self.for_number(number).iter().filter(is_due).count() as u32
    }

    pub(super) fn note(&mut self, number: u32, payment: &PaymentRef, outcome: PaymentOutcome) {
        let records = self.0.get_or_insert_default();
        let payments = records.payments.entry(number).or_default();
        payments.push((fingerprint(payment.as_str()), outcome));
    }
}
