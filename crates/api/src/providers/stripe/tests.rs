//! The double signs as docs.stripe.com/webhooks describes; objects have the fields of docs.stripe.com/api.

use aws_lc_rs::hmac::HMAC_SHA256;
use axum::http::HeaderMap;
use serde_json::json;

use super::*;

const SECRET: &str = "whsec_test_secret";
const ORDER: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3";
const NOW_S: i64 = 1_795_262_400;

fn adapter(secrets: &[&str]) -> StripeAdapter {
    let key = |secret: &&str| hmac::Key::new(HMAC_SHA256, secret.as_bytes());
    StripeAdapter {
        keys: secrets.iter().map(key).collect(),
        connected: None,
        test_mode: false,
        ignores_others: false,
    }
}

fn signature(secret: &str, at_s: i64, body: &str) -> String {
    let key = hmac::Key::new(HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{at_s}.{body}").as_bytes());
    format!("v1={}", hex::encode(tag.as_ref()))
}

fn read(
    adapter: &StripeAdapter,
    header: &str,
    body: &str,
) -> Result<NotificationContent, NotificationFault> {
    let mut headers = HeaderMap::new();
    headers.insert("stripe-signature", header.parse().unwrap());
    adapter.read(&Notification {
        headers: &headers,
        body: body.as_bytes(),
        now: Timestamp::from_millis(NOW_S * 1_000),
        tolerance_ms: 300_000,
    })
}

/// Content of an event that is signed now.
fn content(kind: &str, object: &Value) -> Result<NotificationContent, NotificationFault> {
    let event = json!({
        "id": "evt_1", "object": "event", "type": kind, "created": NOW_S - 5, "livemode": true,
        "data": {"object": object},
    });
    let body = event.to_string();
    let header = format!("t={NOW_S},{}", signature(SECRET, NOW_S, &body));
    read(&adapter(&[SECRET]), &header, &body)
}

fn is_unauthentic(read: &Result<NotificationContent, NotificationFault>) -> bool {
    matches!(read, Err(NotificationFault::Unauthentic(_)))
}

fn payment(minor: i64, currency: &str) -> NotificationContent {
    NotificationContent::Reports(vec![ProviderReport::Payment(ProviderPayment {
        order: ORDER.parse().unwrap(),
        reference: PaymentRef::new("pi_1").unwrap(),
        amount: Money::new(minor, currency.parse().unwrap()),
        paid_at: Timestamp::from_millis((NOW_S - 5) * 1_000),
    })])
}

fn intent(amount: i64, currency: &str) -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "amount": amount, "amount_received": amount,
        "currency": currency, "status": "succeeded", "metadata": {"qiang-order": ORDER},
    })
}

/// Another implementation made the signature: `openssl dgst -sha256 -hmac whsec_test_secret`.
#[test]
fn a_signature_is_an_hmac_with_the_whole_secret() {
    let body = r#"{"id":"evt_1"}"#;
    let expected = "v1=e135cdbed3dda004bf8a2fb350f2541d299393c770e0b9e6e319dc595e9072aa";
    assert_eq!(signature(SECRET, 1_614_265_330, body), expected);
}

#[test]
fn one_valid_signature_by_either_secret_is_enough() {
    let body = json!({
        "type": "customer.created", "created": NOW_S, "livemode": true, "data": {"object": {}},
    });
    let body = body.to_string();
    let good = signature(SECRET, NOW_S, &body);
    let both = adapter(&["whsec_other", SECRET]);
    let ignored = Ok(NotificationContent::Ignored(IgnoredNotification::OtherKind));
    for header in [
        format!("t={NOW_S},{good}"),
        format!("t={NOW_S},v1=00,{good},v0=6ffbb59b2300aae63f272406069a9788"),
        format!("{good},t={NOW_S}"),
    ] {
        assert_eq!(read(&both, &header, &body), ignored, "{header}");
    }
    for header in [
        format!("t={NOW_S},{}", signature("whsec_wrong", NOW_S, &body)),
        format!("t={NOW_S},{}", good.replace("v1=", "v0=")),
        format!("t={},{good}", NOW_S + 1),
        format!("t={NOW_S},t={NOW_S},{good}"),
        format!("t={NOW_S},v1=,{}", &good[..good.len() - 2]),
        good.clone(),
        format!("t={NOW_S}"),
        String::new(),
    ] {
        assert!(is_unauthentic(&read(&both, &header, &body)), "{header}");
    }
    let header = format!("t={NOW_S},{good}");
    assert!(is_unauthentic(&read(
        &both,
        &header,
        &body.replace("customer", "Customer")
    )));
    assert!(is_unauthentic(&read(
        &adapter(&["whsec_other"]),
        &header,
        &body
    )));
}

#[test]
fn an_old_signature_is_refused() {
    let body = "{}";
    for (away_s, is_refused) in [(-300, false), (-301, true), (300, false), (301, true)] {
        let at_s = NOW_S + away_s;
        let header = format!("t={at_s},{}", signature(SECRET, at_s, body));
        let read = read(&adapter(&[SECRET]), &header, body);
        assert_eq!(is_unauthentic(&read), is_refused, "{away_s}: {read:?}");
    }
}

#[test]
fn a_payment_names_its_order_in_the_metadata() {
    let kind = "payment_intent.succeeded";
    assert_eq!(content(kind, &intent(500, "cny")), Ok(payment(500, "CNY")));
    let mut partly = intent(500, "cny");
    partly["amount_received"] = json!(400);
    assert_eq!(content(kind, &partly), Ok(payment(400, "CNY")));
    let mut without = intent(500, "cny");
    without["metadata"] = json!({});
    let amount = Money::new(500, "CNY".parse().unwrap());
    let report = ProviderReport::WithoutOrder {
        reference: PaymentRef::new("pi_1").unwrap(),
        amount,
        ignored: false,
    };
    let expected = NotificationContent::Reports(vec![report]);
    assert_eq!(content(kind, &without), Ok(expected));
    let mut wrong = intent(500, "cny");
    wrong["metadata"]["qiang-order"] = json!("4711");
    let fault = content(kind, &wrong).unwrap_err();
    let NotificationFault::Invalid(why) = fault else {
        panic!("{fault:?}")
    };
    assert!(
        why.starts_with("metadata.qiang-order is \"4711\": "),
        "{why}"
    );
}

#[test]
fn a_checkout_session_is_the_payment_of_its_intent() {
    let session = |change: &dyn Fn(&mut Value)| {
        let mut session = json!({
            "id": "cs_1", "object": "checkout.session", "mode": "payment",
            "payment_status": "paid", "payment_intent": "pi_1", "amount_total": 500,
            "currency": "cny", "client_reference_id": null, "metadata": {"qiang-order": ORDER},
        });
        change(&mut session);
        content("checkout.session.completed", &session)
    };
    let paid = Ok(payment(500, "CNY"));
    assert_eq!(session(&|_| ()), paid);
    assert_eq!(
        session(&|it| it["payment_intent"] = json!({"id": "pi_1"})),
        paid
    );
    let by_reference = |it: &mut Value| {
        it["metadata"] = json!({});
        it["client_reference_id"] = json!(ORDER);
    };
    assert_eq!(session(&by_reference), paid);
    let seen_in_euro = |it: &mut Value| {
        it["amount_total"] = json!(64);
        it["currency"] = json!("eur");
        it["currency_conversion"] =
            json!({"amount_total": 500, "source_currency": "cny", "fx_rate": "7.8"});
    };
    assert_eq!(session(&seen_in_euro), paid);
    for (status, intent) in [
        ("unpaid", json!("pi_1")),
        ("no_payment_required", Value::Null),
    ] {
        let unpaid = session(&|it| {
            it["payment_status"] = json!(status);
            it["payment_intent"] = intent.clone();
        });
        let nothing = IgnoredNotification::NothingPaid;
        assert_eq!(unpaid, Ok(NotificationContent::Ignored(nothing)));
    }
    let subscription = session(&|it| it["mode"] = json!("subscription"));
    let other = IgnoredNotification::OtherKind;
    assert_eq!(subscription, Ok(NotificationContent::Ignored(other)));
}

fn refund(status: &str) -> Value {
    json!({
        "id": "re_1", "object": "refund", "amount": 300, "currency": "cny", "status": status,
        "payment_intent": "pi_1", "charge": "ch_1",
    })
}

#[test]
fn a_refund_that_succeeded_is_reported_by_its_id() {
    let expected = |ids: &[&str]| {
        let report = |id: &&str| {
            ProviderReport::Refund(ProviderRefund {
                payment: PaymentRef::new("pi_1").unwrap(),
                reference: PaymentRef::new(id).unwrap(),
                amount: RefundedMoney::Single(Money::new(300, "CNY".parse().unwrap())),
                has_failed: false,
            })
        };
        Ok(NotificationContent::Reports(
            ids.iter().map(report).collect(),
        ))
    };
    for kind in ["refund.created", "refund.updated", "charge.refund.updated"] {
        assert_eq!(content(kind, &refund("succeeded")), expected(&["re_1"]));
    }
    let nothing = |why| Ok(NotificationContent::Ignored(why));
    let pending = content("refund.created", &refund("pending"));
    assert_eq!(pending, nothing(IgnoredNotification::NothingPaid));
    let failed = content("refund.failed", &refund("failed"));
    let Ok(NotificationContent::Reports(reports)) = failed else {
        panic!("{failed:?}")
    };
    assert!(matches!(&reports[..], [ProviderReport::Refund(refund)] if refund.has_failed));
    // Older versions of the API list the refunds of a charge, the newest first.
    let mut newer = refund("succeeded");
    newer["id"] = json!("re_2");
    let listed = json!({"id": "ch_1", "refunds": {"data": [newer, refund("succeeded")]}});
    assert_eq!(
        content("charge.refunded", &listed),
        expected(&["re_1", "re_2"])
    );
    let without = json!({"id": "ch_1", "amount_refunded": 300, "payment_intent": "pi_1"});
    let no_ids = nothing(IgnoredNotification::NoRefundIds);
    assert_eq!(content("charge.refunded", &without), no_ids);
}

#[test]
fn amounts_are_in_the_units_of_iso_4217() {
    let check = |amount: i64, code: &str, minor: Option<i64>| {
        let money = money("amount", amount, code);
        let found = money.ok().map(|money| (money.minor, money.currency.code()));
        let expected = minor.map(|minor| (minor, code.to_ascii_uppercase()));
        let expected = expected
            .as_ref()
            .map(|(minor, code)| (*minor, code.as_str()));
        assert_eq!(found, expected, "{amount} {code}");
    };
    check(1_000, "usd", Some(1_000));
    check(500, "jpy", Some(500));
    check(500, "krw", Some(500));
    // Two digits at Stripe, and none in ISO 4217: 5 krónur are 500.
    check(500, "isk", Some(5));
    check(501, "isk", None);
    check(500, "ugx", Some(5));
    check(550, "ugx", None);
    // None at Stripe, and two in ISO 4217.
    check(500, "mga", Some(50_000));
    check(i64::MAX, "mga", None);
    // Without decimals in payouts alone.
    check(1_045, "huf", Some(1_045));
    check(80_045, "twd", Some(80_045));
    check(5_120, "kwd", Some(5_120));
    check(5_120, "tnd", Some(5_120));
    check(5, "qqq", None);
    check(5, "", None);
}

#[test]
fn the_modes_of_stripe_are_kept_apart() {
    let event = json!({
        "type": "customer.created", "created": NOW_S, "livemode": false, "data": {"object": {}},
    });
    let body = event.to_string();
    let header = format!("t={NOW_S},{}", signature(SECRET, NOW_S, &body));
    let mut adapter = adapter(&[SECRET]);
    let fault = read(&adapter, &header, &body).unwrap_err();
    assert!(matches!(fault, NotificationFault::Invalid(why) if why.contains("test mode")));
    adapter.test_mode = true;
    assert!(read(&adapter, &header, &body).is_ok());
}

#[test]
fn a_body_that_is_no_event_is_refused() {
    for body in [
        "",
        "{}",
        "[]",
        "{\"object\":\"v2.core.event\",\"type\":\"v1.x\"}",
    ] {
        let header = format!("t={NOW_S},{}", signature(SECRET, NOW_S, body));
        let read = read(&adapter(&[SECRET]), &header, body);
        assert!(
            matches!(read, Err(NotificationFault::Invalid(_))),
            "{body}: {read:?}"
        );
    }
    let fault = content("payment_intent.succeeded", &json!({"id": "pi_1"}));
    assert!(matches!(fault, Err(NotificationFault::Invalid(_))));
}

/// The secret of an endpoint signs the events of all connected accounts.
#[test]
fn events_of_another_connected_account_are_refused() {
    let check = |connected: Option<&str>, account: Option<&str>, is_read: bool| {
        let mut adapter = adapter(&[SECRET]);
        adapter.connected = connected.map(str::to_owned);
        let event = json!({
            "type": "payment_intent.succeeded", "created": NOW_S, "livemode": true,
            "account": account, "data": {"object": intent(500, "cny")},
        });
        let body = event.to_string();
        let header = format!("t={NOW_S},{}", signature(SECRET, NOW_S, &body));
        let read = read(&adapter, &header, &body);
        let is_payment = matches!(read, Ok(NotificationContent::Reports(_)));
        assert_eq!(is_payment, is_read, "{connected:?} {account:?} {read:?}");
    };
    check(None, None, true);
    check(None, Some("acct_1"), false);
    check(Some("acct_1"), Some("acct_1"), true);
    check(Some("acct_1"), Some("acct_2"), false);
    check(Some("acct_1"), None, false);
}

/// The holder of a secret chooses ids. They must not be references of another payment service.
#[test]
fn ids_are_those_of_stripe() {
    let mut other = intent(500, "cny");
    other["id"] = json!("4200001968202311095487654321");
    let fault = content("payment_intent.succeeded", &other);
    assert!(
        matches!(fault, Err(NotificationFault::Invalid(_))),
        "{fault:?}"
    );
    for (id, payment) in [("50000000382019052709732678859", "pi_1"), ("re_1", "4200")] {
        let mut other = refund("succeeded");
        other["id"] = json!(id);
        other["payment_intent"] = json!(payment);
        let fault = content("refund.created", &other);
        assert!(
            matches!(fault, Err(NotificationFault::Invalid(_))),
            "{fault:?}"
        );
    }
}
