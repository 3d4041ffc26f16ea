//! Notifications of WeChat Pay end where reports of payments and refunds do.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use qiang_core::time::Timestamp;
use serde_json::{Value, json};

use super::{PRICE, PlatformKey, ShopWithAccounts, post};
use crate::node::http::common::Reply;

const APIV3_KEY: &str = "0123456789abcdefghijklmnopqrstuv";
const KEY_ID: &str = "PUB_KEY_ID_0114232134912410000000000000";
const TRANSACTION: &str = "4200001968202311095487654321";
const ACCOUNTS: &str = "
    [[wechat]]
    account = 'main'
    all_sellers = true
    mchid = '1900000109'
    apiv3_key_file = 'apiv3.key'
    public_keys = [{ id = 'PUB_KEY_ID_0114232134912410000000000000', file = 'platform.pem' }]
";

/// A shop with an account, and the platform that notifies it.
struct WechatShop {
    shop: ShopWithAccounts,
    platform: PlatformKey,
}

impl WechatShop {
    async fn start() -> Self {
        let platform = PlatformKey::new();
        let keys = [("apiv3.key", APIV3_KEY), ("platform.pem", &platform.pem())];
        Self {
            shop: ShopWithAccounts::start(ACCOUNTS, &keys).await,
            platform,
        }
    }

    fn time(&self) -> String {
        let now = Timestamp::from_millis(self.shop.now_s() * 1_000).as_millis();
        let time = jiff::Timestamp::from_millisecond(now).unwrap();
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(8));
        time.to_zoned(zone)
            .strftime("%Y-%m-%dT%H:%M:%S%:z")
            .to_string()
    }

    /// Body of a notification with this content.
    fn body(&self, kind: &str, content: &Value) -> String {
        let mut text = content.to_string().into_bytes();
        let key = UnboundKey::new(&AES_256_GCM, APIV3_KEY.as_bytes()).unwrap();
        let nonce = Nonce::try_assume_unique_for_key(b"fdasflkja484").unwrap();
        let aad = Aad::from(b"transaction".as_slice());
        let key = LessSafeKey::new(key);
        key.seal_in_place_append_tag(nonce, aad, &mut text).unwrap();
        let body = json!({
            "id": "EV-2018022511223320873", "create_time": self.time(), "event_type": kind,
            "resource_type": "encrypt-resource", "summary": "支付成功",
            "resource": {
                "original_type": "transaction", "algorithm": "AEAD_AES_256_GCM",
                "ciphertext": BASE64_STANDARD.encode(text), "associated_data": "transaction",
                "nonce": "fdasflkja484",
            },
        });
        body.to_string()
    }

    async fn send(&self, [time, serial, signature]: [&str; 3], body: &str) -> Reply {
        let headers = [
            ("content-type", "application/json"),
            ("wechatpay-timestamp", time),
            ("wechatpay-nonce", "593BEC0C930BF1AFEB40B4A08C8FB242"),
            ("wechatpay-serial", serial),
            ("wechatpay-signature", signature),
        ];
        let path = "/v1/providers/wechat/main/notifications";
        post(&self.shop.service, path, &headers, body).await
    }

    fn sign(&self, at_s: i64, body: &str) -> String {
        let nonce = "593BEC0C930BF1AFEB40B4A08C8FB242";
        self.platform.sign(&format!("{at_s}\n{nonce}\n{body}\n"))
    }

    /// Sends a body that is signed now.
    async fn send_signed(&self, body: &str) -> Reply {
        let now = self.shop.now_s();
        let signature = self.sign(now, body);
        self.send([&now.to_string(), KEY_ID, &signature], body)
            .await
    }

    fn transaction(&self, order: &str, change: impl FnOnce(&mut Value)) -> String {
        let mut content = json!({
            "appid": "wxd678efh567hg6787", "mchid": "1900000109", "out_trade_no": "shop-4711",
            "transaction_id": TRANSACTION, "trade_type": "JSAPI", "trade_state": "SUCCESS",
            "trade_state_desc": "支付成功", "bank_type": "CMC", "attach": order,
            "success_time": self.time(), "payer": {"openid": "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"},
            "amount": {
                "total": PRICE, "payer_total": PRICE, "currency": "CNY", "payer_currency": "CNY",
            },
        });
        change(&mut content);
        self.body("TRANSACTION.SUCCESS", &content)
    }

    fn refund(&self, id: &str, fen: i64) -> String {
        let content = json!({
            "mchid": "1900000109", "out_trade_no": "shop-4711", "transaction_id": TRANSACTION,
            "out_refund_no": format!("shop-{id}"), "refund_id": id, "refund_status": "SUCCESS",
            "success_time": self.time(), "user_received_account": "招商银行信用卡0403",
            "amount": {"total": PRICE, "refund": fen, "payer_total": PRICE, "payer_refund": fen},
        });
        self.body("REFUND.SUCCESS", &content)
    }
}

fn assert_acknowledged(reply: &Reply) {
    assert_eq!(
        (reply.status, &reply.body[..]),
        (204, b"".as_slice()),
        "{reply:?}"
    );
}

/// A failure has what WeChat Pay reads of it.
#[track_caller]
fn assert_failure(reply: &Reply, status: u16, kind: &str) {
    reply.assert_problem(status, kind);
    assert_eq!(reply.text("code"), "FAIL");
    assert!(!reply.text("message").is_empty());
}

#[tokio::test]
async fn a_notification_pays_its_order_once_and_a_forged_one_never() {
    let wechat = WechatShop::start().await;
    let order = wechat.shop.order(|_| ()).await;
    let body = wechat.transaction(&order, |_| ());
    let now = wechat.shop.now_s();
    let (time, good) = (now.to_string(), wechat.sign(now, &body));
    let forged = PlatformKey::new().sign(&format!("{now}\n\n{body}\n"));
    let altered = body.replace("transaction", "transactiom");
    let old = (now - 301).to_string();
    for (headers, body) in [
        ([time.as_str(), KEY_ID, forged.as_str()], &body),
        (
            [&time, "PUB_KEY_ID_0114232134912410000000000001", &good],
            &body,
        ),
        ([&old, KEY_ID, &wechat.sign(now - 301, &body)], &body),
        ([&time, KEY_ID, "WECHATPAY/SIGNTEST/dGVzdA=="], &body),
        ([&time, KEY_ID, &good], &altered),
        ([&time, KEY_ID, ""], &body),
    ] {
        let reply = wechat.send(headers, body).await;
        assert_failure(&reply, 401, "unauthenticated");
    }
    assert_eq!(wechat.shop.state(&order).await, "held");
    for _ in 0..3 {
        assert_acknowledged(&wechat.send([&time, KEY_ID, &good], &body).await);
        assert_eq!(wechat.shop.state(&order).await, "paid");
    }
    assert_eq!(wechat.shop.outcome(TRANSACTION).await, "paid");
    assert_eq!(wechat.shop.service.balance("olga").await, PRICE);
    assert_eq!(wechat.shop.count("wechat", "recorded").await, 3);
    assert_eq!(wechat.shop.count("wechat", "rejected").await, 6);
    wechat.shop.stop().await;
}

/// A coupon pays a part. The order's total counts, because the seller gets all of it or gave the coupon.
#[tokio::test]
async fn a_payment_with_a_coupon_pays_the_order() {
    let wechat = WechatShop::start().await;
    let order = wechat.shop.order(|_| ()).await;
    let body = wechat.transaction(&order, |it| {
        it["amount"]["payer_total"] = json!(PRICE - 50);
        it["promotion_detail"] = json!([{"coupon_id": "109519", "type": "CASH", "amount": 50}]);
    });
    assert_acknowledged(&wechat.send_signed(&body).await);
    assert_eq!(wechat.shop.state(&order).await, "paid");
    wechat.shop.stop().await;
}

#[tokio::test]
async fn a_wrong_transaction_is_owed_or_refused() {
    let wechat = WechatShop::start().await;
    let order = wechat.shop.order(|_| ()).await;
    let check = async |change: &dyn Fn(&mut Value), status: u16, kind: &str| {
        let body = wechat.transaction(&order, change);
        assert_failure(&wechat.send_signed(&body).await, status, kind);
    };
    let unknown = format!("{}-7", order.rsplit_once('-').unwrap().0);
    check(&|it| it["attach"] = json!(unknown), 404, "not-found").await;
    check(&|it| it["attach"] = json!("4711"), 422, "invalid").await;
    check(&|it| it["mchid"] = json!("1900000110"), 422, "invalid").await;
    check(&|it| it["amount"]["total"] = json!(0), 422, "invalid").await;
    let damaged = wechat.transaction(&order, |_| ());
    let damaged = damaged.replace("\"ciphertext\":\"", "\"ciphertext\":\"AAAA");
    assert_failure(&wechat.send_signed(&damaged).await, 422, "invalid");
    assert_failure(&wechat.send_signed("{").await, 422, "invalid");
    let giant = "x".repeat(65_537);
    assert_failure(&wechat.send_signed(&giant).await, 413, "too-large");
    assert_eq!(wechat.shop.state(&order).await, "held");
    let less = wechat.transaction(&order, |it| it["amount"]["total"] = json!(PRICE - 1));
    assert_acknowledged(&wechat.send_signed(&less).await);
    assert_eq!(wechat.shop.outcome(TRANSACTION).await, "refund_due");
    assert_eq!(wechat.shop.refunds(&order).await, [PRICE - 1, 0]);
    wechat.shop.stop().await;
}

#[tokio::test]
async fn a_refund_is_recorded_by_its_id() {
    let wechat = WechatShop::start().await;
    let order = wechat.shop.order(|_| ()).await;
    let early = wechat.refund("50000000382019052709732678859", 300);
    assert_failure(&wechat.send_signed(&early).await, 404, "not-found");
    let paid = wechat.transaction(&order, |_| ());
    assert_acknowledged(&wechat.send_signed(&paid).await);
    assert_failure(&wechat.send_signed(&early).await, 409, "refund-exceeds-due");
    wechat.shop.return_order(&order).await;
    for _ in 0..2 {
        assert_acknowledged(&wechat.send_signed(&early).await);
        assert_eq!(wechat.shop.refunds(&order).await, [PRICE, 300]);
    }
    let rest = wechat.refund("50000000382019052709732678860", 200);
    assert_acknowledged(&wechat.send_signed(&rest).await);
    assert_eq!(wechat.shop.refunds(&order).await, [PRICE, PRICE]);
    wechat.shop.stop().await;
}
