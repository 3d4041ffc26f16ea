//! Tests of deliveries with real sockets; another implementation checks the signatures.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::http::HeaderMap;
use qiang_core::{
    ports::{SendFailure, WebhookSender as _},
    time::Timestamp,
    webhook::{Filter, Webhook, WebhookEvent},
};
use qiang_worker::webhook_delivery::{HttpSender, SenderOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{PrivateKeyDer, pem::PemObject as _},
    },
};
use uuid::Uuid;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Longer than a successful delivery takes.
const TIMEOUT: Duration = Duration::from_secs(30);

fn sender(allow_private: bool, ca_file: Option<&Path>) -> HttpSender {
    let options = SenderOptions {
        allow_private,
        allow_private_sellers: false,
        timeout: TIMEOUT,
    };
    HttpSender::new(options, ca_file).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "signatures hold for minutes of the real time"
)]
fn now() -> Timestamp {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_millis(now.as_millis() as i64)
}

fn webhook(url: String) -> Webhook {
    Webhook {
        id: Uuid::from_u64_pair(0, 1),
        url,
        secret: sender(true, None).fresh_secret().unwrap(),
        previous_secret: None,
        filter: Filter::default(),
        managed_by: None,
        created_at: now(),
    }
}

fn event(n: u64) -> WebhookEvent {
    WebhookEvent::test(Uuid::from_u64_pair(0, n), now())
}

/// Reads a whole request; `None` at the end of the connection.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.unwrap().parse::<usize>().unwrap() {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Sends one answer per request on a connection, and closes it after the last one.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answers: &[&str]) -> Vec<String> {
    let mut requests = Vec::new();
    for answer in answers {
        let Some(request) = read(&mut stream).await else {
            break;
        };
        requests.push(request);
        drop(stream.write_all(answer.as_bytes()).await);
    }
    drop(stream.shutdown().await);
    requests
}

/// Endpoint that answers its connections in this order. The task returns the requests.
async fn endpoint(connections: Vec<Vec<&'static str>>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks?a=b", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answers in connections {
            let (stream, _) = listener.accept().await.unwrap();
            requests.extend(answer(stream, &answers).await);
        }
        requests
    });
    (url, serving)
}

/// Checks the signature with another implementation.
fn verify(request: &str, secret: &str) -> Result<(), standardwebhooks::WebhookError> {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap();
        let name: hyper::http::HeaderName = name.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    standardwebhooks::Webhook::new(secret)?.verify(body.as_bytes(), &headers)
}

fn refused(reason: &str) -> Result<(), SendFailure> {
    Err(SendFailure {
        reason: reason.to_owned(),
        is_gone: false,
    })
}

#[tokio::test]
async fn a_request_is_signed_with_every_secret_that_counts() {
    let (url, serving) = endpoint(vec![vec![OK, OK]]).await;
    let (sender, mut webhook) = (sender(true, None), webhook(url));
    sender.send(&webhook, &event(1), now()).await.unwrap();
    let before = webhook.secret.clone();
    webhook.secret = sender.fresh_secret().unwrap();
    webhook.previous_secret = Some((before.clone(), now().plus_millis(60_000)));
    sender.send(&webhook, &event(2), now()).await.unwrap();
    // Both requests used one kept connection.
    let requests = serving.await.unwrap();
    assert_eq!(requests.len(), 2);
    assert!(
        requests[0].starts_with("POST /hooks?a=b HTTP/1.1\r\n"),
        "{}",
        requests[0]
    );
    verify(&requests[0], &before).unwrap();
    assert!(verify(&requests[0], &webhook.secret).is_err());
    verify(&requests[1], &before).unwrap();
    verify(&requests[1], &webhook.secret).unwrap();
    let changed = requests[1].replace("webhook.test", "webhook.best");
    assert!(verify(&changed, &before).is_err());
}

#[tokio::test]
async fn a_connection_that_was_closed_is_replaced() {
    let (url, serving) = endpoint(vec![vec![OK], vec![OK]]).await;
    let (sender, webhook) = (sender(true, None), webhook(url));
    for n in 0..2 {
        sender.send(&webhook, &event(n), now()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(serving.await.unwrap().len(), 2);
}

#[tokio::test]
async fn only_2xx_gets_through_and_redirects_are_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = other.local_addr().unwrap();
    let redirect =
        format!("HTTP/1.1 307 T\r\nlocation: http://{place}/\r\ncontent-length: 0\r\n\r\n");
    for (answer, expected) in [
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), Ok(())),
        (
            "HTTP/1.1 500 E\r\ncontent-length: 0\r\n\r\n".to_owned(),
            refused("status 500"),
        ),
        (redirect, refused("status 307")),
    ] {
        let (url, serving) = endpoint(vec![vec![String::leak(answer)]]).await;
        let sent = sender(true, None)
            .send(&webhook(url), &event(1), now())
            .await;
        assert_eq!(sent, expected);
        assert_eq!(serving.await.unwrap().len(), 1);
    }
    let accepted = tokio::time::timeout(Duration::from_millis(100), other.accept()).await;
    assert!(accepted.is_err(), "a redirect was followed");
    let gone = "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n";
    let (url, _serving) = endpoint(vec![vec![gone]]).await;
    let sent = sender(true, None)
        .send(&webhook(url), &event(1), now())
        .await;
    assert!(sent.unwrap_err().is_gone);
}

/// An endless answer costs neither memory nor time.
#[tokio::test]
async fn answers_are_read_up_to_a_bound_and_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read(&mut stream).await.unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut written = 0;
        while let Ok(count) = stream.write(&[b'x'; 65_536]).await {
            written += count;
        }
        written
    });
    let webhook_at = webhook(url);
    sender(true, None)
        .send(&webhook_at, &event(1), now())
        .await
        .unwrap();
    assert!(serving.await.unwrap() < 100_000_000);

    // An endpoint that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let options = SenderOptions {
        allow_private: true,
        allow_private_sellers: false,
        timeout: Duration::from_millis(300),
    };
    let hasty = HttpSender::new(options, None).unwrap();
    let began = Instant::now();
    let sent = hasty.send(&webhook(url), &event(1), now()).await;
    assert_eq!(sent, refused("no answer within 300 ms"));
    assert!(began.elapsed() < TIMEOUT);
}

/// Any name is accepted at creation. Its addresses are checked at each connection.
#[tokio::test]
async fn nothing_private_is_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let strict = sender(false, None);
    let url = format!("https://localhost:{port}/");
    assert_eq!(strict.check_url(&url), Ok(()));
    let why = "localhost is not on the public internet, and webhooks.allow_private is not set";
    let sent = strict.send(&webhook(url), &event(1), now()).await;
    assert_eq!(sent, refused(why));
    for host in ["127.0.0.1", "[::1]", "0x7f000001", "2130706433", "127.1"] {
        let url = format!("https://{host}:{port}/");
        let sent = strict.send(&webhook(url), &event(1), now()).await;
        assert!(sent.is_err(), "{host}");
    }
    let accepted = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(accepted.is_err(), "a private address was connected");
}

#[tokio::test]
async fn certificates_are_checked() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                return answer(stream, &[OK]).await;
            }
        }
    });
    let webhook = webhook(format!("https://localhost:{port}/"));
    let sent = sender(true, None).send(&webhook, &event(1), now()).await;
    let reason = sent.unwrap_err().reason;
    assert!(reason.contains("certificate"), "{reason}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let trusting = sender(true, Some(&file));
    trusting.send(&webhook, &event(2), now()).await.unwrap();
    verify(&serving.await.unwrap()[0], &webhook.secret).unwrap();
}
