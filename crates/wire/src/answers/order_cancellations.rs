//! Body of the answer about the cancellation of many orders.

use crate::bodies::bodies;

bodies! {
    /// Result of one part of a cancellation of many orders.
    OrderCancellations {
        /// Orders of this part, which were found held.
        matched: u32,
        /// Orders of this part that are cancelled.
        cancelled: u32,
        /// Orders of this part that did not change: the sum of `refusals`.
        unchanged: u32,
        /// Orders of this part that did not change, by reason.
        refusals: CancellationRefusals,
        /// Cursor of the next part; absent after the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<String>,
        /// Whether the ledger had all orders. If not, repeat the cancellation later for the newest ones.
        settled: bool,
    }
    /// Orders that a cancellation did not change, by reason.
    CancellationRefusals {
        /// They were paid at that moment.
        paid: u32,
        /// They had expired at that moment.
        expired: u32,
        /// They were paid and returned at that moment.
        returned: u32,
        /// The engine does not have them, though the ledger does: `qiang reconcile` compares the two.
        unknown: u32,
    }
}
