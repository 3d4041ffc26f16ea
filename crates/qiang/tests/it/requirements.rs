//! Campaigns that require grab tickets and order checks, on both engines, and on two nodes of one installation.

use std::sync::Arc;

use crate::common::{SECRET, call, sale, sign};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, body::Incoming, header::HeaderValue, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use qiang::{
    Backend, NodeStarter, RunningNode,
    config::{EngineKind, NodeConfig, Secret},
};
use qiang_client::load::{
    client::LoadClient,
    load_generator::{self, LoadPlan, User},
    ticket, verdict,
};
use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Options, Standalone},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const STOCK: u32 = 20;
const USERS: u32 = 60;
/// Difficulty of the challenge, low for tests.
const DIFFICULTY: u32 = 6;

struct Node {
    running: RunningNode,
    exp: i64,
}

impl Node {
    async fn start(mut config: NodeConfig) -> Self {
        config.auth.hs256_secret = Secret::new(SECRET);
        config.tickets.difficulty = DIFFICULTY;
        config.order_check.secret = Secret::new(format!("whsec_{}", "A".repeat(44)));
        let backend = Backend::open(&config).await.unwrap();
        let exp = backend.ports.clock.now().as_millis() / 1_000 + 3_600;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = NodeStarter::start(config, backend, listener).await.unwrap();
        Self { running, exp }
    }

    fn token(&self, user: &str, scope: &str) -> String {
        sign(&json!({ "sub": user, "scope": scope, "exp": self.exp }))
    }

    fn bearer(&self, user: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Bearer {}", self.token(user, "claim"))).unwrap()
    }

    async fn client(&self) -> LoadClient {
        LoadClient::connect(self.running.addr()).await.unwrap()
    }

    /// The path of a new sale with this requirement.
    async fn sale(&self, requirement: &str) -> String {
        let mut body = sale(STOCK);
        body["requirements"] = json!([requirement]);
        let (addr, operator) = (self.running.addr(), self.token("olga", "admin"));
        let made = call(addr, "POST", "/v1/sales", Some(&operator), &[], Some(body)).await;
        assert_eq!(made.status, 201, "{made:?}");
        format!("/v1/sales/{}", made.text("id"))
    }

    /// The answer to an order without a ticket.
    async fn without_ticket(&self, sale: &str, user: &str) -> crate::common::Reply {
        let (path, token) = (format!("{sale}/orders"), self.token(user, "claim"));
        call(self.running.addr(), "POST", &path, Some(&token), &[], None).await
    }

    /// Sells the sale out to users with tickets, and judges their answers. Returns one grant and its user.
    async fn sell_out(&self, sale: &str) -> (String, Bytes) {
        let user = |n| User {
            token: self.bearer(&format!("u{n}")),
        };
        let plan = LoadPlan {
            addr: self.running.addr(),
            path: format!("{sale}/orders"),
            body: Bytes::new(),
            tickets: Some(format!("{sale}/tickets")),
            users: Arc::new((0..USERS).map(user).collect()),
            clicks: Arc::new((0..USERS).collect()),
            connections: 8,
            per_second: None,
            time_max: None,
            keep_grants: true,
        };
        let results = load_generator::run(plan, |_| ()).await.unwrap();
        let sold_out = u64::from(USERS - STOCK);
        assert_eq!(results.errors, 0);
        assert_eq!(
            (results.count(201), results.count(409)),
            (u64::from(STOCK), sold_out)
        );
        let verdict = verdict::judge(&results.seen, u64::from(STOCK)).unwrap();
        assert_eq!((verdict.duplicates, verdict.oversold), (0, 0));
        let one = &results.seen[0];
        (format!("u{}", one.user), one.body.clone())
    }
}

/// A shop that refuses eve's orders, and allows all others.
async fn shop() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = service_fn(async |request: Request<Incoming>| {
                let body = request.into_body().collect().await?.to_bytes();
                let asked: Value = serde_json::from_slice(&body).unwrap();
                let answer = match asked["data"]["user"] == "eve" {
                    true => json!({ "ok": false, "reason": "no address" }),
                    false => json!({ "ok": true }),
                };
                Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(answer.to_string()))))
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    url
}

/// One node creates a sale, and another node checks its orders.
async fn check_orders(creator: &Node, asked: &Node) {
    let sale = creator.sale("order_check").await;
    let refused = asked.without_ticket(&sale, "eve").await;
    refused.assert_problem(403, "order-check-refused");
    assert_eq!(refused.text("detail"), "no address");
    let state = sale.replace("sales", "campaigns") + "/state";
    let remaining = async || {
        let state = call(asked.running.addr(), "GET", &state, None, &[], None).await;
        state.json()["remaining"].as_u64().unwrap()
    };
    assert_eq!(remaining().await, u64::from(STOCK));
    assert_eq!(asked.without_ticket(&sale, "ann").await.status, 201);
    assert_eq!(remaining().await, u64::from(STOCK) - 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_engine() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::defaults().unwrap();
    config.limits.disable_rate_limits();
    config.engine.data = folder.path().join("q.db");
    config.order_check.url = shop().await;
    let node = Node::start(config.clone()).await;
    let sale = node.sale("ticket").await;
    let refused = node.without_ticket(&sale, "u1").await;
    refused.assert_problem(403, "ticket-missing");
    node.running.shutdown().await.unwrap();
    // The requirement is stored in the file, not in a node's memory.
    let node = Node::start(config).await;
    let refused = node.without_ticket(&sale, "u1").await;
    refused.assert_problem(403, "ticket-missing");
    node.sell_out(&sale).await;
    check_orders(&node, &node).await;
    node.running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_with_two_nodes() {
    let (redis, postgres) = tokio::task::block_in_place(|| {
        let options = postgres::Options::new().without_fsync();
        (
            Standalone::start(&Options::new()),
            Postgres::start(&options),
        )
    });
    qiang_ledger::migrate(&postgres.url()).await.unwrap();
    let mut config = NodeConfig::defaults().unwrap();
    config.limits.disable_rate_limits();
    config.engine.kind = EngineKind::Redis;
    config.redis.urls = redis.url();
    config.redis.partitions = 2;
    config.ledger.url = Secret::new(postgres.url());
    config.order_check.url = shop().await;
    let (one, two) = (Node::start(config.clone()).await, Node::start(config).await);
    let sale = one.sale("ticket").await;
    // This node has not seen the sale before.
    let refused = two.without_ticket(&sale, "ann").await;
    refused.assert_problem(403, "ticket-missing");

    // Tickets and challenges of one node are valid on the other.
    let (tickets, orders) = (format!("{sale}/tickets"), format!("{sale}/orders"));
    let ann = one.bearer("ann");
    let (mut to_one, mut to_two) = (one.client().await, two.client().await);
    let posed = to_one.post(&tickets, &ann, Bytes::new()).await.unwrap();
    let challenge = &posed.success().unwrap()["challenge"];
    let nonce = challenge["nonce"].as_str().unwrap();
    assert_eq!(challenge["difficulty"], DIFFICULTY);
    let solution = ticket::solve(nonce, DIFFICULTY).to_string();
    let solved = json!({ "nonce": nonce, "solution": solution }).to_string();
    let got = to_two.post(&tickets, &ann, solved.into()).await.unwrap();
    let ticket = got.success().unwrap()["ticket"]
        .as_str()
        .unwrap()
        .to_owned();
    let ticket = HeaderValue::from_str(&ticket).unwrap();
    let order = async |client: &mut LoadClient| {
        client
            .post_with_ticket(&orders, &ann, &ticket, Bytes::new())
            .await
            .unwrap()
    };
    let granted = order(&mut to_one).await;
    assert_eq!(granted.status, 201);
    // A repeated order carries the same ticket.
    let again = order(&mut to_two).await;
    assert_eq!((again.status.as_u16(), &again.body), (200, &granted.body));

    // If nothing is left, a user with a unit still gets a ticket, and with it the same unit again.
    let another = one.sale("ticket").await;
    let (user, grant) = one.sell_out(&another).await;
    let refused = two.without_ticket(&another, "zoe").await;
    assert!([403, 409].contains(&refused.status), "{refused:?}");
    let (holder, tickets) = (two.bearer(&user), format!("{another}/tickets"));
    let ticket = ticket::get(&mut to_two, &tickets, &holder).await.unwrap();
    let ticket = ticket.ok().unwrap();
    let orders = format!("{another}/orders");
    let again = to_two.post_with_ticket(&orders, &holder, &ticket, Bytes::new());
    let again = again.await.unwrap();
    assert_eq!((again.status.as_u16(), &again.body), (200, &grant));
    check_orders(&one, &two).await;
    for node in [one, two] {
        node.running.shutdown().await.unwrap();
    }
}
