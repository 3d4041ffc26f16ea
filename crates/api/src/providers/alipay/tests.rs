//! The first notification is a test vector of Alipay's library for Node.js, test/alipay.test.ts. The others have the
//! fields of its documentation.

use aws_lc_rs::{
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_SHA256},
};
use axum::http::HeaderMap;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::*;

const ORDER: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3";

/// As a console of Alipay shows it, without the lines of PEM.
const PUBLISHED_KEY: &str = concat!(
    "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqObrdC7hrgAVM98tK0nv3hSQRGGKT4lBsQjHiGjeYZjOPIPHR5knm2jn",
    "nz/YGIXIofVHkA/tAlBAd5DrY7YpvI4tP5EONLtZKC2ghBMx7McI2wRD0xiqzxOQr1FuhZGJ8/AUokBzJrzY+aGX2xcOrxFYRlFi",
    "lvVLTXg4LWjR1tdPkO6+i7wQZAIVMClPkwVRZEbaERRHlKqTzv2gGv5rDU8gRoe1LeaN+6BlbTqHWkQcNCUNrA8C6l17XAXGKDsm",
    "/9TFWwO8EPHHHCaQdjtV5/FdcWIt+L8SR1ss7EXTjYDFtxcKVv9rEoY1lX8T4mX+GbXfZHraG5NCF1+XioL5JwIDAQAB",
);
const PUBLISHED_SIGN: &str = concat!(
    "QfTb8tqE1BMhS5qAnXtvsF3/jBkEvu9q9en0pdbBUDDjvKycZhQb7h8GDs4FKfi049PynaNuatxSgLb/nLWZpXyyh0LEWdK2S6Ri",
    "7nPwrVgOs08zugLO20vOQz44y3ti2Ncm8/wZts1Fr2gZ7pShnVX3d1B50hbsXnObT1r/U8ONNQjWXd0HIul4TG+Q3fm3svmSvFEy",
    "0WnzuhcyHPX5Gm4ELNctL6Qd5YniGJFNcc7kopHYtI/XD9YCKCH6Ct02rzUs9i11C9CsadtZn+WhxF26Dqt9sGEFajkJ8cxUTLi8",
    "+VCpLHsgPE8P0y095uQcDdK0YjCh4x7wVSov+lrmOQ==",
);
const PUBLISHED: [(&str, &str); 24] = [
    ("gmt_create", "2019-08-15 15:56:22"),
    ("charset", "utf-8"),
    ("seller_email", "z97-yuquerevenue@service.aliyun.com"),
    ("subject", "语雀空间 500人规模"),
    ("buyer_id", "2088102534368455"),
    ("invoice_amount", "0.10"),
    ("notify_id", "2019081500222155624068450559358070"),
    (
        "fund_bill_list",
        r#"[{"amount":"0.10","fundChannel":"ALIPAYACCOUNT"}]"#,
    ),
    ("notify_type", "trade_status_sync"),
    ("trade_status", "TRADE_SUCCESS"),
    ("receipt_amount", "0.10"),
    ("buyer_pay_amount", "0.10"),
    ("sign_type", "RSA2"),
    ("app_id", "2019073166072302"),
    ("seller_id", "2088531891668739"),
    ("gmt_payment", "2019-08-15 15:56:24"),
    ("notify_time", "2019-08-15 15:56:25"),
    ("version", "1.0"),
    ("out_trade_no", "20190815155618536-564-57"),
    ("total_amount", "0.10"),
    ("trade_no", "2019081522001468450512505578"),
    ("auth_app_id", "2019073166072302"),
    ("buyer_logon_id", "xud***@126.com"),
    ("point_amount", "0.00"),
];

fn form<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let parameters = parameters.into_iter().map(|(name, value)| {
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
        format!("{name}={}", value.replace("%20", "+"))
    });
    parameters.collect::<Vec<_>>().join("&")
}

fn read(adapter: &AlipayAdapter, body: &str) -> Result<NotificationContent, NotificationFault> {
    adapter.read(&Notification {
        headers: &HeaderMap::new(),
        body: body.as_bytes(),
        now: Timestamp::from_millis(1_795_262_400_000),
        tolerance_ms: 0,
    })
}

fn is_unauthentic(read: &Result<NotificationContent, NotificationFault>) -> bool {
    matches!(read, Err(NotificationFault::Unauthentic(_)))
}

fn published_adapter() -> AlipayAdapter {
    AlipayAdapter {
        app_id: "2019073166072302".to_owned(),
        seller_id: Some("2088531891668739".to_owned()),
        verifiers: vec![RsaVerifier::from_text(PUBLISHED_KEY).unwrap()],
    }
}

#[test]
fn the_published_notification_is_authentic_and_names_no_order() {
    let adapter = published_adapter();
    let signed = PUBLISHED.into_iter().chain([("sign", PUBLISHED_SIGN)]);
    let fault = read(&adapter, &form(signed.clone())).unwrap_err();
    let NotificationFault::Invalid(why) = fault else {
        panic!("{fault:?}")
    };
    assert!(
        why.starts_with("out_trade_no is \"20190815155618536-564-57\""),
        "{why}"
    );
    for (name, value) in [
        ("total_amount", "0.11"),
        ("sign", "AAAA"),
        ("sign", ""),
        ("sign_type", "RSA"),
        ("point_amount", ""),
    ] {
        let altered = signed.clone().map(|(it, was)| match it == name {
            true => (it, value),
            false => (it, was),
        });
        assert!(
            is_unauthentic(&read(&adapter, &form(altered))),
            "{name}={value}"
        );
    }
    let more = signed.clone().chain([("more", "1")]);
    assert!(is_unauthentic(&read(&adapter, &form(more))));
    let twice = signed.clone().chain([("total_amount", "0.10")]);
    assert!(is_unauthentic(&read(&adapter, &form(twice))));
    // `sign_type` is not signed, so it may be missing.
    let without = signed.filter(|(name, _)| *name != "sign_type");
    assert!(matches!(
        read(&adapter, &form(without)),
        Err(NotificationFault::Invalid(_))
    ));
}

/// A local double of Alipay.
struct Alipay {
    key: KeyPair,
    adapter: AlipayAdapter,
}

impl Alipay {
    fn new() -> Self {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let public = BASE64_STANDARD.encode(key.public_key().as_ref());
        let own = RsaVerifier::from_text(&public).unwrap();
        let adapter = AlipayAdapter {
            verifiers: vec![RsaVerifier::from_text(PUBLISHED_KEY).unwrap(), own],
            ..published_adapter()
        };
        Self { key, adapter }
    }

    /// Notifies of a trade with these parameters changed; an empty value removes one.
    fn notify(
        &self,
        changes: &[(&'static str, &'static str)],
    ) -> Result<NotificationContent, NotificationFault> {
        let mut parameters: Vec<(&str, &str)> = PUBLISHED.to_vec();
        parameters.push(("passback_params", ORDER));
        parameters.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        parameters.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        let mut signed = parameters.clone();
        signed.retain(|(name, _)| *name != "sign_type");
        signed.sort_unstable();
        let signed = signed.iter().map(|(name, value)| format!("{name}={value}"));
        let message = signed.collect::<Vec<_>>().join("&");
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
        parameters.push(("sign", &signature));
        read(&self.adapter, &form(parameters))
    }
}

fn payment(fen: i64) -> ProviderPayment {
    ProviderPayment {
        order: ORDER.parse().unwrap(),
        reference: "2019081522001468450512505578".parse().unwrap(),
        amount: Money::new(fen, "CNY".parse().unwrap()),
        // 2019-08-15T07:56:24Z
        paid_at: Timestamp::from_millis(1_565_855_784_000),
    }
}

fn refund(request: &str, fen: i64) -> ProviderRefund {
    let trade = "2019081522001468450512505578";
    ProviderRefund {
        payment: trade.parse().unwrap(),
        reference: format!("{trade}/{request}").parse().unwrap(),
        amount: RefundedMoney::Total(Money::new(fen, "CNY".parse().unwrap())),
        has_failed: false,
    }
}

#[test]
fn a_trade_is_reported_in_fen_and_by_the_time_in_china() {
    let alipay = Alipay::new();
    let reports = |fen| {
        let report = ProviderReport::Payment(payment(fen));
        Ok(NotificationContent::Reports(vec![report]))
    };
    assert_eq!(alipay.notify(&[]), reports(10));
    // A coupon: the buyer pays less than the total.
    let coupon = [
        ("total_amount", "500.00"),
        ("buyer_pay_amount", "450.00"),
        ("receipt_amount", "500.00"),
        (
            "voucher_detail_list",
            r#"[{"amount":"50.00","type":"ALIPAY_FIX_VOUCHER"}]"#,
        ),
    ];
    assert_eq!(alipay.notify(&coupon), reports(50_000));
    assert_eq!(
        alipay.notify(&[("trade_status", "TRADE_FINISHED")]),
        reports(10)
    );
    let number = "01932c07_8e5a_7a3c_9f1e_2b7c5d4e6f80_3";
    let by_number = [("passback_params", ""), ("out_trade_no", number)];
    assert_eq!(alipay.notify(&by_number), reports(10));
}

#[test]
fn a_refund_has_the_total_of_the_trade() {
    let alipay = Alipay::new();
    let reports = |refund| {
        let payment = ProviderReport::Payment(payment(10));
        let reports = vec![payment, ProviderReport::Refund(refund)];
        Ok(NotificationContent::Reports(reports))
    };
    let partly = [
        ("gmt_refund", "2019-08-15 16:00:00.143"),
        ("refund_fee", "0.04"),
        ("out_biz_no", "refund-1"),
    ];
    assert_eq!(alipay.notify(&partly), reports(refund("refund-1", 4)));
    let whole = [
        ("gmt_refund", "2019-08-15 16:00:00.143"),
        ("refund_fee", "0.1"),
        ("trade_status", "TRADE_CLOSED"),
    ];
    let named = refund("2019081522001468450512505578", 10);
    assert_eq!(alipay.notify(&whole), reports(named));
    for status in ["TRADE_CLOSED", "WAIT_BUYER_PAY"] {
        let nothing = NotificationContent::Ignored(IgnoredNotification::NothingPaid);
        assert_eq!(alipay.notify(&[("trade_status", status)]), Ok(nothing));
    }
}

#[test]
fn a_trade_of_another_application_or_order_is_refused() {
    let alipay = Alipay::new();
    for (name, value, expected) in [
        ("app_id", "2019073166072303", "app_id is"),
        ("seller_id", "2088531891668738", "seller_id is"),
        ("passback_params", "4711", "passback_params is \"4711\""),
        ("total_amount", "1,000.00", "total_amount is no amount"),
        ("total_amount", "-1.00", "total_amount is no amount"),
        ("total_amount", "1.001", "total_amount is no amount"),
        ("total_amount", ".10", "total_amount is no amount"),
        ("gmt_payment", "yesterday", "gmt_payment is no time"),
        ("trade_no", "", "the notification has no trade_no"),
    ] {
        match alipay.notify(&[(name, value)]) {
            Err(NotificationFault::Invalid(why)) => {
                assert!(why.starts_with(expected), "{name}={value}: {why}");
            }
            read => panic!("{name}={value}: {read:?}"),
        }
    }
}

/// A seller chooses the subject. Without a rule, the same signature covers a form with another amount.
#[test]
fn a_value_that_reads_like_a_parameter_is_refused() {
    let alipay = Alipay::new();
    let check = |subject, is_refused| {
        let read = alipay.notify(&[("subject", subject)]);
        let is_invalid = matches!(read, Err(NotificationFault::Invalid(_)));
        assert_eq!(is_invalid, is_refused, "{subject}: {read:?}");
    };
    check("lamps & more", false);
    check("a=b", false);
    check("R&D", false);
    check("a&=b", false);
    check("x&total_amount=9999.00&total_amounu=y", true);
    check("x&a=1", false);
    check("see https://shop.example/?a=1&b=2", false);
    check("x&trade_status=TRADE_SUCCESS", true);
    let mut merged: Vec<_> = PUBLISHED.to_vec();
    merged.retain(|(name, _)| *name != "trade_no" && *name != "total_amount");
    merged.push(("total_amount", "0.10&trade_no=2019081522001468450512505578"));
    merged.push(("sign", PUBLISHED_SIGN));
    let read = read(&published_adapter(), &form(merged));
    assert!(
        matches!(read, Err(NotificationFault::Invalid(_))),
        "{read:?}"
    );
}

#[test]
fn a_form_is_bounded() {
    let adapter = published_adapter();
    let many: Vec<_> = (0..=PARAMETERS_MAX).map(|n| format!("p{n}=1")).collect();
    assert!(is_unauthentic(&read(&adapter, &many.join("&"))));
    for body in ["", "&&", "=", "%", "sign", "sign=%zz", "{\"json\":true}"] {
        assert!(is_unauthentic(&read(&adapter, body)), "{body}");
    }
}
