//! Material for requests: every operation of the node's OpenAPI document with its example, and existing campaigns,
//! orders and users.

use std::{net::SocketAddr, time::SystemTime};

use anyhow::{Context as _, Result, bail};
use rand::{RngExt as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::{answers::Reader, node::SECRET};

/// Users who claim, send and administer.
pub(crate) const USERS: [&str; 6] = ["ann", "bob", "cid", "dan", "eve", "fay"];
/// Id of a campaign that does not exist.
const NO_CAMPAIGN: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";

/// Operation of the document.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// Method in upper case.
    pub(crate) method: String,
    /// Path, with placeholders such as `{id}`, `{user}`, `{reference}` or `{slug}`.
    pub(crate) path: String,
    /// Names of query parameters.
    pub(crate) query: Vec<String>,
    /// Example of its body.
    pub(crate) body: Option<Value>,
    /// Whether it creates an object that stays.
    pub(crate) creates: bool,
}

/// Material for requests.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    pub(crate) operations: Vec<Operation>,
    packets: Vec<String>,
    sales: Vec<String>,
    orders: Vec<String>,
    /// Campaign that may be closed.
    closable: String,
    /// `Authorization` of each user.
    pub(crate) tokens: Vec<String>,
}

impl Corpus {
    /// Reads the node's document, and creates campaigns and orders.
    pub(crate) async fn make(addr: SocketAddr) -> Result<Self> {
        let mut corpus = Self::default();
        for user in USERS {
            corpus.tokens.push(token(user)?);
        }
        let caller = Caller {
            addr,
            token: corpus.tokens.first().context("no user")?.clone(),
        };
        let document = caller.call("GET", "/openapi.json", None).await?;
        let paths = document["paths"].as_object().context("no paths")?;
        for (path, operations) in paths {
            for (method, operation) in operations.as_object().into_iter().flatten() {
                corpus.operations.push(of_document(path, method, operation));
            }
        }
        let money = json!({"amount": 1_000, "currency": "CNY"});
        let packet =
            json!({"title": "packet", "total": money, "shares": 10, "split": {"rule": "lazy"}});
        let sale =
            json!({"title": "sale", "stock": 1_000, "per_user_limit": 900, "unit_price": money});
        let with = |of: &Value, key: &str, value: Value| {
            let mut of = of.clone();
            of[key] = value;
            Some(of)
        };
        let deposit = json!({"reference": "fuzz", "amount": 1_000_000, "currency": "CNY"});
        let path = format!("/v1/accounts/{}/deposits", USERS[0]);
        caller.call("POST", &path, Some(deposit)).await?;
        for waits in [false, false, true] {
            let packet = with(&packet, "waiting_room", waits.into());
            let made = caller.call("POST", "/v1/red-packets", packet).await?;
            corpus.packets.push(id(&made)?);
        }
        for audience in [Value::Null, Value::Null, json!({"invitation": true})] {
            let sale = with(&sale, "audience", audience);
            let made = caller.call("POST", "/v1/sales", sale).await?;
            corpus.sales.push(id(&made)?);
        }
        corpus.closable = id(&caller.call("POST", "/v1/sales", Some(sale)).await?)?;
        for sale in corpus.sales.iter().take(2) {
            let path = format!("/v1/sales/{sale}/orders");
            for _ in 0..3 {
                let order = caller
                    .call("POST", &path, Some(json!({"quantity": 1})))
                    .await?;
                let order = order["id"].as_str().context("no order")?;
                corpus.orders.push(order.to_owned());
            }
        }
        Ok(corpus)
    }

    /// Random operation. Operations that create objects are rare, so that memory stays level.
    pub(crate) fn operation(&self, random: &mut ChaCha8Rng) -> Option<&Operation> {
        loop {
            let drawn = self.operations.choose(random)?;
            if !drawn.creates || random.random_ratio(1, 50) {
                return Some(drawn);
            }
        }
    }

    /// Path of an operation, mostly with the id of an existing object.
    pub(crate) fn path(&self, of: &Operation, random: &mut ChaCha8Rng) -> String {
        let path = &of.path;
        let ids = match path.as_str() {
            path if path.ends_with("/close") || path.ends_with("/archive") => {
                std::slice::from_ref(&self.closable)
            }
            path if path.starts_with("/v1/orders") => &self.orders,
            path if path.starts_with("/v1/sales") => &self.sales,
            path if path.starts_with("/v1/red-packets") => &self.packets,
            _ if random.random() => &self.sales,
            _ => &self.packets,
        };
        let known = ids.choose(random).map_or(NO_CAMPAIGN, String::as_str);
        let id = match random.random_range(0..10) {
            0 => NO_CAMPAIGN,
            _ => known,
        };
        let user = USERS.choose(random).copied().unwrap_or_default();
        path.replace("{id}", id)
            .replace("{user}", user)
            .replace("{reference}", "pay-1")
            .replace("{slug}", "sold-out")
            .replace("{partition}", "0")
            .replace("{entry}", "0-1")
    }
}

fn of_document(path: &str, method: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|parameter| parameter["in"] == "query");
    let query = query.filter_map(|parameter| parameter["name"].as_str());
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    let makes = [
        "/red-packets",
        "/batch",
        "/sales",
        "/deposits",
        "/invitations",
        "/webhooks",
        "/audits",
    ];
    Operation {
        method: method.to_uppercase(),
        path: path.to_owned(),
        query: query.map(str::to_owned).collect(),
        body: (!body.is_null()).then(|| body.clone()),
        creates: method == "post" && makes.iter().any(|end| path.ends_with(end)),
    }
}

fn id(made: &Value) -> Result<String> {
    Ok(made["id"].as_str().context("no id")?.to_owned())
}

fn token(user: &str) -> Result<String> {
    #[expect(clippy::disallowed_methods, reason = "a token lasts by the real time")]
    let now = SystemTime::UNIX_EPOCH.elapsed()?;
    let claims = json!({
        "sub": user, "scope": "claim send admin", "exp": now.as_secs() + 86_400,
    });
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key)?;
    Ok(format!("Bearer {token}"))
}

/// User who sends valid requests.
struct Caller {
    addr: SocketAddr,
    token: String,
}

impl Caller {
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let (token, length) = (&self.token, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: node\r\nAuthorization: {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(self.addr).await?;
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut reader = Reader::default();
        let answer = reader.next(&mut stream, false).await?;
        let answer = answer.context("connection closed without an answer")?;
        let text = String::from_utf8_lossy(&answer.body);
        if !(200..300).contains(&answer.status) {
            bail!("{method} {path}: {} {text}", answer.status);
        }
        Ok(serde_json::from_str(&text)?)
    }
}
