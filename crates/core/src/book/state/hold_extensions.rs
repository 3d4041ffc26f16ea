//! Extended holds of a campaign's orders.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::time::Timestamp;

/// Extension of one order's hold.
#[derive(Debug, Clone, Copy)]
struct HoldExtension {
    extension_ms: i64,
    /// End of the hold, without downtimes; `None` once the order is no longer held.
    until: Option<Timestamp>,
}

/// Extensions by order. Orders with extended holds expire out of the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct HoldExtensions {
    extensions: HashMap<u32, HoldExtension>,
    /// Ends of the extended holds of held orders, and the orders' numbers.
    held: BTreeSet<(Timestamp, u32)>,
}

impl HoldExtensions {
    /// Milliseconds by which the hold of an order was extended; 0 if it was not.
    pub(super) fn extension_ms(&self, number: u32) -> i64 {
        let extension = self.extensions.get(&number);
        extension.map_or(0, |extension| extension.extension_ms)
    }

    /// Extended holds of held orders: ends without downtimes, ascending, and numbers.
    pub(super) fn held(&self) -> impl Iterator<Item = (Timestamp, u32)> + use<'_> {
        self.held.iter().copied()
    }

    /// Number of extended holds of held orders.
    pub(super) fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Adds the extension of an order, which ends at `until` if the order is held.
    pub(super) fn add(&mut self, number: u32, extension_ms: i64, until: Option<Timestamp>) {
        self.end(number);
        self.held.extend(until.map(|until| (until, number)));
        let extension = HoldExtension {
            extension_ms,
            until,
        };
        self.extensions.insert(number, extension);
    }

    /// Ends the hold of an order.
    pub(super) fn end(&mut self, number: u32) {
        let extension = self.extensions.get_mut(&number);
        if let Some(until) = extension.and_then(|extension| extension.until.take()) {
            self.held.remove(&(until, number));
        }
    }
}
