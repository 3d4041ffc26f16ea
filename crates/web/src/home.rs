//! First page: sales that are open to all users, and the visitor's latest orders and packets. Also the balance page.

use askama::Template;
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use crate::{
    PageState, assets,
    deals::Deal,
    desk_texts,
    language::Texts,
    mine::{ListCursors, PacketLine, older, order_words, sent_line},
    money::money,
    next_path, session,
    views::{Frame, PageRequest, escape, text},
};

/// Own orders and packets on the first page.
const OWN: usize = 3;
/// Lines of the statement per page.
const POSTINGS: usize = 30;

#[derive(Template)]
#[template(path = "home.html")]
struct HomeView<'a> {
    frame: &'a Frame,
    style: &'static str,
    deal_style: &'static str,
    /// Name of the desk, for users who may use it.
    desk: Option<&'static str>,
    deals: Vec<Deal<'a>>,
    orders: Vec<OwnLine>,
    packets: Vec<OwnLine>,
}

/// One of the visitor's orders or packets.
struct OwnLine {
    href: String,
    title: String,
    about: String,
    amount: String,
}

impl From<PacketLine> for OwnLine {
    fn from(packet: PacketLine) -> Self {
        Self {
            href: format!("/p/{}", packet.id),
            title: packet.title,
            about: packet.about,
            amount: packet.amount,
        }
    }
}

impl PageState {
    /// A list of the visitor's own, the newest first.
    async fn own(&self, path: &str, headers: &HeaderMap) -> Vec<Value> {
        let list = self.api.get(path, headers).await.ok().unwrap_or_default();
        list["data"].as_array().cloned().unwrap_or_default()
    }
}

pub(crate) async fn home(
    State(pages): State<PageState>,
    asked: PageRequest,
    headers: HeaderMap,
) -> Response {
    let session = pages.session(&headers).await;
    let user = session["user"].as_str().map(escape);
    let (mut sales, mut orders, mut packets) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(user) = user {
        sales = pages.open_sales(&headers).await;
        let path = format!("/v1/accounts/{user}/orders?limit={OWN}");
        orders = pages.own(&path, &headers).await;
        let path = format!("/v1/red-packets?order=newest&limit={OWN}");
        packets = pages.own(&path, &headers).await;
    }
    let now = sales.first().map(|sale| sale["state"]["now"].clone());
    let facts = json!({ "now": now });
    let frame = Frame::script_json("home.js", &asked, &headers, &session, facts);
    let texts = desk_texts::Texts::for_language(frame.language);
    let order = |order: &Value| OwnLine {
        href: format!("/s/{}", text(order, "campaign")),
        title: text(order, "title").to_owned(),
        about: order_words(order, frame.texts),
        amount: money(&order["amount"]),
    };
    let packet = |packet: &Value| sent_line(packet, frame.texts).into();
    let page = HomeView {
        frame: &frame,
        style: &assets::HOME_STYLE,
        deal_style: &assets::DEAL_STYLE,
        desk: session::is_operator(&session).then_some(texts.desk),
        deals: sales
            .iter()
            .map(|sale| Deal::new(sale, frame.texts))
            .collect(),
        orders: orders.iter().map(order).collect(),
        packets: packets.iter().map(packet).collect(),
    };
    frame.answer(&page, StatusCode::OK)
}

#[derive(Template)]
#[template(path = "balance.html")]
struct BalanceView<'a> {
    frame: &'a Frame,
    balances: Vec<BalanceLine>,
    lines: Vec<StatementLine<'a>>,
    older: Option<String>,
}

struct BalanceLine {
    available: String,
    /// Refunds due, if there are any.
    due: Option<String>,
}

/// A posting of the visitor's accounts.
struct StatementLine<'a> {
    what: &'static str,
    href: Option<String>,
    at: &'a str,
    is_in: bool,
    amount: String,
}

pub(crate) async fn balance(
    State(pages): State<PageState>,
    asked: PageRequest,
    from: ListCursors,
    headers: HeaderMap,
) -> Response {
    let session = pages.session(&headers).await;
    let Some(user) = session["user"].as_str().map(escape) else {
        return next_path::sign_in_first("/balance").into_response();
    };
    let account = pages
        .api
        .get(&format!("/v1/accounts/{user}"), &headers)
        .await;
    let after = from.after.as_deref().map(escape);
    let after = after.map(|after| format!("&after={after}"));
    let path = format!(
        "/v1/accounts/{user}/postings?limit={POSTINGS}{}",
        after.unwrap_or_default()
    );
    let list = pages.api.get(&path, &headers).await;
    for answer in [&account, &list] {
        if !answer.status.is_success() {
            return pages.instead(&asked, &headers, "/balance", answer).await;
        }
    }
    let frame = Frame::script_json("orders.js", &asked, &headers, &session, json!({}));
    let balances = account.body["balances"].as_array().into_iter().flatten();
    let postings = list.body["data"].as_array().into_iter().flatten();
    let mut balances: Vec<_> = balances
        .map(|balance| BalanceLine {
            available: money(&balance["available"]),
            due: (balance["refunds_due"]["amount"] != 0).then(|| money(&balance["refunds_due"])),
        })
        .collect();
    if balances.is_empty() {
        let available = money(&json!({ "amount": 0, "currency": "CNY" }));
        balances.push(BalanceLine {
            available,
            due: None,
        });
    }
    let page = BalanceView {
        frame: &frame,
        balances,
        lines: postings
            .map(|posting| StatementLine::new(posting, frame.texts))
            .collect(),
        older: older("/balance", "after", &list.body),
    };
    frame.answer(&page, StatusCode::OK)
}

impl<'a> StatementLine<'a> {
    fn new(posting: &'a Value, texts: &'static Texts) -> Self {
        let is_in = posting["amount"]["amount"].as_i64().unwrap_or(0) > 0;
        let kind = text(posting, "kind");
        let campaign = posting["campaign"].as_str();
        let letter = match kind {
            "fund" | "grant" | "refund" | "residue" => "p",
            _ => "s",
        };
        Self {
            what: words_of(kind, texts),
            href: campaign.map(|id| format!("/{letter}/{id}")),
            at: text(posting, "at"),
            is_in,
            amount: format!(
                "{}{}",
                if is_in { "+" } else { "" },
                money(&posting["amount"])
            ),
        }
    }
}

/// Text for the reason of a posting.
fn words_of(kind: &str, texts: &Texts) -> &'static str {
    match kind {
        "deposit" => texts.moved_deposit,
        "fund" => texts.moved_fund,
        "grant" => texts.moved_grant,
        "refund" => texts.moved_refund,
        "residue" => texts.moved_residue,
        "payment" => texts.moved_payment,
        "refund_due" => texts.moved_refund_due,
        "return" => texts.moved_return,
        "refund_paid" => texts.moved_refund_paid,
        "withdrawal" => texts.moved_withdrawal,
        "reversal" => texts.moved_reversal,
        "refund_reversal" => texts.moved_refund_reversal,
        "transfer" => texts.moved_transfer,
        _ => texts.moved_other,
    }
}
