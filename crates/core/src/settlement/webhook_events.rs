//! Webhook events of settled entries, for campaigns that an endpoint watches.

use super::plan::Planner;
use crate::{
    event::{Entry, Event},
    rows::{Contradiction, EventRow},
    webhook::EventType,
};

impl<'a> Planner<'a> {
    /// Plans the event of an entry that was just settled, if an endpoint may want it.
    pub(super) fn record_webhook_event(&mut self, entry: &'a Entry) -> Result<(), Contradiction> {
        let known = self.known_campaign(entry);
        let Some((known, kind)) = known.filter(|known| known.watched).zip(type_of(entry)) else {
            return Ok(());
        };
        let mut row = EventRow {
            source: self.source,
            seq: entry.seq as i64, // a place in a log
            kind,
            at: entry.at.as_millis(),
            campaign: known.campaign_ref,
            number: entry.event.number().map(i64::from),
            user: None,
            quantity: 0,
            amount: 0,
            payment: None,
            currency: None,
        };
        match &entry.event {
            Event::Granted {
                user,
                quantity,
                amount_minor,
                ..
            } => {
                row.user = Some(user.as_str());
                (row.quantity, row.amount) = (i64::from(*quantity), *amount_minor);
                if known.kind == crate::campaign::CampaignKind::RedPacket {
                    row.kind = EventType::ShareGranted;
                }
            }
            event => {
                if let Some(number) = event.number() {
                    let order = self.orders.row(known.campaign_ref, number)?;
                    row.user = Some(order.user);
                    (row.quantity, row.amount) = (order.quantity, order.amount);
                }
            }
        }
        if let Some((payment, state)) = entry.event.payment() {
            row.payment = Some(payment.as_str());
            if let Some(money) = state.received.other() {
                (row.amount, row.currency) = (money.minor, Some(money.currency.code()));
            }
        }
        if let Event::Returned { .. } | Event::PartCancelled { .. } = entry.event {
            (row.quantity, row.amount) = self.last_part;
        }
        self.plan.told.push(row);
        Ok(())
    }
}

/// Type of an entry's event. A grant counts as an order here.
fn type_of(entry: &Entry) -> Option<EventType> {
    Some(match &entry.event {
        Event::Granted { .. } => EventType::OrderHeld,
        Event::Paid { .. } | Event::Reinstated { .. } => EventType::OrderPaid,
        Event::Cancelled { .. } | Event::PartCancelled { .. } => EventType::OrderCancelled,
        Event::Expired { .. } => EventType::OrderExpired,
        Event::Returned { .. } => EventType::OrderReturned,
        Event::RefundDue { .. } => EventType::OrderRefundDue,
        Event::Closed { .. } => EventType::CampaignClosed,
        Event::Opened { .. }
        | Event::Paused
        | Event::Resumed
        | Event::Ended
        | Event::TransferredOut { .. }
        | Event::TransferredIn { .. }
        | Event::TransferReturned { .. }
        | Event::StockChanged { .. }
        | Event::TermsChanged { .. }
        | Event::ChangeMade { .. } => return None,
    })
}
