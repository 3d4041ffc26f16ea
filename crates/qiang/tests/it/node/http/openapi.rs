//! docs/openapi.json equals the document of the API, and the document is true where a validator cannot check it.

use std::{collections::BTreeSet, path::Path};

use crate::node::http::common::{Reply, Service, call, post_form};
use futures_util::future::join_all;
use serde_json::{Value, json};

#[test]
fn the_committed_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap();
    let mut printed = serde_json::to_string_pretty(&qiang_api::document()).unwrap();
    printed.push('\n');
    assert!(
        committed == printed,
        "write it again with `cargo xtask openapi`"
    );
}

/// The rows of the table with this head in a documentation page.
fn rows(page: &str, head: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(path.join(page)).unwrap();
    let (_, table) = page.split_once(head).unwrap();
    let lines = table.trim_start().lines().skip(1);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(str::to_owned).collect()
}

#[test]
fn the_page_of_tokens_has_every_scope_and_no_other() {
    let table = rows("integrate/tokens.md", "| scope | allows | for |");
    let named = table.iter().map(|row| row.split('`').nth(1).unwrap());
    let scopes = qiang_api::Scope::ALL.map(|scope| scope.name());
    assert_eq!(named.collect::<Vec<_>>(), scopes);
}

#[test]
fn the_page_of_webhooks_has_every_event_and_no_other() {
    let document = qiang_api::document();
    let events = document["webhooks"].as_object().unwrap().iter();
    let row = |(name, event): (&String, &Value)| {
        format!(
            "| `{name}` | {} |",
            event["post"]["summary"].as_str().unwrap()
        )
    };
    let described: BTreeSet<_> = events.map(row).collect();
    let table = rows("integrate/webhooks.md", "| event | when |");
    assert_eq!(table.len(), described.len());
    assert_eq!(table.into_iter().collect::<BTreeSet<_>>(), described);
}

/// An operation of the document: method, path and description.
struct Operation {
    method: String,
    path: String,
    spec: Value,
}

impl Operation {
    fn all() -> Vec<Self> {
        let document = qiang_api::document();
        let mut all = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, spec) in item.as_object().unwrap() {
                all.push(Self {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    spec: spec.clone(),
                });
            }
        }
        all
    }

    fn id(&self) -> &str {
        self.spec["operationId"].as_str().unwrap()
    }

    fn scope(&self) -> Option<&str> {
        self.spec["security"][0]["bearer"][0].as_str()
    }

    fn is_public(&self) -> bool {
        self.spec["security"] == json!([{}])
    }

    fn body(&self) -> Option<Value> {
        let content = self.spec.get("requestBody")?["content"].as_object()?;
        content.values().next().map(|it| it["example"].clone())
    }

    /// Whether a payment service signs it, instead of sending a token.
    fn is_of_provider(&self) -> bool {
        self.path.starts_with("/v1/providers/")
    }

    /// Calls the operation with the example of its body, on a matching object.
    async fn call(&self, service: &Service, ids: &Ids, token: Option<&str>) -> Reply {
        let id = match &self.path {
            path if path.contains("/orders/{id}") => &ids.order,
            path if path.contains("/deposits/{id}") => &ids.deposit,
            path if path.contains("/sales/{id}") => &ids.sale,
            path if path.ends_with("/invitations") => &ids.invited,
            path if path.ends_with("/queue-entry") => &ids.line,
            path if path.contains("/webhooks/{id}") => &ids.webhook,
            path if path.contains("/audits/{id}") => &ids.audit,
            _ => &ids.packet,
        };
        let path = self.path.replace("{id}", id).replace("{user}", "sam");
        let path = path.replace("{reference}", "paid-before");
        let path = path.replace("{partition}", "0").replace("{entry}", "0-17");
        let path = path.replace("{account}", "main");
        let mut path = path.replace("{slug}", "sold-out");
        if path == "/v1/operation-log" {
            path += "?subject=sam";
        }
        if self.spec["requestBody"]["content"]
            .get("application/x-www-form-urlencoded")
            .is_some()
        {
            return post_form(service.addr, &path, token, "trade_no=1").await;
        }
        let mut body = self.body();
        if let (Some(body), "createSale") =
            (&mut body, self.spec["operationId"].as_str().unwrap_or(""))
            && body.is_object()
        {
            body["seller"] = json!("sam");
        }
        if let Some(sale) = body
            .as_mut()
            .and_then(|body| body.pointer_mut("/sales/0/sale"))
        {
            sale["seller"] = json!("sam");
        }
        if let Some(order) = body.as_mut().and_then(|body| body.get_mut("order")) {
            *order = json!(ids.order);
        }
        call(service.addr, &self.method, &path, token, &[], body).await
    }

    /// Checks the reply against the description: status, media type, required headers.
    #[track_caller]
    fn assert_describes(&self, reply: &Reply) {
        let id = self.id();
        let response = &self.spec["responses"][reply.status.to_string()];
        assert!(
            response.is_object(),
            "{id}: not described: {} {reply:?}",
            reply.status
        );
        let media_type = reply.header("content-type").split(';').next().unwrap();
        let described = response["content"].as_object();
        let described: Vec<_> = described
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .collect();
        assert!(
            described.iter().any(|it| *it == media_type) || described.is_empty(),
            "{id} {}: {media_type} is not one of {described:?}",
            reply.status
        );
        let headers = qiang_api::document()["components"]["headers"].clone();
        for (name, header) in response["headers"].as_object().unwrap() {
            let reference = header["$ref"].as_str().unwrap();
            let header = &headers[reference.rsplit('/').next().unwrap()];
            assert!(
                header["required"] == false || reply.headers.contains_key(name.as_str()),
                "{id} {}: no {name}: {reply:?}",
                reply.status
            );
        }
    }
}

struct Ids {
    packet: String,
    sale: String,
    order: String,
    deposit: String,
    /// A packet that requires an invitation.
    invited: String,
    /// A packet with the caller in its queue.
    line: String,
    webhook: String,
    audit: String,
}

/// Objects of the caller, `sam`.
async fn ids(service: &Service) -> Ids {
    // The price equals the amount in the example of a payment.
    let own = |body: &mut Value| {
        body["unit_price"]["amount"] = json!(10_000);
        body["seller"] = json!("sam");
    };
    let sale = service.sale(1_000, own).await;
    let path = format!("/v1/sales/{sale}/orders");
    let claim = service.token("sam", "claim");
    let order = service.act(&path, &claim).await.text("id");
    let other = service.act(&path, &service.token("ann", "claim")).await;
    let other = format!("/v1/orders/{}/payment", other.text("id"));
    let payment = crate::node::http::common::paid("paid-before", 10_000);
    let paid = service.post(&other, &service.operator(), payment).await;
    assert_eq!(paid.status, 200);
    let by_invitation = |body: &mut Value| body["audience"] = json!({"invitation": true});
    let in_line = |body: &mut Value| body["waiting_room"] = json!(true);
    let line = service.red_packet(9, in_line).await;
    let path = format!("/v1/red-packets/{line}/claims");
    assert_eq!(service.act(&path, &claim).await.status, 202);
    let path = "/v1/accounts/sam/deposits";
    let body = crate::node::http::common::deposit(1);
    let deposit = service.post(path, &service.operator(), body).await;
    let webhook = json!({"url": "https://localhost:9/"});
    let (operator, seller) = (service.operator(), service.token("sam", "campaigns:write"));
    let webhook = service
        .post("/v1/webhooks", &seller, webhook)
        .await
        .text("id");
    Ids {
        deposit: deposit.text("id"),
        audit: service.act("/v1/audits", &operator).await.text("id"),
        webhook,
        packet: service.red_packet(9, |_| ()).await,
        invited: service.red_packet(9, by_invitation).await,
        order,
        sale,
        line,
    }
}

/// Whether a name is a verb and a noun in camel case.
fn is_readable(id: &str) -> bool {
    let capitals = id.chars().filter(char::is_ascii_uppercase).count();
    id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_alphabetic())
        && (1..=3).contains(&capitals)
}

#[test]
fn every_operation_has_a_readable_name_of_its_own() {
    assert!(is_readable("createRedPacket") && !is_readable("create") && !is_readable("get_sale"));
    let mut seen = BTreeSet::new();
    for operation in Operation::all() {
        let id = operation.id().to_owned();
        let place = format!("{} {}", operation.method, operation.path);
        assert!(
            is_readable(&id),
            "{place}: operation_id = \"verbNoun\", not {id}"
        );
        assert!(
            seen.insert(id),
            "{place}: another operation has that operation_id"
        );
        let summary = operation.spec["summary"].as_str();
        assert!(summary.is_some_and(|text| !text.is_empty()), "{place}");
    }
}

#[test]
fn every_response_says_what_it_is_and_every_body_has_an_example() {
    for operation in Operation::all() {
        let id = operation.id();
        if let Some(body) = operation.body() {
            assert!(body.is_object(), "{id}: {body}");
        }
        for (status, response) in operation.spec["responses"].as_object().unwrap() {
            let text = response["description"].as_str().unwrap_or("");
            assert!(!text.is_empty(), "{id} {status}");
            assert!(
                response["headers"]["X-Request-Id"].is_object(),
                "{id} {status}"
            );
            for (media_type, content) in response["content"].as_object().into_iter().flatten() {
                let examples = content["examples"].as_object();
                assert!(
                    content.get("example").is_some() || examples.is_some_and(|all| !all.is_empty()),
                    "{id} {status}: no example of {media_type}"
                );
                assert_eq!(
                    content["schema"]["$ref"] == "#/components/schemas/Problem",
                    media_type == "application/problem+json",
                    "{id} {status}"
                );
            }
        }
    }
}

#[tokio::test]
async fn tokens_and_scopes_are_needed_where_it_says_so() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let ids = ids(&service).await;
    for operation in Operation::all() {
        let id = operation.id();
        let reply = operation.call(&service, &ids, None).await;
        operation.assert_describes(&reply);
        assert_eq!(operation.is_public(), reply.status != 401, "{id} {reply:?}");
        if operation.is_public() {
            continue;
        }
        let without = service.token("sam", "");
        let reply = operation.call(&service, &ids, Some(&without)).await;
        operation.assert_describes(&reply);
        let challenge = reply.header("www-authenticate").to_owned();
        match operation.scope() {
            Some(scope) => {
                reply.assert_problem(403, "forbidden");
                assert!(
                    challenge.ends_with(&format!("scope=\"{scope}\"")),
                    "{id} {challenge}"
                );
            }
            None => assert_ne!(reply.status, 403, "{id} {reply:?}"),
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn what_is_above_a_limit_is_described() {
    let service = Service::start().await;
    let ids = ids(&service).await;
    let service = service
        .restart_with(|config, _| {
            let limits = &mut config.limits;
            (
                limits.claims_per_address_per_second,
                limits.claims_per_address_burst,
            ) = (1, 1);
            (
                limits.reads_per_address_per_second,
                limits.reads_per_address_burst,
            ) = (1, 1);
        })
        .await;
    let machines = ["checkHealth", "checkReadiness", "readMetrics"];
    let limited = Operation::all();
    for operation in limited.iter().filter(|it| !machines.contains(&it.id())) {
        // At the same time, because a slow machine may take a second for each.
        let calls = (0..9).map(|_| operation.call(&service, &ids, None));
        let replies = join_all(calls).await;
        for reply in &replies {
            operation.assert_describes(reply);
        }
        let is_limited = replies.iter().any(|reply| reply.status == 429);
        assert!(is_limited, "{} is not limited", operation.id());
    }
    service.stop().await;
}

#[tokio::test]
async fn examples_of_requests_are_taken() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let ids = ids(&service).await;
    service.deposit("sam", 1_000_000).await;
    let mut operations = Operation::all();
    // Operations that end a campaign come last.
    let ends = ["closeCampaign", "deleteWebhook"];
    operations.sort_by_key(|operation| ends.contains(&operation.id()));
    for operation in operations {
        // The token has only the documented scope.
        let token = service.token("sam", operation.scope().unwrap_or("admin"));
        let reply = operation.call(&service, &ids, Some(&token)).await;
        operation.assert_describes(&reply);
        if operation.path.contains("{entry}") {
            reply.assert_problem(404, "not-quarantined");
            continue;
        }
        if operation.is_of_provider() {
            // The example has no signature.
            reply.assert_problem(401, "unauthenticated");
            continue;
        }
        if operation.id() == "reverseRefund" {
            // No refund has the reference of the example.
            reply.assert_problem(404, "not-found");
            continue;
        }
        assert!(
            [200, 201, 204, 304, 409].contains(&reply.status),
            "{} {reply:?}",
            operation.id()
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn other_methods_are_refused_and_the_answer_names_those_that_are_not() {
    let service = Service::start().await;
    let ids = ids(&service).await;
    let token = service.operator();
    let operations = Operation::all();
    for operation in &operations {
        let here = operations.iter().filter(|it| it.path == operation.path);
        let known: Vec<_> = here.map(|it| it.method.as_str()).collect();
        for method in ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "POST", "GET"] {
            if known.contains(&method) {
                continue;
            }
            let other = Operation {
                method: method.to_owned(),
                path: operation.path.clone(),
                spec: json!({}),
            };
            let reply = other.call(&service, &ids, Some(&token)).await;
            reply.assert_problem(405, "method-not-allowed");
            let allowed: BTreeSet<_> = reply.header("allow").split(',').map(str::trim).collect();
            let mut expected: BTreeSet<_> = known.iter().copied().collect();
            if expected.contains("GET") {
                expected.insert("HEAD");
            }
            assert_eq!(allowed, expected, "{method} {}", operation.path);
        }
    }
    service.stop().await;
}

/// An operation of the document that declares no body refuses one before it has any effect.
#[tokio::test]
async fn a_body_that_an_operation_does_not_declare_is_refused() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let ids = ids(&service).await;
    let operations = Operation::all();
    let without_body = operations
        .iter()
        .filter(|it| it.spec.get("requestBody").is_none());
    let mut posts = 0;
    for operation in without_body {
        posts += usize::from(operation.method == "POST");
        let mut spec = operation.spec.clone();
        let example = json!({ "quantity": 1 });
        spec["requestBody"] = json!({ "content": { "application/json": { "example": example } } });
        let with_body = Operation {
            method: operation.method.clone(),
            path: operation.path.clone(),
            spec,
        };
        let token = service.token("sam", operation.scope().unwrap_or("admin"));
        let reply = with_body.call(&service, &ids, Some(&token)).await;
        assert_eq!(reply.status, 400, "{} {reply:?}", operation.id());
        reply.assert_problem(400, "bad-request");
        operation.assert_describes(&reply);
    }
    assert!(posts >= 10, "{posts}");
    // Invalid JSON is refused too. No body, blanks and an empty object are accepted.
    let token = service.operator();
    let path = format!("/v1/campaigns/{}/resume", ids.sale);
    for (body, status) in [
        ("{\"a\":,", 400),
        ("[]", 400),
        ("null", 400),
        ("{\"a\":1}", 400),
        ("", 200),
        (" \n", 200),
        ("{}", 200),
        (" { } ", 200),
    ] {
        let request =
            hyper::Request::post(&path).header("authorization", format!("Bearer {token}"));
        let body = http_body_util::Full::new(bytes::Bytes::from_static(body.as_bytes()));
        let reply =
            crate::node::http::common::send(service.addr, request.body(body).unwrap()).await;
        assert_eq!(reply.status, status, "{reply:?}");
    }
    service.stop().await;
}

/// A caller without any scope of an operation learns that, and not what is wrong with the body.
#[tokio::test]
async fn a_caller_without_a_scope_is_refused_before_its_body_is_judged() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let ids = ids(&service).await;
    let mut checked = 0;
    for operation in Operation::all() {
        let takes_body = operation.spec.get("requestBody").is_some();
        let Some(scope) = operation.scope().filter(|_| takes_body) else {
            continue;
        };
        let without = service.token("sam", "");
        let with = service.token("sam", &format!("{scope} admin"));
        for wrong in [json!({ "colour": "red" }), json!([]), json!(7)] {
            let mut spec = operation.spec.clone();
            spec["requestBody"]["content"]["application/json"]["example"] = wrong;
            let other = Operation {
                method: operation.method.clone(),
                path: operation.path.clone(),
                spec,
            };
            let id = operation.id();
            let refused = other.call(&service, &ids, Some(&without)).await;
            refused.assert_problem(403, "forbidden");
            assert_eq!(refused.text("scope"), scope, "{id}");
            let invalid = other.call(&service, &ids, Some(&with)).await;
            assert!([400, 422].contains(&invalid.status), "{id}: {invalid:?}");
        }
        checked += 1;
    }
    assert!(checked >= 10, "{checked}");
    service.stop().await;
}

/// A query parameter that an operation does not declare is refused, with every token.
#[tokio::test]
async fn an_unknown_query_parameter_is_refused_everywhere() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let ids = ids(&service).await;
    for operation in Operation::all() {
        let other = Operation {
            method: operation.method.clone(),
            path: format!("{}?colour=red", operation.path),
            spec: operation.spec.clone(),
        };
        let token = service.token("sam", operation.scope().unwrap_or("admin"));
        let reply = other.call(&service, &ids, Some(&token)).await;
        reply.assert_problem(400, "bad-request");
        let named = reply.json()["errors"][0]["parameter"].clone();
        assert_eq!(named, "colour", "{}: {reply:?}", operation.id());
    }
    service.stop().await;
}
