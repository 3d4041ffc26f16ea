//! Orders: payments, extended holds, cancellations and returns.

use super::{Book, OrderView, PaymentOutcome, Refusal, Reply};
use crate::{
    event::{Entry, Event},
    id::{OrderId, PaymentRef},
    order::{
        EXTENDED_HOLDS_MAX, OrderState, OrderStep, PartKind, REFUNDS_DUE_MAX, RETURNS_MAX,
        ReturnPart,
    },
    payment::{PaymentState, ReceivedMoney},
    time::Timestamp,
};

impl Book {
    pub(super) fn pay(
        &mut self,
        now: Timestamp,
        id: OrderId,
        (payment, paid_at, (received, cancelled)): (
            &PaymentRef,
            Option<Timestamp>,
            (ReceivedMoney, u32),
        ),
        log: &mut Vec<Entry>,
    ) -> Result<Reply, Refusal> {
        let known = self.campaigns.get(&id.campaign);
        let state = known.ok_or(Refusal::UnknownOrder)?;
        let view = state.order(id.number).ok_or(Refusal::UnknownOrder)?;
        let outcome = match state.payment(id.number, payment) {
            Some(before) => before,
            // There is nothing to pay: no money is received, and no refund is due.
            None if received == ReceivedMoney::Price && view.is_paid_for_nothing() => {
                PaymentOutcome::Paid
            }
            None => {
                let order = view.grant.order.ok_or(Refusal::UnknownOrder)?;
                let is_priced = cancelled == 0 || received != ReceivedMoney::Price;
                if order.cancelled_quantity != cancelled || !is_priced {
                    return Err(Refusal::OrderChanged);
                }
                // Clocks differ: no payment is later than its report.
                let paid_at = paid_at.map_or(now, |paid_at| paid_at.min(now));
                let granted_at = view.grant.granted_at;
                let hold_ms = order.hold_until.millis_since(granted_at);
                let held_until = self.agenda.held_until(granted_at, hold_ms);
                // If the hold was over, its units belong to the stock. The payment may still find them there.
                let pays = received.pays();
                let expires = pays && order.state == OrderState::Held && paid_at >= held_until;
                let outcome = match pays {
                    true => state.decide_payment(id.number, (&view.user, now), expires),
                    false => PaymentOutcome::RefundDue,
                };
                let is_full = state.payments.refunds_due(id.number) >= REFUNDS_DUE_MAX;
                if is_full && outcome == PaymentOutcome::RefundDue {
                    return Err(Refusal::TooManyPayments);
                }
                if expires {
                    let event = Event::Expired { number: id.number };
                    self.record(now, id.campaign, event, log);
                }
                let (number, payment) = (id.number, payment.clone());
                let state = PaymentState { outcome, received };
                let event = Event::payment_recorded(number, payment, state);
                self.record(now, id.campaign, event, log);
                outcome
            }
        };
        let view = self.order(id).ok_or(Refusal::UnknownOrder)?;
        Ok(Reply::Payment(outcome, view))
    }

    /// Extends the hold of a held order: [`Command::ExtendHold`](super::Command::ExtendHold).
    pub(super) fn extend_hold(
        &mut self,
        now: Timestamp,
        id: OrderId,
        extension_ms: i64,
        log: &mut Vec<Entry>,
    ) -> Result<OrderView, Refusal> {
        let number = id.number;
        let known = self.campaigns.get(&id.campaign);
        let state = known.ok_or(Refusal::UnknownOrder)?;
        let view = state.order(number).ok_or(Refusal::UnknownOrder)?;
        let order = view.grant.order.ok_or(Refusal::UnknownOrder)?;
        let before = order.extension_ms;
        // The hold is already extended by this time: a retry is a replay.
        if before > 0 && before == extension_ms {
            return Ok(view);
        }
        order.state.after(OrderStep::ExtendHold)?;
        if before > 0 {
            return Err(Refusal::AlreadyExtended {
                extension_ms: before,
            });
        }
        let max_ms = state.hold_ms();
        if !(1..=max_ms).contains(&extension_ms) {
            return Err(Refusal::ExtensionOutOfRange { max_ms });
        }
        if now >= self.agenda.held_until(view.grant.granted_at, max_ms) {
            return Err(Refusal::HoldOver);
        }
        if state.payments.extended_holds() >= EXTENDED_HOLDS_MAX as usize {
            return Err(Refusal::TooManyExtensions);
        }
        let event = Event::HoldExtended {
            number,
            extension_ms,
        };
        self.record(now, id.campaign, event, log);
        self.order(id).ok_or(Refusal::UnknownOrder)
    }

    pub(super) fn cancel(
        &mut self,
        now: Timestamp,
        id: OrderId,
        part: Option<&ReturnPart>,
        log: &mut Vec<Entry>,
    ) -> Result<OrderView, Refusal> {
        let number = id.number;
        let known = self.campaigns.get(&id.campaign);
        let state = known.ok_or(Refusal::UnknownOrder)?;
        let view = state.order(number).ok_or(Refusal::UnknownOrder)?;
        if view.is_paid_for_nothing() {
            return self.return_order(now, id, part, log);
        }
        if let Some(part) = part {
            let kind = PartKind::Cancellation;
            match state.payments.has_part(number, kind, part) {
                Some(true) => return Ok(view),
                Some(false) => return Err(Refusal::KeyReused),
                None => {}
            }
            let order = view.grant.order.ok_or(Refusal::UnknownOrder)?;
            let left = view.grant.quantity;
            // A cancelled order has no unit left: a retry of its last cancellation changes nothing.
            if order.state != OrderState::Cancelled {
                order.state.after(OrderStep::Cancel)?;
                if part.quantity == 0 || part.quantity > left {
                    return Err(Refusal::CancelTooLarge { left });
                }
            }
            if order.state == OrderState::Held && part.quantity < left {
                if state.payments.count_parts(number) >= RETURNS_MAX {
                    return Err(Refusal::TooManyReturns);
                }
                let part = part.clone();
                let event = Event::PartCancelled { number, part };
                self.record(now, id.campaign, event, log);
                return self.order(id).ok_or(Refusal::UnknownOrder);
            }
        }
        let event = Event::Cancelled { number };
        self.step(now, id, OrderStep::Cancel, event, log)
    }

    /// Returns a paid order, or some of its units: [`Command::Return`](super::Command::Return).
    pub(super) fn return_order(
        &mut self,
        now: Timestamp,
        id: OrderId,
        part: Option<&ReturnPart>,
        log: &mut Vec<Entry>,
    ) -> Result<OrderView, Refusal> {
        let number = id.number;
        let event = Event::Returned {
            number,
            part: part.cloned(),
        };
        let Some(part) = part else {
            return self.step(now, id, OrderStep::Return, event, log);
        };
        let known = self.campaigns.get(&id.campaign);
        let state = known.ok_or(Refusal::UnknownOrder)?;
        let view = state.order(number).ok_or(Refusal::UnknownOrder)?;
        match state.payments.has_part(number, PartKind::Return, part) {
            Some(true) => return Ok(view),
            Some(false) => return Err(Refusal::KeyReused),
            None => {}
        }
        let order = view.grant.order.ok_or(Refusal::UnknownOrder)?;
        order.state.after(OrderStep::Return)?;
        let left = view.grant.quantity - order.returned_quantity;
        if part.quantity == 0 || part.quantity > left {
            return Err(Refusal::ReturnTooLarge { left });
        }
        if state.payments.count_parts(number) >= RETURNS_MAX {
            return Err(Refusal::TooManyReturns);
        }
        self.record(now, id.campaign, event, log);
        self.order(id).ok_or(Refusal::UnknownOrder)
    }

    /// Makes a step that restocks units. If the order has made it before, it does not change: a retry is a replay.
    fn step(
        &mut self,
        now: Timestamp,
        id: OrderId,
        step: OrderStep,
        event: Event,
        log: &mut Vec<Entry>,
    ) -> Result<OrderView, Refusal> {
        let view = self.order(id).ok_or(Refusal::UnknownOrder)?;
        let order = view.grant.order.ok_or(Refusal::UnknownOrder)?;
        let made = match step {
            OrderStep::Return => OrderState::Returned,
            _ => OrderState::Cancelled,
        };
        if order.state != made {
            order.state.after(step)?;
            self.record(now, id.campaign, event, log);
        }
        self.order(id).ok_or(Refusal::UnknownOrder)
    }
}
