//! Outcome of an audit.

use std::collections::BTreeSet;

use qiang_audit::AuditFindings;
use serde_json::Value;

/// Broken checks, and the whole report as JSON.
pub(crate) fn broken(report: &AuditFindings) -> (BTreeSet<String>, Value) {
    let json = serde_json::to_value(report).unwrap();
    let checks = json["checks"].as_array().unwrap();
    let broken: BTreeSet<String> = checks
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(json["ok"], broken.is_empty());
    (broken, json)
}

/// Error of an audit: one line without any password.
pub(crate) fn refusal(audited: anyhow::Result<AuditFindings>) -> String {
    let text = match audited {
        Ok(report) => panic!("{report}"),
        Err(error) => format!("{error:#}"),
    };
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!text.contains("secret"), "{text}");
    text
}
