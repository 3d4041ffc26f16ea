//! A node with another clock than its engine.

use std::{net::SocketAddr, sync::Arc};

use qiang::{
    Backend, NodeStarter,
    config::{EngineKind, NodeConfig, Secret},
};
use qiang_core::{ports::Clock, time::Timestamp};
use qiang_embedded::{GuardedClock, SystemClock};
use qiang_testkit::servers::redis::{Options, Standalone};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::node::http::common::{SECRET, Service, call, deposit, in_an_hour, packet, sale, sign};

/// Offset of the node's clock, ahead or behind.
const OFFSET_MS: i64 = 300_000;
/// Maximum difference of Redis' time from a node's estimate of it, on a busy machine.
const ESTIMATE_MS: i64 = 10_000;

/// A clock with a constant offset in milliseconds.
struct Wrong(Arc<dyn Clock>, i64);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        self.0.now().plus_millis(self.1)
    }
}

/// A node under test.
struct Subject<T> {
    addr: SocketAddr,
    /// Token of a user with a scope.
    token: T,
    /// Clock of the engine, and the maximum error of the node's estimate of it, in milliseconds.
    engine: (Arc<dyn Clock>, i64),
}

impl<T: Fn(&str, &str) -> String> Subject<T> {
    async fn post(&self, path: &str, token: &str, body: Option<Value>) -> Value {
        let made = call(self.addr, "POST", path, Some(token), &[], body).await;
        assert_eq!(made.status, 201, "{path}: {made:?}");
        made.json()
    }

    /// Creates a sale and a packet without a start. Both start now by the engine's clock, and grant at once.
    async fn opens_at_once(&self) {
        let operator = (self.token)("olga", "admin");
        let account = "/v1/accounts/sam/deposits";
        self.post(account, &operator, Some(deposit(1_000))).await;
        let sam = (self.token)("sam", "send");
        let campaigns = [
            ("/v1/sales", operator, sale(5), "orders"),
            ("/v1/red-packets", sam, packet(1_000, 5), "claims"),
        ];
        for (path, token, body, claims) in campaigns {
            let (clock, error_ms) = &self.engine;
            let before = clock.now().as_millis() - error_ms;
            let made = self.post(path, &token, Some(body)).await;
            let starts_at = made["state"]["starts_at"].as_str().unwrap();
            let starts_at: jiff::Timestamp = starts_at.parse().unwrap();
            let could = before..=clock.now().as_millis() + error_ms;
            let starts_at = starts_at.as_millisecond();
            assert!(could.contains(&starts_at), "{starts_at} in {could:?}");
            assert_eq!(made["state"]["phase"], "live", "{made}");
            let claims = format!("{path}/{}/{claims}", made["id"].as_str().unwrap());
            self.post(&claims, &(self.token)("ann", "claim"), None)
                .await;
        }
    }
}

#[tokio::test]
async fn a_campaign_without_a_start_opens_at_once_whatever_the_nodes_clock_says() {
    for offset_ms in [OFFSET_MS, -OFFSET_MS] {
        let service = Service::start_with(|_, backend| {
            let clock = &mut backend.ports.clock;
            *clock = Arc::new(Wrong(Arc::clone(clock), offset_ms));
        })
        .await;
        let subject = Subject {
            addr: service.addr,
            token: |user: &str, scope: &str| service.token(user, scope),
            engine: (service.clock.clone(), 0),
        };
        subject.opens_at_once().await;
        service.stop().await;
    }
}

/// The clock of Redis decides, and not the wall clock of the node's machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_on_redis_without_a_start_opens_at_once_whatever_the_nodes_clock_says() {
    let server = tokio::task::block_in_place(|| Standalone::start(&Options::new()));
    for (prefix, offset_ms) in [("ahead", OFFSET_MS), ("behind", -OFFSET_MS)] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.auth.hs256_secret = Secret::new(SECRET);
        config.limits.disable_rate_limits();
        config.engine.kind = EngineKind::Redis;
        config.engine.data = folder.path().join("ledger.db");
        config.redis.urls = server.url();
        config.redis.prefix = prefix.to_owned();
        config.redis.partitions = 2;
        let wall = Arc::new(Wrong(Arc::new(SystemClock), offset_ms));
        let clock = GuardedClock::from_wall_clock(wall);
        let backend = Backend::open_with(&config, clock).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = NodeStarter::start(config, backend, listener).await.unwrap();
        let exp = in_an_hour();
        let subject = Subject {
            addr: running.addr(),
            token: |user: &str, scope: &str| {
                sign(&json!({ "sub": user, "scope": scope, "exp": exp }))
            },
            engine: (Arc::new(SystemClock), ESTIMATE_MS),
        };
        subject.opens_at_once().await;
        running.shutdown().await.unwrap();
    }
}
