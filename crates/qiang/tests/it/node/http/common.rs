//! A service in this process on a free port, a clock that tests move, tokens, and a small HTTP client.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request, client::conn::http1, header::HeaderValue};
use hyper_util::rt::TokioIo;
use jsonwebtoken::{EncodingKey, Header};
use qiang::{
    Backend, NodeStarter, RunningNode,
    config::{AuthConfig, NodeConfig, Secret},
};
use qiang_core::{book::Grace, ports::Clock, time::Timestamp};
use qiang_embedded::{Embedded, EmbeddedOptions, SystemClock};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
};

pub(crate) const SECRET: &str = "a-secret-for-tests-of-32-bytes-at-least";
/// Media type of forms.
const FORM: &str = "application/x-www-form-urlencoded";
/// Host of requests without another one.
const HOST: &str = "localhost";
/// 2026-11-21T12:00:00Z
pub(crate) const START_MS: i64 = 1_795_262_400_000;

#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn advance_ms(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct Service {
    pub(crate) addr: SocketAddr,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) folder: tempfile::TempDir,
    /// Grace period of orders for payments that are reported late.
    grace_ms: i64,
    running: Option<RunningNode>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_, _| ()).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut NodeConfig, &mut Backend)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(START_MS)));
        Self::start_in(folder, clock, 0, adjust).await
    }

    /// Starts a service with this grace period for payments that are reported late.
    pub(crate) async fn start_with_grace(ms: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(START_MS)));
        Self::start_in(folder, clock, ms, |_, _| ()).await
    }

    async fn start_in(
        folder: tempfile::TempDir,
        clock: Arc<TestClock>,
        grace_ms: i64,
        adjust: impl FnOnce(&mut NodeConfig, &mut Backend),
    ) -> Self {
        let mut config = NodeConfig::defaults().unwrap();
        config.auth.hs256_secret = Secret::new(SECRET);
        // Tests send many requests from one address. Tests of limits set their own.
        config.limits.disable_rate_limits();
        let (path, since) = (folder.path().join("qiang.db"), clock.now());
        let options = EmbeddedOptions {
            grace: Grace {
                ms: grace_ms,
                since,
            },
            ..EmbeddedOptions::default()
        };
        let embedded = Embedded::open_with(&path, clock.clone(), options).unwrap();
        let mut backend = Backend::embedded(embedded, clock.clone());
        adjust(&mut config, &mut backend);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = NodeStarter::start(config, backend, listener).await.unwrap();
        Self {
            addr: running.addr(),
            clock,
            folder,
            grace_ms,
            running: Some(running),
        }
    }

    pub(crate) async fn restart(self) -> Self {
        self.restart_with(|_, _| ()).await
    }

    /// Stops the service, moves the clock by `ms`, and starts it again.
    pub(crate) async fn restart_after(mut self, ms: i64) -> Self {
        self.running.take().unwrap().shutdown().await.unwrap();
        self.clock.advance_ms(ms);
        Self::start_in(self.folder, self.clock, self.grace_ms, |_, _| ()).await
    }

    pub(crate) async fn restart_with(
        mut self,
        adjust: impl FnOnce(&mut NodeConfig, &mut Backend),
    ) -> Self {
        self.running.take().unwrap().shutdown().await.unwrap();
        Self::start_in(self.folder, self.clock, self.grace_ms, adjust).await
    }

    /// Runs all reconcilers once.
    pub(crate) fn reconcile(&self) {
        self.running.as_ref().unwrap().reconcile();
    }

    /// Reloads the keys, like SIGHUP.
    pub(crate) fn reload_auth(&self, auth: &AuthConfig) {
        self.running.as_ref().unwrap().reload_auth(auth).unwrap();
    }

    pub(crate) async fn stop(mut self) {
        self.running.take().unwrap().shutdown().await.unwrap();
    }

    pub(crate) fn token(&self, user: &str, scope: &str) -> String {
        let exp = self.clock.now().as_millis() / 1_000 + 3_600;
        sign(&json!({ "sub": user, "scope": scope, "exp": exp }))
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Reply {
        call(self.addr, "GET", path, Some(token), &[], None).await
    }

    pub(crate) async fn post(&self, path: &str, token: &str, body: Value) -> Reply {
        call(self.addr, "POST", path, Some(token), &[], Some(body)).await
    }

    pub(crate) async fn post_key(&self, path: &str, token: &str, key: &str, body: Value) -> Reply {
        call(
            self.addr,
            "POST",
            path,
            Some(token),
            &[("Idempotency-Key", key)],
            Some(body),
        )
        .await
    }

    pub(crate) async fn patch(&self, path: &str, token: &str, body: Value) -> Reply {
        call(self.addr, "PATCH", path, Some(token), &[], Some(body)).await
    }

    pub(crate) async fn act(&self, path: &str, token: &str) -> Reply {
        call(self.addr, "POST", path, Some(token), &[], None).await
    }

    pub(crate) fn operator(&self) -> String {
        self.token("olga", "admin")
    }

    pub(crate) async fn deposit(&self, user: &str, amount: i64) {
        let reply = self
            .post(
                &format!("/v1/accounts/{user}/deposits"),
                &self.operator(),
                deposit(amount),
            )
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    /// A funded red packet from `sam`, changed by `adjust`; its id.
    pub(crate) async fn red_packet(&self, shares: u32, adjust: impl FnOnce(&mut Value)) -> String {
        self.deposit("sam", 10_000).await;
        let mut body = packet(10_000, shares);
        adjust(&mut body);
        let reply = self
            .post("/v1/red-packets", &self.token("sam", "send"), body)
            .await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.text("id")
    }

    /// A sale of `stock` units, changed by `adjust`; its id.
    pub(crate) async fn sale(&self, stock: u32, adjust: impl FnOnce(&mut Value)) -> String {
        let mut body = sale(stock);
        adjust(&mut body);
        let reply = self.post("/v1/sales", &self.operator(), body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.text("id")
    }

    pub(crate) async fn balance(&self, user: &str) -> i64 {
        let reply = self
            .get(&format!("/v1/accounts/{user}"), &self.token(user, ""))
            .await;
        assert_eq!(
            (reply.status, &reply.json()["settled"]),
            (200, &json!(true))
        );
        reply.json()["balances"][0]["available"]["amount"]
            .as_i64()
            .unwrap_or(0)
    }
}

pub(crate) fn packet(total: i64, shares: u32) -> Value {
    json!({
        "title": "恭喜发财",
        "total": { "amount": total, "currency": "CNY" },
        "shares": shares,
        "split": { "rule": "double_average", "min": 1 },
    })
}

/// Cursor of a list that starts after this position.
pub(crate) fn cursor(list: &str, position: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{list}:{position}"))
}

pub(crate) fn sale(stock: u32) -> Value {
    json!({
        "title": "phones",
        "stock": stock,
        "per_user_limit": 1,
        "unit_price": { "amount": 500, "currency": "CNY" },
        "hold_seconds": 60,
    })
}

/// A deposit with a reference of its own.
pub(crate) fn deposit(amount: i64) -> Value {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let reference = format!("deposit-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    named_deposit(&reference, amount)
}

pub(crate) fn named_deposit(reference: &str, amount: i64) -> Value {
    json!({ "reference": reference, "amount": amount, "currency": "CNY" })
}

/// A payment, in fen.
pub(crate) fn paid(reference: &str, amount: i64) -> Value {
    json!({ "reference": reference, "amount": { "amount": amount, "currency": "CNY" } })
}

/// The system time in one hour, in seconds: later than the end of any test.
pub(crate) fn in_an_hour() -> i64 {
    SystemClock.now().as_millis() / 1_000 + 3_600
}

pub(crate) fn sign(claims: &Value) -> String {
    sign_with(SECRET, claims)
}

pub(crate) fn sign_with(secret: &str, claims: &Value) -> String {
    jsonwebtoken::encode(
        &Header::default(),
        claims,
        &EncodingKey::from_secret(secret.as_bytes()),
    )
    .unwrap()
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub(crate) fn text(&self, field: &str) -> String {
        self.json()[field]
            .as_str()
            .unwrap_or_else(|| panic!("no {field}: {self:?}"))
            .to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts that this is a well-formed problem of that status and type.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, kind: &str) {
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        let body = self.json();
        assert_eq!(self.status, status, "{body}");
        assert_eq!(body["type"], json!(format!("/problems/{kind}")));
        assert_eq!(body["status"], json!(status));
        assert!(
            body["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty()),
            "{body}"
        );
    }
}

pub(crate) async fn call(
    addr: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Reply {
    let json = body.is_some();
    let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", HOST);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if json {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(addr, request.body(Full::new(body)).unwrap()).await
}

/// Posts a form.
pub(crate) async fn post_form(
    addr: SocketAddr,
    path: &str,
    token: Option<&str>,
    form: &str,
) -> Reply {
    let mut request = Request::post(path).header("content-type", FORM);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = Full::new(Bytes::copy_from_slice(form.as_bytes()));
    send(addr, request.body(body).unwrap()).await
}

pub(crate) async fn send(addr: SocketAddr, mut request: Request<Full<Bytes>>) -> Reply {
    let host = HeaderValue::from_static(HOST);
    request.headers_mut().entry("host").or_insert(host);
    let stream = TcpStream::connect(addr).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    connection.abort();
    Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

/// Reads until the other side closes, for at most `wait`. Returns the text, and whether it closed.
pub(crate) async fn read_to_end(stream: &mut TcpStream, wait: Duration) -> (String, bool) {
    let mut bytes = Vec::new();
    let closed = tokio::time::timeout(wait, stream.read_to_end(&mut bytes))
        .await
        .is_ok();
    (String::from_utf8_lossy(&bytes).into_owned(), closed)
}
