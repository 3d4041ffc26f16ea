//! Body of the answer about the cancellation of many orders.

use crate::bodies::bodies;

bodies! {
    /// Result of one part of a cancellation of many orders.
    OrderCancellations {
        /// Orders of this part, which were found held.
        matched: u32,
        /// Orders of this part that are cancelled.
        cancelled: u32,
        /// Orders of this part that were paid or had expired at that moment. They did not change.
        unchanged: u32,
        /// Cursor of the next part; absent after the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<String>,
        /// Whether the ledger had all orders. If not, repeat the cancellation later for the newest ones.
        settled: bool,
    }
}
