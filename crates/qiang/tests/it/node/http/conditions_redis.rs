//! Changes under `If-Match` on two nodes with a common Redis: of changes under one tag exactly one is made.

use std::net::SocketAddr;

use futures_util::future::join_all;
use qiang::{
    Backend, NodeStarter, RunningNode,
    config::{EngineKind, NodeConfig, Secret},
};
use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::node::http::common::{Reply, SECRET, call, in_an_hour, sale, sign};

const PARTITIONS: u16 = 3;

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

async fn start(redis: &Standalone, postgres: &Postgres) -> RunningNode {
    let mut config = NodeConfig::defaults().unwrap();
    config.auth.hs256_secret = Secret::new(SECRET);
    config.limits.disable_rate_limits();
    config.engine.kind = EngineKind::Redis;
    config.redis.urls = redis.url();
    config.redis.partitions = PARTITIONS;
    // The larger sale is spread over all partitions.
    config.redis.shard_supply_min = 100;
    config.ledger.url = Secret::new(postgres.url());
    let backend = Backend::open(&config).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    NodeStarter::start(config, backend, listener).await.unwrap()
}

async fn ask(
    addr: SocketAddr,
    method: &str,
    path: &str,
    tag: Option<&str>,
    body: Option<Value>,
) -> Reply {
    let token = sign(&json!({ "sub": "olga", "scope": "admin", "exp": in_an_hour() }));
    let headers: Vec<_> = tag.map(|tag| ("if-match", tag)).into_iter().collect();
    call(addr, method, path, Some(&token), &headers, body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_under_one_tag_on_two_nodes_exactly_one_is_made() {
    let redis = blocking(|| Standalone::start(&Options::new()));
    let postgres = blocking(|| Postgres::start(&postgres::Options::new().without_fsync()));
    qiang::migrate(&postgres.url()).await.unwrap();
    let nodes = [
        start(&redis, &postgres).await,
        start(&redis, &postgres).await,
    ];
    let addrs = nodes.each_ref().map(RunningNode::addr);
    for stock in [5, 900] {
        let made = ask(addrs[0], "POST", "/v1/sales", None, Some(sale(stock))).await;
        assert_eq!(made.status, 201, "{made:?}");
        let path = format!("/v1/sales/{}", made.text("id"));
        for round in 0..6_u32 {
            let before = ask(addrs[0], "GET", &path, None, None).await;
            let tag = before.header("etag").to_owned();
            assert!(tag.starts_with('"'), "{tag}");
            let (path, tag) = (&path, &tag);
            let changes = (0..6_u32).map(|n| match n % 3 {
                0 => json!({ "title": format!("lamps {round}-{n}") }),
                1 => {
                    json!({ "unit_price": { "amount": 1_000 + round * 8 + n, "currency": "CNY" } })
                }
                _ => json!({ "stock": stock + 1 + round * 8 + n }),
            });
            let changes: Vec<Value> = changes.collect();
            let made = changes.iter().enumerate().map(async |(n, change)| {
                let change = Some(change.clone());
                ask(addrs[n / 3], "PATCH", path, Some(tag), change).await
            });
            let made = join_all(made).await;
            let won: Vec<_> = (0..made.len()).filter(|n| made[*n].status == 200).collect();
            for (n, reply) in made.iter().enumerate() {
                if !won.contains(&n) {
                    reply.assert_problem(412, "precondition-failed");
                }
            }
            assert_eq!(won.len(), 1, "{stock} {round}: {made:?}");
            let after = ask(addrs[1], "GET", path, None, None).await.json();
            for field in ["title", "unit_price", "stock"] {
                let asked = changes[won[0]].get(field);
                let before = before.json();
                let expected = asked.unwrap_or(&before[field]);
                assert_eq!(&after[field], expected, "{stock} {round}: {field}");
            }
        }
    }
    for node in nodes {
        node.shutdown().await.unwrap();
    }
}
