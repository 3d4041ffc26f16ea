//! Entries that lead from the settled state to the union.

use super::*;

impl Union<'_> {
    /// Entries that lead from the settled state to the union. Entries that restock units come first.
    pub(in crate::reconcile::repair) fn entries_beyond(
        &self,
        settled: &PartRows,
    ) -> Vec<(Timestamp, Event)> {
        let mut entries = Vec::new();
        let (facts, now) = (self.facts(), self.survey.now);
        if settled.phase == Phase::Draft && self.rows.phase != Phase::Draft {
            entries.push((now, Event::Opened { parts: facts.parts }));
        }
        match (settled.phase, self.rows.phase) {
            (Phase::Draft | Phase::Scheduled, Phase::Paused) => entries.push((now, Event::Paused)),
            (Phase::Paused, Phase::Scheduled) => entries.push((now, Event::Resumed)),
            _ => {}
        }
        let (mut later, mut new) = (Vec::new(), Vec::new());
        // Orders that took their units again and returned them. They fit once all other leaving orders have left.
        let mut round_trips = Vec::new();
        for (number, row) in &self.rows.grants {
            let known = settled.grants.get(number);
            if known.is_none() {
                new.push((row.granted_at, granted(*number, row)));
            }
            let before = known.map_or(OrderState::Held, |known| known.state);
            let steps = self.steps(*number, before, row, settled);
            let is_return = |event: &Event| matches!(event, Event::Returned { .. });
            let returned = steps.iter().any(is_return);
            let is_taking = |event: &Event| matches!(event, Event::Reinstated { .. });
            let round_trip = returned && steps.iter().any(is_taking);
            for event in steps {
                let leaves = match event {
                    Event::Cancelled { .. }
                    | Event::PartCancelled { .. }
                    | Event::Expired { .. }
                    // An extension precedes the expiry of its order.
                    | Event::HoldExtended { .. } => true,
                    // The payment that precedes a return goes with it.
                    Event::Paid { .. } | Event::Returned { .. } => returned && !round_trip,
                    _ => false,
                };
                let at = now.max(row.granted_at.plus_millis(match event {
                    Event::Expired { .. } => facts.hold_ms.saturating_add(row.extension_ms),
                    _ => 0,
                }));
                match known {
                    None => new.push((at, event)),
                    Some(_) if leaves => entries.push((at, event)),
                    Some(_) if round_trip => round_trips.push((at, event)),
                    Some(_) => later.push((at, event)),
                }
            }
        }
        entries.append(&mut round_trips);
        entries.append(&mut later);
        entries.append(&mut new);
        if self.rows.phase == Phase::Closed && settled.phase != Phase::Closed {
            if settled.phase != Phase::Ended {
                entries.push((now, Event::Ended));
            }
            let (returned, refunded_minor) = self.remaining();
            entries.push((
                now,
                Event::Closed {
                    returned,
                    refunded_minor,
                },
            ));
        }
        entries
    }

    /// Remaining units, and remaining minor units of a packet.
    pub(super) fn remaining(&self) -> (u64, i64) {
        let claimed = match self.facts().kind {
            CampaignKind::RedPacket => self.rows.amount_minor(),
            CampaignKind::Sale => 0,
        };
        let units = self.supply.saturating_sub(self.granted);
        (units, self.funded_minor - claimed)
    }

    /// Events that lead an order from one state to another, and events of its new payments.
    fn steps(
        &self,
        number: u32,
        from: OrderState,
        row: &GrantRow,
        settled: &PartRows,
    ) -> Vec<Event> {
        let (mut events, to) = (Vec::new(), row.state);
        if self.facts().kind == CampaignKind::RedPacket {
            return events;
        }
        if from == OrderState::Held {
            let all = self.rows.cancellations_of(number);
            let new = all.filter(|(key, _)| {
                let key = (number, (*key).clone());
                !settled.cancellations.contains_key(&key)
            });
            events.extend(new.map(|(key, quantity)| {
                let key = key.clone();
                let part = ReturnPart { quantity, key };
                Event::PartCancelled { number, part }
            }));
            events.extend(self.extension_beyond(number, row, settled));
        }
        match (from, to) {
            (OrderState::Held, OrderState::Cancelled) => events.push(Event::Cancelled { number }),
            (OrderState::Held, OrderState::Expired) => events.push(Event::Expired { number }),
            (OrderState::Held | OrderState::Expired, OrderState::Paid | OrderState::Returned) => {
                if let Some((payment, state)) = self.rows.paid_by(number) {
                    let payment = payment.clone();
                    let reinstated = state.outcome == PaymentOutcome::Reinstated;
                    if reinstated && from == OrderState::Held {
                        events.push(Event::Expired { number });
                    }
                    let outcome = match reinstated || from == OrderState::Expired {
                        true => PaymentOutcome::Reinstated,
                        false => PaymentOutcome::Paid,
                    };
                    let state = PaymentState { outcome, ..state };
                    events.push(Event::payment_recorded(number, payment, state));
                    events.extend(self.returns(number, row));
                }
            }
            (OrderState::Paid, OrderState::Paid | OrderState::Returned) => {
                events.extend(self.returns(number, row));
            }
            _ => {}
        }
        for (payment, state) in self.rows.payments_of(number) {
            let known = settled.payments.contains_key(&(number, payment.clone()));
            if !known && state.outcome == PaymentOutcome::RefundDue {
                events.push(Event::payment_recorded(number, payment.clone(), state));
            }
        }
        events
    }
}

fn granted(number: u32, row: &GrantRow) -> Event {
    Event::Granted {
        number,
        user: row.user.clone(),
        quantity: row.claimed(),
        amount_minor: row.claimed_minor(),
        key: row.key.clone(),
    }
}
