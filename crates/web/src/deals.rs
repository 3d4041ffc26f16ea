//! Sales that every user may buy in, as cards: on the first page, and beside a sale that is sold out.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::HeaderMap;
use serde_json::Value;

use crate::{
    PageState, avatar,
    language::Texts,
    money::{grouped, money},
    views::text,
};

/// Most sales of each phase that are read.
const SALES: usize = 60;
/// Sales beside a sale that is sold out.
const RELATED: usize = 4;
/// Age up to which the list beside sold-out sales is answered from memory: a crowd looks at such a sale.
const KEPT: Duration = Duration::from_secs(5);

/// A sale in a list.
pub(crate) struct Deal<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) image: Option<&'a str>,
    pub(crate) tint: u32,
    pub(crate) initial: String,
    pub(crate) price: String,
    pub(crate) left: String,
    pub(crate) starts_at: &'a str,
    pub(crate) ends_at: &'a str,
    pub(crate) is_paused: bool,
}

impl<'a> Deal<'a> {
    pub(crate) fn new(sale: &'a Value, texts: &Texts) -> Self {
        let (title, state) = (text(sale, "title"), &sale["state"]);
        let number = |field: &str| grouped(&state[field].to_string());
        let left = texts.left.replace("{remaining}", &number("remaining"));
        Self {
            id: text(sale, "id"),
            title,
            image: sale["image_url"].as_str(),
            tint: avatar::tint(title),
            initial: avatar::initial(title),
            price: money(&sale["unit_price"]),
            left: match state["remaining"].as_u64() {
                Some(0) => texts.sold_out.to_owned(),
                _ => left.replace("{supply}", &number("supply")),
            },
            starts_at: text(state, "starts_at"),
            ends_at: text(state, "ends_at"),
            is_paused: state["phase"] == "paused",
        }
    }
}

/// List of open sales that was read a moment ago, and when. It is the same for all users.
#[derive(Default)]
pub(crate) struct RecentSales(Mutex<(Option<Instant>, Arc<Vec<Value>>)>);

impl PageState {
    /// Sales that every user may buy in: live ones by their end, then coming ones by their start.
    pub(crate) async fn open_sales(&self, headers: &HeaderMap) -> Vec<Value> {
        let mut all = Vec::new();
        for (phase, by) in [("live", "ends_at"), ("scheduled", "starts_at")] {
            let path = format!("/v1/sales?open=true&phase={phase}&order=newest&limit={SALES}");
            let list = self.api.get(&path, headers).await.ok().unwrap_or_default();
            let mut sales = list["data"].as_array().cloned().unwrap_or_default();
            // All times have the same format, so their texts sort by time.
            sales.sort_by(|one, other| text(&one["state"], by).cmp(text(&other["state"], by)));
            all.extend(sales);
        }
        all
    }

    /// Other sales for users who missed this one: of its product, then of its seller, then any.
    pub(crate) async fn related_sales(&self, sale: &Value, headers: &HeaderMap) -> Vec<Value> {
        related(sale, &self.recent_sales(headers).await)
    }

    /// Open sales, read at most once per five seconds.
    async fn recent_sales(&self, headers: &HeaderMap) -> Arc<Vec<Value>> {
        let lock = || self.recent.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = lock();
            if kept.0.is_some_and(|at| at.elapsed() < KEPT) {
                return Arc::clone(&kept.1);
            }
            // Other visitors get the last list until this one is read.
            kept.0 = Some(Instant::now());
        }
        let sales = Arc::new(self.open_sales(headers).await);
        lock().1 = Arc::clone(&sales);
        sales
    }
}

fn related(sale: &Value, open: &[Value]) -> Vec<Value> {
    let is_other = |other: &&Value| other["id"] != sale["id"] && other["state"]["remaining"] != 0;
    let mut others: Vec<_> = open.iter().filter(is_other).cloned().collect();
    let is_same =
        |other: &Value, field: &str| sale[field].is_string() && other[field] == sale[field];
    // The sort is stable: sales of one rank stay in the order of their times.
    others.sort_by_key(|other| match other {
        other if is_same(other, "product_id") => 0,
        other if is_same(other, "seller") => 1,
        _ => 2,
    });
    others.truncate(RELATED);
    others
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn related_sales_are_of_the_product_then_of_the_seller_then_any() {
        let sale = |id: &str, product: Option<&str>, seller: &str, remaining: u64| {
            let state = json!({ "remaining": remaining });
            json!({ "id": id, "product_id": product, "seller": seller, "state": state })
        };
        let open = [
            sale("own", Some("p"), "ann", 3),
            sale("any", None, "bob", 3),
            sale("gone", Some("p"), "ann", 0),
            sale("seller", Some("q"), "ann", 3),
            sale("round", Some("p"), "bob", 3),
            sale("any-2", None, "bob", 3),
            sale("any-3", None, "bob", 3),
        ];
        let ids = |of: &Value| {
            let related = related(of, &open).into_iter();
            related
                .map(|sale| text(&sale, "id").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&open[0]), ["round", "seller", "any", "any-2"]);
        // Sales without a product are no rounds of each other.
        assert_eq!(ids(&open[1]), ["round", "any-2", "any-3", "own"]);
    }
}
