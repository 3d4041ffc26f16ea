//! `deduct`: a status key, a stock that a script checks and deducts from, an order for a message queue, and a script
//! that restocks the unit if the order cannot be published.
//!
//! Source: 基於redis的lua腳本解決秒殺場景.
//!
//! As in the article: GET of the status, then the script (by its hash, or by its text if Redis does not know it), then
//! the message. The article shows its two scripts as pictures; ours do what it says about them. Its message queue is a
//! list here, in the same Redis, which spares this scheme the broker. Two faults that would prevent it from running are
//! corrected. The rollback uses an undefined variable and is called with an extra argument. The status is written under
//! the record's id, but read under the product's; here both ids are the same. The scheme does not check users, so a
//! user who clicks twice may get two units. So it must be exact only in its supply and its orders.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use redis::RedisResult;
use serde_json::json;

use super::{
    counter::holders,
    scheme::{About, Exact, Outcome, Recipe, Recount, Site},
    wire::{Script, Sent, Wire},
};

/// Lifetime of the sale's status key in milliseconds, like the time between the article's start and end.
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
    /// Field of the stock's hash. Its name has the same hash tag as the key.
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
        // A crash here loses the order, and its unit stays deducted forever.
        if let Err(error) = self.publish(wire, user).await {
            // Also if the publication succeeded and only its answer was lost. Then the unit is sold again.
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
