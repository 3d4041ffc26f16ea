//! Client of the shop: signed requests over persistent HTTP/1.1 connections.
//!
//! Requests are signed as Standard Webhooks specifies: HMAC-SHA256 over id, timestamp and body, joined by dots.
//! Redirects are not followed, and a reply is read up to a limit.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, StatusCode,
    client::conn::http1::{self, SendRequest},
    header::{CONTENT_TYPE, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use qiang_core::{
    trace_context::TraceContext,
    web_url::{self, Url},
};
use tokio::net::TcpStream;
use tokio_util::io::InspectReader;

use crate::{
    auth::callbacks::key_of,
    config::{Secret, UsageError},
};

/// Maximum size of a reply.
const REPLY_BYTES_MAX: usize = 4_096;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Address of the shop, and the key that signs requests to it.
pub(super) struct Shop {
    url: Url,
    /// Host and port, for connecting.
    place: (String, u16),
    key: hmac::Key,
    idle: Mutex<Vec<ShopConnection>>,
    idle_max: usize,
}

struct ShopConnection {
    sender: SendRequest<Full<Bytes>>,
    /// Whether any byte has arrived since the last question was sent.
    answered: Arc<AtomicBool>,
}

/// A request to the shop.
pub(super) struct ShopRequest {
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) timestamp: i64,
    pub(super) body: Bytes,
    /// Trace of the claim.
    pub(super) trace: Option<Arc<TraceContext>>,
}

impl Shop {
    /// Client of a shop at this URL. Connects at the first request.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub(super) fn new(url: &str, secret: &Secret, idle_max: usize) -> Result<Self, UsageError> {
        let url = web_url::parse(url)
            .map_err(|error| UsageError::new(format!("order_check.url: {error}")))?;
        if url.scheme() != "http" {
            return Err(UsageError::new(
                "order_check.url must be an http:// URL (for https: use a local proxy)",
            ));
        }
        let key = key_of("order_check.secret", secret)?;
        Ok(Self {
            place: (web_url::host(&url), web_url::port(&url)),
            url,
            key,
            idle: Mutex::default(),
            idle_max,
        })
    }

    /// Sends a question and returns the reply. If a kept connection fails before any byte arrives, it had been
    /// closed, and the question is repeated once on a new one. A repetition changes nothing.
    pub(super) async fn ask(&self, question: &ShopRequest) -> Result<(StatusCode, Bytes), Failure> {
        let kept = self.idle.lock().pop();
        if let Some(connection) = kept.filter(|connection| !connection.sender.is_closed()) {
            let answered = Arc::clone(&connection.answered);
            let asked = self.exchange(connection, question).await;
            if asked.is_ok() || answered.load(Ordering::Relaxed) {
                return asked;
            }
        }
        let connection = self.connect().await?;
        self.exchange(connection, question).await
    }

    async fn connect(&self) -> Result<ShopConnection, Failure> {
        let stream = TcpStream::connect((self.place.0.as_str(), self.place.1)).await?;
        stream.set_nodelay(true)?;
        let answered = Arc::<AtomicBool>::default();
        let seen = Arc::clone(&answered);
        let stream = InspectReader::new(stream, move |bytes: &[u8]| {
            seen.fetch_or(!bytes.is_empty(), Ordering::Relaxed);
        });
        let (sender, wire) = http1::handshake(TokioIo::new(stream)).await?;
        // This task ends with the connection; the sender sees its errors.
        tokio::spawn(async move { drop(wire.await) });
        Ok(ShopConnection { sender, answered })
    }

    async fn exchange(
        &self,
        mut connection: ShopConnection,
        question: &ShopRequest,
    ) -> Result<(StatusCode, Bytes), Failure> {
        connection.answered.store(false, Ordering::Relaxed);
        let request = self.request(question)?;
        let response = connection.sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect();
        let body = body.await?.to_bytes();
        if connection.sender.ready().await.is_ok() {
            let mut idle = self.idle.lock();
            if idle.len() < self.idle_max {
                idle.push(connection);
            }
        }
        Ok((status, body))
    }

    fn request(&self, question: &ShopRequest) -> Result<Request<Full<Bytes>>, Failure> {
        let ShopRequest {
            id,
            timestamp,
            body,
            trace,
        } = question;
        let mut signed = hmac::Context::with_key(&self.key);
        signed.update(format!("{id}.{timestamp}.").as_bytes());
        signed.update(body);
        let signature = BASE64_STANDARD.encode(signed.sign());
        // Credentials in the URL are not sent.
        let mut request = Request::post(web_url::path(&self.url))
            .header(HOST, web_url::authority(&self.url))
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("qiang/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", id)
            .header("webhook-timestamp", *timestamp)
            .header("webhook-signature", format!("v1,{signature}"));
        for (name, value) in trace.iter().flat_map(|trace| trace.headers()) {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(body.clone()))?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };

    use super::*;
    use crate::auth::callbacks::SECRET_PREFIX;

    /// Reads a question to its end; false if the connection has ended.
    async fn heard(stream: &mut TcpStream) -> bool {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n{}") {
            match stream.read_buf(&mut text).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        }
        true
    }

    /// Shop that answers the first question on each connection, and the second with these bytes before it
    /// disconnects.
    async fn asked_in_all(second: &'static str) -> (bool, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let secret = Secret::new(format!("{SECRET_PREFIX}{}", "a".repeat(32)));
        let shop = Shop::new(&url, &secret, 1).unwrap();
        let serving = tokio::spawn(async move {
            let mut asked = 0;
            // No client connects again after the end.
            while let Ok(Ok((mut stream, _))) =
                timeout(Duration::from_millis(500), listener.accept()).await
            {
                let first = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                for reply in [first, second] {
                    if !heard(&mut stream).await {
                        break;
                    }
                    asked += 1;
                    drop(stream.write_all(reply.as_bytes()).await);
                }
            }
            asked
        });
        let question = ShopRequest {
            id: "msg_1".to_owned(),
            timestamp: 0,
            body: Bytes::from_static(b"{}"),
            trace: None,
        };
        shop.ask(&question).await.unwrap();
        let again = shop.ask(&question).await;
        drop(shop);
        (again.is_ok(), serving.await.unwrap())
    }

    #[tokio::test]
    async fn a_question_is_asked_again_only_if_nothing_came() {
        let long = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{}",
            "x".repeat(5_000)
        );
        for (second, is_asked_again) in [
            ("", true),
            ("H", false),
            ("HTTP/1.1 200 OK\r\ncont", false),
            ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", false),
            ("no HTTP\r\n\r\n", false),
            (String::leak(long), false),
        ] {
            let expected = (is_asked_again, 2 + usize::from(is_asked_again));
            assert_eq!(asked_in_all(second).await, expected, "{second}");
        }
    }
}
