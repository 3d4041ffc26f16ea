//! HTTP/1.1 connection that is kept alive.

use std::{net::SocketAddr, pin::Pin};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

type Wire = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// Answer with its whole body.
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Response {
    /// Parses the body as JSON.
    ///
    /// # Errors
    /// If it is not JSON.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{} with a body that is not JSON", self.status))
    }

    /// Parses the body of a successful answer as JSON.
    ///
    /// # Errors
    /// If the status is no success, or the body is not JSON.
    pub fn success(&self) -> anyhow::Result<serde_json::Value> {
        if !self.status.is_success() {
            bail!("{}: {}", self.status, String::from_utf8_lossy(&self.body));
        }
        self.json()
    }
}

/// Connection that the calling task drives. So no second task has to wake for each request.
pub struct LoadClient {
    host: HeaderValue,
    send: SendRequest<Full<Bytes>>,
    wire: Pin<Box<Wire>>,
}

impl LoadClient {
    /// Connects to a service.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(addr)
            .await
            .with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        let (send, wire) = http1::handshake(TokioIo::new(stream)).await?;
        let host = HeaderValue::from_str(&addr.to_string())?;
        Ok(Self {
            host,
            send,
            wire: Box::pin(wire),
        })
    }

    /// Sends a `DELETE`. If the token is empty, there is no `Authorization`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn delete(&mut self, path: &str, token: &HeaderValue) -> anyhow::Result<Response> {
        self.request(Method::DELETE, path, token, &[], Bytes::new())
            .await
    }

    /// Sends a `GET`. If the token is empty, there is no `Authorization`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn get(&mut self, path: &str, token: &HeaderValue) -> anyhow::Result<Response> {
        self.request(Method::GET, path, token, &[], Bytes::new())
            .await
    }

    /// Sends a `POST` of JSON, or without a body. If the token is empty, there is no `Authorization`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post(
        &mut self,
        path: &str,
        token: &HeaderValue,
        body: Bytes,
    ) -> anyhow::Result<Response> {
        self.request(Method::POST, path, token, &[], body).await
    }

    /// Sends a `PATCH` of JSON.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn patch(
        &mut self,
        path: &str,
        token: &HeaderValue,
        body: Bytes,
    ) -> anyhow::Result<Response> {
        self.request(Method::PATCH, path, token, &[], body).await
    }

    /// Sends a [`post`](Client::post) with an `Idempotency-Key`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post_with_key(
        &mut self,
        path: &str,
        token: &HeaderValue,
        key: &HeaderValue,
        body: Bytes,
    ) -> anyhow::Result<Response> {
        let key = [("idempotency-key", key)];
        self.request(Method::POST, path, token, &key, body).await
    }

    /// Sends a [`post`](Client::post) with a grab ticket.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post_with_ticket(
        &mut self,
        path: &str,
        token: &HeaderValue,
        ticket: &HeaderValue,
        body: Bytes,
    ) -> anyhow::Result<Response> {
        let ticket = [("grab-ticket", ticket)];
        self.request(Method::POST, path, token, &ticket, body).await
    }

    /// Creates an object by a `POST` of JSON, and returns its id.
    ///
    /// # Errors
    /// If the answer is no success, or has no id.
    pub async fn create(
        &mut self,
        path: &str,
        token: &HeaderValue,
        what: &serde_json::Value,
    ) -> anyhow::Result<String> {
        let answer = self.post(path, token, what.to_string().into()).await?;
        let made = answer.success().with_context(|| format!("POST {path}"))?;
        let id = made["id"].as_str().context("the answer has no id")?;
        Ok(id.to_owned())
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        token: &HeaderValue,
        headers: &[(&'static str, &HeaderValue)],
        body: Bytes,
    ) -> anyhow::Result<Response> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host);
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body))?;
        let exchange = async {
            let response = self.send.send_request(request).await?;
            let (parts, body) = response.into_parts();
            Ok::<_, hyper::Error>(Response {
                status: parts.status,
                headers: parts.headers,
                body: body.collect().await?.to_bytes(),
            })
        };
        tokio::select! {
            biased;
            response = exchange => Ok(response?),
            closed = &mut self.wire => {
                closed?;
                bail!("the service closed the connection")
            }
        }
    }
}
