//! Events of Stripe end where reports of payments and refunds do.

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::{PRICE, ShopWithAccounts, post, priced};
use crate::node::http::common::Reply;

pub(super) const SECRET: &str = "whsec_of_the_first_endpoint_0001";
pub(super) const ACCOUNTS: &str = "
    [[stripe]]
    account = 'main'
    sellers = ['olga']
    secret_file = 'stripe.secret'
";

/// Value of `Stripe-Signature`.
pub(super) fn signature(secret: &str, at_s: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{at_s}.{body}").as_bytes());
    format!("t={at_s},v1={}", hex::encode(tag.as_ref()))
}

pub(super) fn event(kind: &str, created: i64, object: &Value) -> String {
    let event = json!({
        "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy", "object": "event", "api_version": "2024-06-20",
        "type": kind, "created": created, "livemode": true, "pending_webhooks": 1,
        "data": {"object": object}, "request": {"id": null, "idempotency_key": null},
    });
    event.to_string()
}

pub(super) fn intent(id: &str, order: &str, amount: i64, currency: &str) -> Value {
    json!({
        "id": id, "object": "payment_intent", "amount": amount, "amount_received": amount,
        "currency": currency, "status": "succeeded", "metadata": {"qiang-order": order},
        "latest_charge": "ch_1", "payment_method_types": ["card"],
    })
}

fn refund(id: &str, payment: &str, amount: i64, status: &str) -> Value {
    json!({
        "id": id, "object": "refund", "amount": amount, "currency": "cny", "status": status,
        "payment_intent": payment, "charge": "ch_1", "reason": null, "metadata": {},
    })
}

impl ShopWithAccounts {
    async fn start_stripe(accounts: &str) -> Self {
        Self::start(accounts, &[("stripe.secret", SECRET)]).await
    }

    pub(super) async fn stripe_signed(&self, header: &str, body: &str) -> Reply {
        let headers = [
            ("content-type", "application/json; charset=utf-8"),
            ("stripe-signature", header),
        ];
        let path = "/v1/providers/stripe/main/notifications";
        post(&self.service, path, &headers, body).await
    }

    /// Sends an event that is signed now.
    async fn stripe(&self, kind: &str, object: &Value) -> Reply {
        let now = self.now_s();
        let body = event(kind, now, object);
        self.stripe_signed(&signature(SECRET, now, &body), &body)
            .await
    }

    async fn stripe_paid(&self, id: &str, order: &str, amount: i64, currency: &str) -> Reply {
        let intent = intent(id, order, amount, currency);
        self.stripe("payment_intent.succeeded", &intent).await
    }
}

fn assert_recorded(reply: &Reply) {
    assert_eq!(
        (reply.status, reply.json()),
        (200, json!({"recorded": 1})),
        "{reply:?}"
    );
}

#[tokio::test]
async fn an_event_pays_its_order_once_and_a_forged_one_never() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|_| ()).await;
    let now = shop.now_s();
    let kind = "payment_intent.succeeded";
    let body = event(kind, now, &intent("pi_1", &order, PRICE, "cny"));
    let good = signature(SECRET, now, &body);
    let altered = body.replace("\"pi_1\"", "\"pi_2\"");
    for (header, body) in [
        (
            signature("whsec_of_another_endpoint_0002", now, &body),
            &body,
        ),
        (signature(SECRET, now - 301, &body), &body),
        (signature(SECRET, now + 301, &body), &body),
        (good.clone(), &altered),
        (good.replace("v1=", "v0="), &body),
        (String::new(), &body),
    ] {
        let reply = shop.stripe_signed(&header, body).await;
        reply.assert_problem(401, "unauthenticated");
    }
    let path = "/v1/providers/stripe/main/notifications";
    let json = [("content-type", "application/json")];
    let unsigned = post(&shop.service, path, &json, &body).await;
    unsigned.assert_problem(401, "unauthenticated");
    let headers = [json[0], ("stripe-signature", good.as_str())];
    let other = path.replace("main", "other");
    let unknown = post(&shop.service, &other, &headers, &body).await;
    unknown.assert_problem(401, "unauthenticated");
    assert_eq!(shop.state(&order).await, "held");
    assert_eq!(shop.count("stripe", "rejected").await, 8);
    for _ in 0..3 {
        assert_recorded(&shop.stripe_signed(&good, &body).await);
        assert_eq!(shop.state(&order).await, "paid");
    }
    assert_eq!(shop.outcome("pi_1").await, "paid");
    assert_eq!(shop.service.balance("olga").await, PRICE);
    // The event of the session is of the same payment.
    let session = json!({
        "id": "cs_1", "object": "checkout.session", "mode": "payment", "payment_status": "paid",
        "payment_intent": "pi_1", "amount_total": PRICE, "currency": "cny",
        "client_reference_id": order, "metadata": {},
    });
    assert_recorded(&shop.stripe("checkout.session.completed", &session).await);
    assert_eq!(shop.service.balance("olga").await, PRICE);
    assert_eq!(shop.count("stripe", "recorded").await, 4);
    // It is settled. Further repetitions write nothing.
    let path = format!("/v1/operation-log?subject={order}");
    let log = async || {
        shop.service
            .get(&path, &shop.service.operator())
            .await
            .json()
    };
    let before = log().await;
    for _ in 0..3 {
        assert_recorded(&shop.stripe_signed(&good, &body).await);
    }
    assert_eq!(log().await["data"], before["data"]);
    shop.stop().await;
}

/// Stripe repeats an event that is not acknowledged, also on several connections.
#[tokio::test]
async fn an_event_is_acknowledged_once_it_is_recorded() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|_| ()).await;
    let file = shop.service.folder.path().join("qiang.db");
    let file = rusqlite::Connection::open(file).unwrap();
    let stuck =
        "CREATE TRIGGER stuck BEFORE INSERT ON actions BEGIN SELECT raise(ABORT, 'stuck'); END";
    file.execute_batch(stuck).unwrap();
    let reply = shop.stripe_paid("pi_1", &order, PRICE, "cny").await;
    assert!(reply.status >= 500, "{reply:?}");
    assert_eq!(shop.state(&order).await, "held");
    assert_eq!(shop.count("stripe", "failed").await, 1);
    file.execute_batch("DROP TRIGGER stuck").unwrap();
    let repeated = (0..4).map(|_| shop.stripe_paid("pi_1", &order, PRICE, "cny"));
    for reply in futures_util::future::join_all(repeated).await {
        assert_recorded(&reply);
    }
    assert_eq!(shop.outcome("pi_1").await, "paid");
    assert_eq!(shop.service.balance("olga").await, PRICE);
    shop.stop().await;
}

#[tokio::test]
async fn another_amount_or_currency_is_owed() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|_| ()).await;
    assert_recorded(&shop.stripe_paid("pi_less", &order, PRICE - 1, "cny").await);
    assert_recorded(&shop.stripe_paid("pi_usd", &order, PRICE, "usd").await);
    assert_eq!(shop.state(&order).await, "held");
    assert_eq!(shop.outcome("pi_less").await, "refund_due");
    assert_eq!(shop.outcome("pi_usd").await, "refund_due");
    assert_eq!(shop.refunds(&order).await, [PRICE - 1, 0]);
    // The refund of the wrong amount is recorded at once: it is due.
    let back = refund("re_less", "pi_less", PRICE - 1, "succeeded");
    assert_recorded(&shop.stripe("refund.created", &back).await);
    assert_eq!(shop.refunds(&order).await, [PRICE - 1, PRICE - 1]);
    // Stripe has two digits for krónur, and ISO 4217 none.
    let order = shop.order(priced(5, "ISK")).await;
    assert_recorded(&shop.stripe_paid("pi_isk", &order, 500, "isk").await);
    assert_eq!(shop.state(&order).await, "paid");
    let order = shop.order(priced(500, "JPY")).await;
    assert_recorded(&shop.stripe_paid("pi_jpy", &order, 500, "jpy").await);
    assert_eq!(shop.state(&order).await, "paid");
    shop.stop().await;
}

#[tokio::test]
async fn a_payment_of_no_order_is_refused_and_found_again() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|_| ()).await;
    let unknown = format!("{}-7", order.rsplit_once('-').unwrap().0);
    for _ in 0..2 {
        let reply = shop.stripe_paid("pi_1", &unknown, PRICE, "cny").await;
        reply.assert_problem(404, "not-found");
    }
    assert_eq!(shop.outcome("pi_1").await, "refused");
    let row = ["pay", "signed:stripe:main", "not-found"].map(str::to_owned);
    assert_eq!(shop.refusals(&unknown).await, [row]);
    let reply = shop.stripe_paid("pi_2", "4711", PRICE, "cny").await;
    reply.assert_problem(422, "invalid");
    let detail = reply.text("detail");
    assert!(
        detail.starts_with("metadata.qiang-order is \"4711\""),
        "{detail}"
    );
    let mut without = intent("pi_3", "", PRICE, "cny");
    without["metadata"] = json!({});
    let kind = "payment_intent.succeeded";
    shop.stripe(kind, &without)
        .await
        .assert_problem(422, "invalid");
    // A payment that its session has reported needs no order.
    let session = json!({
        "id": "cs_1", "object": "checkout.session", "mode": "payment", "payment_status": "paid",
        "payment_intent": "pi_3", "amount_total": PRICE, "currency": "cny",
        "metadata": {"qiang-order": order},
    });
    assert_recorded(&shop.stripe("checkout.session.completed", &session).await);
    assert_recorded(&shop.stripe(kind, &without).await);
    assert_eq!(shop.state(&order).await, "paid");
    assert_eq!(shop.count("stripe", "refused").await, 4);
    shop.stop().await;
    let lenient = format!("{ACCOUNTS}\nignore_other_payments = true\n");
    let shop = ShopWithAccounts::start_stripe(&lenient).await;
    assert_recorded(&shop.stripe(kind, &without).await);
    let ignored = shop
        .stripe("customer.created", &json!({"id": "cus_1"}))
        .await;
    assert_eq!(
        (ignored.status, ignored.json()["recorded"].clone()),
        (200, json!(0))
    );
    assert_eq!(shop.count("stripe", "ignored").await, 1);
    let body = event("customer.created", shop.now_s(), &json!({"id": "cus_2"}));
    let header = signature(SECRET, shop.now_s(), &body);
    // A body of another type, or too large, counts as refused.
    let refused = shop.count("stripe", "refused").await;
    let path = "/v1/providers/stripe/main/notifications";
    let text = [
        ("content-type", "text/plain"),
        ("stripe-signature", &*header),
    ];
    let wrong = post(&shop.service, path, &text, &body).await;
    wrong.assert_problem(415, "media-type");
    let large = format!("{body}{}", " ".repeat(2_000_000));
    let large = shop.stripe_signed(&header, &large).await;
    assert_eq!(large.status, 413, "{large:?}");
    assert_eq!(shop.count("stripe", "refused").await, refused + 2);
    shop.stop().await;
}

/// The holder of a secret signs payments of any order ids. The rows that they leave are bounded per minute.
#[tokio::test]
async fn refused_reports_leave_a_bounded_number_of_rows() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|_| ()).await;
    let sale = order.rsplit_once('-').unwrap().0;
    let recorded = async |number: u32| shop.refusals(&format!("{sale}-{number}")).await.len();
    for number in 2..72 {
        let unknown = format!("{sale}-{number}");
        let reply = shop
            .stripe_paid(&format!("pi_{number}"), &unknown, PRICE, "cny")
            .await;
        reply.assert_problem(404, "not-found");
    }
    let mut rows = 0;
    for number in 2..72 {
        rows += recorded(number).await;
    }
    // One more may be recorded for each second that the test takes.
    assert!((60..70).contains(&rows), "{rows}");
    assert_eq!(recorded(2).await, 1);
    shop.stop().await;
}

#[tokio::test]
async fn an_account_pays_orders_of_its_sellers_alone() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|body| body["seller"] = json!("tom")).await;
    let reply = shop.stripe_paid("pi_1", &order, PRICE, "cny").await;
    reply.assert_problem(409, "seller-mismatch");
    assert_eq!(shop.state(&order).await, "held");
    let row = ["pay", "signed:stripe:main", "seller-mismatch"].map(str::to_owned);
    assert_eq!(shop.refusals(&order).await, [row]);
    // Another report pays it. Then the refund is another seller's too.
    let paid = crate::node::http::common::paid("pi_1", PRICE);
    let path = format!("/v1/orders/{order}/payment");
    let operator = shop.service.operator();
    let paid = shop.service.post(&path, &operator, paid).await;
    assert_eq!(paid.text("outcome"), "paid");
    shop.return_order(&order).await;
    let refund = refund("re_1", "pi_1", PRICE, "succeeded");
    let reply = shop.stripe("refund.created", &refund).await;
    reply.assert_problem(409, "seller-mismatch");
    assert_eq!(shop.refunds(&order).await, [PRICE, 0]);
    shop.stop().await;
}

/// A holder of another account's secret cannot say that a refund was paid.
#[tokio::test]
async fn a_refund_is_reported_by_the_account_of_its_payment() {
    let other = "
        [[stripe]]
        account = 'other'
        sellers = ['olga']
        secret_file = 'other.secret'
    ";
    let other_secret = "whsec_of_the_second_endpoint_0002";
    let keys = [("stripe.secret", SECRET), ("other.secret", other_secret)];
    let shop = ShopWithAccounts::start(&format!("{ACCOUNTS}{other}"), &keys).await;
    let order = shop.order(|_| ()).await;
    assert_recorded(&shop.stripe_paid("pi_1", &order, PRICE, "cny").await);
    shop.return_order(&order).await;
    let now = shop.now_s();
    let refund = refund("re_1", "pi_1", PRICE, "succeeded");
    let body = event("refund.created", now, &refund);
    let header = signature(other_secret, now, &body);
    let headers = [
        ("content-type", "application/json"),
        ("stripe-signature", header.as_str()),
    ];
    let path = "/v1/providers/stripe/other/notifications";
    let forged = post(&shop.service, path, &headers, &body).await;
    forged.assert_problem(404, "not-found");
    assert_eq!(shop.refunds(&order).await, [PRICE, 0]);
    assert_recorded(&shop.stripe("refund.created", &refund).await);
    assert_eq!(shop.refunds(&order).await, [PRICE, PRICE]);
    shop.stop().await;
}

#[tokio::test]
async fn a_late_payment_is_reinstated_or_owed() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let (back, gone) = (shop.order(|_| ()).await, shop.order(|_| ()).await);
    shop.service.clock.advance_ms(61_000);
    let sale = gone.rsplit_once('-').unwrap().0;
    let path = format!("/v1/sales/{sale}/orders");
    let ann = shop.service.token("ann", "claim");
    for attempt in 0.. {
        if shop.service.act(&path, &ann).await.status == 201 {
            break;
        }
        assert!(attempt < 200, "the hold does not end");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_recorded(&shop.stripe_paid("pi_back", &back, PRICE, "cny").await);
    assert_eq!(shop.outcome("pi_back").await, "reinstated");
    assert_eq!(shop.state(&back).await, "paid");
    assert_recorded(&shop.stripe_paid("pi_gone", &gone, PRICE, "cny").await);
    assert_eq!(shop.outcome("pi_gone").await, "refund_due");
    assert_eq!(shop.refunds(&gone).await, [PRICE, 0]);
    shop.stop().await;
}

#[tokio::test]
async fn a_refund_counts_once_it_is_due() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let order = shop.order(|_| ()).await;
    let part = refund("re_1", "pi_1", 300, "succeeded");
    let early = shop.stripe("refund.created", &part).await;
    early.assert_problem(404, "not-found");
    assert_recorded(&shop.stripe_paid("pi_1", &order, PRICE, "cny").await);
    for _ in 0..2 {
        let undue = shop.stripe("refund.created", &part).await;
        undue.assert_problem(409, "refund-exceeds-due");
    }
    let row = ["refund", "signed:stripe:main", "refund-exceeds-due"].map(str::to_owned);
    assert_eq!(shop.refusals(&order).await, [row]);
    let path = "/v1/payments/re_1";
    let found = shop.service.get(path, &shop.service.operator()).await;
    found.assert_problem(404, "not-found");
    shop.return_order(&order).await;
    // Stripe repeats the event. All of its kinds are of one refund.
    for kind in ["refund.created", "refund.updated", "charge.refund.updated"] {
        assert_recorded(&shop.stripe(kind, &part).await);
        assert_eq!(shop.refunds(&order).await, [PRICE, 300]);
    }
    let listed = json!({
        "id": "ch_1", "object": "charge", "payment_intent": "pi_1", "amount_refunded": 500,
        "refunds": {"data": [refund("re_2", "pi_1", 200, "succeeded"), part]},
    });
    let both = shop.stripe("charge.refunded", &listed).await;
    assert_eq!((both.status, both.json()), (200, json!({"recorded": 2})));
    assert_eq!(shop.refunds(&order).await, [PRICE, PRICE]);
    let more = refund("re_3", "pi_1", 1, "succeeded");
    let more = shop.stripe("refund.created", &more).await;
    more.assert_problem(409, "refund-exceeds-due");
    let other = refund("re_2", "pi_1", 100, "succeeded");
    let other = shop.stripe("refund.created", &other).await;
    other.assert_problem(409, "reference-used");
    let failed = refund("re_2", "pi_1", 200, "failed");
    let failed = shop.stripe("refund.failed", &failed).await;
    assert_eq!(
        (failed.status, failed.json()["recorded"].clone()),
        (200, json!(0))
    );
    assert_eq!(shop.refunds(&order).await, [PRICE, PRICE]);
    shop.stop().await;
}

#[tokio::test]
async fn a_body_is_bounded_and_an_event() {
    let shop = ShopWithAccounts::start_stripe(ACCOUNTS).await;
    let now = shop.now_s();
    let giant = format!("{{\"a\":\"{}\"}}", "x".repeat(65_536));
    let header = signature(SECRET, now, &giant);
    let reply = shop.stripe_signed(&header, &giant).await;
    reply.assert_problem(413, "too-large");
    for body in ["{", "[]", "{}"] {
        let header = signature(SECRET, now, body);
        let reply = shop.stripe_signed(&header, body).await;
        reply.assert_problem(422, "invalid");
    }
    let test_mode = event("customer.created", now, &json!({})).replace("true", "false");
    let header = signature(SECRET, now, &test_mode);
    let reply = shop.stripe_signed(&header, &test_mode).await;
    reply.assert_problem(422, "invalid");
    let headers = [("stripe-signature", header.as_str())];
    let path = "/v1/providers/stripe/main/notifications";
    let reply = post(&shop.service, path, &headers, &test_mode).await;
    reply.assert_problem(415, "media-type");
    shop.stop().await;
}
