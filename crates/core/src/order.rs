//! States of an order: `held → paid
//! cancelled
//! expired`, and `paid → returned`. All final states but `paid` restock the units. An order that costs nothing has no
//! hold: the step that grants it pays it. A paid order may be returned in parts: it stays `paid` until its last unit is
//! returned. A held order can be cancelled in parts: it stays `held` with fewer units and a lower price, until its last
//! unit is cancelled.

use std::fmt;

use crate::{id::IdempotencyKey, string_enum::string_enum};

/// Maximum number of payments of one order that need a refund, whether refunded or not. The sum of as many payments at
/// the highest price fits 64 bits.
pub const REFUNDS_DUE_MAX: u32 = 1_000;

/// Maximum number of partial cancellations and returns of one order. Each has a row in the ledger and takes memory of
/// the engine. The rest can still be cancelled or returned whole.
pub const RETURNS_MAX: u32 = 1_000;

/// Maximum number of held orders of a sale whose holds are extended at the same time; of a sale with shards, in each
/// shard. They expire out of order, so an engine keeps them beside the others.
pub const EXTENDED_HOLDS_MAX: u32 = 1_000;

/// Some units of an order that are restocked: cancelled while the order is held, or returned after it is paid. The key
/// names this part for good: the same one again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnPart {
    /// Units, at least 1.
    pub quantity: u32,
    /// Identifies it among the cancellations and returns of its order.
    pub key: IdempotencyKey,
}

/// Key of [`ReturnPart::before_payment`].
const BEFORE_PAYMENT: &str = "cancelled-before-payment";

impl ReturnPart {
    /// All units of an order that were cancelled before its payment. A node keeps it with the payment that it answered,
    /// because it may not know the parts: another node answered them, or no answer arrived. If the parts are lost and
    /// the payment is not, a repair cancels the missing units under this key.
    #[must_use]
    pub fn before_payment(cancelled: u32) -> Self {
        Self {
            quantity: cancelled,
            key: IdempotencyKey::new(BEFORE_PAYMENT).expect("it is visible ASCII"),
        }
    }

    /// Whether the quantity is that of all parts. A caller may use the same key for a part of its own, so this counts
    /// only among answers that nodes keep.
    #[must_use]
    pub fn is_before_payment(&self) -> bool {
        self.key.as_str() == BEFORE_PAYMENT
    }
}

/// How units of an order were restocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// The order was held: it has fewer units now, and a lower price.
    Cancellation,
    /// The order was paid: a refund of the units' part of the money is due.
    Return,
}

string_enum!(PartKind { Cancellation = "cancellation", Return = "return" });

/// Price of `units` of an order of `quantity` units that costs `amount_minor`, in minor units. All units of an order
/// have the same price.
#[must_use]
pub fn price_of_units(amount_minor: i64, units: u32, quantity: u32) -> i64 {
    let price = i128::from(amount_minor) * i128::from(units) / i128::from(quantity.max(1));
    i64::try_from(price).unwrap_or(i64::MAX)
}

/// Refund for the first `returned` units of an order of `quantity` units that `paid_minor` paid, in minor units: the
/// proportional part, rounded down. Each return owes the increase of this value. So all returns together owe the whole
/// payment, however the units are divided, and the last one owes the rounding rest.
#[must_use]
pub fn owed_for_returned(paid_minor: i64, returned: u32, quantity: u32) -> i64 {
    if quantity == 0 {
        return 0;
    }
    let owed = i128::from(paid_minor) * i128::from(returned.min(quantity)) / i128::from(quantity);
    // The result is at most `paid_minor`.
    owed as i64
}

/// Maximum refund, in minor units, for a return of `units` of an order of `quantity` units after any earlier returns.
#[must_use]
pub fn owed_for_units_max(paid_minor: i64, units: u32, quantity: u32) -> i64 {
    let quantity = i128::from(quantity.max(1));
    let owed = i128::from(paid_minor) * i128::from(units).min(quantity);
    // Rounded up, it is at most `paid_minor`.
    ((owed + quantity - 1) / quantity) as i64
}

/// State of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OrderState {
    /// The units are reserved until the hold ends.
    Held = 0,
    /// Paid; the units belong to the buyer.
    Paid = 1,
    /// Cancelled by the buyer or an operator; the units were restocked.
    Cancelled = 2,
    /// Not paid in time; the units were restocked.
    Expired = 3,
    /// Paid, and completely returned later. The units were restocked, and a refund of the payment is due to the buyer.
    Returned = 4,
}

/// Change of an order's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderStep {
    /// A payment was received during the hold.
    Pay,
    /// The buyer or an operator cancelled the order.
    Cancel,
    /// The hold ended without a payment.
    Expire,
    /// A payment was received after expiry, and the units could be reserved again.
    Reinstate,
    /// The seller or the buyer returned the paid order.
    Return,
    /// The seller extended the hold. The order stays held.
    ExtendHold,
}

/// A step that the order's state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an order that is {from} cannot {step}")]
pub struct OrderStepError {
    /// Current state of the order.
    pub from: OrderState,
    /// Refused step.
    pub step: OrderStep,
}

impl OrderState {
    /// The state after a step.
    ///
    /// # Errors
    /// If the state does not allow the step.
    pub fn after(self, step: OrderStep) -> Result<Self, OrderStepError> {
        match (self, step) {
            (Self::Held, OrderStep::Pay) | (Self::Expired, OrderStep::Reinstate) => Ok(Self::Paid),
            (Self::Held, OrderStep::Cancel) => Ok(Self::Cancelled),
            (Self::Held, OrderStep::Expire) => Ok(Self::Expired),
            (Self::Held, OrderStep::ExtendHold) => Ok(Self::Held),
            (Self::Paid, OrderStep::Return) => Ok(Self::Returned),
            (from, step) => Err(OrderStepError { from, step }),
        }
    }

    /// Whether the order has its units, so that they are not for sale.
    pub fn keeps_units(self) -> bool {
        matches!(self, Self::Held | Self::Paid)
    }
}

string_enum!(OrderState {
    Held = "held",
    Paid = "paid",
    Cancelled = "cancelled",
    Expired = "expired",
    Returned = "returned",
});

impl fmt::Display for OrderStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pay => "be paid",
            Self::Cancel => "be cancelled",
            Self::Expire => "expire",
            Self::Reinstate => "be reinstated",
            Self::Return => "be returned",
            Self::ExtendHold => "be held longer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{OrderState::*, OrderStep::*, owed_for_returned};

    #[test]
    fn parts_of_an_order_owe_all_that_paid_it() {
        for (paid, quantity, expected) in [
            (100, 3, vec![33, 33, 34]),
            (2, 3, vec![0, 1, 1]),
            (0, 2, vec![0, 0]),
            (i64::MAX, 1, vec![i64::MAX]),
        ] {
            let owed = |returned| owed_for_returned(paid, returned, quantity);
            let parts: Vec<_> = (1..=quantity).map(|n| owed(n) - owed(n - 1)).collect();
            assert_eq!(parts, expected, "{paid} for {quantity}");
            assert_eq!(parts.iter().sum::<i64>(), paid);
        }
        assert_eq!(owed_for_returned(i64::MAX, u32::MAX, u32::MAX), i64::MAX);
        assert_eq!(owed_for_returned(7, 9, 3), 7);
        assert_eq!(owed_for_returned(7, 0, 0), 0);
    }

    #[test]
    fn every_step_from_every_state() {
        let allowed = [
            (Held, Pay, Paid),
            (Held, Cancel, Cancelled),
            (Held, Expire, Expired),
            (Expired, Reinstate, Paid),
            (Paid, Return, Returned),
            (Held, ExtendHold, Held),
        ];
        for from in [Held, Paid, Cancelled, Expired, Returned] {
            for step in [Pay, Cancel, Expire, Reinstate, Return, ExtendHold] {
                let expected = allowed
                    .iter()
                    .find(|a| (a.0, a.1) == (from, step))
                    .map(|a| a.2);
                assert_eq!(from.after(step).ok(), expected, "{from} {step}");
            }
        }
    }
}
