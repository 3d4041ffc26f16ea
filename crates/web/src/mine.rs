//! Lists of the visitor: packets sent and opened, and orders. Each is shown one page at a time, the newest first.

use askama::Template;
use axum::{
    extract::{FromRequestParts, Query, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    PageState,
    language::Texts,
    money::{grouped, money},
    next_path,
    sale::{ASKED_AT_ONCE, PAGES_MAX},
    views::{Frame, PageRequest, escape, text},
};

/// Number of items per page.
const SHOWN: usize = 20;
/// Page size of the search for one share.
const CLAIMS_PAGE: usize = 1_000;

/// Cursors of the lists' pages.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ListCursors {
    /// Cursor of the packets that the visitor sent.
    sent: Option<String>,
    /// Cursor of the packets that the visitor opened.
    opened: Option<String>,
    /// Cursor of the orders.
    pub(crate) after: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for ListCursors {
    type Rejection = std::convert::Infallible;
    /// An unreadable query counts as empty.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let query = Query::try_from_uri(&parts.uri);
        Ok(query.map(|Query(from)| from).unwrap_or_default())
    }
}

/// Path of a list in the API, from a cursor on.
fn listing(path: &str, cursor: Option<&str>) -> String {
    let after = cursor.map(|cursor| format!("&after={}", escape(cursor)));
    format!("{path}?limit={SHOWN}{}", after.unwrap_or_default())
}

/// Link to the next page of a list.
pub(crate) fn older(path: &str, name: &str, list: &Value) -> Option<String> {
    let next = list["next"].as_str()?;
    Some(format!("{path}?{name}={}", escape(next)))
}

#[derive(Template)]
#[template(path = "packets.html")]
struct PacketLists<'a> {
    frame: &'a Frame,
    /// Both lists on the first page, one of them on further pages.
    lists: Vec<PacketList>,
}

struct PacketList {
    id: &'static str,
    title: &'static str,
    lines: Vec<PacketLine>,
    older: Option<String>,
}

/// A packet in a list.
pub(crate) struct PacketLine {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Sender, or the number of shares left.
    pub(crate) about: String,
    pub(crate) amount: String,
}

pub(crate) async fn packets(
    State(pages): State<PageState>,
    asked: PageRequest,
    from: ListCursors,
    headers: HeaderMap,
) -> Response {
    let session = pages.session(&headers).await;
    let Some(user) = session["user"].as_str() else {
        return next_path::sign_in_first("/packets").into_response();
    };
    let frame = Frame::script_json("qiang.js", &asked, &headers, &session, Value::Null);
    let mut lists = Vec::new();
    if from.opened.is_none() {
        let path = listing("/v1/red-packets", from.sent.as_deref()) + "&order=newest";
        let answer = pages.api.get(&path, &headers).await;
        if !answer.status.is_success() {
            return pages.instead(&asked, &headers, "/packets", &answer).await;
        }
        let packets = answer.body["data"].as_array().into_iter().flatten();
        lists.push(PacketList {
            id: "sent",
            title: frame.texts.sent_by_me,
            lines: packets
                .map(|packet| sent_line(packet, frame.texts))
                .collect(),
            older: older("/packets", "sent", &answer.body),
        });
    }
    if from.sent.is_none() {
        let path = format!("/v1/accounts/{}/claims", escape(user));
        let path = listing(&path, from.opened.as_deref());
        let mut answer = pages.api.get(&path, &headers).await;
        if !answer.status.is_success() {
            return pages.instead(&asked, &headers, "/packets", &answer).await;
        }
        let claims = answer.take_data();
        lists.push(PacketList {
            id: "opened",
            title: frame.texts.opened_by_me,
            lines: pages.opened(claims, &headers, frame.texts).await,
            older: older("/packets", "opened", &answer.body),
        });
    }
    let page = PacketLists {
        frame: &frame,
        lists,
    };
    frame.answer(&page, StatusCode::OK)
}

pub(crate) fn sent_line(packet: &Value, texts: &Texts) -> PacketLine {
    let number = |field: &str| grouped(&packet["state"][field].to_string());
    let left = texts
        .packet_left
        .replace("{remaining}", &number("remaining"));
    let left = left.replace("{taken}", &number("granted"));
    PacketLine {
        id: text(packet, "id").to_owned(),
        title: text(packet, "title").to_owned(),
        about: left.replace("{supply}", &number("supply")),
        amount: money(&packet["total"]),
    }
}

impl PageState {
    /// The visitor's share of a packet, as lists of draws have it.
    pub(crate) async fn share_of(
        &self,
        packet: &Value,
        session: &Value,
        headers: &HeaderMap,
    ) -> Option<Value> {
        let user = session["user"].as_str()?;
        let path = format!("/v1/accounts/{}/claims", escape(user));
        let mut after = String::new();
        for _ in 0..PAGES_MAX {
            let page = format!("{path}?limit={CLAIMS_PAGE}{after}");
            let page = self.api.get(&page, headers).await.ok()?;
            let claims = page["data"].as_array()?;
            if let Some(own) = claims.iter().find(|it| it["campaign"] == packet["id"]) {
                return Some(
                    json!({ "number": own["number"], "user": user, "amount": own["amount"] }),
                );
            }
            // All times have the same format, so their texts sort by time.
            let last = claims.last()?;
            if text(last, "created_at") < text(packet, "created_at") {
                return None;
            }
            after = format!("&after={}", escape(page["next"].as_str()?));
        }
        None
    }

    /// Shares with the titles of their packets.
    async fn opened(
        &self,
        claims: Vec<Value>,
        headers: &HeaderMap,
        texts: &Texts,
    ) -> Vec<PacketLine> {
        let asked = claims.into_iter().map(async |claim| {
            let id = text(&claim, "campaign").to_owned();
            let packet = self
                .api
                .get(&format!("/v1/red-packets/{id}"), headers)
                .await;
            let packet = packet.ok().unwrap_or_default();
            PacketLine {
                id,
                title: packet["title"]
                    .as_str()
                    .unwrap_or(texts.a_packet)
                    .to_owned(),
                about: match packet["sender"].as_str() {
                    Some(sender) => format!("{} {sender}", texts.from),
                    None => String::new(),
                },
                amount: money(&claim["amount"]),
            }
        });
        stream::iter(asked).buffered(ASKED_AT_ONCE).collect().await
    }
}

#[derive(Template)]
#[template(path = "orders.html")]
struct OrdersPage<'a> {
    frame: &'a Frame,
    orders: Vec<OrderLine<'a>>,
    older: Option<String>,
}

/// An order in a list.
struct OrderLine<'a> {
    sale: &'a str,
    title: &'a str,
    quantity: String,
    amount: String,
    is_held: bool,
    /// State: the API's value, and its text.
    name: &'a str,
    state: String,
    /// End of the hold of an unpaid order.
    until: Option<&'a str>,
    /// URL to pay at.
    pay: String,
}

pub(crate) async fn orders(
    State(pages): State<PageState>,
    asked: PageRequest,
    from: ListCursors,
    headers: HeaderMap,
) -> Response {
    let session = pages.session(&headers).await;
    let Some(user) = session["user"].as_str() else {
        return next_path::sign_in_first("/orders").into_response();
    };
    let path = format!("/v1/accounts/{}/orders", escape(user));
    let mut list = pages
        .api
        .get(&listing(&path, from.after.as_deref()), &headers)
        .await;
    if !list.status.is_success() {
        return pages.instead(&asked, &headers, "/orders", &list).await;
    }
    let orders = list.take_data();
    let orders = pages.up_to_date(orders, &headers).await;
    let frame = Frame::script_json("orders.js", &asked, &headers, &session, json!({}));
    let pays_elsewhere =
        pages.options.development.is_none() && !pages.options.payment_url.is_empty();
    let line = |order| {
        let (sale, state) = (text(order, "campaign"), text(order, "state"));
        OrderLine {
            sale,
            title: text(order, "title"),
            quantity: grouped(&order["quantity"].to_string()),
            amount: money(&order["amount"]),
            is_held: state == "held",
            name: state,
            state: order_words(order, frame.texts),
            until: order["hold_until"].as_str(),
            pay: match pays_elsewhere {
                true => pages
                    .options
                    .payment_url
                    .replace("{order}", text(order, "id")),
                false => format!("/s/{sale}"),
            },
        }
    };
    let page = OrdersPage {
        frame: &frame,
        orders: orders.iter().map(line).collect(),
        older: older("/orders", "after", &list.body),
    };
    frame.answer(&page, StatusCode::OK)
}

/// Text for the state of an order.
pub(crate) fn order_words(order: &Value, texts: &Texts) -> String {
    let words = match (text(order, "state"), order["returned_quantity"].as_u64()) {
        ("paid", Some(returned @ 1..)) => {
            let quantity = grouped(&order["quantity"].to_string());
            let words = texts.returned_part.replace("{quantity}", &quantity);
            return words.replace("{returned}", &grouped(&returned.to_string()));
        }
        ("paid", _) if order["amount"]["amount"] == 0 => texts.free,
        ("held", _) => texts.held,
        ("paid", _) => texts.paid,
        ("cancelled", _) => texts.cancelled,
        ("returned", _) => texts.returned,
        _ => texts.expired,
    };
    words.to_owned()
}
