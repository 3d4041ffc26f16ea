//! Batches of red packets, or of sales, in one request.

use crate::node::http::common::{Reply, Service, packet, sale};
use serde_json::{Value, json};

const PATH: &str = "/v1/red-packets/batch";

fn keyed(key: &str, total: i64, shares: u32) -> Value {
    json!({ "idempotency_key": key, "red_packet": packet(total, shares) })
}

impl Service {
    async fn send_all(&self, packets: Vec<Value>) -> Reply {
        let token = self.token("sam", "send");
        let body = json!({ "red_packets": packets });
        self.post(PATH, &token, body).await
    }
}

/// Key, result, and id or problem of each packet.
fn results(reply: &Reply) -> Vec<(String, String, String)> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    let results = body["data"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let told = results.map(|it| {
        let (packet, problem) = (it.get("red_packet"), it.get("problem"));
        assert_eq!(packet.is_some(), problem.is_none(), "{it}");
        let what = packet.map_or_else(|| text(&it["problem"]["type"]), |it| text(&it["id"]));
        (text(&it["idempotency_key"]), text(&it["result"]), what)
    });
    told.collect()
}

#[tokio::test]
async fn each_packet_is_answered_by_itself() {
    let service = Service::start().await;
    service.deposit("sam", 1_000).await;
    let send = async |key: &str, total| {
        let token = service.token("sam", "send");
        let body = packet(total, 2);
        service.post_key("/v1/red-packets", &token, key, body).await
    };
    let alone = send("before", 100).await;
    assert_eq!(alone.status, 201);
    let asked = vec![
        keyed("a", 300, 3),
        keyed("b", 700, 3),
        keyed("before", 100, 2),
        keyed("a", 300, 3),
        keyed("before", 101, 2),
        keyed("c", 500, 1),
    ];
    let reply = service.send_all(asked.clone()).await;
    let first = results(&reply);
    let told: Vec<_> = first.iter().map(|it| (&*it.0, &*it.1)).collect();
    let expected = [
        ("a", "created"),
        ("b", "refused"),
        ("before", "replayed"),
        ("a", "replayed"),
        ("before", "refused"),
        ("c", "created"),
    ];
    assert_eq!(told, expected);
    assert_eq!(first[1].2, "/problems/insufficient-funds");
    assert_eq!(first[2].2, alone.text("id"));
    assert_eq!(first[3].2, first[0].2);
    assert_eq!(first[4].2, "/problems/key-reused");
    let problem = &reply.json()["data"][1]["problem"];
    assert_eq!(problem["status"], json!(409));
    assert_eq!(problem["request_id"], json!(reply.header("x-request-id")));
    assert_eq!(reply.header("idempotency-replayed"), "");
    assert_eq!(service.balance("sam").await, 100);

    // A created packet can be claimed. Its key also returns it outside a batch.
    for (place, number) in [(0, 3), (5, 1)] {
        let whole = &reply.json()["data"][place]["red_packet"];
        assert_eq!(whole["state"]["remaining"], json!(number));
        let ann = service.token("ann", "claim");
        let claims = format!("/v1/red-packets/{}/claims", first[place].2);
        assert_eq!(service.act(&claims, &ann).await.status, 201);
    }
    let again = send("c", 500).await;
    again.assert_problem(422, "key-reused");
    let token = service.token("sam", "send");
    let again = service
        .post_key("/v1/red-packets", &token, "c", packet(500, 1))
        .await;
    assert_eq!((again.status, again.text("id")), (200, first[5].2.clone()));

    // A retry creates only the packets that were refused.
    service.deposit("sam", 600).await;
    let second = results(&service.send_all(asked).await);
    assert_eq!(second[1].1, "created");
    for place in [0, 2, 3, 5] {
        assert_eq!(
            (&*second[place].1, &second[place].2),
            ("replayed", &first[place].2)
        );
    }
    assert_eq!(service.balance("sam").await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_wrong_field_refuses_all_before_anything_is_done() {
    let service = Service::start_with(|config, _| config.limits.shares_max = 50).await;
    service.deposit("sam", 1_000).await;
    let refused = async |packets: Vec<Value>, pointers: &[&str]| {
        let reply = service.send_all(packets).await;
        reply.assert_problem(422, "invalid");
        let errors = reply.json()["errors"].clone();
        let errors = errors.as_array().unwrap().iter();
        let found: Vec<_> = errors.map(|it| it["pointer"].as_str().unwrap()).collect();
        assert_eq!(found, pointers, "{reply:?}");
    };
    let with = |key: &str, adjust: fn(&mut Value)| {
        let mut item = keyed(key, 100, 5);
        adjust(&mut item["red_packet"]);
        item
    };
    let none = with("b", |it| it["shares"] = json!(0));
    let blank = with("c", |it| it["title"] = json!(" "));
    let over = with("d", |it| it["ends_at"] = json!("2026-11-21T11:00:00.000Z"));
    let nobody = with("e", |it| it["audience"] = json!({ "users": [] }));
    let many = with("f", |it| it["shares"] = json!(51));
    let good = keyed("a", 100, 5);
    refused(
        vec![none, good.clone(), many],
        &[
            "#/red_packets/0/red_packet/shares",
            "#/red_packets/2/red_packet/shares",
        ],
    )
    .await;
    refused(
        vec![good.clone(), blank, over.clone(), nobody],
        &[
            "#/red_packets/1/red_packet/title",
            "#/red_packets/2/red_packet/ends_at",
            "#/red_packets/3/red_packet/audience/users",
        ],
    )
    .await;
    refused(vec![], &["#/red_packets"]).await;
    refused(vec![good.clone(); 101], &["#/red_packets"]).await;
    refused(vec![good.clone(); 11], &["#/red_packets"]).await;
    refused(
        vec![json!({ "red_packet": packet(9, 1) })],
        &["#/red_packets/0/idempotency_key"],
    )
    .await;
    refused(vec![keyed("", 9, 1)], &["#/red_packets/0/idempotency_key"]).await;
    assert_eq!(service.balance("sam").await, 1_000);

    // The refused batches used no key. A retry is not refused although its window is over.
    let soon = with("d", |it| it["ends_at"] = json!("2026-11-21T12:01:00.000Z"));
    let most = vec![good.clone(), soon];
    let made = results(&service.send_all(most.clone()).await);
    assert!(made.iter().all(|it| it.1 == "created"), "{made:?}");
    service.clock.advance_ms(120_000);
    let again = results(&service.send_all(most).await);
    assert!(again.iter().all(|it| it.1 == "replayed"), "{again:?}");
    let reply = service
        .post(
            PATH,
            &service.token("sam", "claim"),
            json!({ "red_packets": [good] }),
        )
        .await;
    reply.assert_problem(403, "forbidden");
    service.stop().await;
}

#[tokio::test]
async fn each_packet_counts_as_one_that_is_sent() {
    let service = Service::start_with(|config, _| {
        config.limits.creations_per_user_per_minute = 3;
        config.limits.shares_max = 20;
        config.limits.shares_per_user_per_minute = 20;
    })
    .await;
    service.deposit("sam", 1_000).await;
    let asked: Vec<_> = ["a", "b", "c", "d"].map(|key| keyed(key, 10, 2)).into();
    let told = results(&service.send_all(asked).await);
    let became: Vec<_> = told.iter().map(|it| &*it.1).collect();
    assert_eq!(became, ["created", "created", "created", "refused"]);
    assert_eq!(told[3].2, "/problems/creations-throttled");
    assert_eq!(service.balance("sam").await, 970);
    // A retry at once finds what exists: it is no campaign more.
    let asked: Vec<_> = ["a", "b", "c", "d"].map(|key| keyed(key, 10, 2)).into();
    let again = results(&service.send_all(asked).await);
    let became: Vec<_> = again.iter().map(|it| &*it.1).collect();
    assert_eq!(became, ["replayed", "replayed", "replayed", "refused"]);
    let shop = service.token("shop", "campaigns:write");
    let sales: Vec<_> = ["a", "b", "c", "d"]
        .map(|key| keyed_sale(key, 5, |_| ()))
        .into();
    for expected in ["created", "replayed"] {
        let body = json!({ "sales": sales });
        let reply = service.post("/v1/sales/batch", &shop, body).await.json();
        let became: Vec<_> = (0..4).map(|n| reply["data"][n]["result"].clone()).collect();
        assert_eq!(became, [expected, expected, expected, "refused"], "{reply}");
    }
    service.stop().await;

    let service = Service::start_with(|config, _| {
        config.limits.shares_max = 20;
        config.limits.shares_per_user_per_minute = 20;
    })
    .await;
    service.deposit("sam", 1_000).await;
    let first = results(&service.send_all(vec![keyed("a", 100, 12)]).await);
    let second = results(
        &service
            .send_all(vec![keyed("b", 100, 12), keyed("c", 100, 8)])
            .await,
    );
    let became: Vec<_> = first.iter().chain(&second).map(|it| &*it.1).collect();
    assert_eq!(became, ["created", "refused", "created"]);
    service.stop().await;
}

fn keyed_sale(key: &str, stock: u32, adjust: impl FnOnce(&mut Value)) -> Value {
    let mut body = sale(stock);
    adjust(&mut body);
    json!({ "idempotency_key": key, "sale": body })
}

#[tokio::test]
async fn each_sale_is_answered_by_itself() {
    let service = Service::start().await;
    let shop = service.token("shop", "campaigns:write");
    let path = "/v1/sales/batch";
    let send = async |sales: &[Value]| {
        let body = json!({ "sales": sales });
        service.post(path, &shop, body).await
    };
    let alone = service
        .post_key("/v1/sales", &shop, "before", sale(3))
        .await;
    assert_eq!(alone.status, 201, "{alone:?}");
    let taken = alone.text("id");
    let asked = [
        keyed_sale("a", 5, |sale| sale["reference"] = json!("PO-1")),
        keyed_sale("b", 6, |sale| sale["id"] = json!(taken)),
        keyed_sale("before", 3, |_| ()),
        keyed_sale("before", 4, |_| ()),
        keyed_sale("c", 7, |sale| sale["waiting_room"] = json!(true)),
    ];
    let expected = ["created", "refused", "replayed", "refused", "created"];
    let reply = send(&asked).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let first = reply.json()["data"].clone();
    let results: Vec<_> = (0..5)
        .map(|n| first[n]["result"].as_str().unwrap())
        .collect();
    assert_eq!(results, expected, "{first}");
    assert_eq!(first[0]["sale"]["reference"], "PO-1");
    assert_eq!(first[1]["problem"]["type"], "/problems/id-used");
    assert_eq!(first[2]["sale"]["id"], json!(taken));
    assert_eq!(first[3]["problem"]["type"], "/problems/key-reused");
    // A sale of a batch sells, and its key returns it alone.
    for (n, stock) in [(0, 5), (4, 7)] {
        let id = first[n]["sale"]["id"].as_str().unwrap();
        assert_eq!(first[n]["sale"]["stock"], json!(stock));
        let ann = service.token("ann", "claim");
        let bought = service.act(&format!("/v1/sales/{id}/orders"), &ann).await;
        let expected = if n == 0 { 201 } else { 202 };
        assert_eq!(bought.status, expected, "{bought:?}");
    }
    let key = asked[0]["idempotency_key"].as_str().unwrap();
    let again = service
        .post_key("/v1/sales", &shop, key, asked[0]["sale"].clone())
        .await;
    assert_eq!(
        (again.status, json!(again.text("id"))),
        (200, first[0]["sale"]["id"].clone())
    );
    // A retry of the whole request changes nothing.
    let second = send(&asked).await.json()["data"].clone();
    let results: Vec<_> = (0..5)
        .map(|n| second[n]["result"].as_str().unwrap())
        .collect();
    assert_eq!(
        results,
        ["replayed", "refused", "replayed", "refused", "replayed"]
    );
    for n in [0, 2, 4] {
        assert_eq!(second[n]["sale"]["id"], first[n]["sale"]["id"]);
    }
    let listed = service.get("/v1/sales", &shop).await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 3);
    service.stop().await;
}

#[tokio::test]
async fn a_wrong_sale_refuses_all_before_anything_is_done() {
    let service = Service::start().await;
    let shop = service.token("shop", "campaigns:write");
    let path = "/v1/sales/batch";
    let send = async |sales: Vec<Value>| {
        let body = json!({ "sales": sales });
        service.post(path, &shop, body).await
    };
    let good = keyed_sale("a", 5, |_| ());
    let blank = keyed_sale("b", 5, |sale| sale["title"] = json!(" "));
    let over = keyed_sale("c", 5, |sale| {
        sale["ends_at"] = json!("2026-11-21T11:00:00.000Z")
    });
    let refused = send(vec![good.clone(), blank, over]).await;
    refused.assert_problem(422, "invalid");
    let errors = refused.json()["errors"].clone();
    assert_eq!(errors[0]["pointer"], "#/sales/1/sale/title");
    assert_eq!(errors[1]["pointer"], "#/sales/2/sale/ends_at");
    for wrong in [vec![], vec![good.clone(); 101]] {
        let refused = send(wrong).await;
        refused.assert_problem(422, "invalid");
        assert_eq!(refused.json()["errors"][0]["pointer"], "#/sales");
    }
    // Another seller's sale needs the scope for all, and refuses the others with it.
    let other = keyed_sale("d", 5, |sale| sale["seller"] = json!("other"));
    let refused = send(vec![good, other]).await;
    refused.assert_problem(403, "forbidden");
    let listed = service.get("/v1/sales", &shop).await.json();
    assert_eq!(listed["data"], json!([]));
    service.stop().await;
}

#[tokio::test]
async fn sales_of_a_whole_batch_are_all_created_or_none() {
    let service = Service::start().await;
    let shop = service.token("shop", "campaigns:write");
    let send = async |sales: &[Value], mode: &str| {
        let body = json!({ "sales": sales, "mode": mode });
        service.post("/v1/sales/batch", &shop, body).await
    };
    let listed = async || {
        let listed = service.get("/v1/sales", &shop).await.json();
        listed["data"].as_array().unwrap().len()
    };
    let alone = service
        .post_key("/v1/sales", &shop, "before", sale(3))
        .await;
    assert_eq!(alone.status, 201, "{alone:?}");
    let with_passphrase = |key: &str, passphrase: &str| {
        keyed_sale(key, 2, |sale| {
            sale["audience"] = json!({ "passphrase": passphrase })
        })
    };
    let (first, second) = (
        keyed_sale("a", 5, |_| ()),
        with_passphrase("b", "open sesame"),
    );
    let taken = keyed_sale("c", 6, |sale| sale["id"] = json!(alone.text("id")));
    let reused = keyed_sale("before", 4, |_| ());
    for (batch, problem, pointers) in [
        (
            vec![&first, &taken, &second],
            "id-used",
            &["#/sales/1/sale"][..],
        ),
        (
            vec![&reused, &first, &second, &taken],
            "key-reused",
            &["#/sales/0/sale", "#/sales/3/sale"],
        ),
    ] {
        let batch: Vec<_> = batch.into_iter().cloned().collect();
        let refused = send(&batch, "all").await;
        refused.assert_problem(if problem == "id-used" { 409 } else { 422 }, problem);
        let errors = refused.json()["errors"].clone();
        let errors = errors.as_array().unwrap().iter();
        let found: Vec<_> = errors.map(|it| it["pointer"].as_str().unwrap()).collect();
        assert_eq!(found, pointers);
        assert_eq!(listed().await, 1, "a refused batch has created a sale");
    }
    let before = keyed_sale("before", 3, |_| ());
    let batch = [first.clone(), before, second];
    for results in [["created", "replayed", "created"], ["replayed"; 3]] {
        let reply = send(&batch, "all").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let found = reply.json()["data"].clone();
        let found: Vec<_> = (0..3).map(|n| found[n]["result"].clone()).collect();
        assert_eq!(found, results);
        assert_eq!(listed().await, 3);
    }
    // The fingerprint of a request does not cover its passphrase. Another one refuses all before anything is created.
    let new = keyed_sale("d", 1, |_| ());
    let refused = send(&[new.clone(), with_passphrase("b", "other words")], "all").await;
    refused.assert_problem(422, "key-reused");
    assert_eq!(listed().await, 3);
    let refused = send(&[new], "some").await;
    refused.assert_problem(422, "invalid");
    assert_eq!(refused.json()["errors"][0]["pointer"], "#/mode");
    service.stop().await;
}

#[tokio::test]
async fn red_packets_of_a_whole_batch_are_all_sent_or_none() {
    let service = Service::start_with(|config, _| {
        config.limits.creations_per_user_per_minute = 7;
    })
    .await;
    service.deposit("sam", 1_000).await;
    let token = service.token("sam", "send");
    let send = async |packets: &[Value]| {
        let body = json!({ "red_packets": packets, "mode": "all" });
        service.post(PATH, &token, body).await
    };
    let asked = [keyed("a", 300, 3), keyed("b", 700, 3), keyed("c", 1, 1)];
    let refused = send(&asked).await;
    refused.assert_problem(409, "insufficient-funds");
    let errors = refused.json()["errors"].clone();
    assert_eq!(errors[0]["pointer"], "#/red_packets/2/red_packet");
    assert_eq!(service.balance("sam").await, 1_000);
    let sent = results(&send(&asked[..2]).await);
    assert!(sent.iter().all(|it| it.1 == "created"), "{sent:?}");
    assert_eq!(service.balance("sam").await, 0);
    for packet in &sent {
        let ann = service.token("ann", "claim");
        let claims = format!("/v1/red-packets/{}/claims", packet.2);
        assert_eq!(service.act(&claims, &ann).await.status, 201);
    }
    // Each packet counts as one creation: the limit refuses the whole request.
    service.deposit("sam", 1_000).await;
    let more: Vec<_> = ["d", "e", "f"].map(|key| keyed(key, 10, 2)).into();
    send(&more).await.assert_problem(429, "creations-throttled");
    assert_eq!(service.balance("sam").await, 1_000);
    service.stop().await;
}

/// A whole batch counts towards the limit at once: one that is refused for the limit counts nothing, so that a client
/// that repeats it is accepted in the end.
#[tokio::test]
async fn a_whole_batch_above_the_limit_counts_nothing() {
    let service = Service::start_with(|config, _| {
        config.limits.creations_per_user_per_minute = 10;
    })
    .await;
    let shop = service.token("shop", "campaigns:write");
    let send = async |sales: &[Value]| {
        let body = json!({ "sales": sales, "mode": "all" });
        service.post("/v1/sales/batch", &shop, body).await
    };
    let batch = |key: &str| -> Vec<_> {
        let sale = |n| keyed_sale(&format!("{key}-{n}"), 5, |_| ());
        (0..8).map(sale).collect()
    };
    let (ours, others) = (batch("k"), batch("other"));
    for result in ["created", "replayed"] {
        let made = send(&ours).await;
        assert_eq!(made.status, 200, "{made:?}");
        let results = made.json()["data"].as_array().unwrap().clone();
        assert!(
            results.iter().all(|it| it["result"] == result),
            "{results:?}"
        );
    }
    for _ in 0..5 {
        let refused = send(&others).await;
        refused.assert_problem(429, "creations-throttled");
        assert_ne!(refused.header("retry-after"), "");
    }
    // Two creations of the limit are left.
    for key in ["a", "b"] {
        let alone = service.post_key("/v1/sales", &shop, key, sale(3)).await;
        assert_eq!(alone.status, 201, "{alone:?}");
    }
    service.stop().await;
}
