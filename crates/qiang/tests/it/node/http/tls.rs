//! TLS on the node's own listener: HTTP/1.1 and HTTP/2, and certificates that change.

use std::{fs, path::Path, sync::Arc, time::Duration};

use crate::node::http::common::{SECRET, Service};
use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    Request, Response,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use qiang::{
    Backend, NodeStarter,
    config::{NodeConfig, Secret},
};
use qiang_api::config::ServerConfig;
use qiang_embedded::{Embedded, SystemClock};
use rcgen::CertifiedKey;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, ServerName},
    },
};

/// Longer than the node needs to see a changed file.
const SEEN_MAX: Duration = Duration::from_secs(20);

/// A new self-signed certificate for `localhost`, and its key, in PEM.
fn make() -> (CertificateDer<'static>, String, String) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (cert.der().clone(), cert.pem(), signing_key.serialize_pem())
}

/// Writes a new certificate to the node's files.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let (certificate, pem, key) = make();
    fs::write(folder.join("certificate.pem"), pem).unwrap();
    fs::write(folder.join("key.pem"), key).unwrap();
    certificate
}

fn use_files(config: &mut ServerConfig, folder: &Path) {
    config.tls_certificate_file = folder.join("certificate.pem");
    config.tls_key_file = folder.join("key.pem");
}

/// A service over TLS with a sale of 100 units, its files, and the certificate.
struct OverTls {
    service: Service,
    folder: TempDir,
    certificate: CertificateDer<'static>,
    sale: String,
}

async fn start(adjust: impl FnOnce(&mut ServerConfig)) -> OverTls {
    let folder = tempfile::tempdir().unwrap();
    let certificate = certify(folder.path());
    let service = Service::start().await;
    let sale = service.sale(100, |_| ()).await;
    let service = service
        .restart_with(|config, _| {
            config.limits.disable_rate_limits();
            use_files(&mut config.server, folder.path());
            adjust(&mut config.server);
        })
        .await;
    OverTls {
        service,
        folder,
        certificate,
        sale,
    }
}

async fn connect(
    service: &Service,
    trusted: &CertificateDer<'static>,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(service.addr).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}

fn request(method: &str, path: &str, token: &str) -> Request<Empty<Bytes>> {
    let request = Request::builder()
        .method(method)
        .header("host", "localhost");
    let uri = format!("https://localhost{path}");
    let request = request
        .uri(uri)
        .header("authorization", format!("Bearer {token}"));
    request.body(Empty::new()).unwrap()
}

fn header<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value.map_or("", |value| value.to_str().unwrap())
}

async fn over_http1(stream: TlsStream<TcpStream>, path: &str) -> Response<hyper::body::Incoming> {
    let (mut send, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    send.send_request(request("GET", path, "")).await.unwrap()
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls() {
    let over = start(|config| config.hsts_max_age_s = 60).await;
    let state = format!("/v1/campaigns/{}/state", over.sale);
    for (protocols, spoken) in [
        (&[b"h2".as_slice(), b"http/1.1"][..], Some(b"h2".as_slice())),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = connect(&over.service, &over.certificate, protocols)
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), spoken);
        let response = if spoken == Some(b"h2") {
            let io = TokioIo::new(stream);
            let (mut send, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            send.send_request(request("GET", &state, "")).await.unwrap()
        } else {
            over_http1(stream, &state).await
        };
        assert_eq!(response.status(), 200);
        assert_eq!(header(&response, "strict-transport-security"), "max-age=60");
        assert!(!header(&response, "x-request-id").is_empty());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["remaining"], 100);
    }
    // A client without TLS gets no HTTP answer.
    let mut plain = TcpStream::connect(over.service.addr).await.unwrap();
    plain
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let (text, _) = crate::node::http::common::read_to_end(&mut plain, SEEN_MAX).await;
    assert!(!text.contains("HTTP"), "{text}");
    over.service.stop().await;
}

#[tokio::test]
async fn a_crowd_claims_over_one_connection_while_the_node_stops() {
    let over = start(|_| ()).await;
    let stream = connect(&over.service, &over.certificate, &[b"h2"])
        .await
        .unwrap();
    let io = TokioIo::new(stream);
    let (send, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let path = format!("/v1/sales/{}/orders", over.sale);
    let claims = (0..120).map(|number| {
        let token = over.service.token(&format!("user-{number}"), "claim");
        let mut send = send.clone();
        let request = request("POST", &path, &token);
        async move { send.send_request(request).await.unwrap().status().as_u16() }
    });
    let mut statuses = join_all(claims).await;
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses[99]), (201, 201));
    assert_eq!((statuses[100], statuses[119]), (409, 409));
    // A node that stops closes open idle connections.
    over.service.stop().await;
    connection.await.unwrap().unwrap();
    drop(send);
}

/// A few connections of one client cannot use all streams of a node.
#[tokio::test]
async fn a_connection_has_so_many_live_streams() {
    let OverTls {
        service,
        folder,
        certificate,
        sale,
    } = start(|_| ()).await;
    let service = service
        .restart_with(|config, _| {
            config.limits.streams_per_connection_max = 2;
            use_files(&mut config.server, folder.path());
        })
        .await;
    let events = format!("/v1/campaigns/{sale}/events");
    let connected = async || {
        let stream = connect(&service, &certificate, &[b"h2"]).await.unwrap();
        let io = TokioIo::new(stream);
        let (send, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        send
    };
    let watch = async |send: &http2::SendRequest<Empty<Bytes>>| {
        let mut asked = request("GET", &events, "");
        asked.headers_mut().remove("authorization");
        let accept = "text/event-stream".parse().unwrap();
        asked.headers_mut().insert("accept", accept);
        send.clone().send_request(asked).await.unwrap()
    };
    let one = connected().await;
    let open = [watch(&one).await, watch(&one).await];
    assert_eq!(
        open.each_ref().map(|stream| stream.status().as_u16()),
        [200; 2]
    );
    let refused = watch(&one).await;
    assert_eq!(refused.status(), 429);
    let policy = "\"streams-of-connection\";q=2;qiang-unit=\"streams\"";
    assert_eq!(header(&refused, "ratelimit-policy"), policy);
    // Other requests on this connection are answered, and other connections have their own limit.
    let mut send = one.clone();
    let state = format!("/v1/campaigns/{sale}/state");
    let state = send.send_request(request("GET", &state, "")).await.unwrap();
    assert_eq!(state.status(), 200);
    assert_eq!(watch(&connected().await).await.status(), 200);
    drop(open);
    let again = async {
        while watch(&one).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SEEN_MAX, again).await.unwrap();
    service.stop().await;
}

#[tokio::test]
async fn a_certificate_is_replaced_while_the_node_runs() {
    let over = start(|_| ()).await;
    let state = format!("/v1/campaigns/{}/state", over.sale);
    let old = connect(&over.service, &over.certificate, &[])
        .await
        .unwrap();
    let metric = async |expected: &str, trusted: &CertificateDer<'static>| {
        let line = format!("\nqiang_certificate_failing {expected}\n");
        let seen = async {
            loop {
                let stream = connect(&over.service, trusted, &[]).await;
                if let Ok(stream) = stream {
                    let body = over_http1(stream, "/metrics").await.into_body();
                    let body = body.collect().await.unwrap().to_bytes();
                    if String::from_utf8_lossy(&body).contains(&line) {
                        break;
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let seen = tokio::time::timeout(SEEN_MAX, seen).await;
        assert!(seen.is_ok(), "not {expected}");
    };
    metric("0", &over.certificate).await;
    let (key_file, certificate_file) = ("key.pem", "certificate.pem");
    let write = |file: &str, text: &str| fs::write(over.folder.path().join(file), text).unwrap();
    // A renewal writes one file after the other. The new key does not match the old certificate.
    let (fresh, certificate, key) = make();
    write(key_file, &key);
    metric("1", &over.certificate).await;
    write(certificate_file, &certificate);
    metric("0", &fresh).await;
    assert!(
        connect(&over.service, &over.certificate, &[])
            .await
            .is_err()
    );
    // Open connections continue.
    assert_eq!(over_http1(old, &state).await.status(), 200);
    over.service.stop().await;
}

#[tokio::test]
async fn whoever_does_not_shake_hands_is_let_go() {
    let over = start(|config| config.header_timeout_ms = 300).await;
    let mut silent = TcpStream::connect(over.service.addr).await.unwrap();
    let read = silent.read_u8();
    let read = tokio::time::timeout(SEEN_MAX, read).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    over.service.stop().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    for folder in [&one, &other] {
        fs::create_dir(folder).unwrap();
        certify(folder);
    }
    fs::write(folder.path().join("empty"), "").unwrap();
    let refused = async |certificate: &Path, key: &Path| {
        let mut config = NodeConfig::defaults().unwrap();
        config.auth.hs256_secret = Secret::new(SECRET);
        config.server.tls_certificate_file = certificate.to_owned();
        config.server.tls_key_file = key.to_owned();
        let clock = Arc::new(SystemClock);
        let data = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(&data.path().join("qiang.db"), clock.clone()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started =
            NodeStarter::start(config, Backend::embedded(embedded, clock), listener).await;
        format!("{:#}", started.err().unwrap())
    };
    let (certificate, key) = (one.join("certificate.pem"), one.join("key.pem"));
    let alone = refused(&certificate, Path::new("")).await;
    assert!(alone.contains("set both, or neither"), "{alone}");
    let others = refused(&certificate, &other.join("key.pem")).await;
    assert!(
        others.contains("server.tls_key_file") && others.contains("other"),
        "{others}"
    );
    let missing = refused(&one.join("nothing.pem"), &key).await;
    assert!(missing.contains("server.tls_certificate_file"), "{missing}");
    let empty = refused(&folder.path().join("empty"), &key).await;
    assert!(empty.contains("no certificate in PEM"), "{empty}");
}
