//! Lists of orders, payments, deposits, withdrawals and refunds over HTTP.

use crate::node::http::common::{Reply, Service, cursor, named_deposit, paid};
use serde_json::{Value, json};

const LISTS: [&str; 5] = ["orders", "payments", "deposits", "withdrawals", "refunds"];

/// Values of a field in a list.
fn values(reply: &Reply, field: &str) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    let items = body["data"].as_array().unwrap().iter();
    let value = |item: &Value| item[field].as_str().unwrap_or_default().to_owned();
    items.map(value).collect()
}

/// A shop with two sellers, two buyers, and one of each object per buyer and step.
struct Shop {
    service: Service,
    sales: [String; 2],
    /// Orders in the order of their creation; those of `ann` and `bob` alternate.
    orders: Vec<String>,
}

impl Shop {
    async fn open() -> Self {
        let service = Service::start().await;
        let sale = async |seller: &str| {
            let own = |body: &mut Value| {
                body["seller"] = json!(seller);
                body["per_user_limit"] = json!(50);
            };
            service.sale(100, own).await
        };
        let sales = [sale("sam").await, sale("tom").await];
        Self {
            service,
            sales,
            orders: Vec::new(),
        }
    }

    async fn order(&mut self, n: usize) -> String {
        let path = format!("/v1/sales/{}/orders", self.sales[n / 2 % 2]);
        let token = self.service.token(["ann", "bob"][n % 2], "claim");
        let body = json!({ "quantity": 1 });
        let key = format!("order-{n}");
        let made = self.service.post_key(&path, &token, &key, body).await;
        assert_eq!(made.status, 201, "{made:?}");
        self.orders.push(made.text("id"));
        made.text("id")
    }

    /// Makes an order, two payments of it, a refund, a deposit and a withdrawal, all named by the number.
    async fn step(&mut self, n: usize) {
        let user = ["ann", "bob"][n % 2];
        let order = self.order(n).await;
        let (service, operator) = (&self.service, self.service.operator());
        for reference in [format!("pay-{n}"), format!("twice-{n}")] {
            let path = format!("/v1/orders/{order}/payment");
            let reply = service.post(&path, &operator, paid(&reference, 500)).await;
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        for (path, body) in [
            (
                format!("/v1/orders/{order}/refunds"),
                paid(&format!("refund.{n}"), 500),
            ),
            (
                format!("/v1/accounts/{user}/deposits"),
                named_deposit(&format!("deposit.{n}"), 100),
            ),
            (
                format!("/v1/accounts/{user}/withdrawals"),
                named_deposit(&format!("withdrawal.{n}"), 10),
            ),
        ] {
            let reply = service.post(&path, &operator, body).await;
            assert_eq!(reply.status, 201, "{reply:?}");
        }
    }

    async fn list(&self, query: &str, token: &str) -> Reply {
        self.service.get(&format!("/v1/{query}"), token).await
    }
}

/// Every object has the same body when it is made, alone and in a list.
#[tokio::test]
async fn objects_have_one_shape_in_lists_and_answers() {
    let mut shop = Shop::open().await;
    shop.step(0).await;
    let operator = shop.service.operator();
    let first = async |query: &str| shop.list(query, &operator).await.json()["data"][0].clone();

    let order = first("orders").await;
    let alone = shop
        .list(&format!("orders/{}", shop.orders[0]), &operator)
        .await;
    let mut alone = alone.json();
    for absent_in_lists in ["hold_until", "refundable_payments"] {
        assert_ne!(alone.as_object_mut().unwrap().remove(absent_in_lists), None);
    }
    alone["title"] = json!("phones");
    assert_eq!(order, alone);

    let payment = shop.list("payments/pay-0", &operator).await.json();
    assert_eq!(first("payments?reference=pay-0").await, payment);
    let deposit = first("deposits").await;
    let path = format!("accounts/ann/deposits/{}", deposit["id"].as_str().unwrap());
    assert_eq!(deposit, shop.list(&path, &operator).await.json());
    let again = |path: String, body: Value| {
        let (service, operator) = (&shop.service, operator.clone());
        async move { service.post(&path, &operator, body).await }
    };
    for (listed, path, body, object) in [
        (
            deposit,
            "/v1/accounts/ann/deposits".to_owned(),
            named_deposit("deposit.0", 100),
            "deposit",
        ),
        (
            first("withdrawals").await,
            "/v1/accounts/ann/withdrawals".to_owned(),
            named_deposit("withdrawal.0", 10),
            "withdrawal",
        ),
        (
            first("refunds").await,
            format!("/v1/orders/{}/refunds", shop.orders[0]),
            paid("refund.0", 500),
            "refund",
        ),
    ] {
        let replayed = again(path, body).await;
        assert_eq!((replayed.status, replayed.json()), (200, listed.clone()));
        assert_eq!(
            (&listed["object"], &listed["user"]),
            (&json!(object), &json!("ann"))
        );
        assert!(listed["created_at"].is_string() && listed["reference"].is_string());
    }
    let deposit = first("deposits").await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/accounts/ann/deposits/{deposit}/reversal");
    let part = json!({ "amount": { "amount": 7, "currency": "CNY" } });
    let reversed = shop
        .service
        .post_key(&path, &operator, "part", part)
        .await
        .json();
    assert_eq!(reversed["object"], "reversal", "{reversed}");
    assert!(reversed["created_at"].is_string());
    let deposit = first("deposits").await;
    assert_eq!(deposit["reversed_amount"]["amount"], 7);
    assert_eq!(deposit["reversed"], false);
    shop.service.stop().await;
}

/// Pages of each list follow one another while entries are made, by `after` and by `Link`. An entry that is made in the
/// millisecond of a page's last one may be on a later page, and shifts no other entry.
#[tokio::test]
async fn no_page_moves_while_entries_are_made() {
    let mut shop = Shop::open().await;
    // Two steps have the same time.
    for n in 0..6 {
        shop.step(n).await;
        shop.service.clock.advance_ms(i64::from(n % 2 == 1));
    }
    let (operator, mut made) = (shop.service.operator(), 10);
    let key = |list: &str| if list == "orders" { "id" } else { "reference" };
    for (list, count) in LISTS.into_iter().zip([6, 12, 6, 6, 6]) {
        let listed = values(&shop.list(list, &operator).await, key(list));
        assert_eq!(listed.len(), count, "{list}");
    }
    for list in LISTS {
        for by_link in [false, true] {
            let all = format!("{list}?limit=1000");
            let whole = values(&shop.list(&all, &operator).await, key(list));
            let (mut path, mut found) = (format!("{list}?limit=4"), Vec::new());
            loop {
                let reply = shop.list(&path, &operator).await;
                found.extend(values(&reply, key(list)));
                assert!(found.len() <= 4 * whole.len(), "{list}: pages start over");
                made += 1;
                shop.service.clock.advance_ms(i64::from(by_link));
                shop.step(made).await;
                let next = reply.json()["next"].as_str().map(str::to_owned);
                let link = reply.header("link");
                assert_eq!(link.is_empty(), next.is_none(), "{reply:?}");
                let Some(next) = next else { break };
                path = match by_link {
                    true => link[5..link.find('>').unwrap()].to_owned(),
                    false => format!("{list}?limit=4&after={next}"),
                };
            }
            if !by_link {
                found.retain(|it| whole.contains(it));
            }
            assert_eq!(found, whole, "{list}");
            let newest = values(&shop.list(&all, &operator).await, key(list));
            assert!(newest.len() > whole.len(), "{list}");
            let is_first = newest[0] != whole[0];
            assert!(is_first || !by_link, "{list}: new entries come first");
        }
    }
    shop.service.stop().await;
}

/// Filters combine, and each list takes only its own.
#[tokio::test]
async fn filters_combine() {
    let mut shop = Shop::open().await;
    let mut times = Vec::new();
    let operator = shop.service.operator();
    for n in 0..8 {
        shop.step(n).await;
        let newest = shop.list("orders?limit=1", &operator).await.json();
        times.push(newest["data"][0]["created_at"].as_str().unwrap().to_owned());
        shop.service.clock.advance_ms(1_000);
    }
    let held = shop.order(8).await;
    let orders = |picked: &[usize]| {
        picked
            .iter()
            .map(|n| shop.orders[*n].clone())
            .collect::<Vec<_>>()
    };
    let list = async |query: String| values(&shop.list(&query, &operator).await, "id");
    let sale = &shop.sales[0];
    assert_eq!(
        list(format!("orders?campaign={sale}")).await,
        orders(&[8, 5, 4, 1, 0])
    );
    assert_eq!(
        list(format!("orders?campaign={sale}&user=ann")).await,
        orders(&[8, 4, 0])
    );
    let found = list("orders?state=held".to_owned()).await;
    assert_eq!(found, std::slice::from_ref(&held));
    let query = format!("orders?campaign={sale}&state=paid&user=ann");
    assert_eq!(list(query).await, orders(&[4, 0]));
    let range = format!("created_after={}&created_before={}", times[2], times[5]);
    assert_eq!(list(format!("orders?{range}")).await, orders(&[4, 3, 2]));
    assert_eq!(
        list(format!("orders?{range}&user=bob&state=paid")).await,
        orders(&[3])
    );
    let of_user = format!("accounts/bob/orders?{range}");
    assert_eq!(list(of_user).await, orders(&[3]));

    let named = async |query: String| values(&shop.list(&query, &operator).await, "reference");
    let texts = |picked: &[&str]| {
        picked
            .iter()
            .map(|text| (*text).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        named(format!("payments?{range}&outcome=refund_due&user=ann")).await,
        texts(&["twice-4", "twice-2"])
    );
    assert_eq!(
        named("payments?reference=pay-3".to_owned()).await,
        texts(&["pay-3"])
    );
    assert_eq!(
        named("payments?reference=pay-3&user=ann".to_owned()).await,
        texts(&[])
    );
    assert_eq!(
        named("payments?reference=pay-3&outcome=refund_due".to_owned()).await,
        texts(&[])
    );
    for kind in ["deposit", "withdrawal", "refund"] {
        let expected = [format!("{kind}.4"), format!("{kind}.2")];
        assert_eq!(named(format!("{kind}s?{range}&user=ann")).await, expected);
        let one = [format!("{kind}.3")];
        assert_eq!(named(format!("{kind}s?reference={kind}.3")).await, one);
        assert_eq!(
            named(format!("{kind}s?reference={kind}.3&{range}&user=bob")).await,
            one
        );
        assert_eq!(
            named(format!("{kind}s?reference={kind}.3&user=ann")).await,
            texts(&[])
        );
        assert_eq!(
            named(format!("{kind}s?reference={kind}.7&{range}")).await,
            texts(&[])
        );
    }

    // Campaigns by their creation.
    let late = shop
        .service
        .sale(1, |body| body["seller"] = json!("sam"))
        .await;
    for order in ["oldest", "newest"] {
        let listed = list(format!(
            "sales?all=true&created_after={}&order={order}",
            times[1]
        ))
        .await;
        assert_eq!(listed, std::slice::from_ref(&late), "{order}");
        let listed = list(format!(
            "sales?all=true&created_before={}&order={order}",
            times[1]
        ))
        .await;
        assert_eq!(listed.len(), 2, "{order}");
        assert!(!listed.contains(&late));
    }
    let packet = shop.service.red_packet(3, |_| ()).await;
    let listed = list(format!("red-packets?all=true&created_after={}", times[1])).await;
    assert_eq!(listed, [packet]);
    let listed = list(format!("red-packets?all=true&created_before={}", times[1])).await;
    assert_eq!(listed, Vec::<String>::new());
    shop.service.stop().await;
}

/// Users see their own entries, sellers the orders of their sale, and services the entries of their scope.
#[tokio::test]
async fn lists_show_what_the_token_may_see() {
    let mut shop = Shop::open().await;
    for n in 0..4 {
        shop.step(n).await;
    }
    let service = &shop.service;
    let (ann, sam, reader) = (
        service.token("ann", "claim"),
        service.token("sam", "campaigns:write"),
        service.token("rex", "read:any"),
    );
    for list in LISTS {
        let count = async |query: &str, token: &str| {
            let reply = shop.list(&format!("{list}{query}"), token).await;
            values(&reply, "created_at").len()
        };
        let (own, all) = if list == "payments" { (4, 8) } else { (2, 4) };
        assert_eq!(count("", &ann).await, own, "{list}");
        assert_eq!(count("?user=ann", &ann).await, own, "{list}");
        assert_eq!(count("", &reader).await, all, "{list}");
        assert_eq!(count("?user=bob", &reader).await, own, "{list}");
        // A seller bought nothing.
        assert_eq!(count("", &sam).await, 0, "{list}");
        let scope = match list {
            "orders" => "read:any",
            "payments" | "refunds" => "pay",
            "deposits" => "deposit",
            _ => "withdraw",
        };
        for held in ["pay", "deposit", "withdraw", "campaigns:write:any"] {
            let seen = count("", &service.token("svc", held)).await;
            assert_eq!(
                seen,
                if held == scope { all } else { 0 },
                "{list} with {held}"
            );
        }
        // A token that may not see the list receives 403, also if the rest of the request is wrong.
        for query in [
            "?user=bob",
            "?user=bob&limit=0",
            "?user=bob&created_after=2026-01-02T00:00:00Z&created_before=2026-01-01T00:00:00Z",
        ] {
            let refused = shop.list(&format!("{list}{query}"), &ann).await;
            refused.assert_problem(403, "forbidden");
        }
        for (query, status, kind) in [
            ("?limit=0", 400, "bad-request"),
            ("?limit=1001", 400, "bad-request"),
            ("?created_after=yesterday", 400, "bad-request"),
            ("?created_after=1795262400000", 400, "bad-request"),
            ("?state=mine", 400, "bad-request"),
            ("?outcome=refused", 400, "bad-request"),
            ("?after=x", 400, "bad-request"),
            ("?user=", 400, "bad-request"),
            (
                "?created_after=2026-01-02T00:00:00Z&created_before=2026-01-02T00:00:00Z",
                422,
                "invalid",
            ),
        ] {
            let refused = shop.list(&format!("{list}{query}"), &reader).await;
            refused.assert_problem(status, kind);
        }
        // No list takes the cursor of another one.
        let listed = shop.list(&format!("{list}?limit=1"), &reader).await.json();
        let next = listed["next"].as_str().unwrap();
        for other in LISTS {
            let reply = shop.list(&format!("{other}?after={next}"), &reader).await;
            match other == list {
                true => assert_eq!(reply.status, 200),
                false => reply.assert_problem(400, "bad-request"),
            }
        }
        let of_user = shop
            .list(&format!("accounts/ann/orders?after={next}"), &reader)
            .await;
        of_user.assert_problem(400, "bad-request");
        let bad = cursor(list, "1795262400000");
        let refused = shop.list(&format!("{list}?after={bad}"), &reader).await;
        refused.assert_problem(400, "bad-request");
    }
    // Sellers see all orders of their own sale, and no order of another's.
    let [own, other] = &shop.sales;
    let seen = shop.list(&format!("orders?campaign={own}"), &sam).await;
    assert_eq!(values(&seen, "user"), ["bob", "ann"]);
    let seen = shop
        .list(&format!("orders?campaign={own}&user=ann"), &sam)
        .await;
    assert_eq!(values(&seen, "id"), shop.orders[..1]);
    let none = shop.list(&format!("orders?campaign={other}"), &sam).await;
    assert_eq!(values(&none, "id"), Vec::<String>::new());
    let refused = shop
        .list(&format!("orders?campaign={other}&user=ann"), &sam)
        .await;
    refused.assert_problem(403, "forbidden");
    let unknown = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    let none = shop
        .list(&format!("orders?campaign={unknown}"), &reader)
        .await;
    assert_eq!(values(&none, "id"), Vec::<String>::new());
    // The service that reports payments reads them.
    let reported = shop
        .list("payments/pay-1", &service.token("svc", "pay"))
        .await;
    assert_eq!(
        (reported.status, reported.text("object").as_str()),
        (200, "payment")
    );
    shop.service.stop().await;
}
