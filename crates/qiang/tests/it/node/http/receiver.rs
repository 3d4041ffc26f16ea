//! A webhook endpoint of another party: another implementation checks signatures, and events that came before are
//! dropped.
#![allow(
    dead_code,
    reason = "the tests of the program include this file and use other parts of it"
)]

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This status.
    Status(u16),
    /// Status 200, after this time.
    Late(Duration),
}

#[derive(Default)]
struct Inner {
    /// Secret of the signatures, once it is known.
    secret: Mutex<String>,
    /// Answers by number of the request, from 1.
    answers: Mutex<HashMap<usize, Answer>>,
    /// Answer to all other requests; `None` is 200.
    usual: Mutex<Option<u16>>,
    /// A campaign or a user whose events are answered 503.
    refused: Mutex<Option<String>>,
    received: Mutex<Received>,
}

/// Requests and events that arrived.
#[derive(Debug, Default, Clone)]
pub(crate) struct Received {
    /// Requests.
    pub(crate) requests: usize,
    /// Accepted events without duplicates, in order of first arrival: id and body.
    pub(crate) events: Vec<(String, Value)>,
    /// Accepted events that came before.
    pub(crate) duplicates: usize,
    bodies: HashMap<String, Value>,
}

impl Received {
    /// The types of the events.
    pub(crate) fn types(&self) -> Vec<String> {
        let types = self.events.iter().map(|(_, body)| &body["type"]);
        types
            .map(|kind| kind.as_str().unwrap().to_owned())
            .collect()
    }
}

/// A receiver on a port.
pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    inner: Arc<Inner>,
    serving: Option<JoinHandle<()>>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut receiver = Self {
            addr: listener.local_addr().unwrap(),
            inner: Arc::default(),
            serving: None,
        };
        receiver.serve(listener);
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.addr)
    }

    pub(crate) fn knows(&self, secret: &str) {
        secret.clone_into(&mut self.inner.secret.lock().unwrap());
    }

    /// Verifies by the secret of another receiver.
    pub(crate) fn shares_secret(&self, other: &Self) {
        self.knows(&other.inner.secret.lock().unwrap());
    }

    /// Sets the answer to the `nth` request.
    pub(crate) fn answer(&self, nth: usize, answer: Answer) {
        self.inner.answers.lock().unwrap().insert(nth, answer);
    }

    /// Sets the answer to all requests from now on.
    pub(crate) fn answer_all(&self, status: u16) {
        *self.inner.usual.lock().unwrap() = Some(status);
    }

    /// Refuses the events of only this campaign or user from now on.
    pub(crate) fn refuse(&self, whose: Option<&str>) {
        *self.inner.refused.lock().unwrap() = whose.map(str::to_owned);
    }

    pub(crate) fn received(&self) -> Received {
        self.inner.received.lock().unwrap().clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.inner.received.lock().unwrap().requests
    }

    pub(crate) fn count(&self) -> usize {
        self.inner.received.lock().unwrap().events.len()
    }

    /// Closes the listener and breaks all connections.
    pub(crate) fn kill(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// Listens again on the same address. Another process may use the port for a moment, for a connection of its own.
    pub(crate) async fn start_again(&mut self) {
        for _ in 0..500 {
            if let Ok(listener) = TcpListener::bind(self.addr).await {
                return self.serve(listener);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} is in use by another process", self.addr);
    }

    fn serve(&mut self, listener: TcpListener) {
        let inner = Arc::clone(&self.inner);
        self.serving = Some(tokio::spawn(async move {
            // The connections break when the task drops this set.
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let inner = Arc::clone(&inner);
                connections.spawn(async move {
                    let service = service_fn(|request| take(Arc::clone(&inner), request));
                    drop(
                        http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        }));
    }
}

async fn take(
    inner: Arc<Inner>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(Response::default());
    };
    let body = body.to_bytes();
    let secret = inner.secret.lock().unwrap().clone();
    let checked = standardwebhooks::Webhook::new(&secret).unwrap();
    let header = |name: &str| head.headers[name].to_str().unwrap().to_owned();
    let id = header("webhook-id");
    // Not `verify`, which compares with the present time. The time of a test may differ.
    let timestamp = header("webhook-timestamp").parse().unwrap();
    let signature = checked.sign(&id, timestamp, &body).unwrap();
    let given = header("webhook-signature");
    assert!(given.split(' ').any(|one| one == signature), "{given}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let answer = {
        let nth = {
            let mut received = inner.received.lock().unwrap();
            received.requests += 1;
            received.requests
        };
        let usual = inner.usual.lock().unwrap().map(Answer::Status);
        let kept = inner.answers.lock().unwrap().get(&nth).copied();
        let refused = inner.refused.lock().unwrap();
        let refused = refused
            .as_deref()
            .filter(|it| body["data"]["campaign"] == *it || body["data"]["user"] == *it);
        let refused = refused.map(|_| Answer::Status(503));
        refused.or(kept).or(usual).unwrap_or(Answer::Status(200))
    };
    if let Answer::Late(wait) = answer {
        tokio::time::sleep(wait).await;
    }
    let status = match answer {
        Answer::Status(status) => status,
        Answer::Late(_) => 200,
    };
    if status == 200 {
        let mut received = inner.received.lock().unwrap();
        match received.bodies.insert(id.clone(), body.clone()) {
            Some(before) => {
                assert_eq!(before, body, "the event {id} has changed");
                received.duplicates += 1;
            }
            None => received.events.push((id, body)),
        }
    }
    let body = match status {
        200 => "",
        _ => "the shop is closed",
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status.try_into().unwrap();
    Ok(response)
}
