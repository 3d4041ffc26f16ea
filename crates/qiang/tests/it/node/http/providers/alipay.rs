//! Notifications of Alipay end where reports of payments and refunds do.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use qiang_core::time::Timestamp;

use super::{PRICE, PlatformKey, ShopWithAccounts};
use crate::node::http::common::{Reply, post_form};

const TRADE: &str = "2026112122001468450512505578";
const ACCOUNTS: &str = "
    [[alipay]]
    account = 'main'
    sellers = ['olga', 'tom']
    app_id = '2021001146601279'
    seller_id = '2088731909746398'
    public_key_file = 'alipay.key'
";
const PATH: &str = "/v1/providers/alipay/main/notifications";

/// A shop with an account, and Alipay that notifies it.
struct AlipayShop {
    shop: ShopWithAccounts,
    platform: PlatformKey,
}

impl AlipayShop {
    async fn start() -> Self {
        let platform = PlatformKey::new();
        let keys = [("alipay.key", platform.public())];
        let keys = keys.each_ref().map(|(name, key)| (*name, key.as_str()));
        Self {
            shop: ShopWithAccounts::start(ACCOUNTS, &keys).await,
            platform,
        }
    }

    /// Time in China, as Alipay writes it.
    fn time(&self) -> String {
        let now = Timestamp::from_millis(self.shop.now_s() * 1_000).as_millis();
        let time = jiff::Timestamp::from_millisecond(now).unwrap();
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(8));
        time.to_zoned(zone)
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string()
    }

    /// A signed form of a trade, with some parameters changed.
    fn form(&self, order: &str, changes: &[(&str, &str)]) -> String {
        let time = self.time();
        let mut parameters = vec![
            ("app_id", "2021001146601279"),
            ("auth_app_id", "2021001146601279"),
            ("buyer_id", "2088312718052342"),
            ("buyer_logon_id", "147***@qq.com"),
            ("charset", "UTF-8"),
            ("gmt_create", &time),
            ("gmt_payment", &time),
            ("notify_id", "2026112100222181915052341404297126"),
            ("notify_time", &time),
            ("notify_type", "trade_status_sync"),
            ("out_trade_no", "shop-4711"),
            ("passback_params", order),
            ("seller_id", "2088731909746398"),
            ("subject", "灯 & 台"),
            ("total_amount", "5.00"),
            ("trade_no", TRADE),
            ("trade_status", "TRADE_SUCCESS"),
            ("version", "1.0"),
        ];
        parameters.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        parameters.extend(changes);
        parameters.sort_unstable();
        let pairs = parameters
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let sign = self.platform.sign(&pairs.collect::<Vec<_>>().join("&"));
        parameters.extend([("sign_type", "RSA2"), ("sign", &sign)]);
        let pairs = parameters.iter().map(|(name, value)| {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            format!("{name}={value}")
        });
        pairs.collect::<Vec<_>>().join("&")
    }

    async fn send(&self, form: &str) -> Reply {
        post_form(self.shop.service.addr, PATH, None, form).await
    }

    async fn notify(&self, order: &str, changes: &[(&str, &str)]) -> Reply {
        self.send(&self.form(order, changes)).await
    }

    /// Notifies of a refund: request, and total in yuan.
    async fn refund(&self, order: &str, request: &str, total: &str) -> Reply {
        let changes = [
            ("gmt_refund", "2026-11-21 20:00:00.143"),
            ("out_biz_no", request),
            ("refund_fee", total),
        ];
        self.notify(order, &changes).await
    }
}

#[track_caller]
fn assert_success(reply: &Reply) {
    assert_eq!(
        (reply.status, &reply.body[..]),
        (200, b"success".as_slice()),
        "{reply:?}"
    );
    assert!(reply.header("content-type").starts_with("text/plain"));
}

#[tokio::test]
async fn a_notification_pays_its_order_once_and_a_forged_one_never() {
    let alipay = AlipayShop::start().await;
    let order = alipay.shop.order(|_| ()).await;
    let good = alipay.form(&order, &[]);
    let other = AlipayShop {
        platform: PlatformKey::new(),
        ..alipay
    };
    let forged = other.form(&order, &[]);
    for form in [
        forged.as_str(),
        &good.replace("5%2E00", "4%2E00"),
        &good.replace("RSA2", "RSA"),
        &good.replace("&sign=", "&sigm="),
        &format!("{good}&more=1"),
        &format!("{good}&total_amount=5.00"),
        "",
    ] {
        let reply = other.send(form).await;
        reply.assert_problem(401, "unauthenticated");
    }
    assert_eq!(other.shop.state(&order).await, "held");
    for _ in 0..3 {
        assert_success(&other.send(&good).await);
        assert_eq!(other.shop.state(&order).await, "paid");
    }
    assert_eq!(other.shop.outcome(TRADE).await, "paid");
    assert_eq!(other.shop.service.balance("olga").await, PRICE);
    assert_eq!(other.shop.count("alipay", "rejected").await, 7);
    other.shop.stop().await;
}

#[tokio::test]
async fn a_wrong_trade_is_owed_or_refused() {
    let alipay = AlipayShop::start().await;
    let order = alipay.shop.order(|_| ()).await;
    let unknown = format!("{}-7", order.rsplit_once('-').unwrap().0);
    let reply = alipay.notify(&unknown, &[]).await;
    reply.assert_problem(404, "not-found");
    for change in [
        ("passback_params", "4711"),
        ("app_id", "2021001146601280"),
        ("seller_id", "2088731909746399"),
        ("total_amount", "5.001"),
    ] {
        let reply = alipay.notify(&order, &[change]).await;
        reply.assert_problem(422, "invalid");
    }
    let giant = alipay.form(&order, &[("subject", &"x".repeat(65_536))]);
    alipay.send(&giant).await.assert_problem(413, "too-large");
    let headers = [("content-type", "application/json")];
    let reply = super::post(&alipay.shop.service, PATH, &headers, "{}").await;
    reply.assert_problem(415, "media-type");
    for status in ["WAIT_BUYER_PAY", "TRADE_CLOSED"] {
        assert_success(&alipay.notify(&order, &[("trade_status", status)]).await);
    }
    assert_eq!(alipay.shop.state(&order).await, "held");
    assert_success(&alipay.notify(&order, &[("total_amount", "4.99")]).await);
    assert_eq!(alipay.shop.outcome(TRADE).await, "refund_due");
    assert_eq!(alipay.shop.refunds(&order).await, [PRICE - 1, 0]);
    // Its refund is of the money that is due.
    let changes = [
        ("total_amount", "4.99"),
        ("gmt_refund", "2026-11-21 20:00:00.143"),
        ("refund_fee", "4.99"),
        ("trade_status", "TRADE_CLOSED"),
    ];
    assert_success(&alipay.notify(&order, &changes).await);
    assert_eq!(alipay.shop.refunds(&order).await, [PRICE - 1, PRICE - 1]);
    alipay.shop.stop().await;
}

/// A coupon of Alipay pays a part: `total_amount` counts.
#[tokio::test]
async fn a_trade_with_a_coupon_pays_the_order_that_its_number_names() {
    let alipay = AlipayShop::start().await;
    let order = alipay.shop.order(|_| ()).await;
    let number = order.replace('-', "_");
    let changes = [
        ("passback_params", ""),
        ("out_trade_no", &number),
        ("buyer_pay_amount", "4.50"),
        ("receipt_amount", "5.00"),
    ];
    assert_success(&alipay.notify(&order, &changes).await);
    assert_eq!(alipay.shop.state(&order).await, "paid");
    alipay.shop.stop().await;
}

/// Each notification has the total of all refunds. They may be repeated, change places, and come at once.
#[tokio::test]
async fn totals_of_refunds_are_recorded_as_what_was_refunded() {
    let alipay = AlipayShop::start().await;
    let order = alipay.shop.order(|_| ()).await;
    assert_success(&alipay.notify(&order, &[]).await);
    let undue = alipay.refund(&order, "r1", "1.00").await;
    undue.assert_problem(409, "refund-exceeds-due");
    alipay.shop.return_order(&order).await;
    for _ in 0..2 {
        assert_success(&alipay.refund(&order, "r1", "1.00").await);
        assert_eq!(alipay.shop.refunds(&order).await, [PRICE, 100]);
    }
    // The third comes before the second.
    assert_success(&alipay.refund(&order, "r3", "3.00").await);
    assert_eq!(alipay.shop.refunds(&order).await, [PRICE, 300]);
    assert_success(&alipay.refund(&order, "r2", "2.00").await);
    assert_eq!(alipay.shop.refunds(&order).await, [PRICE, 300]);
    let at_once = ["3.50", "4.00", "4.50", "5.00"].map(|total| {
        let request = format!("r{total}");
        let (alipay, order) = (&alipay, &order);
        async move { alipay.refund(order, &request, total).await }
    });
    for reply in futures_util::future::join_all(at_once).await {
        assert_success(&reply);
    }
    assert_eq!(alipay.shop.refunds(&order).await, [PRICE, PRICE]);
    alipay.shop.stop().await;
}
