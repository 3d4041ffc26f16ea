//! The signed notification is a test vector of WeChat Pay's library for Go, core/notify/notify_test.go. The encrypted
//! text is one of its library for Java, AeadAesCipherTest. Payments and refunds have the fields of its documentation.

use aws_lc_rs::{
    aead::{AES_256_GCM, UnboundKey},
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_SHA256},
};
use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::*;

const APIV3_KEY: &str = "a7cde1ZJB1kG2e7VfTs3jQzaWizur8Gb";
const ORDER: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3";
const NOW_S: i64 = 1_795_262_400;
const KEY_ID: &str = "PUB_KEY_ID_0114232134912410000000000000";

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIDVzCCAj+gAwIBAgIJANfOWdH1ItcBMA0GCSqGSIb3DQEBCwUAMEIxCzAJBgNV
BAYTAlhYMRUwEwYDVQQHDAxEZWZhdWx0IENpdHkxHDAaBgNVBAoME0RlZmF1bHQg
Q29tcGFueSBMdGQwHhcNMjEwNDI3MDg1NTIzWhcNMzEwNDI1MDg1NTIzWjBCMQsw
CQYDVQQGEwJYWDEVMBMGA1UEBwwMRGVmYXVsdCBDaXR5MRwwGgYDVQQKDBNEZWZh
dWx0IENvbXBhbnkgTHRkMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA
2VCTd91fnUn73Xy9DLvt/V62TVxRTEEstVdeRaZ3B3leO0pldE806mXO4RwdHXag
HQ4vGeZN0yqm++rDsGK+U3AH7kejyD2pXshNP9Cq5YwbptiLGtjcquw4HNxJQUOm
DeJf2vg6byms9RUipiq4SzbJKqJFlUpbuIPDpSpWz10PYmyCNeDGUUK65E5h2B83
4uxl1zNLYQCrkdBzb8oUxwYeP5a2DNxmjL5lsJML7DGr5znsevnoqGRwTm9fxCGf
y8wus7hwKz6clt3Whmmda7UAdb1c08hEQFVRbF14AR73xbnd8N0obCWJPCbzMCtk
aSef4FdEEgEXJiw0VAJT8wIDAQABo1AwTjAdBgNVHQ4EFgQUT1c7nd/SUO76HSoZ
umNUJv1R5PwwHwYDVR0jBBgwFoAUT1c7nd/SUO76HSoZumNUJv1R5PwwDAYDVR0T
BAUwAwEB/zANBgkqhkiG9w0BAQsFAAOCAQEAfTjxKRQMzNB/U6ZoCUS+BSNfa2Oh
0plMN6ZuzwiVVZwg1jywvv5yv04koS7Pd4i9E4gt9ZBUQXlpq+A3oOCEEHNRR6b2
kyazGRM7s0OP5X21WrbpSmKmU6K7hkfx30yYs08LVs/Q8DIhvaj1FCFeJzUCzYn/
fHMq4tsbKO0dKAeydPM/nrUZBmaYQVKMVOORGLFjFKVO7JV6Kq/R86ouhjEPgJOe
2xulNBUcjicqtZlBdEh/PWCYP2SpGVDclKm8jeo175T3EVAkdKzzmfpxtMmnMlmq
cTJOU9TxuGvNASMtjj7pYIerTx+xgZDXEVBWFW9PjJ0TV06tCRsgSHItgg==
-----END CERTIFICATE-----";
const SIGNED_BODY: &str = concat!(
    r#"{"id":"3119dfba-e649-5eec-ab1e-3412bc4d2e17","create_time":"2021-06-24T16:37:26+08:00","#,
    r#""resource_type":"encrypt-resource","event_type":"PAYSCORE.USER_OPEN_SERVICE","#,
    r#""summary":"签约成功","resource":{"original_type":"payscore","algorithm":"AEAD_AES_256_GCM","#,
    r#""ciphertext":"YDS3lKPaC4Y52Gf3uhft5qUBlIa8b428AWTtTauHQfQrRw+X1WpiuHIDy0vo1Vd6VEq67aVyqPdDYM"#,
    "kRVSDaZL3iZttevRMOoPKMifozg6XPWjIZumks/GpT48lI4NizyeaqLBokNebthah3o1H76qSlO9NkDjp9bzmKLEYYH9TE",
    r#"klFUpsvPqOTOcgSLgh21YJXYR7dEBXFgRLiNIKRgO5JdXh1hccRUAlyVWxE54PXpnQ==","#,
    r#""associated_data":"payscore","nonce":"Kj7QIyUiYx1q"}}"#,
);
const SIGNATURE: &str = concat!(
    "tJHIiIS9eB2hAYstmAmbbD3ZE5LiIm/Ug5tuL4fC0YOFRWIHV39UFIZXC0e9Wl6lBu6sKvkqDkzpqzBsVHyXF",
    "lbYZTOQrVdG4b6LfTnK4mikv9++ixJMd3vTf2yCqvBkh98zs3Ds5zsYQakzbcwhmw4fMJs4nPLws28H0UW9FjDR//rxEL",
    "LwXvV1VEA1IBLX70xptjL8hrfUjEE8kkry6yNJTHZRU8CAc7qHli2Ng1V1qb9ARbK8A3ThmFmPQvRGrapI/jS2laKKgYUm",
    "fdEdkNO6B2Cke5e8VTxY406ArAmQ90GAihDwIcb16TQMnzCMBoutnwZKNiKRACrFmtxw2Q==",
);

fn cipher(key: &str) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_bytes()).unwrap())
}

fn adapter(serial: String, verifier: RsaVerifier) -> WechatAdapter {
    WechatAdapter {
        mchid: "1900000109".to_owned(),
        sub_mchid: None,
        takes_all: true,
        verifiers: [(serial, verifier)].into(),
        ciphers: vec![
            cipher("another-key-of-the-same-32-bytes"),
            cipher(APIV3_KEY),
        ],
    }
}

fn read(
    adapter: &WechatAdapter,
    headers: [(&'static str, &str); 4],
    body: &str,
    now_s: i64,
) -> Result<NotificationContent, NotificationFault> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(name, value.parse().unwrap());
    }
    adapter.read(&Notification {
        headers: &map,
        body: body.as_bytes(),
        now: Timestamp::from_millis(now_s * 1_000),
        tolerance_ms: 300_000,
    })
}

fn is_unauthentic(read: &Result<NotificationContent, NotificationFault>) -> bool {
    matches!(read, Err(NotificationFault::Unauthentic(_)))
}

#[test]
fn the_published_notification_is_authentic() {
    const SIGNED_S: i64 = 1_624_523_846;
    let (serial, verifier) = RsaVerifier::from_certificate(CERTIFICATE).unwrap();
    assert_eq!(serial, "D7CE59D1F522D701");
    let adapter = adapter(serial, verifier);
    let check = |change: (&str, &'static str), body: &str, away_s: i64| {
        let headers = [
            ("wechatpay-timestamp", "1624523846"),
            ("wechatpay-nonce", "EcZ9Cmy4Xyx1i6RlJQzLcCyEqDa26NBz"),
            ("wechatpay-serial", "D7CE59D1F522D701"),
            ("wechatpay-signature", SIGNATURE),
        ];
        let headers = headers.map(|(name, value)| match name == change.0 {
            true => (name, change.1),
            false => (name, value),
        });
        read(&adapter, headers, body, SIGNED_S + away_s)
    };
    let other = || NotificationContent::Ignored(IgnoredNotification::OtherKind);
    for away_s in [-300, 0, 300] {
        assert_eq!(
            check(("", ""), SIGNED_BODY, away_s),
            Ok(other()),
            "{away_s}"
        );
        let beyond = check(("", ""), SIGNED_BODY, away_s * 2 + 1);
        assert_eq!(is_unauthentic(&beyond), away_s != 0, "{away_s}");
    }
    for change in [
        ("wechatpay-timestamp", "1624523847"),
        ("wechatpay-nonce", "EcZ9Cmy4Xyx1i6RlJQzLcCyEqDa26NBy"),
        ("wechatpay-serial", "D7CE59D1F522D702"),
        ("wechatpay-signature", "WECHATPAY/SIGNTEST/dGVzdA=="),
        ("wechatpay-signature", "AAAA"),
    ] {
        assert!(is_unauthentic(&check(change, SIGNED_BODY, 0)), "{change:?}");
    }
    let altered = SIGNED_BODY.replace("payscore", "payscorf");
    assert!(is_unauthentic(&check(("", ""), &altered, 0)));
}

#[test]
fn the_published_text_is_decrypted() {
    let resource = |nonce: &str, associated_data: &str| WechatResource {
        algorithm: ALGORITHM.to_owned(),
        ciphertext: "ulwSiIajGClcvcOYvOQ7+l+0PAbzzwI=".to_owned(),
        associated_data: associated_data.to_owned(),
        nonce: nonce.to_owned(),
    };
    let key = cipher(APIV3_KEY);
    let check = |nonce, associated_data, expected: Option<&[u8]>| {
        let decrypted = decrypt(&key, &resource(nonce, associated_data));
        assert_eq!(decrypted.as_deref(), expected, "{nonce} {associated_data}");
    };
    check("uluk4a9R25RW", "associatedData", Some(b"message"));
    check("uluk4a9R25RW", "associatedDatb", None);
    check("uluk4a9R25RX", "associatedData", None);
    check("short", "associatedData", None);
}

/// A local double of the platform.
struct Platform {
    key: KeyPair,
    adapter: WechatAdapter,
}

impl Platform {
    fn new() -> Self {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let public = BASE64_STANDARD.encode(key.public_key().as_ref());
        let verifier = RsaVerifier::from_text(&public).unwrap();
        let adapter = adapter(serial_of(KEY_ID), verifier);
        Self { key, adapter }
    }

    fn notify(
        &self,
        kind: &str,
        content: &str,
        change: impl Fn(&mut Value),
    ) -> Result<NotificationContent, NotificationFault> {
        let nonce = "fdasflkja484";
        let mut text = content.as_bytes().to_vec();
        let unique = Nonce::try_assume_unique_for_key(nonce.as_bytes()).unwrap();
        let aad = Aad::from(b"transaction".as_slice());
        let key = cipher(APIV3_KEY);
        key.seal_in_place_append_tag(unique, aad, &mut text)
            .unwrap();
        let mut body = json!({
            "id": "EV-2018022511223320873", "create_time": "2026-11-21T20:00:00+08:00",
            "resource_type": "encrypt-resource", "event_type": kind, "summary": "支付成功",
            "resource": {
                "original_type": "transaction", "algorithm": ALGORITHM,
                "ciphertext": BASE64_STANDARD.encode(text),
                "associated_data": "transaction", "nonce": nonce,
            },
        });
        change(&mut body);
        let body = body.to_string();
        let time = NOW_S.to_string();
        let message = format!("{time}\nn0nce\n{body}\n");
        let mut signature = vec![0; self.key.public_modulus_len()];
        let random = aws_lc_rs::rand::SystemRandom::new();
        let signed = self.key.sign(
            &RSA_PKCS1_SHA256,
            &random,
            message.as_bytes(),
            &mut signature,
        );
        signed.unwrap();
        let signature = BASE64_STANDARD.encode(signature);
        let headers = [
            ("wechatpay-timestamp", time.as_str()),
            ("wechatpay-nonce", "n0nce"),
            ("wechatpay-serial", KEY_ID),
            ("wechatpay-signature", &signature),
        ];
        read(&self.adapter, headers, &body, NOW_S)
    }
}

/// A transaction that a coupon paid in part.
fn transaction() -> Value {
    json!({
        "appid": "wxd678efh567hg6787", "mchid": "1900000109", "out_trade_no": "shop-4711",
        "transaction_id": "4200000000000000000000000001", "trade_type": "JSAPI",
        "trade_state": "SUCCESS", "trade_state_desc": "支付成功", "bank_type": "CMC",
        "attach": ORDER, "success_time": "2026-11-21T19:59:50+08:00",
        "payer": {"openid": "oUpF8uMuAJO_M2pxb1Q9zNjWeS6o"},
        "amount": {"total": 500, "payer_total": 450, "currency": "CNY", "payer_currency": "CNY"},
        "promotion_detail": [{"coupon_id": "109519", "type": "CASH", "amount": 50}],
    })
}

#[test]
fn the_total_of_a_transaction_is_reported_also_with_a_coupon() {
    let platform = Platform::new();
    let paid = platform.notify("TRANSACTION.SUCCESS", &transaction().to_string(), |_| ());
    let report = ProviderReport::Payment(ProviderPayment {
        order: ORDER.parse().unwrap(),
        reference: "4200000000000000000000000001".parse().unwrap(),
        amount: Money::new(500, "CNY".parse().unwrap()),
        paid_at: Timestamp::from_millis((NOW_S - 10) * 1_000),
    });
    assert_eq!(paid, Ok(NotificationContent::Reports(vec![report])));
}

#[test]
fn a_transaction_of_another_merchant_or_order_is_refused() {
    let platform = Platform::new();
    let check = |change: &dyn Fn(&mut Value), expected: &str| {
        let mut content = transaction();
        change(&mut content);
        let read = platform.notify("TRANSACTION.SUCCESS", &content.to_string(), |_| ());
        match read {
            Err(NotificationFault::Invalid(why)) => assert!(why.starts_with(expected), "{why}"),
            read => panic!("{expected}: {read:?}"),
        }
    };
    check(&|it| it["mchid"] = json!("1900000110"), "mchid is");
    check(&|it| it["mchid"] = Value::Null, "mchid is");
    check(
        &|it| it["attach"] = json!("4711"),
        "attach is \"4711\": an order id",
    );
    check(
        &|it| drop(it.as_object_mut().unwrap().remove("attach")),
        "attach is \"\"",
    );
    check(&|it| it["success_time"] = json!("today"), "success_time is");
    check(
        &|it| it["amount"]["currency"] = json!("RMB"),
        "amount.currency is",
    );
    check(
        &|it| it["amount"]["total"] = json!("5"),
        "the resource is no notification",
    );
    let service_provider = |it: &mut Value| {
        it["sp_mchid"] = it["mchid"].take();
        it["sub_mchid"] = json!("1900000110");
    };
    let mut content = transaction();
    service_provider(&mut content);
    let read = platform.notify("TRANSACTION.SUCCESS", &content.to_string(), |_| ());
    assert!(
        matches!(read, Ok(NotificationContent::Reports(_))),
        "{read:?}"
    );
}

#[test]
fn a_damaged_resource_is_refused() {
    let platform = Platform::new();
    let content = transaction().to_string();
    let check = |change: &dyn Fn(&mut Value), expected: &str| match platform.notify(
        "TRANSACTION.SUCCESS",
        &content,
        change,
    ) {
        Err(NotificationFault::Invalid(why)) => assert!(why.starts_with(expected), "{why}"),
        read => panic!("{expected}: {read:?}"),
    };
    let undecryptable = "the resource cannot be decrypted";
    check(
        &|it| it["resource"]["ciphertext"] = json!("AAAA"),
        undecryptable,
    );
    check(
        &|it| it["resource"]["ciphertext"] = json!("%"),
        undecryptable,
    );
    check(
        &|it| it["resource"]["nonce"] = json!("short"),
        undecryptable,
    );
    check(
        &|it| it["resource"]["associated_data"] = json!("x"),
        undecryptable,
    );
    check(
        &|it| it["resource"]["algorithm"] = json!("AEAD_SM4_GCM"),
        "resource.algorithm",
    );
    check(
        &|it| it["resource"] = json!([]),
        "the body is no notification",
    );
    let no_json = platform.notify("TRANSACTION.SUCCESS", "hello", |_| ());
    assert!(matches!(no_json, Err(NotificationFault::Invalid(_))));
}

#[test]
fn a_refund_is_of_its_transaction() {
    let platform = Platform::new();
    let refund = |status: &str| {
        json!({
            "mchid": "1900000109", "out_trade_no": "shop-4711", "out_refund_no": "refund-1",
            "transaction_id": "4200000000000000000000000001", "refund_status": status,
            "refund_id": "50000000382019052709732678859", "user_received_account": "招商银行",
            "success_time": "2026-11-21T20:00:00+08:00",
            "amount": {"total": 500, "refund": 300, "payer_total": 450, "payer_refund": 270},
        })
        .to_string()
    };
    let report = ProviderReport::Refund(ProviderRefund {
        payment: "4200000000000000000000000001".parse().unwrap(),
        reference: "50000000382019052709732678859".parse().unwrap(),
        amount: RefundedMoney::OfPayment(300),
        has_failed: false,
    });
    let done = platform.notify("REFUND.SUCCESS", &refund("SUCCESS"), |_| ());
    assert_eq!(done, Ok(NotificationContent::Reports(vec![report])));
    for kind in ["REFUND.ABNORMAL", "REFUND.CLOSED"] {
        let failed = platform.notify(kind, &refund("ABNORMAL"), |_| ());
        let Ok(NotificationContent::Reports(reports)) = failed else {
            panic!("{kind}: {failed:?}")
        };
        assert!(matches!(&reports[..], [ProviderReport::Refund(refund)] if refund.has_failed));
    }
}

/// Sub-merchants of a service provider share its keys.
#[test]
fn transactions_of_another_sub_merchant_are_refused() {
    let mut platform = Platform::new();
    let mut content = transaction();
    content["sp_mchid"] = content["mchid"].take();
    content["sub_mchid"] = json!("1900000110");
    let content = content.to_string();
    for (own, takes_all, is_read) in [
        (Some("1900000110"), false, true),
        (Some("1900000111"), false, false),
        (Some("1900000111"), true, false),
        (None, true, true),
        (None, false, false),
    ] {
        platform.adapter.sub_mchid = own.map(str::to_owned);
        platform.adapter.takes_all = takes_all;
        let read = platform.notify("TRANSACTION.SUCCESS", &content, |_| ());
        assert_eq!(read.is_ok(), is_read, "{own:?} {takes_all}: {read:?}");
    }
}
