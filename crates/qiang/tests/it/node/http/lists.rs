//! Campaigns as users see them over HTTP: details, lists, the archive.

use crate::node::http::common::{Reply, Service, cursor, packet, sale};
use serde_json::{Value, json};

fn ids(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    let all = body["data"].as_array().unwrap().iter();
    all.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_sale_is_described() {
    let service = Service::start().await;
    let operator = service.operator();
    let id = service
        .sale(5, |body| {
            body["title"] = json!("题".repeat(1_024));
            body["product_id"] = json!("phone-10");
            body["description"] = json!("black\n256 GB");
            body["image_url"] = json!("https://cdn.example.com/phone.webp?w=800");
        })
        .await;
    let path = format!("/v1/sales/{id}");
    let seen = async || service.get(&path, &service.token("ann", "")).await.json();
    let sale_now = seen().await;
    assert_eq!(sale_now["title"].as_str().unwrap().chars().count(), 1_024);
    assert_eq!(sale_now["product_id"], "phone-10");
    assert_eq!(sale_now["description"], "black\n256 GB");
    assert_eq!(
        sale_now["image_url"],
        "https://cdn.example.com/phone.webp?w=800"
    );

    let change = |body: Value| service.patch(&path, &operator, body);
    let texts = json!({ "title": "new", "product_id": "phone-11", "image_url": null });
    let changed = change(texts).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    for body in [changed.json(), seen().await] {
        assert_eq!(
            (&body["title"], &body["product_id"]),
            (&json!("new"), &json!("phone-11"))
        );
        assert_eq!(
            (&body["description"], &body["stock"]),
            (&json!("black\n256 GB"), &json!(5))
        );
        assert_eq!(body.get("image_url"), None);
    }
    // Text and stock in one request: a refusal changes neither.
    let order = json!({ "quantity": 1 });
    let (orders, ann) = (format!("{path}/orders"), service.token("ann", "claim"));
    assert_eq!(service.post(&orders, &ann, order).await.status, 201);
    let both = |stock: u64, title: &str| json!({ "stock": stock, "title": title });
    change(both(0, "none")).await.assert_problem(422, "invalid");
    assert_eq!(seen().await["title"], "new");
    let changed = change(both(7, "seven")).await.json();
    let expected = (&json!("seven"), &json!(7), &json!(6));
    assert_eq!(
        (
            &changed["title"],
            &changed["stock"],
            &changed["state"]["remaining"]
        ),
        expected
    );

    for bad in [
        json!({}),
        json!({ "title": "" }),
        json!({ "title": "字".repeat(1_025) }),
        json!({ "title": "a\nb" }),
        json!({ "product_id": "a b" }),
        json!({ "product_id": "p".repeat(129) }),
        json!({ "description": "d".repeat(4_097) }),
        json!({ "image_url": "http://example.com/a.png" }),
        json!({ "image_url": "//example.com/a.png" }),
        json!({ "image_url": "javascript:alert(1)" }),
    ] {
        change(bad.clone()).await.assert_problem(422, "invalid");
        let mut made = sale(1);
        if let (Some(made), Some(bad)) = (made.as_object_mut(), bad.as_object()) {
            if bad.is_empty() {
                continue;
            }
            made.extend(bad.clone());
        }
        let refused = service.post("/v1/sales", &operator, made).await;
        refused.assert_problem(422, "invalid");
    }
    let refused = service.patch(&path, &ann, json!({ "title": "mine" })).await;
    refused.assert_problem(403, "forbidden");
    // After the close, texts may still change. The stock may not.
    service
        .act(&format!("/v1/campaigns/{id}/close"), &operator)
        .await;
    assert_eq!(change(json!({ "title": "was" })).await.status, 200);
    change(both(9, "no"))
        .await
        .assert_problem(409, "phase-conflict");
    assert_eq!(seen().await["title"], "was");
    service.stop().await;
}

#[tokio::test]
async fn sales_open_to_all_users_are_listed_for_any_user() {
    let service = Service::start().await;
    let (operator, ann) = (service.operator(), service.token("ann", ""));
    let live = service.sale(5, |_| ()).await;
    let closed = service.sale(5, |_| ()).await;
    let path = format!("/v1/campaigns/{closed}/close");
    assert_eq!(service.act(&path, &operator).await.status, 200);
    service
        .sale(5, |body| {
            body["audience"] = json!({ "passphrase": "sesame" })
        })
        .await;
    let later = service
        .sale(5, |body| {
            body["starts_at"] = json!("2026-11-22T00:00:00Z");
            body["ends_at"] = json!("2026-11-23T00:00:00Z");
        })
        .await;
    for (phase, expected) in [("live", &live), ("scheduled", &later)] {
        let path = format!("/v1/sales?open=true&phase={phase}");
        let listed = service.get(&path, &ann).await;
        assert_eq!(ids(&listed), [expected.as_str()], "{phase}");
    }
    for query in [
        "sales?open=true",
        "sales?open=true&phase=closed",
        "sales?open=true&phase=live&all=true",
        "sales?open=true&phase=live&owner=ann",
        "sales?open=true&phase=live&archived=true",
        "red-packets?open=true&phase=live",
    ] {
        let refused = service.get(&format!("/v1/{query}"), &operator).await;
        refused.assert_problem(422, "invalid");
    }
}

#[tokio::test]
async fn gallery_and_list_price_of_a_sale_are_checked_shown_and_removed() {
    let service = Service::start().await;
    let operator = service.operator();
    let money = |amount: i64| json!({ "amount": amount, "currency": "CNY" });
    let pictures = json!(["https://cdn.example/b.webp", "/c.png"]);
    let id = service
        .sale(5, |body| {
            body["gallery"] = pictures.clone();
            body["list_price"] = money(900);
        })
        .await;
    let path = format!("/v1/sales/{id}");
    let service = service.restart().await;
    let seen = async || service.get(&path, &operator).await.json();
    assert_eq!(seen().await["gallery"], pictures);
    assert_eq!(seen().await["list_price"], money(900));

    let nine = vec!["/a.png"; 9];
    for (field, bad, pointer) in [
        ("gallery", json!(["ftp://x"]), "#/gallery"),
        ("gallery", json!(nine), "#/gallery"),
        ("list_price", money(500), "#/list_price/amount"),
        ("list_price", money(1 << 53), "#/list_price/amount"),
        (
            "list_price",
            json!({ "amount": 900, "currency": "USD" }),
            "#/list_price/currency",
        ),
    ] {
        let mut made = sale(1);
        made[field] = bad.clone();
        let refused = service.post("/v1/sales", &operator, made).await;
        refused.assert_problem(422, "invalid");
        let refusal = refused.json()["errors"][0]["pointer"].clone();
        assert!(refusal.as_str().unwrap().starts_with(pointer), "{refusal}");
        let refused = service.patch(&path, &operator, json!({ field: bad })).await;
        refused.assert_problem(422, "invalid");
    }
    assert_eq!(seen().await["list_price"], money(900));
    // A list price is compared with the new price of the same request.
    let both = json!({ "unit_price": money(1_000), "list_price": money(950) });
    let refused = service.patch(&path, &operator, both).await;
    refused.assert_problem(422, "invalid");
    let both = json!({ "unit_price": money(300), "list_price": money(400), "gallery": ["/d.png"] });
    let changed = service.patch(&path, &operator, both).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    for body in [changed.json(), seen().await] {
        assert_eq!(body["gallery"], json!(["/d.png"]));
        assert_eq!(
            (&body["list_price"], &body["unit_price"]),
            (&money(400), &money(300))
        );
    }
    let none = json!({ "gallery": [], "list_price": null });
    let changed = service.patch(&path, &operator, none).await;
    for body in [changed.json(), seen().await] {
        assert_eq!((body.get("gallery"), body.get("list_price")), (None, None));
    }
}

#[tokio::test]
async fn packet_has_the_cover_that_its_sender_chose() {
    let service = Service::start().await;
    let sam = service.token("sam", "send");
    let usual = service.red_packet(3, |_| ()).await;
    let chosen = service
        .red_packet(3, |body| body["cover"] = json!("wedding"))
        .await;
    for bad in [json!("gold"), json!("Wedding"), json!(1), json!(["cloud"])] {
        let mut body = packet(100, 1);
        body["cover"] = bad;
        let refused = service.post("/v1/red-packets", &sam, body).await;
        refused.assert_problem(422, "invalid");
    }
    // A retry with another cover is another request under the same key.
    service.deposit("sam", 100).await;
    let mut body = packet(100, 1);
    for (cover, status) in [("cloud", 201), ("cloud", 200), ("lantern", 422)] {
        body["cover"] = json!(cover);
        let path = "/v1/red-packets";
        let reply = service.post_key(path, &sam, "a-key", body.clone()).await;
        assert_eq!(reply.status, status, "{cover}: {reply:?}");
    }
    let service = service.restart().await;
    for (id, cover) in [(&usual, "classic"), (&chosen, "wedding")] {
        let path = format!("/v1/red-packets/{id}");
        assert_eq!(service.get(&path, &sam).await.json()["cover"], cover);
    }
    let listed = service.get("/v1/red-packets", &sam).await.json();
    let covers = listed["data"].as_array().unwrap().iter();
    let mut covers: Vec<_> = covers.map(|it| it["cover"].as_str().unwrap()).collect();
    covers.sort_unstable();
    assert_eq!(covers, ["classic", "cloud", "wedding"]);
}

#[tokio::test]
async fn campaigns_are_listed_and_archived() {
    let service = Service::start().await;
    let (operator, sam) = (service.operator(), service.token("sam", ""));
    let mut own = Vec::new();
    for n in 0..5 {
        let id = service.sale(5, |body| {
            body["seller"] = json!("sam");
            body["product_id"] = json!(if n < 3 { "a&b<>" } else { "other" });
        });
        own.push(id.await);
        // Ids are ordered by the millisecond.
        service.clock.advance_ms(1);
    }
    let other = service.sale(5, |_| ()).await;
    let packet = service.red_packet(3, |_| ()).await;

    let listed = service.get("/v1/sales", &sam).await;
    assert_eq!(ids(&listed), own);
    assert_eq!(
        (&listed.json()["settled"], listed.header("link")),
        (&json!(true), "")
    );
    let numbers = listed.json()["data"][0]["state"].clone();
    assert_eq!(
        (&numbers["phase"], &numbers["remaining"]),
        (&json!("live"), &json!(5))
    );
    let listed = service.get("/v1/red-packets", &sam).await;
    assert_eq!(ids(&listed), [packet.as_str()]);
    let all = [&own[..], &[other]].concat();
    assert_eq!(
        ids(&service.get("/v1/sales?all=true", &operator).await),
        all
    );
    assert_eq!(
        ids(&service.get("/v1/sales?owner=sam", &operator).await),
        own
    );
    for path in ["/v1/sales?all=true", "/v1/sales?owner=olga"] {
        service
            .get(path, &sam)
            .await
            .assert_problem(403, "forbidden");
    }
    for query in [
        "limit=0",
        "limit=101",
        "after=1",
        "phase=over",
        "order=up",
        "x=1",
    ] {
        let refused = service.get(&format!("/v1/sales?{query}"), &operator).await;
        refused.assert_problem(400, "bad-request");
    }
    for path in [
        "/v1/sales?all=true&owner=sam",
        "/v1/red-packets?product_id=a",
        "/v1/sales?product_id=a&order=newest",
    ] {
        let refused = service.get(path, &operator).await;
        refused.assert_problem(422, "invalid");
    }

    // Page after page, by the links in the header.
    let mut next = Some("/v1/sales?limit=2&phase=live&product_id=a%26b%3C%3E".to_owned());
    let mut pages = Vec::new();
    while let Some(path) = next {
        let page = service.get(&path, &sam).await;
        pages.push(ids(&page));
        let link = page.header("link");
        assert_eq!(link.is_empty(), page.json()["next"].is_null());
        let path = link.strip_prefix('<');
        next = path.map(|rest| rest.strip_suffix(">; rel=\"next\"").unwrap().to_owned());
    }
    assert_eq!(pages, [&own[..2], &own[2..3]]);

    let newest = service.get("/v1/sales?order=newest&limit=2", &sam).await;
    assert_eq!(ids(&newest), [own[4].clone(), own[3].clone()]);
    let path = newest.header("link").strip_prefix('<').unwrap();
    let path = path.strip_suffix(">; rel=\"next\"").unwrap().to_owned();
    let rest = service.get(&path, &sam).await;
    assert_eq!(ids(&rest), [own[2].clone(), own[1].clone()]);
    let oldest = service.get("/v1/sales?order=oldest", &sam).await;
    assert_eq!(ids(&oldest), own);

    let archive = format!("/v1/campaigns/{}/archive", own[1]);
    service
        .act(&archive, &sam)
        .await
        .assert_problem(403, "forbidden");
    service
        .act(&archive, &operator)
        .await
        .assert_problem(409, "phase-conflict");
    service
        .act(&format!("/v1/campaigns/{}/close", own[1]), &operator)
        .await;
    for _ in 0..2 {
        let archived = service.act(&archive, &operator).await;
        assert_eq!(
            (archived.status, &archived.json()["phase"]),
            (200, &json!("closed"))
        );
    }
    let left: Vec<String> = own.iter().filter(|id| **id != own[1]).cloned().collect();
    assert_eq!(ids(&service.get("/v1/sales", &sam).await), left);
    let whole = service.get("/v1/sales?archived=true", &sam).await;
    assert_eq!(ids(&whole), own);
    assert!(whole.json()["data"][1]["archived_at"].is_string());
    let seen = service.get(&format!("/v1/sales/{}", own[1]), &sam).await;
    assert!(seen.json()["archived_at"].is_string(), "{seen:?}");
    let unknown = "/v1/campaigns/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80/archive";
    service
        .act(unknown, &operator)
        .await
        .assert_problem(404, "unknown-campaign");
    let packet = format!("/v1/campaigns/{packet}");
    service.act(&format!("{packet}/close"), &operator).await;
    assert_eq!(
        service
            .act(&format!("{packet}/archive"), &operator)
            .await
            .status,
        200
    );
    assert_eq!(ids(&service.get("/v1/red-packets", &sam).await), [""; 0]);
    service.stop().await;
}

/// A position of one list is refused in another.
#[tokio::test]
async fn a_place_in_another_list_is_refused() {
    let service = Service::start().await;
    let own = |body: &mut Value| body["seller"] = json!("sam");
    // Ids of one millisecond have no order of creation.
    let first = service.sale(2, own).await;
    service.clock.advance_ms(1);
    let second = service.sale(2, own).await;
    let packet = service.red_packet(2, |_| ()).await;
    service.clock.advance_ms(1);
    let others = service.sale(2, |_| ()).await;
    let sam = service.token("sam", "");
    let list = async |path: &str| service.get(path, &sam).await;
    let page = list(&format!("/v1/sales?after={}", cursor("sales", &first))).await;
    assert_eq!(ids(&page), std::slice::from_ref(&second));
    let absent = "01934f1e-0000-7000-8000-000000000000";
    for path in [
        ("sales", "sales", packet.clone()),
        ("sales", "sales", others.clone()),
        ("sales", "sales", absent.to_owned()),
        ("sales", "red_packets", first.clone()),
        ("red-packets", "red_packets", first),
        ("red-packets", "sales", second.clone()),
        ("refunds-due", "refunds_due", format!("{packet}-1")),
        ("refunds-due", "refunds_due", format!("{others}-1")),
        ("accounts/sam/claims", "postings", "0.-1.0.in".to_owned()),
        ("accounts/sam/postings", "claims", "0.-1.0.in".to_owned()),
    ] {
        let (path, name, position) = path;
        let path = format!("/v1/{path}?after={}", cursor(name, &position));
        let refused = list(&path).await;
        refused.assert_problem(400, "bad-request");
        assert_eq!(refused.json()["errors"][0]["parameter"], "after", "{path}");
    }
    let all = service.token("support", "read:any");
    let page = service
        .get(
            &format!("/v1/sales?all=true&after={}", cursor("sales", &second)),
            &all,
        )
        .await;
    assert_eq!(ids(&page), [others]);
    service.stop().await;
}
