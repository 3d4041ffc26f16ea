//! Rows that users can cause without end: keys of what is done already.

use serde_json::{Value, json};

use crate::http::common::{Reply, Service, call, paid};

impl Service {
    async fn keyed_act(&self, path: &str, token: &str, key: &str) -> Reply {
        let headers = [("Idempotency-Key", key)];
        call(self.addr, "POST", path, Some(token), &headers, None).await
    }

    fn count(&self, of: &str) -> i64 {
        let file = rusqlite::Connection::open(self.folder.path().join("qiang.db")).unwrap();
        let sql = format!("SELECT count(*) FROM {of}");
        file.query_row(&sql, [], |row| row.get(0)).unwrap()
    }
}

#[tokio::test]
async fn what_is_done_for_good_binds_no_further_key() {
    let service = Service::start().await;
    let (ann, bob) = (service.token("ann", "claim"), service.token("bob", "claim"));
    let operator = service.operator();
    let sale = service.sale(5, |_| ()).await;
    let orders = format!("/v1/sales/{sale}/orders");
    let mut order = Vec::new();
    for token in [&ann, &bob] {
        let made = service.act(&orders, token).await;
        assert_eq!(made.status, 201, "{made:?}");
        order.push(format!("/v1/orders/{}", made.text("order")));
    }
    let payment = format!("{}/payment", order[1]);
    let made = service.post(&payment, &operator, paid("p", 500)).await;
    assert_eq!(made.status, 200, "{made:?}");
    let cases: [(String, &String); 4] = [
        (format!("{}/cancellation", order[0]), &ann),
        (format!("{}/return", order[1]), &operator),
        (format!("/v1/campaigns/{sale}/close"), &operator),
        (format!("/v1/campaigns/{sale}/archive"), &operator),
    ];
    for (path, token) in &cases {
        let first = service.keyed_act(path, token, "first").await;
        assert_eq!(first.status, 200, "{path}: {first:?}");
        let rows = (service.count("actions"), service.count("idempotency_keys"));
        for n in 0..5 {
            let again = service.keyed_act(path, token, &format!("again-{n}")).await;
            assert_eq!(again.status, 200, "{path}: {again:?}");
            let state = |reply: &Reply| -> Value {
                let body = reply.json();
                [&body["state"], &body["phase"]]
                    .map(Clone::clone)
                    .to_vec()
                    .into()
            };
            assert_eq!(state(&again), state(&first), "{path}");
        }
        let after = (service.count("actions"), service.count("idempotency_keys"));
        assert_eq!(after, rows, "{path}");
        let retried = service.keyed_act(path, token, "first").await;
        assert_eq!(retried.json(), first.json(), "{path}");
        assert_eq!(retried.header("idempotency-replayed"), "true");
    }
    service.stop().await;
}
