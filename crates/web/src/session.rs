//! Scopes of the signed-in user.

use serde_json::Value;

/// Scopes that open the desk; one of them is enough.
const SCOPES: [&str; 3] = ["campaigns:write", "campaigns:write:any", "read:any"];

/// Whether a session may use the desk.
pub(crate) fn is_operator(session: &Value) -> bool {
    SCOPES.iter().any(|scope| may(session, scope))
}

/// Whether a session has a scope.
pub(crate) fn may(session: &Value, scope: &str) -> bool {
    scopes(session).contains(&scope)
}

/// Scopes of a session; empty without a signed-in user.
pub(crate) fn scopes(session: &Value) -> Vec<&str> {
    let scopes = session["scopes"].as_array().into_iter().flatten();
    scopes.filter_map(Value::as_str).collect()
}
