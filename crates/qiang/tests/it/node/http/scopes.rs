//! The table of operations in docs/integrate/tokens.md agrees with the document, and with the service: every operation,
//! with every single scope.

use std::collections::BTreeMap;

use crate::node::http::common::{Reply, Service, call, post_form};
use qiang_api::Scope;
use serde_json::{Value, json};

/// A row of the table: operations, and the owner of their subject.
struct Row {
    operations: Vec<String>,
    whose: String,
    /// Scopes of which one is needed. If there are none, any token is enough.
    scopes: Vec<String>,
    /// Whether no token is needed.
    is_public: bool,
    /// The answer to other tokens.
    refusal: String,
}

fn table() -> Vec<Row> {
    let text = include_str!("../../../../../../docs/integrate/tokens.md");
    let head = "| operation | of | scope | otherwise |\n";
    let (_, rows) = text.split_once(head).unwrap();
    let rows = rows
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let &[_, operations, whose, scope, refusal, _] = &cells[..] else {
            panic!("{line}")
        };
        Row {
            operations: quoted(operations),
            whose: whose.to_owned(),
            scopes: quoted(scope),
            is_public: scope == "no token",
            refusal: refusal.to_owned(),
        }
    };
    rows.map(row).collect()
}

/// The texts between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Operations of the document by name: method, path and description.
fn operations() -> BTreeMap<String, (String, String, Value)> {
    let document = qiang_api::document();
    let mut all = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, spec) in item.as_object().unwrap() {
            let id = spec["operationId"].as_str().unwrap().to_owned();
            all.insert(id, (method.to_uppercase(), path.clone(), spec.clone()));
        }
    }
    all
}

#[test]
fn the_document_says_what_the_table_says() {
    let mut said: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in table() {
        for operation in &row.operations {
            let said = said.entry(operation.clone()).or_default();
            let mut add = |requirement: Value| {
                if !said.contains(&requirement) {
                    said.push(requirement);
                }
            };
            match &row.scopes[..] {
                _ if row.is_public => add(json!({})),
                [] => add(json!({"bearer": []})),
                scopes => {
                    for scope in scopes {
                        add(match scope.as_str() {
                            way if SIGNATURES.contains(&way) => json!({way: []}),
                            scope => json!({"bearer": [scope]}),
                        });
                    }
                }
            }
        }
    }
    let everywhere = qiang_api::document()["security"].clone();
    for (id, (_, _, spec)) in operations() {
        let security = spec.get("security").unwrap_or(&everywhere);
        let said = said.remove(&id);
        assert_eq!(said.map(Value::Array).as_ref(), Some(security), "{id}");
    }
    assert_eq!(said, BTreeMap::new(), "the document has no such operation");
}

/// Signatures that replace a token, by the names of their security schemes.
const SIGNATURES: [&str; 4] = ["signature", "stripe", "wechat", "alipay"];

/// Whether a token with the scope `held` has the scope `needed`.
fn suffices(held: &str, needed: &str) -> bool {
    let of_users = ["claim", "send"];
    match held {
        "admin" => !of_users.contains(&needed),
        "campaigns:write:any" => [held, "campaigns:write"].contains(&needed),
        _ => held == needed,
    }
}

/// Things of `sam`, and of other users.
struct Things {
    packets: [String; 2],
    sales: [String; 2],
    /// An order of `sam`, an order of `sam`'s sale, and an order without relation to `sam`. Each was paid by a payment
    /// of the same name, and by another one that was refunded under the same name.
    orders: [String; 3],
    deposits: [String; 2],
}

impl Things {
    async fn new(service: &Service) -> Self {
        let deposit = async |user: &str| {
            let path = format!("/v1/accounts/{user}/deposits");
            let money = crate::node::http::common::deposit(7);
            let made = service.post(&path, &service.operator(), money).await;
            made.text("id")
        };
        let packet = async |sender: &str| {
            service.deposit(sender, 10_000).await;
            let mut body = crate::node::http::common::packet(10_000, 100);
            body["draws"] = json!("sender");
            let token = service.token(sender, "send");
            let sent = service.post("/v1/red-packets", &token, body).await;
            sent.text("id")
        };
        let sale = async |seller: &str| {
            let own = |body: &mut Value| {
                body["seller"] = json!(seller);
                body["unit_price"]["amount"] = json!(10_000);
            };
            service.sale(1_000, own).await
        };
        let sales = [sale("sam").await, sale("tom").await];
        let order = async |buyer: &str, sale: &str| {
            let path = format!("/v1/sales/{sale}/orders");
            let order = service.act(&path, &service.token(buyer, "claim")).await;
            order.text("id")
        };
        let orders = [
            order("sam", &sales[1]).await,
            order("ann", &sales[0]).await,
            order("ann", &sales[1]).await,
        ];
        for order in &orders {
            let path = format!("/v1/orders/{order}/payment");
            let paid = crate::node::http::common::paid(order, 10_000);
            let paid = service.post(&path, &service.operator(), paid).await;
            assert_eq!(paid.status, 200);
            let again = crate::node::http::common::paid(&format!("again-{order}"), 10_000);
            let again = service.post(&path, &service.operator(), again).await;
            assert_eq!(again.text("outcome"), "refund_due");
            let path = format!("/v1/orders/{order}/refunds");
            let refund = crate::node::http::common::paid(order, 10_000);
            let refund = service.post(&path, &service.operator(), refund).await;
            assert_eq!(refund.status, 201);
        }
        Self {
            deposits: [deposit("sam").await, deposit("tom").await],
            packets: [packet("sam").await, packet("tom").await],
            orders,
            sales,
        }
    }

    async fn call(
        &self,
        service: &Service,
        (method, path, spec): &(String, String, Value),
        whose: &str,
        token: Option<&str>,
    ) -> Reply {
        let others = usize::from(!whose.starts_with("own"));
        let user = ["sam", "tom"][others];
        let webhook = match path.contains("/webhooks/{id}") {
            true => {
                let body = json!({"url": "https://localhost:9/"});
                let seller = service.token(user, "campaigns:write");
                let made = service.post("/v1/webhooks", &seller, body).await;
                made.text("id")
            }
            false => String::new(),
        };
        let audit = match path.contains("/audits/{id}") {
            true => {
                let operator = service.operator();
                service.act("/v1/audits", &operator).await.text("id")
            }
            false => String::new(),
        };
        let reference = match whose {
            "order of an own sale" => &self.orders[1],
            _ => &self.orders[2 * others],
        };
        let id = match whose {
            _ if !webhook.is_empty() => &webhook,
            _ if !audit.is_empty() => &audit,
            "order of an own sale" => &self.orders[1],
            _ if path.contains("/orders/{id}") => &self.orders[2 * others],
            _ if path.contains("/deposits/{id}") => &self.deposits[others],
            _ if path.contains("/sales/{id}") || whose.ends_with("sale") => &self.sales[others],
            _ => &self.packets[others],
        };
        let mut path = path.replace("{id}", id).replace("{user}", user);
        path = path.replace("{reference}", reference);
        path = path
            .replace("{slug}", "sold-out")
            .replace("{account}", "main");
        path = path.replace("{partition}", "0").replace("{entry}", "0-1");
        let body = &spec["requestBody"]["content"]["application/json"]["example"];
        if path.contains("/providers/alipay/") {
            return post_form(service.addr, &path, token, "trade_no=1").await;
        }
        let mut body = Some(body.clone()).filter(|body| !body.is_null());
        match (spec["operationId"].as_str().unwrap(), &mut body) {
            ("createSale", Some(body)) => body["seller"] = json!(user),
            ("createWebhook", Some(body)) => body["owner"] = json!(user),
            ("createSales", Some(body)) => body["sales"][0]["sale"]["seller"] = json!(user),
            ("listSales" | "listRedPackets" | "listOwedOrders", _) => {
                path += &format!("?owner={user}")
            }
            ("listAllOrders", _) if whose == "own sale" => {
                path += &format!("?campaign={}&user=ann", self.sales[0]);
            }
            (
                "listAllOrders" | "listPayments" | "listDeposits" | "listWithdrawals"
                | "listRefunds",
                _,
            ) => path += &format!("?user={user}"),
            ("listActions", _) => path += "?subject=tom",
            ("reportPayment", Some(body)) => body["order"] = json!(self.orders[2 * others]),
            _ => {}
        }
        let reply = call(service.addr, method, &path, token, &[], body).await;
        if !webhook.is_empty() {
            // A seller may have a few webhooks.
            let (path, operator) = (format!("/v1/webhooks/{webhook}"), service.operator());
            call(service.addr, "DELETE", &path, Some(&operator), &[], None).await;
        }
        reply
    }
}

#[tokio::test]
async fn every_operation_takes_the_scopes_of_the_table_alone() {
    let service = Service::start_with(|config, _| config.limits.buyer_return_ms = 60_000).await;
    let things = Things::new(&service).await;
    let operations = operations();
    let mut held: Vec<_> = Scope::ALL.iter().map(|scope| scope.name()).collect();
    held.extend(["", "campaigns", "any"]);
    for row in table() {
        for id in &row.operations {
            let operation = &operations[id];
            let place = format!("{id} of {}", row.whose);
            let reply = things.call(&service, operation, &row.whose, None).await;
            assert_eq!(reply.status != 401, row.is_public, "{place}: {reply:?}");
            if row.is_public {
                continue;
            }
            if row.refusal == "401" {
                // It takes a signature alone, so each token is as good as none.
                let token = service.operator();
                let reply = things.call(&service, operation, &row.whose, Some(&token));
                reply.await.assert_problem(401, "unauthenticated");
                continue;
            }
            for held in &held {
                let token = service.token("sam", held);
                let reply = things
                    .call(&service, operation, &row.whose, Some(&token))
                    .await;
                let place = format!("{place} with `{held}`: {reply:?}");
                assert!(reply.status < 500, "{place}");
                let problem = match reply.status {
                    400.. => reply.text("type"),
                    _ => String::new(),
                };
                let refused = [
                    "/problems/forbidden",
                    "/problems/draws-hidden",
                    "/problems/not-found",
                ];
                let needed = &row.scopes;
                if needed.is_empty() || needed.iter().any(|needed| suffices(held, needed)) {
                    assert!(!refused.contains(&&*problem), "{place}");
                    continue;
                }
                // A token with `read:any` may see the subject, so its refusal is 403 and not 404.
                let refusal = match *held {
                    "read:any" if row.refusal == "404" => "403",
                    _ => &row.refusal,
                };
                match refusal {
                    "404" => reply.assert_problem(404, "not-found"),
                    "403" => {
                        reply.assert_problem(403, "forbidden");
                        let scope = reply.text("scope");
                        assert_eq!(scope, needed[0], "{place}");
                        let challenge = format!(
                            "Bearer realm=\"qiang\", error=\"insufficient_scope\", scope=\"{scope}\""
                        );
                        assert_eq!(reply.header("www-authenticate"), challenge, "{place}");
                        assert!(reply.text("detail").contains(&scope), "{place}");
                    }
                    hidden => reply.assert_problem(403, &quoted(hidden)[0]),
                }
            }
        }
    }
    service.stop().await;
}
