//! Requests to the nodes, and the meaning of their answers.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use hyper::header::HeaderValue;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use qiang_client::load::client::{LoadClient, Response};
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockWriteGuard};

use crate::{
    history::{Answer, Attempt, Grant, History, Level, OperationId, paid_minor},
    installation::program::SECRET,
};

/// Time limit of a request. After it, the client retries.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// Maximum idle connections per node.
const IDLE_MAX: usize = 64;
/// Expiry of tokens: in the year 2100, because the clocks of the nodes jump.
const EXPIRES_S: i64 = 4_102_444_800;
/// Maximum cached tokens of users.
const TOKENS_MAX: usize = 50_000;

/// Connections to the nodes, and the history of all requests on them.
#[derive(Clone)]
pub(crate) struct Nodes {
    inner: Arc<Inner>,
}

struct Inner {
    addrs: Vec<SocketAddr>,
    idle: Vec<Mutex<Vec<LoadClient>>>,
    tokens: Mutex<BTreeMap<String, HeaderValue>>,
    history: Arc<History>,
    /// Prefix of all names of users and campaigns.
    prefix: String,
    /// Sender of red packets, and seller.
    sender: String,
    seller: String,
    /// Locked for writing while users must wait.
    gate: RwLock<()>,
}

impl Nodes {
    /// Creates users with names that start with `prefix`.
    pub(crate) fn new(addrs: Vec<SocketAddr>, history: Arc<History>, prefix: &str) -> Self {
        let idle = addrs.iter().map(|_| Mutex::default()).collect();
        let inner = Inner {
            addrs,
            idle,
            tokens: Mutex::default(),
            history,
            prefix: prefix.to_owned(),
            sender: format!("{prefix}sender"),
            seller: format!("{prefix}shop"),
            gate: RwLock::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn history(&self) -> &History {
        &self.inner.history
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    pub(crate) fn sender(&self) -> &str {
        &self.inner.sender
    }

    pub(crate) fn seller(&self) -> &str {
        &self.inner.seller
    }

    /// Sends a request to the node `node`, modulo the number of nodes.
    ///
    /// # Errors
    /// If there is no answer in time.
    pub(crate) async fn send(&self, node: usize, request: &Request) -> Result<Response> {
        let node = node % self.inner.addrs.len();
        let token = self.token(&request.user)?;
        let path = &request.path;
        let body = request.body.as_ref();
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let exchange = async {
            let mut client = self.connection(node).await?;
            let answer = match &request.verb {
                Verb::Patch => client.patch(path, &token, body).await?,
                Verb::Post => client.post(path, &token, body).await?,
                Verb::PostWithKey(key) => {
                    let key = HeaderValue::from_str(key)?;
                    client.post_with_key(path, &token, &key, body).await?
                }
            };
            self.keep(node, client);
            anyhow::Ok(answer)
        };
        let answer = tokio::time::timeout(ANSWER_MAX, exchange).await;
        answer.context("no answer in time")?
    }

    /// Sends a read on a new connection, because idle ones may have ended with their node.
    ///
    /// # Errors
    /// If there is no answer in time, or it is not a success.
    pub(crate) async fn get(&self, node: usize, path: &str) -> Result<Value> {
        let node = node % self.inner.addrs.len();
        let token = self.token(self.seller())?;
        let exchange = async {
            let mut client = LoadClient::connect(self.inner.addrs[node]).await?;
            client.get(path, &token).await?.success()
        };
        let answer = tokio::time::timeout(ANSWER_MAX, exchange).await;
        answer.context("no answer in time")?
    }

    /// Waits until no request is in flight, and blocks new ones until the value is dropped.
    pub(crate) async fn pause(&self) -> RwLockWriteGuard<'_, ()> {
        self.inner.gate.write().await
    }

    /// Sends one request of an operation, and records it with its answer.
    pub(crate) async fn attempt(
        &self,
        operation: OperationId,
        node: usize,
        request: &Request,
    ) -> Answer {
        let _among_others = self.inner.gate.read().await;
        self.attempt_alone(operation, node, request).await
    }

    /// The same even while users must wait.
    pub(crate) async fn attempt_alone(
        &self,
        operation: OperationId,
        node: usize,
        request: &Request,
    ) -> Answer {
        let history = self.history();
        let start = history.now();
        let answer = match self.send(node, request).await {
            Ok(response) => read(&response),
            Err(error) => Answer::Undecided(format!("{error:#}")),
        };
        let attempt = Attempt {
            start,
            end: history.now(),
            answer: answer.clone(),
        };
        history.record(operation, attempt);
        answer
    }

    async fn connection(&self, node: usize) -> Result<LoadClient> {
        let idle = self.inner.idle[node].lock().pop();
        match idle {
            Some(client) => Ok(client),
            None => LoadClient::connect(self.inner.addrs[node]).await,
        }
    }

    fn keep(&self, node: usize, client: LoadClient) {
        let mut idle = self.inner.idle[node].lock();
        if idle.len() < IDLE_MAX {
            idle.push(client);
        }
    }

    fn token(&self, user: &str) -> Result<HeaderValue> {
        if let Some(token) = self.inner.tokens.lock().get(user) {
            return Ok(token.clone());
        }
        let scope = match user {
            user if user == self.seller() => "claim campaigns:write:any deposit pay read:any",
            user if user == self.sender() => "claim send",
            _ => "claim",
        };
        let claims = json!({ "sub": user, "scope": scope, "exp": EXPIRES_S });
        let key = EncodingKey::from_secret(SECRET.as_bytes());
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?;
        let token = HeaderValue::from_str(&format!("Bearer {token}"))?;
        let mut tokens = self.inner.tokens.lock();
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(user.to_owned(), token.clone());
        Ok(token)
    }
}

/// Method of a request.
#[derive(Debug, Clone)]
pub(crate) enum Verb {
    Patch,
    Post,
    PostWithKey(String),
}

/// Request of a wish. It is the same for every attempt.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) user: String,
    pub(crate) verb: Verb,
    pub(crate) body: Option<Value>,
}

impl Request {
    /// A claim. For a sale it has a key derived from the user.
    pub(crate) fn claim(campaign: &str, is_packet: bool, user: &str, quantity: u32) -> Self {
        Self::claim_under(
            &format!("order-{user}"),
            campaign,
            is_packet,
            user,
            quantity,
        )
    }

    /// The same with another key, for a user who wants more units.
    pub(crate) fn claim_under(
        key: &str,
        campaign: &str,
        is_packet: bool,
        user: &str,
        quantity: u32,
    ) -> Self {
        let (resource, what, verb) = match is_packet {
            true => ("red-packets", "claims", Verb::Post),
            false => ("sales", "orders", Verb::PostWithKey(key.to_owned())),
        };
        Self {
            path: format!("/v1/{resource}/{campaign}/{what}"),
            user: user.to_owned(),
            verb,
            body: (!is_packet).then(|| json!({ "quantity": quantity })),
        }
    }

    /// The payment of an order, which `seller` reports.
    pub(crate) fn pay(campaign: &str, order: &Grant, reference: &str, seller: &str) -> Self {
        let body = Some(json!({ "reference": reference, "amount": {
            "amount": paid_minor(order), "currency": "CNY" } }));
        Self {
            body,
            ..Self::order(campaign, order.number, "payment", seller)
        }
    }

    /// The cancellation of a user's order.
    pub(crate) fn cancel(campaign: &str, number: u32, user: &str) -> Self {
        Self::order(campaign, number, "cancellation", user)
    }

    /// The return of a paid order, by its buyer or by the seller.
    pub(crate) fn take_back(campaign: &str, number: u32, user: &str) -> Self {
        Self::order(campaign, number, "return", user)
    }

    /// The return of some units of a paid order, once per key.
    pub(crate) fn return_units(
        campaign: &str,
        (number, units): (u32, u32),
        user: &str,
        key: &str,
    ) -> Self {
        Self {
            verb: Verb::PostWithKey(key.to_owned()),
            body: Some(json!({ "quantity": units })),
            ..Self::order(campaign, number, "return", user)
        }
    }

    /// The cancellation of some units of a held order, once per key.
    pub(crate) fn cancel_units(
        campaign: &str,
        (number, units): (u32, u32),
        user: &str,
        key: &str,
    ) -> Self {
        Self {
            path: format!("/v1/orders/{campaign}-{number}/cancellation"),
            ..Self::return_units(campaign, (number, units), user, key)
        }
    }

    fn order(campaign: &str, number: u32, what: &str, user: &str) -> Self {
        Self {
            path: format!("/v1/orders/{campaign}-{number}/{what}"),
            user: user.to_owned(),
            verb: Verb::Post,
            body: None,
        }
    }

    /// A sale's new stock.
    pub(crate) fn set_stock(campaign: &str, stock: u32, seller: &str) -> Self {
        Self {
            path: format!("/v1/sales/{campaign}"),
            user: seller.to_owned(),
            verb: Verb::Patch,
            body: Some(json!({ "stock": stock })),
        }
    }
}

/// Meaning of an answer to a client.
fn read(response: &Response) -> Answer {
    let status = response.status.as_u16();
    let text = || String::from_utf8_lossy(&response.body).into_owned();
    let Ok(body) = response.json() else {
        return Answer::Unexpected(format!("{status}: {}", text()));
    };
    match status {
        200 | 201 => success(&body, status == 201)
            .unwrap_or_else(|| Answer::Unexpected(format!("{status}: {}", text()))),
        429 | 503 => Answer::Undecided(format!("{status} {}", slug(&body))),
        // The client's requests are well-formed, so no other client error may occur. The checker judges whether an
        // unknown campaign or order is right.
        404 | 409 | 410 => Answer::Refused(slug(&body).to_owned()),
        _ => Answer::Unexpected(format!("{status}: {}", text())),
    }
}

/// The problem's type without the common prefix.
fn slug(body: &Value) -> &str {
    let path = body["type"].as_str().unwrap_or("?");
    path.rsplit('/').next().unwrap_or(path)
}

fn success(body: &Value, fresh: bool) -> Option<Answer> {
    if let Some(outcome) = body["outcome"].as_str() {
        return Some(Answer::Payment(outcome.to_owned()));
    }
    let number = |name: &str| u32::try_from(body[name].as_u64()?).ok();
    if let Some(stock) = number("stock") {
        return Some(Answer::Stock(stock));
    }
    if body["ack"].is_null() {
        return match body["state"].as_str() {
            Some("cancelled") => Some(Answer::Cancelled),
            Some("returned") => Some(Answer::Returned),
            Some("paid") => number("returned_quantity").map(Answer::UnitsReturned),
            Some("held") => number("cancelled_quantity").map(Answer::UnitsCancelled),
            // The hold may end between a cancellation and its retry.
            Some("expired") => number("cancelled_quantity")
                .filter(|units| *units > 0)
                .map(Answer::UnitsCancelled),
            _ => None,
        };
    }
    // Units may have been cancelled since the grant.
    let units = number("quantity").unwrap_or(1); // a share has none
    let cancelled = number("cancelled_quantity");
    let quantity = units + cancelled.unwrap_or(0);
    let amount = body["amount"]["amount"].as_i64()?;
    Some(Answer::Granted {
        grant: Grant {
            number: number("number")?,
            quantity,
            amount: amount * i64::from(quantity) / i64::from(units.max(1)),
            granted_at: body["created_at"].as_str()?.to_owned(),
        },
        level: Level::parse(body["ack"].as_str()?)?,
        fresh,
    })
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, StatusCode};

    use super::*;

    fn answer(status: u16, body: &Value) -> Answer {
        read(&Response {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_string()),
        })
    }

    #[test]
    fn answers_are_read_as_the_api_writes_them() {
        let mut grant = json!({"campaign": "c", "number": 7, "quantity": 2, "created_at": "noon",
            "amount": {"amount": 100, "currency": "CNY"}, "state": "held", "ack": "replica"});
        let granted = answer(201, &grant);
        let Answer::Granted {
            grant: seen,
            level: Level::Replica,
            fresh: true,
        } = granted
        else {
            panic!("{granted:?}")
        };
        assert_eq!((seen.number, seen.quantity, seen.amount), (7, 2, 100));
        grant["ack"] = Value::Null;
        grant["state"] = json!("cancelled");
        assert_eq!(answer(200, &grant), Answer::Cancelled);
        grant["state"] = json!("returned");
        assert_eq!(answer(200, &grant), Answer::Returned);
        (grant["state"], grant["returned_quantity"]) = (json!("paid"), json!(1));
        assert_eq!(answer(200, &grant), Answer::UnitsReturned(1));
        (grant["state"], grant["cancelled_quantity"]) = (json!("held"), json!(1));
        assert_eq!(answer(200, &grant), Answer::UnitsCancelled(1));
        grant["state"] = json!("expired");
        assert_eq!(answer(200, &grant), Answer::UnitsCancelled(1));
        grant["cancelled_quantity"] = json!(0);
        assert!(matches!(answer(200, &grant), Answer::Unexpected(_)));
        let sale = json!({"stock": 12, "ack": "memory", "state": {}});
        assert_eq!(answer(200, &sale), Answer::Stock(12));
        let paid = json!({"outcome": "paid", "order": grant});
        assert_eq!(answer(200, &paid), Answer::Payment("paid".to_owned()));
        let problem = |name: &str| json!({"type": format!("/problems/{name}")});
        let sold_out = answer(409, &problem("sold-out"));
        assert_eq!(sold_out, Answer::Refused("sold-out".to_owned()));
        assert!(!answer(503, &problem("uncertain")).is_final());
        assert!(matches!(
            answer(500, &problem("internal")),
            Answer::Unexpected(_)
        ));
        assert!(matches!(
            answer(422, &problem("invalid")),
            Answer::Unexpected(_)
        ));
    }
}
