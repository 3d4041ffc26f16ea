//! Users of a drill: each buys one unit after another under new names, and presses again until there is an answer.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::http::HeaderValue;
use bytes::Bytes;
use parking_lot::Mutex;
use qiang::{SystemClock, TokenIssuer};
use qiang_client::load::client::{LoadClient, Response};
use qiang_core::{id::UserId, ports::Clock as _};
use tokio::{task::JoinHandle, time::timeout};

/// Pause of a user before the next purchase, and before pressing again.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait of a user for an answer before pressing again.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Lifetime of tokens, in seconds.
const TOKEN_S: i64 = 3_600;
/// Key of each user's only purchase.
static KEY: HeaderValue = HeaderValue::from_static("drill");

/// Answers that users got during one fault.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) claims: u64,
    pub(super) granted: u64,
    /// Other answers by status.
    pub(super) refused: BTreeMap<u16, u64>,
    /// Claims without an answer.
    pub(super) unanswered: u64,
    pub(super) longest_wait: Duration,
    pub(super) last_failure: Option<Instant>,
}

/// Orders by user, as answered.
type Orders = Arc<Mutex<HashMap<String, String>>>;

/// Running users.
pub(super) struct Crowd {
    seen: Arc<Mutex<Seen>>,
    orders: Orders,
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Sale of the drill, with its nodes.
#[derive(Clone)]
pub(super) struct StagingSale {
    pub(super) nodes: Arc<Vec<SocketAddr>>,
    pub(super) issuer: Arc<TokenIssuer>,
    pub(super) sale: String,
}

/// Header of a token.
pub(super) fn bearer(issuer: &TokenIssuer, user: &str, scope: &str) -> anyhow::Result<HeaderValue> {
    let user = UserId::new(user)?;
    let token = issuer.issue(&user, scope, SystemClock.now(), TOKEN_S)?;
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Crowd {
    pub(super) fn start(shop: &StagingSale, users: usize) -> Self {
        let (seen, orders) = (Arc::default(), Orders::default());
        let (is_over, number) = (Arc::default(), Arc::<AtomicU64>::default());
        let task = |place: usize| {
            let buyer = DrillUser {
                shop: shop.clone(),
                seen: Arc::clone(&seen),
                orders: Arc::clone(&orders),
                is_over: Arc::clone(&is_over),
                node: place,
                connection: None,
            };
            tokio::spawn(buyer.run(Arc::clone(&number)))
        };
        let tasks = (0..users).map(task).collect();
        Self {
            seen,
            orders,
            is_over,
            tasks,
        }
    }

    /// Begins a new account of what users see, and returns the last one.
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut self.seen.lock())
    }

    /// Time of the last claim without a grant since the last account.
    pub(super) fn last_failure(&self) -> Option<Instant> {
        self.seen.lock().last_failure
    }

    pub(super) fn granted(&self) -> u64 {
        self.seen.lock().granted
    }

    /// Lets each user finish, and returns all orders.
    pub(super) async fn stop(self) -> HashMap<String, String> {
        self.is_over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            // The panic hook reports a panic.
            drop(task.await);
        }
        std::mem::take(&mut *self.orders.lock())
    }
}

struct DrillUser {
    shop: StagingSale,
    seen: Arc<Mutex<Seen>>,
    orders: Orders,
    is_over: Arc<AtomicBool>,
    /// Index of the present node.
    node: usize,
    connection: Option<LoadClient>,
}

impl DrillUser {
    async fn run(mut self, number: Arc<AtomicU64>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let user = format!("drill-{}", number.fetch_add(1, Ordering::Relaxed));
            let Ok(token) = bearer(&self.shop.issuer, &user, "claim") else {
                return;
            };
            self.buy(user, &token).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Presses until there is an order, or the drill is over.
    async fn buy(&mut self, user: String, token: &HeaderValue) {
        let begun = Instant::now();
        loop {
            let answer = timeout(ANSWER_MAX, self.press(token)).await;
            let answer = answer.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in time")));
            let order = answer.as_ref().ok().and_then(order_of);
            {
                let mut seen = self.seen.lock();
                seen.claims += 1;
                match (&answer, &order) {
                    (_, Some(_)) => {
                        seen.granted += 1;
                        seen.longest_wait = seen.longest_wait.max(begun.elapsed());
                    }
                    (Ok(answer), None) => {
                        *seen.refused.entry(answer.status.as_u16()).or_default() += 1;
                    }
                    (Err(_), None) => seen.unanswered += 1,
                }
                if order.is_none() {
                    seen.last_failure = Some(Instant::now());
                }
            }
            if let Some(order) = order {
                self.orders.lock().insert(user, order);
                return;
            }
            if answer.is_err() {
                // The next node may answer.
                self.connection = None;
                self.node += 1;
            }
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn press(&mut self, token: &HeaderValue) -> anyhow::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let nodes = &self.shop.nodes;
                LoadClient::connect(nodes[self.node % nodes.len()]).await?
            }
        };
        let path = format!("/v1/sales/{}/orders", self.shop.sale);
        let answer = connection.post_with_key(&path, token, &KEY, Bytes::new());
        let answer = answer.await.context("no answer")?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

/// Id of the order in an answer, if it is a grant.
fn order_of(answer: &Response) -> Option<String> {
    let order = answer.success().ok()?;
    Some(order["id"].as_str()?.to_owned())
}
