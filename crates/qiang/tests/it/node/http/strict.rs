//! Strict input: each request has one valid form.

use crate::node::http::common::{Reply, Service, call, packet, sale, send};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

#[tokio::test]
async fn an_object_is_no_array_of_its_values() {
    let service = Service::start().await;
    let token = service.operator();
    service.deposit("olga", 1_000).await;
    let check = async |path: &str, body: Value| {
        let reply = service.post(path, &token, body.clone()).await;
        reply.assert_problem(422, "invalid");
        let detail = reply.text("detail");
        assert!(detail.contains("expected an object"), "{body} {detail}");
    };
    let money = json!(["CNY", 1]);
    check("/v1/accounts/ann/deposits", json!([1, "CNY", "d"])).await;
    check(
        "/v1/sales",
        json!(["phones", null, 5, 1, { "amount": 1, "currency": "CNY" }, 60]),
    )
    .await;
    let mut nested = sale(1);
    nested["unit_price"] = json!([500, "CNY"]);
    check("/v1/sales", nested).await;
    let send = service.token("olga", "send");
    for (field, value) in [("total", money), ("split", json!(["equal"]))] {
        let mut nested = packet(100, 2);
        nested[field] = value;
        let reply = service.post("/v1/red-packets", &send, nested).await;
        reply.assert_problem(422, "invalid");
    }
    let id = service.sale(9, |_| ()).await;
    let claim = service.token("ann", "claim");
    let reply = service
        .post(&format!("/v1/sales/{id}/orders"), &claim, json!([1]))
        .await;
    reply.assert_problem(422, "invalid");
    service.stop().await;
}

#[tokio::test]
async fn ids_have_one_form() {
    let service = Service::start().await;
    let token = service.operator();
    let id = service.sale(9, |_| ()).await;
    let buyer = service.token("ann", "claim");
    let order = service
        .act(&format!("/v1/sales/{id}/orders"), &buyer)
        .await
        .text("id");
    let get = async |path: String| service.get(&path, &token).await;
    assert_eq!(get(format!("/v1/sales/{id}")).await.status, 200);
    assert_eq!(get(format!("/v1/orders/{order}")).await.status, 200);
    // Capital letters make no difference (RFC 9562, section 4). The answer has small letters.
    let (capitals, plain) = (id.to_uppercase(), id.replace('-', ""));
    let seen = get(format!("/v1/sales/{capitals}")).await;
    assert_eq!((seen.status, seen.text("id")), (200, id.clone()));
    let state = get(format!("/v1/campaigns/{capitals}/state")).await;
    assert_eq!(state.status, 200, "{state:?}");
    let seen = get(format!("/v1/orders/{}", order.to_uppercase())).await;
    assert_eq!((seen.status, seen.text("id")), (200, order.clone()));
    let again = service
        .act(&format!("/v1/sales/{capitals}/orders"), &buyer)
        .await;
    assert_eq!((again.status, again.text("id")), (200, order.clone()));
    let actions = async |subject: &str| {
        let path = format!("/v1/operation-log?subject={subject}");
        get(path).await.json()["data"].clone()
    };
    assert_eq!(actions(&capitals).await, actions(&id).await);
    assert_eq!(actions(&id).await.as_array().unwrap().len(), 1);
    for other in [&plain, &format!("%7B{id}%7D"), &format!("urn:uuid:{id}")] {
        get(format!("/v1/sales/{other}"))
            .await
            .assert_problem(400, "bad-request");
        let state = format!("/v1/campaigns/{other}/state");
        get(state).await.assert_problem(400, "bad-request");
        get(format!("/v1/orders/{other}-1"))
            .await
            .assert_problem(400, "bad-request");
    }
    let deposit = crate::node::http::common::deposit(1);
    let deposits = "/v1/accounts/ann/deposits";
    let deposit = service.post(deposits, &token, deposit).await.text("id");
    let webhook = json!({ "url": "https://localhost:9/" });
    let webhook = service
        .post("/v1/webhooks", &token, webhook)
        .await
        .text("id");
    let audit = service.act("/v1/audits", &token).await.text("id");
    // Both reads must see the same state.
    while get(format!("/v1/audits/{audit}")).await.text("status") == "running" {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for (prefix, id) in [
        (format!("{deposits}/"), deposit.as_str()),
        ("/v1/webhooks/".to_owned(), &webhook),
        ("/v1/audits/".to_owned(), &audit),
    ] {
        let seen = get(format!("{prefix}{id}")).await;
        assert_eq!(seen.status, 200, "{prefix}");
        let in_capitals = get(format!("{prefix}{}", id.to_uppercase())).await;
        let status = (in_capitals.status, in_capitals.json());
        assert_eq!(status, (200, seen.json()), "{prefix}");
        let version_4 = format!("{}4{}", &id[..14], &id[15..]);
        for other in [id.replace('-', ""), format!("urn:uuid:{id}"), version_4] {
            let reply = get(format!("{prefix}{other}")).await;
            reply.assert_problem(400, "bad-request");
        }
    }
    let reversal = format!("{deposits}/{}/reversal", deposit.to_uppercase());
    let reversed = service.act(&reversal, &token).await;
    assert_eq!(reversed.status, 201, "{reversed:?}");
    for number in ["01", "+1", "%2B1", " 1", "1.0"] {
        let path = format!("/v1/orders/{id}-{}", number.replace(' ', "%20"));
        get(path).await.assert_problem(400, "bad-request");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_body_is_json_in_utf_8_as_it_is() {
    let service = Service::start().await;
    let token = service.operator();
    let post = async |headers: &[(&str, &str)]| -> Reply {
        let mut request = Request::post("/v1/accounts/sam/deposits")
            .header("authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Bytes::from_static(br#"{"reference":"d","amount":1,"currency":"CNY"}"#);
        send(service.addr, request.body(Full::new(body)).unwrap()).await
    };
    const TYPE: &str = "content-type";
    for good in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
    ] {
        // The second one is the same deposit.
        let status = post(&[(TYPE, good)]).await.status;
        assert!([201, 200].contains(&status), "{good}: {status}");
    }
    let json = (TYPE, "application/json");
    assert_eq!(
        post(&[json, ("content-encoding", "identity")]).await.status,
        200
    );
    for bad in [
        &[][..],
        &[(TYPE, "application/json; charset=latin1")],
        &[(TYPE, "application/json; charset=utf-16")],
        &[(TYPE, "text/json")],
        &[json, (TYPE, "text/plain")],
        &[json, ("content-encoding", "gzip")],
        &[json, ("content-encoding", "identity, gzip")],
    ] {
        post(bad).await.assert_problem(415, "media-type");
    }
    service.stop().await;
}

#[tokio::test]
async fn whoever_is_answered_503_is_told_when_to_come_again() {
    let service = Service::start().await;
    let id = service.sale(9, |_| ()).await;
    let pause = format!("/v1/campaigns/{id}/pause");
    assert_eq!(service.act(&pause, &service.operator()).await.status, 200);
    let token = service.token("ann", "claim");
    let path = format!("/v1/sales/{id}/orders");
    let paused = call(service.addr, "POST", &path, Some(&token), &[], None).await;
    paused.assert_problem(503, "paused");
    assert_eq!(paused.header("retry-after"), "1");
    service.stop().await;
}
