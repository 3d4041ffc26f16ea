//! A user's history over HTTP, on both engines: claims, orders, postings, deposits and payments.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::common::{Reply, call, in_an_hour, node, packet, paid, sale, sign};
use qiang_testkit::servers::{
    ServerProcess,
    redis::{Options, Standalone},
};
use serde_json::{Value, json};
use tokio::task::block_in_place;

/// Time for the settlement of a few entries.
const SETTLED_MAX: Duration = Duration::from_secs(30);

struct Node {
    addr: SocketAddr,
    _process: ServerProcess,
}

impl Node {
    fn start(keys: Vec<(&'static str, String)>) -> Self {
        let process = node(keys);
        Self {
            addr: process.addr(),
            _process: process,
        }
    }

    async fn ask(&self, user: &str, scope: &str, what: &str, body: Option<Value>) -> Reply {
        let (method, path) = what.split_once(' ').unwrap();
        let token = sign(&json!({ "sub": user, "scope": scope, "exp": in_an_hour() }));
        call(self.addr, method, path, Some(&token), &[], body).await
    }

    async fn made(&self, user: &str, scope: &str, what: &str, body: Value) -> Value {
        let reply = self.ask(user, scope, what, Some(body)).await;
        assert!([200, 201].contains(&reply.status), "{what} {reply:?}");
        reply.json()
    }

    async fn order(&self, user: &str, sale: &str) -> String {
        let path = format!("POST /v1/sales/{sale}/orders");
        let order = self
            .made(user, "claim", &path, json!({ "quantity": 1 }))
            .await;
        order["id"].as_str().unwrap().to_owned()
    }

    async fn pay(&self, order: &str, reference: &str) {
        let path = format!("POST /v1/orders/{order}/payment");
        self.made("shop", "pay", &path, paid(reference, 500)).await;
    }

    /// A page that contains everything decided, and the path of the next page.
    async fn page(&self, user: &str, scope: &str, path: &str) -> (Value, Option<String>) {
        let until = Instant::now() + SETTLED_MAX;
        loop {
            let reply = self.ask(user, scope, &format!("GET {path}"), None).await;
            assert_eq!(reply.status, 200, "{path} {reply:?}");
            let body = reply.json();
            let link = reply.header("link");
            assert_eq!(link.is_empty(), body["next"].is_null(), "{reply:?}");
            if body["settled"] == json!(true) {
                let next = link
                    .strip_prefix('<')
                    .map(|link| link.split('>').next().unwrap());
                return (body, next.map(str::to_owned));
            }
            assert!(Instant::now() < until, "{path} is not settled");
        }
    }

    async fn whole(&self, user: &str, path: &str) -> Vec<Value> {
        let (body, next) = self.page(user, "", path).await;
        assert_eq!(next, None);
        body["data"].as_array().unwrap().clone()
    }
}

fn texts(page: &Value, field: &str) -> Vec<String> {
    let items = page["data"].as_array().unwrap().iter();
    items
        .map(|item| item[field].as_str().unwrap().to_owned())
        .collect()
}

async fn users_see_what_they_have_done(node: &Node) {
    let money = crate::common::deposit(9_000);
    let path = "POST /v1/accounts/sam/deposits";
    let deposit = node.made("bank", "deposit", path, money.clone()).await;
    let sent = node
        .made("sam", "send", "POST /v1/red-packets", packet(9_000, 3))
        .await;
    let sent = sent["id"].as_str().unwrap();
    let mut body = sale(50);
    body["per_user_limit"] = json!(20);
    let sold = node
        .made("sam", "campaigns:write", "POST /v1/sales", body)
        .await;
    let sold = sold["id"].as_str().unwrap();
    let claims = format!("POST /v1/red-packets/{sent}/claims");
    let mut share = json!(null);
    for user in ["bob", "ann"] {
        share = node.made(user, "claim", &claims, json!({})).await["amount"].clone();
    }
    let mut orders = Vec::new();
    for _ in 0..4 {
        orders.push(node.order("ann", sold).await);
        // The time of an order decides its position.
        tokio::time::sleep(Duration::from_millis(2)).await;
        node.order("bob", sold).await;
    }
    orders.reverse();

    // A full last page has no next page, and new entries move no page.
    let (page, next) = node
        .page("ann", "", "/v1/accounts/ann/orders?limit=2")
        .await;
    assert_eq!(texts(&page, "id"), orders[..2]);
    assert_eq!(page["data"][0]["title"], json!("phones"));
    let new = node.order("ann", sold).await;
    let (page, last) = node.page("ann", "", &next.unwrap()).await;
    assert_eq!(texts(&page, "id"), orders[2..]);
    assert_eq!(last, None);
    orders.insert(0, new);
    let (page, _) = node
        .page("eve", "read:any", "/v1/accounts/ann/orders")
        .await;
    assert_eq!(texts(&page, "id"), orders);
    node.pay(&orders[3], "pay-1").await;
    let (page, _) = node
        .page("ann", "", "/v1/accounts/ann/orders?state=paid")
        .await;
    assert_eq!(texts(&page, "id"), orders[3..4]);

    let claimed = node.whole("ann", "/v1/accounts/ann/claims").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(
        (&claimed[0]["campaign"], &claimed[0]["amount"]),
        (&json!(sent), &share)
    );
    let cancel = format!("POST /v1/orders/{}/cancellation", orders[0]);
    let cancelled = node.ask("ann", "", &cancel, None).await;
    assert_eq!(cancelled.status, 200);
    node.pay(&orders[0], "pay-2").await;

    // The sum of all postings is the balance.
    for user in ["ann", "sam"] {
        let moved = node
            .whole(user, &format!("/v1/accounts/{user}/postings"))
            .await;
        let account = node
            .ask(user, "", &format!("GET /v1/accounts/{user}"), None)
            .await
            .json();
        for (account_of, there) in [
            ("available", &account["balances"][0]["available"]["amount"]),
            (
                "refunds_due",
                &account["balances"][0]["refunds_due"]["amount"],
            ),
        ] {
            let own = moved
                .iter()
                .filter(|posting| posting["account"] == account_of);
            let sum: i64 = own
                .map(|posting| posting["amount"]["amount"].as_i64().unwrap())
                .sum();
            assert_eq!(json!(sum), *there, "{user} {account_of} {moved:?}");
        }
    }
    let path = "/v1/accounts/sam/postings?kind=payment";
    let got = node.whole("sam", path).await;
    assert_eq!(got.len(), 1);
    let of_payment = (
        &got[0]["order"],
        &got[0]["reference"],
        &got[0]["amount"]["amount"],
    );
    assert_eq!(
        of_payment,
        (&json!(orders[3]), &json!("pay-1"), &json!(500))
    );
    let path = "/v1/accounts/sam/postings?kind=deposit";
    let got = node.whole("sam", path).await;
    assert_eq!(got[0]["reference"], deposit["id"]);

    let id = deposit["id"].as_str().unwrap();
    let made = node
        .ask(
            "sam",
            "",
            &format!("GET /v1/accounts/sam/deposits/{id}"),
            None,
        )
        .await;
    assert_eq!(
        (
            made.json()["amount"].clone(),
            made.json()["reversed"].clone()
        ),
        (json!({ "amount": 9_000, "currency": "CNY" }), json!(false))
    );
    for (user, outcome) in [("ann", "refund_due"), ("sam", "refund_due")] {
        let payment = node.ask(user, "", "GET /v1/payments/pay-2", None).await;
        assert_eq!(payment.text("outcome"), outcome);
        assert_eq!(payment.text("order"), orders[0]);
        assert_eq!(payment.text("user"), "ann");
    }
}

/// API1 of the OWASP list: a user cannot read the history of another.
async fn others_see_none_of_it(node: &Node) {
    let path = "POST /v1/accounts/ann/deposits";
    let money = crate::common::deposit(5);
    let deposit = node.made("bank", "deposit", path, money).await;
    let id = deposit["id"].as_str().unwrap();
    for scope in [
        "",
        "claim send campaigns:write deposit pay withdraw campaigns:write:any",
    ] {
        for list in [
            "claims",
            "orders",
            "postings",
            "orders?state=paid",
            &format!("deposits/{id}"),
        ] {
            let what = format!("GET /v1/accounts/ann/{list}");
            let reply = node.ask("bob", scope, &what, None).await;
            // Programs that make deposits may read them.
            if scope.contains("deposit") && list.starts_with("deposits/") {
                assert_eq!(reply.status, 200, "{reply:?}");
                continue;
            }
            reply.assert_problem(403, "forbidden");
            assert_eq!(reply.text("scope"), "read:any");
        }
        for reference in ["pay-1", "nobodys"] {
            let reply = node
                .ask("bob", scope, &format!("GET /v1/payments/{reference}"), None)
                .await;
            // Programs that report payments may read them.
            if scope.contains("pay") && reference == "pay-1" {
                assert_eq!(reply.status, 200, "{reply:?}");
                continue;
            }
            reply.assert_problem(404, "not-found");
            assert_eq!(reply.text("detail"), "there is no such payment");
        }
        let what = format!("GET /v1/accounts/bob/deposits/{id}");
        node.ask("bob", scope, &what, None)
            .await
            .assert_problem(404, "not-found");
    }
    for bad in [
        "limit=0",
        "limit=1001",
        "after=x",
        "after=1.2",
        "state=Paid",
        "kind=all",
        "before=1",
    ] {
        for list in ["claims", "orders", "postings"] {
            let what = format!("GET /v1/accounts/ann/{list}?{bad}");
            node.ask("ann", "", &what, None)
                .await
                .assert_problem(400, "bad-request");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_one_process() {
    let node = Node::start(Vec::new());
    users_see_what_they_have_done(&node).await;
    others_see_none_of_it(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let redis = block_in_place(|| Standalone::start(&Options::new()));
    let node = Node::start(vec![
        ("QIANG__ENGINE__KIND", "redis".to_owned()),
        ("QIANG__REDIS__URLS", redis.url()),
        ("QIANG__REDIS__PARTITIONS", "2".to_owned()),
    ]);
    users_see_what_they_have_done(&node).await;
    others_see_none_of_it(&node).await;
}
