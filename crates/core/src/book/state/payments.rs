//! Payments for a campaign's orders, and returns of their units. Most campaigns have neither.

use hashbrown::HashMap;

use crate::{
    book::{PaymentOutcome, grants::fingerprint},
    id::{IdempotencyKey, PaymentRef},
};

/// Fingerprints and outcomes of payments, by order number.
type ByOrder = HashMap<u32, Vec<(u64, PaymentOutcome)>>;

/// Payments and returns of orders.
#[derive(Debug, Default)]
struct PaymentRecords {
    payments: ByOrder,
    /// Fingerprints of return keys, and units, by order number.
    returns: HashMap<u32, Vec<(u64, u32)>>,
}

/// Payments and returns of a campaign. Uses no memory while there are none.
#[derive(Debug, Default)]
pub(in crate::book) struct Payments(Option<Box<PaymentRecords>>);

impl Payments {
    fn for_number(&self, number: u32) -> &[(u64, PaymentOutcome)] {
        let payments = self.0.as_ref().and_then(|all| all.payments.get(&number));
        payments.map_or(&[], Vec::as_slice)
    }

    /// Units that were returned under a key, if any.
    pub(super) fn returned_under(&self, number: u32, key: &IdempotencyKey) -> Option<u32> {
        let returns = self.0.as_ref()?.returns.get(&number)?;
        let fingerprint = fingerprint(key.as_str());
        let mut returns = returns.iter();
        returns.find(|known| known.0 == fingerprint).map(|it| it.1)
    }

    pub(super) fn count_returns(&self, number: u32) -> u32 {
        let returns = self.0.as_ref().and_then(|all| all.returns.get(&number));
        returns.map_or(0, |returns| returns.len() as u32)
    }

    pub(in crate::book) fn note_return(&mut self, number: u32, key: &IdempotencyKey, units: u32) {
        let records = self.0.get_or_insert_default();
        let returns = records.returns.entry(number).or_default();
        returns.push((fingerprint(key.as_str()), units));
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
