//! What whoever is signed in may do.

use serde_json::Value;

/// Whoever has one of these finds something to do at the desk.
const SCOPES: [&str; 3] = ["campaigns:write", "campaigns:write:any", "read:any"];

/// Whether a session is of somebody who finds something to do at the desk.
pub(crate) fn is_operator(session: &Value) -> bool {
    SCOPES.iter().any(|scope| may(session, scope))
}

/// Whether a session has a scope.
pub(crate) fn may(session: &Value, scope: &str) -> bool {
    scopes(session).contains(&scope)
}

/// What a session has; nothing where nobody is signed in.
pub(crate) fn scopes(session: &Value) -> Vec<&str> {
    let scopes = session["scopes"].as_array().into_iter().flatten();
    scopes.filter_map(Value::as_str).collect()
}
