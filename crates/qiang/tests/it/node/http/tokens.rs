//! Checks of tokens beside the signature: key, header, time of issue and lifetime. Also keys that change while the
//! service runs, and revoked tokens.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::node::http::common::{SECRET, START_MS, Service, sign};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, RsaKeyPair,
    },
};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use qiang::config::{AuthConfig, Secret};
use serde_json::{Value, json};

const NOW: i64 = START_MS / 1_000;
/// Maximum time until a change of a file is seen. Files are checked every second.
const CHANGED_MAX: Duration = Duration::from_secs(20);

/// A key pair with its key id.
struct Signer {
    kid: &'static str,
    key: EncodingKey,
    algorithm: Algorithm,
}

impl Signer {
    fn ed25519(kid: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        let (key, algorithm) = (EncodingKey::from_ed_der(der.as_ref()), Algorithm::EdDSA);
        Self {
            kid,
            key,
            algorithm,
        }
    }

    fn rsa(kid: &'static str, algorithm: Algorithm) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
        let der = BASE64_STANDARD.encode(der.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{der}\n-----END PRIVATE KEY-----\n");
        let key = EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap();
        Self {
            kid,
            key,
            algorithm,
        }
    }

    fn ec(kid: &'static str, algorithm: Algorithm) -> Self {
        let curve = match algorithm {
            Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
        };
        let der = EcdsaKeyPair::generate_pkcs8(curve, &SystemRandom::new()).unwrap();
        let key = EncodingKey::from_ec_der(der.as_ref());
        Self {
            kid,
            key,
            algorithm,
        }
    }

    fn secret(kid: &'static str) -> Self {
        let (key, algorithm) = (
            EncodingKey::from_secret(SECRET.as_bytes()),
            Algorithm::HS256,
        );
        Self {
            kid,
            key,
            algorithm,
        }
    }

    /// The public part of the key, as a key set has it.
    fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        let mut jwk = serde_json::to_value(jwk).unwrap();
        jwk["kid"] = json!(self.kid);
        jwk
    }

    fn token(&self) -> String {
        self.token_with(|_| ())
    }

    fn token_with(&self, adjust: impl FnOnce(&mut Header)) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.to_owned());
        adjust(&mut header);
        let claims = json!({ "sub": "ann", "exp": NOW + 60 });
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

fn set(signers: &[&Signer]) -> String {
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

/// Replaces a file atomically, because the service may read it at any time.
fn put(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

async fn service(adjust: impl FnOnce(&mut AuthConfig)) -> Service {
    Service::start_with(|config, _| adjust(&mut config.auth)).await
}

/// Starts a service with the key set in this file and no other key.
async fn service_of_set(file: &Path) -> Service {
    service(|auth| {
        auth.hs256_secret = Secret::default();
        auth.jwks_file = file.to_owned();
    })
    .await
}

async fn status(service: &Service, token: &str) -> u16 {
    service.get("/v1/accounts/ann", token).await.status
}

#[track_caller]
fn assert_refused(reply: &crate::node::http::common::Reply, why: &str) {
    reply.assert_problem(401, "unauthenticated");
    assert!(reply.text("detail").contains(why), "{reply:?}");
    let challenge = "Bearer realm=\"qiang\", error=\"invalid_token\"";
    assert_eq!(reply.header("www-authenticate"), challenge);
}

async fn refused(service: &Service, token: &str, why: &str) {
    let reply = service.get("/v1/accounts/ann", token).await;
    assert_refused(&reply, why);
}

/// Waits until the metric of unusable files has this value.
async fn until_failing(service: &Service, expected: u8) {
    let over = Instant::now() + CHANGED_MAX;
    let line = format!("\nqiang_token_file_failing {expected}\n");
    loop {
        let metrics = service.get("/metrics", "").await;
        if String::from_utf8_lossy(&metrics.body).contains(&line) {
            return;
        }
        assert!(Instant::now() < over, "no {line}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the tokens get these statuses.
async fn until(service: &Service, tokens: &[&str], expected: &[u16]) {
    let over = Instant::now() + CHANGED_MAX;
    loop {
        let mut found = Vec::new();
        for token in tokens {
            found.push(status(service, token).await);
        }
        if found == expected {
            return;
        }
        assert!(Instant::now() < over, "{found:?} instead of {expected:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_token_names_its_key_among_those_of_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let signers = [
        Signer::ed25519("ed"),
        Signer::ed25519("ed-2"),
        Signer::rsa("rsa", Algorithm::RS256),
        Signer::rsa("pss", Algorithm::PS512),
        Signer::ec("p256", Algorithm::ES256),
        Signer::ec("p384", Algorithm::ES384),
        Signer::secret("oct"),
    ];
    std::fs::write(&file, set(&signers.each_ref())).unwrap();
    let service = service_of_set(&file).await;
    // Each token twice: its header is cached the second time.
    for signer in signers.iter().chain(&signers) {
        assert_eq!(
            status(&service, &signer.token()).await,
            200,
            "{}",
            signer.kid
        );
    }
    let [ed, ed_2, rsa, ..] = &signers;
    let unknown = "`kid` does not name a key";
    let named = |signer: &Signer, kid: Option<&str>| {
        signer.token_with(|header| header.kid = kid.map(str::to_owned))
    };
    refused(&service, &named(ed, None), unknown).await;
    refused(&service, &named(ed, Some("other")), unknown).await;
    refused(
        &service,
        &named(ed, Some("ed-2")),
        "signature does not hold",
    )
    .await;
    refused(&service, &named(ed_2, Some("rsa")), "another algorithm").await;
    // One RSA key, and two algorithms.
    let pss = rsa.token_with(|header| header.kid = Some("pss".to_owned()));
    refused(&service, &pss, "another algorithm").await;
    // A public key must not be accepted as a secret.
    let public = ed.jwk()["x"].as_str().unwrap().to_owned();
    for secret in [
        public.clone().into_bytes(),
        BASE64_URL_SAFE_NO_PAD.decode(&public).unwrap(),
    ] {
        let confused = Signer {
            kid: "ed",
            key: EncodingKey::from_secret(&secret),
            algorithm: Algorithm::HS256,
        };
        refused(&service, &confused.token(), "another algorithm").await;
    }
    service.stop().await;
}

#[tokio::test]
async fn keys_change_while_the_service_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    put(&file, &set(&[&old]));
    let service = service_of_set(&file).await;
    let (of_old, of_new) = (old.token(), new.token());
    let tokens = [of_old.as_str(), of_new.as_str()];
    until(&service, &tokens, &[200, 401]).await;
    // Both keys are valid while tokens of the old one are in use.
    put(&file, &set(&[&old, &new]));
    until(&service, &tokens, &[200, 200]).await;
    put(&file, &set(&[&new]));
    until(&service, &tokens, &[401, 200]).await;
    until_failing(&service, 0).await;
    // A file that cannot be used, or is missing, changes nothing.
    put(&file, "{");
    until_failing(&service, 1).await;
    until(&service, &tokens, &[401, 200]).await;
    std::fs::remove_file(&file).unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    until(&service, &tokens, &[401, 200]).await;
    // Written in place, with another key under the old id.
    let renamed = Signer {
        kid: "new",
        key: old.key.clone(),
        algorithm: old.algorithm,
    };
    std::fs::write(&file, set(&[&renamed])).unwrap();
    let of_renamed = renamed.token();
    until(&service, &[&of_new, &of_renamed], &[401, 200]).await;
    until_failing(&service, 0).await;
    service.stop().await;
}

#[tokio::test]
async fn extensions_and_other_types_of_tokens_are_refused() {
    let service = service(|auth| auth.typ = "application/AT+jwt".to_owned()).await;
    let signer = Signer::secret("any");
    let typed = |typ: Option<&str>| {
        let typ = typ.map(str::to_owned);
        signer.token_with(|header| header.typ = typ)
    };
    for typ in ["at+jwt", "AT+JWT", "application/at+jwt"] {
        assert_eq!(status(&service, &typed(Some(typ))).await, 200, "{typ}");
    }
    for typ in [None, Some("JWT"), Some(""), Some("at+jwt;v=2")] {
        refused(&service, &typed(typ), "the token's `typ`").await;
    }
    for crit in [&["exp"][..], &["b64"], &[]] {
        let token = signer.token_with(|header| {
            header.typ = Some("at+jwt".to_owned());
            header.crit = Some(crit.iter().map(|name| (*name).to_owned()).collect());
        });
        refused(&service, &token, "`crit`").await;
    }
    service.stop().await;
}

#[tokio::test]
async fn tokens_last_for_a_bounded_time() {
    const BOUND: i64 = 600;
    let service = service(|auth| auth.lifetime_s_max = BOUND as u32).await;
    let claims = |exp: i64, iat: Option<i64>| {
        let mut claims = json!({ "sub": "ann", "exp": exp });
        if let Some(iat) = iat {
            claims["iat"] = json!(iat);
        }
        sign(&claims)
    };
    let long = "lasts longer than is allowed";
    assert_eq!(status(&service, &claims(NOW + BOUND, Some(NOW))).await, 200);
    refused(&service, &claims(NOW + BOUND + 1, Some(NOW)), long).await;
    // The limit also holds shortly before the end.
    refused(&service, &claims(NOW + 1, Some(NOW - BOUND)), long).await;
    // Without `iat` the lifetime counts from now, with tolerance for clocks.
    assert_eq!(status(&service, &claims(NOW + BOUND + 30, None)).await, 200);
    refused(&service, &claims(NOW + BOUND + 31, None), long).await;
    refused(&service, &claims(i64::MAX, None), long).await;
    // An `iat` in the future does not extend the limit.
    assert_eq!(
        status(&service, &claims(NOW + 60, Some(NOW + 30))).await,
        200
    );
    refused(&service, &claims(NOW + 60, Some(NOW + 31)), "in the future").await;
    refused(
        &service,
        &sign(&json!({ "sub": "ann", "exp": NOW + 60, "iat": "now" })),
        "needs",
    )
    .await;
    service.stop().await;
}

#[tokio::test]
async fn a_week_is_the_bound_unless_it_is_set_and_iat_is_asked_for_where_it_is() {
    const WEEK: i64 = 7 * 24 * 3_600;
    let lasting = |seconds: i64| sign(&json!({ "sub": "ann", "iat": NOW, "exp": NOW + seconds }));
    let usual = Service::start().await;
    assert_eq!(status(&usual, &lasting(WEEK)).await, 200);
    refused(&usual, &lasting(WEEK + 1), "lasts longer").await;
    usual.stop().await;
    let other = service(|auth| {
        auth.lifetime_s_max = 0;
        auth.require_iat = true;
    })
    .await;
    assert_eq!(status(&other, &lasting(1_000 * WEEK)).await, 200);
    refused(
        &other,
        &sign(&json!({ "sub": "ann", "exp": NOW + 60 })),
        "needs `iat`",
    )
    .await;
    other.stop().await;
}

#[tokio::test]
async fn revoked_tokens_are_refused_from_when_they_stand_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("revoked");
    put(&file, "# no token yet\n");
    let service = service(|auth| auth.revoked_file = file.clone()).await;
    let of = |jti: Value| sign(&json!({ "sub": "ann", "exp": NOW + 60, "jti": jti }));
    let (one, two) = (of(json!("one")), of(json!("two")));
    let none = sign(&json!({ "sub": "ann", "exp": NOW + 60 }));
    let tokens = [one.as_str(), two.as_str(), none.as_str()];
    until(&service, &tokens, &[200, 200, 200]).await;
    put(&file, "jti one\nsub bob\n");
    until(&service, &tokens, &[401, 200, 200]).await;
    refused(&service, &one, "revoked").await;
    // An id must be a text, so that it can be revoked.
    refused(&service, &of(json!(1)), "`scope` and `jti` one text").await;
    // A file that cannot be read changes nothing: it neither revokes nor restores tokens.
    put(&file, "jti one\ntwo\n");
    until_failing(&service, 1).await;
    until(&service, &tokens, &[401, 200, 200]).await;
    std::fs::remove_file(&file).unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    until(&service, &tokens, &[401, 200, 200]).await;
    until_failing(&service, 1).await;
    put(&file, "sub ann\n");
    until(&service, &tokens, &[401, 401, 401]).await;
    until_failing(&service, 0).await;
    put(&file, "");
    until(&service, &tokens, &[200, 200, 200]).await;
    service.stop().await;
}
