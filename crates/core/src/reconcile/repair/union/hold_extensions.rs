//! Extended holds of orders in the union. Each order is extended once, as long as it is held.

use super::*;

impl Union<'_> {
    /// Extends the hold of a held order, unless it is extended. Extensions precede the order's other steps.
    pub(super) fn extend_hold(&mut self, number: u32, extension_ms: i64) {
        let row = self.rows.grants.get_mut(&number);
        let is_open = |row: &&mut GrantRow| row.state == OrderState::Held && row.extension_ms == 0;
        if let Some(row) = row.filter(is_open)
            && extension_ms > 0
        {
            row.extension_ms = extension_ms;
            self.steps_made += 1;
        }
    }

    /// Extends holds that nodes have extended, of this order or of all.
    pub(super) fn extend_kept(&mut self, of: Option<u32>) {
        for entry in self.survey.kept {
            if let Event::HoldExtended {
                number,
                extension_ms,
            } = entry.event
                && of.is_none_or(|of| of == number)
            {
                self.extend_hold(number, extension_ms);
            }
        }
    }

    /// The extension of an order's hold, if the settled order lacks it.
    pub(super) fn extension_beyond(
        &self,
        number: u32,
        row: &GrantRow,
        settled: &PartRows,
    ) -> Option<Event> {
        let known = settled.grants.get(&number);
        let is_new = known.is_none_or(|known| known.extension_ms == 0);
        (is_new && row.extension_ms > 0).then_some(Event::HoldExtended {
            number,
            extension_ms: row.extension_ms,
        })
    }
}
