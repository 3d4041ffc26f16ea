//! Payments of an account's orders, and the money received.

use qiang_core::{event::Event, money::Money, payment::ReceivedMoney};

use super::{Account, Checked, RowState, check};

impl Account {
    /// Records the money that paid an order. Only money that the sale's policy accepts pays it.
    pub(super) fn paid(&mut self, number: u32, event: &Event) -> Checked {
        let currency = self.setup.campaign.currency();
        let row = self.rows.get_mut(&number);
        let row = row.ok_or_else(|| format!("there is no grant {number}"))?;
        let received = event.received().unwrap_or_default();
        let money = received.money(Money::new(row.amount_minor, currency));
        row.paid_minor = Some(money.minor);
        let is_named = row.cancelled == 0 || received != ReceivedMoney::Price;
        check(is_named, "the price of other units paid an order")?;
        let is_accepted = self.accepts(number, received)?;
        check(is_accepted, "paid with money that the sale does not accept")
    }

    /// Whether the sale's policy accepts money for an order.
    pub(super) fn accepts(&self, number: u32, received: ReceivedMoney) -> Result<bool, String> {
        let campaign = &self.setup.campaign;
        let price = Money::new(self.row(number)?.amount_minor, campaign.currency());
        let received = ReceivedMoney::new(received.money(price), price, campaign.payment_policy);
        Ok(received.pays())
    }

    pub(super) fn payment(&mut self, number: u32, payment: &str, outcome: &'static str) -> Checked {
        let row = self.rows.get_mut(&number);
        let row = row.ok_or_else(|| format!("there is no grant {number}"))?;
        let before = row.payments.insert(payment.to_owned(), outcome);
        check(before.is_none(), "one payment counted twice")
    }

    /// Checks that a payment recorded as a refund due would not have paid its order.
    pub(super) fn turned_away(&self, number: u32, received: ReceivedMoney) -> Checked {
        let waits = self.row(number)?.state == RowState::Had;
        let is_wanted = waits && self.accepts(number, received)?;
        check(
            !is_wanted,
            "a payment became a refund due though it would have paid the order",
        )
    }
}
