//! Page of a sale, with the visitor's orders of it and queue entry.

use askama::Template;
use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    PageState,
    api::take_data,
    assets, avatar,
    deals::Deal,
    language::Texts,
    money::money,
    preview::LinkPreview,
    qr,
    views::{Frame, PageRequest, escape, plain, text},
};

/// Page size of orders.
const ORDERS_PAGE: usize = 1_000;
/// Fields of an order that the page's script reads.
const ORDER_FIELDS: [&str; 8] = [
    "id",
    "quantity",
    "returned_quantity",
    "amount",
    "state",
    "created_at",
    "hold_until",
    "hold_extension_seconds",
];
/// Maximum number of pages that are read for one campaign: the newest come first.
pub(crate) const PAGES_MAX: usize = 5;
/// Concurrent requests for details of a list's items.
pub(crate) const ASKED_AT_ONCE: usize = 20;

#[derive(Template)]
#[template(path = "sale.html")]
struct SalePage<'a> {
    frame: &'a Frame,
    sale: &'a Value,
    style: &'static str,
    image: Option<&'a str>,
    /// Further pictures.
    gallery: Vec<&'a str>,
    /// Price before the discount, if there is one.
    was: Option<ListPrice>,
    /// Placeholder of a product without a picture.
    tint: u32,
    initial: String,
    preview: LinkPreview,
    price: String,
    one_each: bool,
    needs_passphrase: bool,
    /// Payments of another amount that pay an order, if there are any.
    policy: Option<String>,
    deal_style: &'static str,
    /// Other sales, if this one is sold out or over.
    related: Vec<Deal<'a>>,
}

/// Price before a discount.
struct ListPrice {
    price: String,
    /// Text that has the difference.
    saving: String,
}

impl ListPrice {
    /// List price of a sale; `None` unless it is above the price, which may have changed since.
    fn of_sale(sale: &Value, texts: &Texts) -> Option<Self> {
        let (list, price) = (&sale["list_price"], &sale["unit_price"]);
        let saved = list["amount"]
            .as_i64()?
            .checked_sub(price["amount"].as_i64()?)?;
        let saved =
            json!({ "amount": Some(saved).filter(|it| *it > 0)?, "currency": price["currency"] });
        Some(Self {
            price: money(list),
            saving: texts.saving.replace("{amount}", &money(&saved)),
        })
    }
}

pub(crate) async fn page(
    State(pages): State<PageState>,
    Path(id): Path<String>,
    asked: PageRequest,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let id = plain(&id);
    let answer = pages.api.get(&format!("/v1/sales/{id}"), &headers).await;
    if !answer.status.is_success() {
        let path = format!("/s/{id}");
        return pages.instead(&asked, &headers, &path, &answer).await;
    }
    let (sale, session) = (answer.body, pages.session(&headers).await);
    let place = match sale["waiting_room"] == true {
        true => pages.place(id, &headers).await,
        false => None,
    };
    let (mut orders, settled) = match session["user"].is_null() {
        true => (Vec::new(), true),
        false => pages.orders_of(&sale, &session, &headers).await,
    };
    // A grant from the queue may not be in the ledger yet.
    let granted = place.as_ref().map(|place| &place["order"]);
    let is_new = |grant: &&Value| orders.iter().all(|order| order["id"] != grant["id"]);
    let granted = granted.filter(|grant| grant.is_object()).filter(is_new);
    orders.extend(granted.cloned());
    let mut orders = pages.up_to_date(orders, &headers).await;
    for order in &mut orders {
        if let Value::Object(order) = order {
            order.retain(|name, _| ORDER_FIELDS.contains(&name.as_str()));
        }
    }
    let state = &sale["state"];
    let is_gone = state["remaining"] == 0 || ["ended", "closed"].contains(&text(state, "phase"));
    let related = match is_gone && !session["user"].is_null() {
        true => pages.related_sales(&sale, &headers).await,
        false => Vec::new(),
    };
    let facts = json!({
        "sale": sale,
        "orders": orders,
        "settled": settled,
        "place": place.filter(|place| text(place, "state") == "waiting"),
        "sandbox": pages.options.development.is_some(),
        "payment_url": pages.options.payment_url,
    });
    let frame = Frame::script_json("sale.js", &asked, &headers, &session, facts);
    let page = SalePage {
        frame: &frame,
        style: &assets::SALE_STYLE,
        image: sale["image_url"].as_str(),
        gallery: sale["gallery"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
        was: ListPrice::of_sale(&sale, frame.texts),
        tint: avatar::tint(text(&sale, "title")),
        initial: avatar::initial(text(&sale, "title")),
        preview: LinkPreview::of_sale(&sale, frame.texts, qr::origin(&uri, &headers, &pages)),
        price: money(&sale["unit_price"]),
        one_each: sale["per_user_limit"] == 1,
        needs_passphrase: sale["audience"] == "passphrase",
        policy: policy_of(&sale, frame.texts),
        deal_style: &assets::DEAL_STYLE,
        related: related
            .iter()
            .map(|sale| Deal::new(sale, frame.texts))
            .collect(),
        sale: &sale,
    };
    frame.answer(&page, StatusCode::OK)
}

/// Note for buyers about payments of another amount; `None` if each is refunded.
fn policy_of(sale: &Value, texts: &Texts) -> Option<String> {
    match text(sale, "payment_policy") {
        "accept_over" => Some(texts.accepts_over.to_owned()),
        "accept_with_tolerance" => {
            let tolerance = money(&sale["payment_tolerance"]);
            Some(texts.accepts_within.replace("{tolerance}", &tolerance))
        }
        _ => None,
    }
}

impl PageState {
    /// The visitor's queue entry, or its grant.
    async fn place(&self, id: &str, headers: &HeaderMap) -> Option<Value> {
        let path = format!("/v1/campaigns/{id}/queue-entry");
        self.api.get(&path, headers).await.ok()
    }

    /// The visitor's orders of a sale from the ledger, and whether the list is complete.
    async fn orders_of(
        &self,
        sale: &Value,
        session: &Value,
        headers: &HeaderMap,
    ) -> (Vec<Value>, bool) {
        let path = format!("/v1/accounts/{}/orders", escape(text(session, "user")));
        let (mut orders, mut after) = (Vec::new(), String::new());
        for _ in 0..PAGES_MAX {
            let page = format!("{path}?limit={ORDERS_PAGE}{after}");
            let Some(mut page) = self.api.get(&page, headers).await.ok() else {
                return (orders, false);
            };
            let listed = take_data(&mut page);
            // All times have the same format, so their texts sort by time.
            let is_before = |order: &Value| text(order, "created_at") < text(sale, "created_at");
            let is_over = listed.last().is_none_or(is_before);
            orders.extend(
                listed
                    .into_iter()
                    .filter(|order| order["campaign"] == sale["id"]),
            );
            let settled = page["settled"] == true;
            match page["next"].as_str() {
                Some(next) if !is_over => after = format!("&after={}", escape(next)),
                _ => return (orders, settled),
            }
        }
        (orders, false)
    }

    /// Orders as the engine has them, for orders that may still change.
    pub(crate) async fn up_to_date(&self, orders: Vec<Value>, headers: &HeaderMap) -> Vec<Value> {
        let asked = orders.into_iter().map(async |order| {
            if text(&order, "state") != "held" {
                return order;
            }
            let path = format!("/v1/orders/{}", text(&order, "id"));
            let Some(Value::Object(fresh)) = self.api.get(&path, headers).await.ok() else {
                return order;
            };
            let mut order = order;
            if let Value::Object(order) = &mut order {
                order.extend(fresh);
            }
            order
        });
        stream::iter(asked).buffered(ASKED_AT_ONCE).collect().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;

    #[test]
    fn list_price_is_shown_only_above_the_price() {
        let sale = |list: Value| json!({ "unit_price": { "amount": 900, "currency": "CNY" }, "list_price": list });
        let money = |amount: i64| json!({ "amount": amount, "currency": "CNY" });
        let texts = Language::English.texts();
        let shown = |list| {
            let was = ListPrice::of_sale(&sale(list), texts);
            was.map(|was| (was.price, was.saving))
        };
        let expected = ("¥12.00".to_owned(), "Save ¥3.00".to_owned());
        assert_eq!(shown(money(1_200)), Some(expected));
        assert_eq!(shown(money(900)), None);
        assert_eq!(shown(money(100)), None);
        assert_eq!(shown(Value::Null), None);
    }
}
