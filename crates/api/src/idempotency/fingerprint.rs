//! Fingerprint of a request for its idempotency key: the path's parameter and the parsed body.
//!
//! It must not change between versions of the program, or retries across an update would be refused. So it is
//! computed from a canonical text: fields are sorted by name, null and absent fields are left out, and there are no
//! blanks. New fields of a body must be optional. The first byte is the version of the form; the others are bytes 2
//! to 32 of a SHA-256.

use qiang_core::{
    id::{IdempotencyKey, UserId},
    ports::KeyUse,
};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::http::problem::ApiProblem;

/// The version of the form. A new form gets a new number.
const VERSION: u8 = 1;

/// Use of a key for a request of this caller: the route, the path's parameter and the body.
pub(crate) fn key_use(
    caller: &UserId,
    route: &str,
    key: &IdempotencyKey,
    parameter: &str,
    body: &impl Serialize,
) -> KeyUse {
    let scope = format!("{caller} {route}");
    KeyUse::new(scope, key.clone(), fingerprint(parameter, body))
}

/// Key that is stored with an effect and outlives the table of idempotency keys: 32 hexadecimal digits. It depends on
/// the caller, the route and the request's key. It must never change.
///
/// # Errors
/// `bad-request` if the request has no key.
pub(crate) fn effect_key(used: Option<&KeyUse>) -> Result<IdempotencyKey, ApiProblem> {
    let missing = || {
        let detail = "a request for a part needs an `Idempotency-Key`: without one, a retry would be a second part";
        ApiProblem::bad_request(detail).in_parameter("Idempotency-Key")
    };
    let KeyUse { scope, key, .. } = used.ok_or_else(missing)?;
    let digest = Sha256::digest(format!("{scope}\n{key}"));
    let key = hex::encode(&digest[..16]);
    IdempotencyKey::new(&key).map_err(|error| ApiProblem::internal(error.to_string()))
}

/// Fingerprint of the path's parameter and the body.
pub(crate) fn fingerprint(parameter: &str, body: &impl Serialize) -> [u8; 32] {
    let mut text = String::new();
    // Bodies are structs of strings and numbers, which always serialise.
    write(&serde_json::to_value(body).unwrap_or_default(), &mut text);
    let mut fingerprint: [u8; 32] = hash(parameter, text.as_bytes());
    fingerprint[0] = VERSION;
    fingerprint
}

fn hash(parameter: &str, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((parameter.len() as u64).to_be_bytes());
    hash.update(parameter);
    hash.update(body);
    hash.finalize().into()
}

/// Writes a value in its canonical form.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (place, (name, value)) in fields.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(&Value::String(name.clone()), text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn neither_order_nor_what_is_not_given_matters() {
        #[derive(Serialize)]
        struct Now {
            title: &'static str,
            amount: i64,
        }
        #[derive(Serialize)]
        struct Later {
            amount: i64,
            note: Option<&'static str>,
            title: &'static str,
        }
        let now = fingerprint(
            "p",
            &Now {
                title: "a",
                amount: 1,
            },
        );
        let note = |note| Later {
            amount: 1,
            note,
            title: "a",
        };
        assert_eq!(fingerprint("p", &note(None)), now);
        assert_ne!(fingerprint("p", &note(Some("b"))), now);
        assert_ne!(fingerprint("q", &note(None)), now);
        assert_eq!(now[0], VERSION);
    }

    /// Ledgers contain effects with such keys.
    #[test]
    fn the_key_of_an_effect_never_changes() {
        let key = |text| IdempotencyKey::new(text).expect("a key");
        let user = UserId::new("ann").expect("a name");
        let route = "POST /v1/orders/{id}/return";
        let effect = |text, parameter, body: u32| {
            let used = key_use(&user, route, &key(text), parameter, &body);
            effect_key(Some(&used)).expect("it has a key").to_string()
        };
        assert_eq!(effect("k", "1", 1), "ae1f50576f7fb3a0632467b1f96d186b");
        // The table of keys compares the rest; an effect belongs to one order or one deposit.
        assert_eq!(effect("k", "2", 2), effect("k", "1", 1));
        assert_ne!(effect("l", "1", 1), effect("k", "1", 1));
        assert!(effect_key(None).is_err());
    }

    /// Ledgers contain such fingerprints. A change of the form needs a new version.
    #[test]
    fn the_form_of_a_version_never_changes() {
        let body = json!({
            "title": "恭喜\n", "total": {"currency": "CNY", "amount": 10_000}, "users": ["b", "a"], "ack": null,
            "draws": true,
        });
        let mut text = String::new();
        write(&body, &mut text);
        let canonical = r#"{"draws":true,"title":"恭喜\n","total":{"amount":10000,"currency":"CNY"},"users":["b","a"]}"#;
        assert_eq!(text, canonical);
        assert_eq!(
            hex::encode(fingerprint("id", &body)),
            "01e02bb46f72ebc887f66fdd7d52e12cb856986372b368145b70ff077fe9bf20"
        );
    }
}
