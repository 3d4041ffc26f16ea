//! What arrived for a campaign's orders, and which units of them were returned. Most campaigns have none of it.

use hashbrown::HashMap;

use crate::{
    book::{PaymentOutcome, grants::fingerprint},
    id::{IdempotencyKey, PaymentRef},
};

/// By the number of the order: the fingerprints of payments, and what became of them.
type ByOrder = HashMap<u32, Vec<(u64, PaymentOutcome)>>;

/// Payments and returns of orders.
#[derive(Debug, Default)]
struct Records {
    payments: ByOrder,
    /// By the number of the order: fingerprints of the keys of returns, and units.
    returns: HashMap<u32, Vec<(u64, u32)>>,
}

/// What arrived, in memory only where something did.
#[derive(Debug, Default)]
pub(in crate::book) struct Payments(Option<Box<Records>>);

impl Payments {
    fn of(&self, number: u32) -> &[(u64, PaymentOutcome)] {
        let payments = self.0.as_ref().and_then(|all| all.payments.get(&number));
        payments.map_or(&[], Vec::as_slice)
    }

    /// Units that were returned under a key, if any were.
    pub(super) fn returned_under(&self, number: u32, key: &IdempotencyKey) -> Option<u32> {
        let returns = self.0.as_ref()?.returns.get(&number)?;
        let fingerprint = fingerprint(key.as_str());
        let mut returns = returns.iter();
        returns.find(|known| known.0 == fingerprint).map(|it| it.1)
    }

    pub(in crate::book) fn note_return(&mut self, number: u32, key: &IdempotencyKey, units: u32) {
        let records = self.0.get_or_insert_default();
        let returns = records.returns.entry(number).or_default();
        returns.push((fingerprint(key.as_str()), units));
    }

    /// What became of a payment, if it arrived before.
    pub(super) fn outcome(&self, number: u32, payment: &PaymentRef) -> Option<PaymentOutcome> {
        let fingerprint = fingerprint(payment.as_str());
        let mut payments = self.of(number).iter();
        payments.find(|known| known.0 == fingerprint).map(|it| it.1)
    }

    /// Payments that are owed back.
    pub(in crate::book) fn refunds_due(&self, number: u32) -> u32 {
        let is_due = |known: &&(u64, PaymentOutcome)| known.1 == PaymentOutcome::RefundDue;
        self.of(number).iter().filter(is_due).count() as u32
    }

    pub(super) fn note(&mut self, number: u32, payment: &PaymentRef, outcome: PaymentOutcome) {
        let records = self.0.get_or_insert_default();
        let payments = records.payments.entry(number).or_default();
        payments.push((fingerprint(payment.as_str()), outcome));
    }
}
