//! Tags of operations, with what each group is about.

use serde_json::{Value, json};

/// Tag of the requests that the service sends. It differs from that of the endpoints' own operations, because
/// generators write one file per tag.
pub(super) const EVENTS: &str = "webhook events";

const TAGS: [(&str, &str); 11] = [
    (
        "sales",
        "Sales of limited stock, their orders and grab tickets.",
    ),
    (
        "red packets",
        "Red packets, their shares, server seeds and grab tickets.",
    ),
    (
        "campaigns",
        "Operations on campaigns of both kinds, and what users see of them live.",
    ),
    (
        "orders",
        "Orders of sales: payments, cancellations, returns and refunds.",
    ),
    (
        "accounts",
        "Accounts of users: balances, deposits, withdrawals and histories.",
    ),
    ("session", "The session cookie of a browser."),
    ("webhooks", "Endpoints that receive events."),
    (EVENTS, "Requests that the service sends to endpoints."),
    ("actions", "The log of what users and operators requested."),
    (
        "operation",
        "Health, partitions, quarantine, audits and statistics, for operators.",
    ),
    ("problems", "Pages that explain the types of problems."),
];

/// Declared tags, in the order of a reader.
pub(super) fn declared() -> Value {
    TAGS.iter()
        .map(|(name, description)| json!({"name": name, "description": description}))
        .collect()
}
