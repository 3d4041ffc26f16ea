//! `deduct`: a status key, a stock that a script checks and deducts from, an order for a message queue, and a script
//! that puts the unit back when the order cannot be published.
//!
//! Source: 基於redis的lua腳本解決秒殺場景.
//!
//! As there: GET of the status, then the script (by its hash, by its text where Redis does not know it), then the
//! message. The article shows its two scripts as pictures; ours do what it says of them. Its message queue is a list
//! here, published to in the same Redis, which spares this scheme the broker. Two things could not have run and are
//! mended: the rollback names a variable that is not there and is called with an argument too many, and the
//! status is written under the record's id but read under the product's; here both are one id. The user's id is not
//! looked at: who clicks twice can get two, so the scheme must be exact in its supply and its orders alone.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use redis::RedisResult;
use serde_json::json;

use super::{
    counter::holders,
    scheme::{About, Exact, Outcome, Recipe, Recount, Site},
    wire::{Script, Sent, Wire},
};

/// How long the sale's status key lives, as the time between the article's start and end.
const SALE_MS: u64 = 3_600_000;

pub(super) const ABOUT: About = About {
    name: "deduct",
    source: "基於redis的lua腳本解決秒殺場景",
    exact: Exact::Supply,
    on_redis: true,
    published: None,
};

pub(super) struct Deduct {
    status: String,
    stock: String,
    /// The field of the stock's hash, named with the same tag as its key.
    field: String,
    orders: String,
    deduct: Script,
    rollback: Script,
    rollbacks: AtomicU64,
}

impl Deduct {
    pub(super) fn new(site: &Site) -> Self {
        Self {
            status: site.key("fixed_product_sold_status_1"),
            stock: site.key("{fixed:1}-residue_stock_1"),
            field: "{fixed:1}-residueStock".to_owned(),
            orders: site.key("orders"),
            deduct: Script::new(include_str!("lua/deduct.lua"), Sent::HashFirst),
            rollback: Script::new(include_str!("lua/deduct_rollback.lua"), Sent::HashFirst),
            rollbacks: AtomicU64::new(0),
        }
    }

    async fn publish(&self, wire: &mut Wire, user: &str) -> RedisResult<()> {
        let order = json!({ "userId": user, "productId": 1, "price": 1, "quantity": 1 });
        let mut push = redis::cmd("LPUSH");
        push.arg(&self.orders).arg(order.to_string());
        wire.ask(&push).await
    }
}

#[async_trait]
impl Recipe for Deduct {
    fn keys(&self) -> Vec<&str> {
        vec![&self.status, &self.stock, &self.orders]
    }

    async fn prepare(&self, wire: &mut Wire, supply: u32) -> anyhow::Result<()> {
        let mut put = redis::cmd("HSETNX");
        wire.ask::<()>(put.arg(&self.stock).arg(&self.field).arg(supply))
            .await?;
        let mut open = redis::cmd("SET");
        open.arg(&self.status).arg(1).arg("PX").arg(SALE_MS);
        Ok(wire.ask(&open).await?)
    }

    async fn claim(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome> {
        let status: Option<u64> = wire.ask(redis::cmd("GET").arg(&self.status)).await?;
        if status != Some(1) {
            return Ok(Outcome::Refused);
        }
        let keys = [&*self.stock, &self.field];
        let deducted: u64 = wire.run(&self.deduct, &keys, &["1"]).await?;
        if deducted != 1 {
            return Ok(Outcome::SoldOut);
        }
        // A crash here loses the order, and its unit is deducted for good.
        if let Err(error) = self.publish(wire, user).await {
            // Also when the publication went through and only its answer was lost: then the unit is sold again.
            let _: u64 = wire.run(&self.rollback, &keys, &["1"]).await?;
            self.rollbacks.fetch_add(1, Ordering::Relaxed);
            return Err(error.into());
        }
        Ok(Outcome::Granted { unit: None })
    }

    async fn recount(&self, wire: &mut Wire) -> anyhow::Result<Recount> {
        let mut get = redis::cmd("HGET");
        Ok(Recount {
            left: wire.ask(get.arg(&self.stock).arg(&self.field)).await?,
            holders: holders(&wire.list(&self.orders).await?)?,
            notes: [("rollbacks", self.rollbacks.load(Ordering::Relaxed))].into(),
            ..Recount::default()
        })
    }
}
