//! Answers of nodes in the union, independent of their order.

use super::*;

impl Union<'_> {
    /// Adds entries that nodes have answered and the log lacks, in the order of the log. Steps that depend on others
    /// are repeated until none can be applied.
    ///
    /// Nodes know only the positions of grants, and steps come in any order. Payments come first: a return needs the
    /// payment, and a later grant may need the units that the return restocks.
    pub(in crate::reconcile::repair) fn add_kept(&mut self) {
        let mut kept: Vec<&Entry> = self.survey.kept.iter().collect();
        kept.sort_by_key(|entry| entry.seq);
        let mut paying: BTreeMap<Option<u32>, Vec<&Event>> = BTreeMap::new();
        for entry in &kept {
            if matches!(entry.event, Event::Paid { .. }) {
                let of_order = paying.entry(entry.event.number()).or_default();
                of_order.push(&entry.event);
            }
        }
        self.extend_kept(None);
        for event in paying.values().flatten() {
            self.add_step(event);
        }
        for entry in &kept {
            match entry.event {
                Event::Granted { .. } => {
                    self.add_grant(entry);
                    self.extend_kept(entry.event.number());
                    let payments = paying.get(&entry.event.number());
                    for event in payments.into_iter().flatten() {
                        self.add_step(event);
                    }
                }
                _ => self.add_step(&entry.event),
            }
        }
        let mut before = None;
        while before != Some(self.steps_made) {
            before = Some(self.steps_made);
            for entry in &kept {
                self.add_step(&entry.event);
            }
        }
        for entry in &kept {
            match &entry.event {
                Event::Returned { number, part: None } => self.add_unpaid_return(*number),
                event @ (Event::Paid { number, .. } | Event::Reinstated { number, .. }) => {
                    if let Some(paid) = event.payment() {
                        self.add_late_payment(*number, paid);
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles a returned order whose payment is unknown: its units are restocked. If the payment is reported again, a
    /// refund is due.
    fn add_unpaid_return(&mut self, number: u32) {
        let row = self.rows.grants.get(&number);
        if row.is_some_and(|row| row.state == OrderState::Held) {
            self.advance(number, OrderState::Cancelled);
        }
    }
}
