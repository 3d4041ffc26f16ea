//! Tokens made by `qiang token`, and every kind of key by which a service checks them.

use std::{fmt::Write as _, path::Path};

use crate::common::{SECRET, Service, in_an_hour, output, sign_with};
use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der},
    rsa::KeySize,
    signature::{Ed25519KeyPair, KeyPair as _, RsaKeyPair},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use qiang::{
    SystemClock,
    config::{AuthConfig, Secret},
};
use qiang_core::ports::Clock as _;
use serde_json::json;

fn write_pem(path: &Path, label: &str, der: &[u8]) {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in BASE64_STANDARD.encode(der).as_bytes().chunks(64) {
        writeln!(text, "{}", std::str::from_utf8(line).unwrap()).unwrap();
    }
    writeln!(text, "-----END {label}-----").unwrap();
    std::fs::write(path, text).unwrap();
}

/// A token for ann.
fn token(folder: &Path, args: &[&str]) -> String {
    let common = ["token", "--sub", "ann", "--scope", "claim send"];
    let made = output(folder, &[&common[..], args].concat(), &[]);
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// A service with the system clock, which `qiang token` uses too.
async fn service(adjust: impl FnOnce(&mut AuthConfig)) -> Service {
    let service = Service::start_with(|config, _| {
        config.auth.hs256_secret = Secret::default();
        adjust(&mut config.auth);
    })
    .await;
    let here = service.clock.now();
    service
        .clock
        .advance_ms(SystemClock.now().millis_since(here));
    service
}

async fn status(service: &Service, token: &str) -> u16 {
    service.get("/v1/accounts/ann", token).await.status
}

#[tokio::test]
async fn a_secret_in_a_file_signs_and_checks() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let token = token(folder.path(), &["--secret-file", "secret"]);
    let service = service(|auth| auth.hs256_secret_file = secret).await;
    assert_eq!(status(&service, &token).await, 200);
    service.stop().await;
}

async fn check_key_pair(folder: &Path, private: &[u8], public: &[u8], other: &str) {
    let public_file = folder.join("public.pem");
    write_pem(&folder.join("private.pem"), "PRIVATE KEY", private);
    write_pem(&public_file, "PUBLIC KEY", public);
    let good = token(folder, &["--key", "private.pem"]);
    // The public key must not be accepted as an HMAC secret: anyone who knows it could sign tokens.
    let confused = {
        let pem = std::fs::read_to_string(&public_file).unwrap();
        sign_with(
            &pem,
            &json!({ "sub": "ann", "scope": "claim", "exp": in_an_hour() }),
        )
    };
    let service = service(|auth| auth.public_key_file = public_file).await;
    assert_eq!(status(&service, &good).await, 200);
    assert_eq!(status(&service, &confused).await, 401);
    assert_eq!(status(&service, other).await, 401);
    service.stop().await;
}

#[tokio::test]
async fn public_keys_check_what_private_keys_sign() {
    let folder = tempfile::tempdir().unwrap();
    let stranger = Ed25519KeyPair::generate().unwrap();
    let stranger = AsDer::<Pkcs8V1Der<'_>>::as_der(&stranger).unwrap();
    write_pem(
        &folder.path().join("stranger.pem"),
        "PRIVATE KEY",
        stranger.as_ref(),
    );
    let other = token(folder.path(), &["--key", "stranger.pem"]);

    let pair = Ed25519KeyPair::generate().unwrap();
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    check_key_pair(folder.path(), private.as_ref(), public.as_ref(), &other).await;

    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let private = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    check_key_pair(folder.path(), private.as_ref(), public.as_ref(), &other).await;
}
