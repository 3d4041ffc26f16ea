//! Webhook events of settled entries, for campaigns that an endpoint watches.

use std::collections::HashMap;

use super::{
    plan::{Planner, SettlementPlan},
    rows::KnownCampaign,
};
use crate::{
    campaign::Phase,
    event::{Entry, Event},
    rows::{Contradiction, EventCondition, EventRow},
    webhook::EventType,
};

impl<'a> Planner<'a> {
    /// Plans the event of an entry that was just settled, if an endpoint may want it.
    pub(super) fn record_webhook_event(&mut self, entry: &'a Entry) -> Result<(), Contradiction> {
        let Some(known) = self.known_campaign(entry).filter(|known| known.watched) else {
            return Ok(());
        };
        if let Event::Granted { .. } | Event::Reinstated { .. } = entry.event {
            self.last_grants.insert(known.campaign_ref, entry);
        }
        let Some(kind) = type_of(entry) else {
            return Ok(());
        };
        let change = campaign_change(entry, known);
        if kind == EventType::CampaignOpened && known.phase != Phase::Draft
            || kind == EventType::CampaignChanged && change.is_none()
        {
            return Ok(());
        }
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
            condition: match kind {
                EventType::CampaignOpened => Some(EventCondition::Opened),
                EventType::CampaignClosed => Some(EventCondition::Closed),
                _ => None,
            },
        };
        if let Some((name, condition)) = change {
            (row.payment, row.condition) = (Some(name), condition);
        }
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

impl SettlementPlan<'_> {
    /// Plans events of campaigns whose last unit may be granted by these changes. Each comes after the last grant of
    /// its campaign. `last_grants` has the last entry of each watched campaign that granted units, by `ref`.
    pub(super) fn record_sold_out(&mut self, source: i64, last_grants: &HashMap<i64, &Entry>) {
        for change in &self.campaigns {
            let Some(entry) = last_grants.get(&change.campaign) else {
                continue;
            };
            let seq = entry.seq as i64; // a place in a log
            let row = EventRow {
                source,
                seq,
                kind: EventType::CampaignSoldOut,
                at: entry.at.as_millis(),
                campaign: change.campaign,
                number: None,
                user: None,
                quantity: 0,
                amount: 0,
                payment: None,
                currency: None,
                condition: Some(EventCondition::SoldOut {
                    granted: change.granted,
                    supply: change.supply,
                }),
            };
            let grant = self.told.iter().rposition(|told| told.seq == seq);
            let place = grant.map_or(self.told.len(), |place| place + 1);
            self.told.insert(place, row);
        }
    }
}

/// Word of a change of a campaign, and the condition of its event. `None` if the entry reports no change of its own.
fn campaign_change(
    entry: &Entry,
    known: &KnownCampaign,
) -> Option<(&'static str, Option<EventCondition>)> {
    let to_phase = |phase: Phase| {
        let condition = Some(EventCondition::Phase(phase));
        let word = match phase {
            Phase::Scheduled => "resumed",
            phase => phase.name(),
        };
        (known.phase != phase).then_some((word, condition))
    };
    match &entry.event {
        Event::Paused => to_phase(Phase::Paused),
        Event::Resumed => to_phase(Phase::Scheduled),
        Event::StockChanged { .. } => Some(("stock", None)),
        // Each shard logs the change of the first one.
        Event::TermsChanged { revision, .. } => (*revision == entry.seq).then_some(("terms", None)),
        _ => None,
    }
}

/// Type of an entry's event. A grant counts as an order here.
fn type_of(entry: &Entry) -> Option<EventType> {
    Some(match &entry.event {
        Event::Granted { .. } => EventType::OrderHeld,
        Event::Paid { .. } | Event::Reinstated { .. } => EventType::OrderPaid,
        Event::Cancelled { .. } | Event::PartCancelled { .. } => EventType::OrderCancelled,
        Event::Expired { .. } => EventType::OrderExpired,
        Event::HoldExtended { .. } => EventType::OrderHoldExtended,
        Event::Returned { .. } => EventType::OrderReturned,
        Event::RefundDue { .. } => EventType::OrderRefundDue,
        Event::Closed { .. } => EventType::CampaignClosed,
        Event::Opened { .. } => EventType::CampaignOpened,
        Event::Paused
        | Event::Resumed
        | Event::StockChanged { .. }
        | Event::TermsChanged { .. } => EventType::CampaignChanged,
        // The close follows.
        Event::Ended
        | Event::TransferredOut { .. }
        | Event::TransferredIn { .. }
        | Event::TransferReturned { .. }
        | Event::ChangeMade { .. } => return None,
    })
}
