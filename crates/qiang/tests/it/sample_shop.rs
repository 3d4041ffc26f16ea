//! `qiang serve --dev`: its sample shop, and its clock that moves on request.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    common::{call, output},
    serve::{start_dev, start_dev_with, terminate},
};

async fn get(addr: SocketAddr, token: &str, path: &str) -> Value {
    let reply = call(addr, "GET", path, Some(token), &[], None).await;
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

/// Waits until something of the service is as expected.
async fn until(addr: SocketAddr, token: &str, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let found = get(addr, token, path).await;
        if is_so(&found) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{path}: {found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn ids(list: &Value) -> Vec<String> {
    let all = list["data"].as_array().unwrap().iter();
    all.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

const SALES: &str = "/v1/sales?owner=market";
const PACKETS: &str = "/v1/red-packets?owner=market";

/// Starts the service with its shop, and waits until the shop is complete.
async fn start(folder: &Path) -> (crate::serve::Process, SocketAddr, String, [Vec<String>; 2]) {
    let (process, addr, token) = start_dev_with(folder, &[]);
    let has = |count: usize| move |list: &Value| ids(list).len() >= count;
    let sales = until(addr, &token, SALES, has(5)).await;
    let packets = until(addr, &token, PACKETS, has(2)).await;
    (process, addr, token, [ids(&sales), ids(&packets)])
}

#[tokio::test]
async fn the_sample_shop_is_opened_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, addr, token, first) = start(folder.path()).await;
    let sales = get(addr, &token, SALES).await;
    for sale in sales["data"].as_array().unwrap() {
        let picture = sale["image_url"].as_str().unwrap();
        let found = call(addr, "GET", picture, None, &[], None).await;
        assert_eq!(
            (found.status, found.header("content-type")),
            (200, "image/svg+xml")
        );
        let opens_later = sale["title"].as_str().unwrap().starts_with("Headphones");
        let phase = if opens_later { "scheduled" } else { "live" };
        assert_eq!(sale["state"]["phase"], phase, "{sale}");
    }
    // It sells, and its packets are funded.
    let claims = format!("/v1/red-packets/{}/claims", first[1][0]);
    let claimed = call(addr, "POST", &claims, Some(&token), &[], None).await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
    let account = get(addr, &token, "/v1/accounts/market").await;
    assert_eq!(account["balances"][0]["available"]["amount"], json!(0));
    terminate(&process);
    tokio::task::spawn_blocking(move || process.0.wait())
        .await
        .unwrap()
        .unwrap();
    let (_process, addr, token, second) = start(folder.path()).await;
    assert_eq!(second, first);
    // A moment later, too.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sales = ids(&get(addr, &token, SALES).await);
    assert_eq!([sales, ids(&get(addr, &token, PACKETS).await)], first);
}

#[tokio::test]
async fn an_hour_passes_on_request_and_stays_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, addr, token, [sales, _]) = start(folder.path()).await;
    let mut by_title = std::collections::BTreeMap::new();
    for id in sales {
        let sale = get(addr, &token, &format!("/v1/sales/{id}")).await;
        let title = sale["title"].as_str().unwrap().split(' ').next();
        by_title.insert(title.unwrap().to_owned(), id);
    }
    let (lamp, headphones) = (&by_title["Desk"], &by_title["Headphones"]);
    let orders = format!("/v1/sales/{lamp}/orders");
    let order = call(addr, "POST", &orders, Some(&token), &[], None).await;
    assert_eq!(order.status, 201, "{order:?}");
    let order = format!("/v1/orders/{}", order.text("id"));
    let advance = async |addr, token: &str, seconds: i64, key: &str| {
        let body = Some(json!({ "advance_seconds": seconds }));
        let headers = [("idempotency-key", key)];
        call(
            addr,
            "POST",
            "/v1/test-clock/advance",
            Some(token),
            &headers,
            body,
        )
        .await
    };
    for wrong in [0, -1, 2_592_001] {
        let refused = advance(addr, &token, wrong, "wrong").await;
        refused.assert_problem(422, "invalid");
    }
    let before = get(addr, &token, &format!("/v1/sales/{lamp}")).await;
    let moved = advance(addr, &token, 3_600, "hour").await;
    assert_eq!(moved.status, 200, "{moved:?}");
    assert_eq!(moved.json()["advanced_seconds"], json!(3_600));
    // A retry under the key does not move it again.
    let again = advance(addr, &token, 3_600, "hour").await;
    assert_eq!((again.status, again.json()), (200, moved.json()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    // Neither does one whose first answer was lost.
    let lose = "UPDATE idempotency_keys SET answer = NULL WHERE key = 'hour'";
    let data = rusqlite::Connection::open(folder.path().join("qiang.db")).unwrap();
    data.busy_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(data.execute(lose, []).unwrap(), 1);
    drop(data);
    let again = advance(addr, &token, 3_600, "hour").await;
    assert_eq!(again.json()["advanced_seconds"], json!(3_600), "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), "true");
    until(addr, &token, &order, |order| order["state"] == "expired").await;
    let path = format!("/v1/sales/{headphones}");
    let opened = until(addr, &token, &path, |sale| sale["state"]["phase"] == "live").await;
    let now = |sale: &Value| sale["state"]["now"].as_str().unwrap().to_owned();
    assert!(now(&opened) > now(&before));
    let (later, held) = (now(&opened), opened["state"]["remaining"].clone());
    assert_eq!(held, opened["stock"]);
    terminate(&process);
    tokio::task::spawn_blocking(move || process.0.wait())
        .await
        .unwrap()
        .unwrap();
    // Without --dev the data would have entries of the future.
    let secret = (
        "QIANG__AUTH__HS256_SECRET",
        "a-secret-for-tests-of-32-bytes-at-least",
    );
    let refused = output(
        folder.path(),
        &["serve", "--listen", "127.0.0.1:0"],
        &[secret],
    );
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("serve it with --dev"), "{stderr}");
    let (_process, addr, token) = start_dev(folder.path());
    let sale = get(addr, &token, &path).await;
    assert!(now(&sale) > later, "{sale}");
    assert_eq!(sale["state"]["phase"], "live");
}
