//! Notifications of payment services, by local doubles that sign like them.

mod alipay;
mod reload;
mod stripe;
mod wechat;

use std::{fs, path::Path};

use aws_lc_rs::{
    encoding::AsDer as _,
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_SHA256},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use qiang_core::ports::Clock as _;
use serde_json::{Value, json};

use super::common::{Reply, Service, send};

/// Price of an order, in fen.
const PRICE: i64 = 500;

/// A service with accounts at payment services, and the folder of their files.
struct ShopWithAccounts {
    service: Service,
    folder: tempfile::TempDir,
}

impl ShopWithAccounts {
    /// Starts a service with this accounts file and these files of keys.
    async fn start(accounts: &str, keys: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("accounts.toml");
        put(&file, accounts);
        for (name, text) in keys {
            put(&folder.path().join(name), text);
        }
        let service = Service::start_with(|config, _| config.payments.accounts_file = file);
        Self {
            service: service.await,
            folder,
        }
    }

    fn now_s(&self) -> i64 {
        self.service.clock.now().as_millis() / 1_000
    }

    /// A held order of `zoe`, of a sale of one unit, changed by `adjust`.
    async fn order(&self, adjust: impl FnOnce(&mut Value)) -> String {
        let sale = self.service.sale(1, adjust).await;
        let path = format!("/v1/sales/{sale}/orders");
        let token = self.service.token("zoe", "claim");
        self.service.act(&path, &token).await.text("id")
    }

    async fn state(&self, order: &str) -> String {
        let path = format!("/v1/orders/{order}");
        let order = self.service.get(&path, &self.service.operator()).await;
        order.text("state")
    }

    /// Outcome of the payment with this reference, as an operator sees it.
    async fn outcome(&self, reference: &str) -> String {
        let path = format!("/v1/payments/{reference}");
        let payment = self.service.get(&path, &self.service.operator()).await;
        payment.text("outcome")
    }

    /// Refund due and refunded minor units of an order.
    async fn refunds(&self, order: &str) -> [i64; 2] {
        let path = format!("/v1/orders/{order}/refunds");
        let refunds = self.service.get(&path, &self.service.operator()).await;
        let refunds = refunds.json();
        let minor = |name: &str| refunds[name]["amount"].as_i64();
        ["due", "refunded"].map(|name| minor(name).unwrap_or_else(|| panic!("{refunds}")))
    }

    async fn return_order(&self, order: &str) {
        let path = format!("/v1/orders/{order}/return");
        let returned = self.service.act(&path, &self.service.operator()).await;
        assert_eq!(returned.text("state"), "returned");
    }

    /// Refused reports of an order in the operation log: kind, actor and problem.
    async fn refusals(&self, order: &str) -> Vec<[String; 3]> {
        let path = format!("/v1/operation-log?subject={order}");
        let log = self
            .service
            .get(&path, &self.service.operator())
            .await
            .json();
        let actions = log["data"].as_array().unwrap().iter();
        let refused = actions.filter(|it| it["detail"]["outcome"] == "refused");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let row = |it: &Value| {
            [
                text(&it["action"]),
                text(&it["actor"]),
                text(&it["detail"]["problem"]),
            ]
        };
        refused.map(row).collect()
    }

    /// Value of a counter of notifications.
    async fn count(&self, provider: &str, result: &str) -> u64 {
        let metrics = self.service.get("/metrics", "").await;
        let text = String::from_utf8(metrics.body.to_vec()).unwrap();
        let name = format!(
            "qiang_payment_notifications_total{{provider=\"{provider}\",result=\"{result}\"}} "
        );
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name}: {text}"))
            .parse()
            .unwrap()
    }

    async fn stop(self) {
        self.service.stop().await;
    }
}

/// Writes a file beside it, and renames it.
fn put(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, file).unwrap();
}

/// Posts a body with these headers.
async fn post(service: &Service, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    send(service.addr, request.body(body).unwrap()).await
}

/// RSA key of a platform.
struct PlatformKey(KeyPair);

impl PlatformKey {
    fn new() -> Self {
        Self(KeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    /// The public key in base64 without the lines of PEM, as consoles show it.
    fn public(&self) -> String {
        BASE64_STANDARD.encode(self.0.public_key().as_der().unwrap().as_ref())
    }

    /// The public key in PEM.
    fn pem(&self) -> String {
        let base64 = self.public();
        let lines = base64.as_bytes().chunks(64);
        let lines: Vec<_> = lines
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        let lines = lines.join("\n");
        format!("-----BEGIN PUBLIC KEY-----\n{lines}\n-----END PUBLIC KEY-----\n")
    }

    /// Signature of a message in base64.
    fn sign(&self, message: &str) -> String {
        let mut signature = vec![0; self.0.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        let message = message.as_bytes();
        self.0
            .sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
            .unwrap();
        BASE64_STANDARD.encode(signature)
    }
}

/// Price of another currency.
fn priced(minor: i64, currency: &str) -> impl FnOnce(&mut Value) {
    move |body| body["unit_price"] = json!({"amount": minor, "currency": currency})
}
