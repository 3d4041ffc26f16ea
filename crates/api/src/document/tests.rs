//! Rules that the whole document keeps, so that generators and linters accept it.

use std::collections::{BTreeMap, BTreeSet};

use qiang_wire::problem::ProblemKind;
use serde_json::{Value, json};

use super::{list, open_words, tags};
use crate::router::document;

/// Operations of paths and webhooks.
fn all_operations(document: &Value) -> Vec<&Value> {
    let webhooks = document["webhooks"].as_object().into_iter().flatten();
    let webhooks = webhooks.map(|(_, item)| &item["post"]);
    open_words::operations(document).chain(webhooks).collect()
}

fn id(operation: &Value) -> &str {
    operation["operationId"].as_str().unwrap()
}

#[test]
fn each_tag_is_declared_and_used() {
    let document = document();
    let operations = all_operations(&document);
    let used = operations.into_iter().flat_map(|it| list(&it["tags"]));
    let used: BTreeSet<_> = used.map(|tag| tag.as_str().unwrap()).collect();
    let declared = list(&document["tags"]);
    let declared: BTreeSet<_> = declared
        .inspect(|tag| assert!(tag["description"].is_string(), "{tag}"))
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    assert_eq!(declared, used);
}

#[test]
fn each_operation_has_one_tag_a_summary_and_a_description() {
    let document = document();
    for operation in all_operations(&document) {
        assert_eq!(list(&operation["tags"]).count(), 1, "{}", id(operation));
        for field in ["summary", "description"] {
            assert!(
                operation[field]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{}: {field}",
                id(operation)
            );
        }
    }
}

/// Generators write a file per tag, with a function per operation.
#[test]
fn no_file_of_a_generator_overwrites_another() {
    let document = document();
    let plain = |text: &str| {
        text.to_lowercase()
            .replace(|char: char| !char.is_ascii_alphanumeric(), "")
    };
    let mut ids = BTreeSet::new();
    let mut tags_of_files = BTreeMap::new();
    for operation in all_operations(&document) {
        assert!(ids.insert(plain(id(operation))), "{}", id(operation));
        let tag = operation["tags"][0].as_str().unwrap();
        assert_eq!(*tags_of_files.entry(plain(tag)).or_insert(tag), tag);
    }
    for operation in open_words::operations(&document) {
        assert_ne!(
            operation["tags"],
            json!([tags::EVENTS]),
            "{}",
            id(operation)
        );
    }
    for (_, item) in document["webhooks"].as_object().unwrap() {
        assert_eq!(item["post"]["tags"], json!([tags::EVENTS]));
    }
}

#[test]
fn no_schema_hides_a_global_of_javascript() {
    const GLOBALS: &str = "Array ArrayBuffer BigInt Blob Boolean Date Error Event EventSource Exclude Extract File \
        FormData Function Headers Infinity Iterator JSON Map Math NaN Number Object Omit Parameters Partial Pick \
        Promise Proxy Readonly Record Reflect RegExp Request Required Response Set String Symbol URL URLSearchParams \
        WeakMap WeakSet Window";
    let document = document();
    let globals: BTreeSet<_> = GLOBALS.split_whitespace().collect();
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(!globals.contains(name.as_str()), "{name}");
    }
}

/// A closed enum in an answer breaks clients when a word is added.
#[test]
fn enums_of_answers_are_open_and_those_of_requests_are_not() {
    fn check(value: &Value, at: &str, schemas: &serde_json::Map<String, Value>) {
        let name = value["$ref"].as_str().and_then(|it| it.rsplit('/').next());
        let named = name.and_then(|name| schemas.get(name));
        let is_closed = open_words::is_words(value) || named.is_some_and(open_words::is_words);
        assert!(!is_closed, "{at}: {value}");
        // `anyOf` of the known words and a string.
        let is_open = list(&value["anyOf"])
            .any(|part| part["type"] == "string" || part["type"][0] == "string");
        match value {
            _ if is_open => {}
            Value::Object(object) => object
                .iter()
                .for_each(|(key, part)| check(part, &format!("{at}/{key}"), schemas)),
            Value::Array(parts) => parts.iter().for_each(|part| check(part, at, schemas)),
            _ => {}
        }
    }
    let document = document();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (mut answered, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for operation in open_words::operations(&document) {
        open_words::collect(&operation["responses"], schemas, &mut answered);
        open_words::collect(&operation["requestBody"], schemas, &mut asked);
        open_words::collect(&operation["parameters"], schemas, &mut asked);
    }
    for name in &answered {
        if !open_words::is_words(&schemas[name]) {
            check(&schemas[name], name, schemas);
        }
    }
    for name in asked
        .iter()
        .filter(|name| !open_words::is_words(&schemas[*name]))
    {
        let text = schemas[name].to_string();
        assert!(
            !text.contains("\"anyOf\""),
            "{name} is open in requests: {text}"
        );
    }
}

#[test]
fn schemas_are_as_tight_as_the_service() {
    let document = document();
    let schema = |name: &str, property: &str| {
        &document["components"]["schemas"][name]["properties"][property]
    };
    for (name, property, minimum, maximum) in [
        ("NewSale", "hold_seconds", json!(1), json!(2_592_000)),
        ("NewSale", "per_user_limit", json!(1), json!(u32::MAX)),
        ("NewRedPacket", "shares", json!(1), json!(10_000_000)),
        ("SaleChange", "per_user_limit", json!(1), json!(u32::MAX)),
        ("NewOrder", "quantity", json!(1), json!(u32::MAX)),
        ("Order", "number", json!(1), json!(u32::MAX)),
        ("Claim", "number", json!(1), json!(u32::MAX)),
    ] {
        let found = schema(name, property);
        assert_eq!(
            (&found["minimum"], &found["maximum"]),
            (&minimum, &maximum),
            "{name}.{property}: {found}"
        );
    }
    let order = schema("Order", "id")["pattern"].as_str().unwrap();
    assert!(
        order.ends_with("-[1-9][0-9]{0,9}$") && order.contains("-7[0-9a-f]{3}-"),
        "{order}"
    );
    for (name, property) in [
        ("Sale", "id"),
        ("Order", "campaign"),
        ("Deposit", "id"),
        ("Webhook", "id"),
    ] {
        let pattern = schema(name, property)["pattern"].as_str();
        assert!(
            pattern.is_some_and(|it| it.contains("-7[0-9a-f]{3}-")),
            "{name}.{property}"
        );
    }
}

#[test]
fn the_document_names_the_service_the_project_and_the_signature() {
    let document = document();
    assert!(
        list(&document["servers"]).count() > 0 && document["info"]["contact"]["name"].is_string()
    );
    let report = &document["paths"]["/v1/payments"]["post"];
    for name in ["webhook-id", "webhook-timestamp"] {
        assert!(
            list(&report["parameters"]).any(|it| it["name"] == name && it["in"] == "header"),
            "{name}"
        );
    }
    let challenge = document["components"]["schemas"]["Challenge"].to_string();
    let parameters = &document["components"]["schemas"]["ChallengeParameters"]["properties"];
    assert!(challenge.contains("ChallengeParameters") && parameters["difficulty"]["maximum"] == 32);
}

#[test]
fn the_types_of_problems_are_those_that_are_answered() {
    let document = document();
    let types = &document["components"]["schemas"]["ProblemType"]["enum"];
    let named: Vec<_> = list(types).filter_map(Value::as_str).collect();
    let kinds: Vec<_> = ProblemKind::ALL.iter().map(|kind| kind.path()).collect();
    assert_eq!(named, kinds);
    let field = &document["components"]["schemas"]["Problem"]["properties"]["type"];
    // Later services may have further types.
    assert_eq!(
        field["anyOf"][0]["$ref"],
        "#/components/schemas/ProblemType"
    );
    // Each problem is the answer of some operation, except for these.
    let text = document["paths"].to_string();
    let elsewhere = [
        ProblemKind::MethodNotAllowed,
        ProblemKind::UriTooLong,
        ProblemKind::HeadTooLarge,
        ProblemKind::TooManyConnections,
    ];
    let elsewhere = elsewhere.map(ProblemKind::path);
    for path in kinds.into_iter().filter(|path| !elsewhere.contains(path)) {
        assert!(
            text.contains(&format!("\"{path}\"")),
            "no operation answers {path}"
        );
    }
}
