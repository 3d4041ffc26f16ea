//! Keys from the URL of an identity provider. A real server on loopback changes them, fails, or sends wrong answers.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use crate::node::http::common::{SECRET, START_MS, Service};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    signature::Ed25519KeyPair,
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use qiang::{
    Backend, NodeStarter,
    config::{AuthConfig, NodeConfig},
};
use qiang_embedded::{Embedded, SystemClock};
use serde_json::{Value, json};

/// The shortest interval, and the pause between fetches.
const REFRESH_S: u32 = 5;
/// Maximum wait. No step takes this long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Signer {
    kid: &'static str,
    key: EncodingKey,
}

impl Signer {
    fn new(kid: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        let key = EncodingKey::from_ed_der(der.as_ref());
        Self { kid, key }
    }

    fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, Algorithm::EdDSA).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(self.kid);
        jwk
    }

    fn token(&self) -> String {
        sign(Algorithm::EdDSA, self.kid, &self.key)
    }
}

fn sign(algorithm: Algorithm, kid: &str, key: &EncodingKey) -> String {
    let mut header = Header::new(algorithm);
    header.kid = Some(kid.to_owned());
    let claims = json!({ "sub": "ann", "exp": START_MS / 1_000 + 60 });
    jsonwebtoken::encode(&header, &claims, key).unwrap()
}

fn set(signers: &[&Signer]) -> String {
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// Answer of a provider.
#[derive(Clone)]
enum Answer {
    Set(String),
    Status(&'static str, String),
    /// Accepts the request and never answers.
    Silence,
    /// Sends one byte per second.
    Drops,
    /// Closes the connection.
    Close,
}

/// An identity provider.
struct Provider {
    addr: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicU32>,
}

impl Provider {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(answer));
        let asked = Arc::<AtomicU32>::default();
        let (now, count) = (Arc::clone(&answer), Arc::clone(&asked));
        // The thread ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (now, count) = (Arc::clone(&now), Arc::clone(&count));
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n")
                        && stream.read(&mut byte).is_ok_and(|n| n == 1)
                    {
                        head.push(byte[0]);
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                    let answer = now.lock().unwrap().clone();
                    let (status, body) = match answer {
                        Answer::Set(body) => ("200 OK", body),
                        Answer::Status(status, body) => (status, body),
                        Answer::Close => return,
                        Answer::Silence => return std::thread::sleep(PATIENCE),
                        Answer::Drops => {
                            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
                            drop(stream.write_all(head));
                            while stream.write_all(b" ").is_ok() {
                                std::thread::sleep(Duration::from_secs(1));
                            }
                            return;
                        }
                    };
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
                    drop(stream.write_all(head.as_bytes()));
                    drop(stream.write_all(body.as_bytes()));
                });
            }
        });
        Self {
            addr,
            answer,
            asked,
        }
    }

    fn url(&self) -> String {
        format!("http://{}/jwks.json", self.addr)
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until the provider gets one more request.
    async fn asked_again(&self) {
        let (asked, over) = (self.asked(), Instant::now() + PATIENCE);
        while self.asked() == asked {
            assert!(Instant::now() < over, "the provider gets no request");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn auth(url: &str) -> AuthConfig {
    AuthConfig {
        jwks_url: url.to_owned(),
        jwks_refresh_s: REFRESH_S,
        jwks_alarm_s: 3_600,
        ..AuthConfig::default()
    }
}

async fn service(auth: AuthConfig) -> Service {
    Service::start_with(|config, _| config.auth = auth).await
}

/// The error of a service that does not start with this configuration.
async fn refused(auth: AuthConfig) -> String {
    let mut config = NodeConfig::defaults().unwrap();
    config.auth = auth;
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(SystemClock));
    let embedded = Embedded::open(&folder.path().join("qiang.db"), clock.clone()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let started = NodeStarter::start(config, Backend::embedded(embedded, clock), listener).await;
    format!("{:#}", started.err().unwrap())
}

async fn status(service: &Service, token: &str) -> u16 {
    service.get("/v1/accounts/ann", token).await.status
}

async fn until(service: &Service, token: &str, expected: u16) {
    let over = Instant::now() + PATIENCE;
    loop {
        let found = status(service, token).await;
        if found == expected {
            return;
        }
        assert!(Instant::now() < over, "{found} instead of {expected}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_failing(service: &Service, expected: u8) {
    let (over, line) = (
        Instant::now() + PATIENCE,
        format!("\nqiang_token_file_failing {expected}\n"),
    );
    loop {
        let metrics = service.get("/metrics", "").await;
        if String::from_utf8_lossy(&metrics.body).contains(&line) {
            return;
        }
        assert!(Instant::now() < over, "no {line}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_token_of_a_new_key_has_the_set_fetched() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let provider = Provider::start(Answer::Set(set(&[&old])));
    let mut auth = auth(&provider.url());
    // The interval is an hour, so only the token can cause the fetch.
    auth.jwks_refresh_s = 3_600;
    let service = service(auth.clone()).await;
    assert_eq!(provider.asked(), 1);
    assert_eq!(status(&service, &old.token()).await, 200);
    assert_eq!(status(&service, &new.token()).await, 401);
    provider.answers(Answer::Set(set(&[&new])));
    until(&service, &new.token(), 200).await;
    assert_eq!(status(&service, &old.token()).await, 401);
    // The last fetched set stays valid after SIGHUP, even while the provider is down.
    provider.answers(Answer::Close);
    service.reload_auth(&auth);
    assert_eq!(status(&service, &new.token()).await, 200);
    assert_eq!(status(&service, &old.token()).await, 401);
    service.stop().await;
}

#[tokio::test]
async fn a_key_that_is_gone_is_noticed_by_the_interval() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let provider = Provider::start(Answer::Set(set(&[&old, &new])));
    let service = service(auth(&provider.url())).await;
    assert_eq!(status(&service, &old.token()).await, 200);
    provider.answers(Answer::Set(set(&[&new])));
    until(&service, &old.token(), 401).await;
    assert_eq!(status(&service, &new.token()).await, 200);
    service.stop().await;
}

#[tokio::test]
async fn a_flood_of_unknown_keys_is_none_for_the_provider() {
    let (known, unknown) = (Signer::new("known"), Signer::new("unknown"));
    let provider = Provider::start(Answer::Set(set(&[&known])));
    let mut auth = auth(&provider.url());
    auth.jwks_refresh_s = 3_600;
    let service = service(auth).await;
    let (began, token) = (Instant::now(), unknown.token());
    while began.elapsed() < Duration::from_secs(6) {
        assert_eq!(status(&service, &token).await, 401);
    }
    let most = 1 + began.elapsed().as_secs() / 5 + 1;
    let asked = u64::from(provider.asked());
    assert!((2..=most).contains(&asked), "{asked}, at most {most}");
    // A token with a known key causes no fetch.
    provider.asked_again().await;
    let asked = provider.asked();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        assert_eq!(status(&service, &known.token()).await, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(provider.asked() <= asked + 1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_provider_fails_the_last_good_set_counts() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let elsewhere = Provider::start(Answer::Set(set(&[&new])));
    let moved = format!("302 Found\r\nlocation: {}", elsewhere.url());
    let moved: &'static str = Box::leak(moved.into_boxed_str());
    let many = json!({ "keys": [new.jwk()], "more": "x".repeat(300 * 1024) }).to_string();
    let secret = json!({ "kty": "oct", "kid": "new", "k": BASE64_URL_SAFE_NO_PAD.encode(SECRET) });
    let bad = [
        Answer::Close,
        Answer::Silence,
        Answer::Drops,
        Answer::Set("garbage".to_owned()),
        Answer::Set(set(&[])),
        Answer::Set(json!({ "keys": [secret] }).to_string()),
        Answer::Set(many),
        Answer::Status(moved, set(&[&new])),
        Answer::Status("500 Internal Server Error", set(&[&new])),
        Answer::Status("404 Not Found", set(&[&new])),
    ];
    let (old, new) = (&old, &new);
    let check = |bad: Answer| async move {
        let provider = Provider::start(Answer::Set(set(&[old])));
        let mut auth = auth(&provider.url());
        auth.jwks_alarm_s = 1;
        let service = service(auth).await;
        until_failing(&service, 0).await;
        provider.answers(bad);
        until_failing(&service, 1).await;
        assert_eq!(status(&service, &old.token()).await, 200);
        assert_eq!(status(&service, &new.token()).await, 401);
        let oct = sign(
            Algorithm::HS256,
            "new",
            &EncodingKey::from_secret(SECRET.as_bytes()),
        );
        assert_eq!(status(&service, &oct).await, 401);
        provider.answers(Answer::Set(set(&[new])));
        until(&service, &new.token(), 200).await;
        assert_eq!(status(&service, &old.token()).await, 401);
        until_failing(&service, 0).await;
        service.stop().await;
    };
    futures_util::future::join_all(bad.map(check)).await;
    assert_eq!(elsewhere.asked(), 0);
}

#[tokio::test]
async fn a_node_starts_with_keys_or_not_at_all() {
    let signer = Signer::new("one");
    let provider = Provider::start(Answer::Set(set(&[&signer])));
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("jwks.copy");
    let with_copy = |file: &Path| AuthConfig {
        jwks_cache_file: file.to_owned(),
        ..auth(&provider.url())
    };
    let first = service(with_copy(&copy)).await;
    first.stop().await;
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), set(&[&signer]));
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    provider.answers(Answer::Close);
    let none = refused(auth(&provider.url())).await;
    assert!(
        none.contains("auth.jwks_cache_file names no copy"),
        "{none}"
    );
    assert!(none.contains("auth.jwks_url"), "{none}");
    let missing = refused(with_copy(&folder.path().join("nothing"))).await;
    assert!(missing.contains("auth.jwks_cache_file: read"), "{missing}");
    let garbage = folder.path().join("garbage");
    std::fs::write(&garbage, "x").unwrap();
    let unreadable = refused(with_copy(&garbage)).await;
    assert!(unreadable.contains("not a JWK Set"), "{unreadable}");

    let second = service(with_copy(&copy)).await;
    assert_eq!(status(&second, &signer.token()).await, 200);
    // The copy is replaced when the provider's set changes.
    let new = Signer::new("new");
    provider.answers(Answer::Set(set(&[&new])));
    until(&second, &new.token(), 200).await;
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), set(&[&new]));
    second.stop().await;
}

#[tokio::test]
async fn what_is_configured_wrongly_is_said() {
    let url = "https://id.example.com/jwks.json";
    let mut both = auth(url);
    both.jwks_file = "jwks.json".into();
    let both = refused(both).await;
    assert!(
        both.contains("only one of") && both.contains("jwks_url"),
        "{both}"
    );
    let plain = refused(auth("http://id.example.com/jwks.json")).await;
    assert!(plain.contains("auth.jwks_url must be https://"), "{plain}");
    let mut often = auth(url);
    often.jwks_refresh_s = 4;
    let often = refused(often).await;
    assert!(often.contains("auth.jwks_refresh_s must be 5"), "{often}");
    // A provider without TLS cannot serve an https:// URL.
    let provider = Provider::start(Answer::Set(set(&[&Signer::new("one")])));
    let tls = refused(auth(&format!("https://{}/", provider.addr))).await;
    assert!(tls.contains("auth.jwks_url: no "), "{tls}");
}
