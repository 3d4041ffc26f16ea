//! What arrived for a campaign's orders. Most campaigns have none of it.

use hashbrown::HashMap;

use crate::{book::PaymentOutcome, book::grants::fingerprint, id::PaymentRef};

/// By the number of the order: the fingerprints of payments, and what became of them.
type ByOrder = HashMap<u32, Vec<(u64, PaymentOutcome)>>;

/// What arrived, in memory only where something did.
#[derive(Debug, Default)]
pub(in crate::book) struct Payments(Option<Box<ByOrder>>);

impl Payments {
    fn of(&self, number: u32) -> &[(u64, PaymentOutcome)] {
        let payments = self.0.as_ref().and_then(|all| all.get(&number));
        payments.map_or(&[], Vec::as_slice)
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
        let payments = self.0.get_or_insert_default().entry(number).or_default();
        payments.push((fingerprint(payment.as_str()), outcome));
    }
}
