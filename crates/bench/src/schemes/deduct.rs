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

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use redis::RedisResult;
use serde_json::json;

use super::{
    counter::holders,
    scheme::{About, Client, Drive, Exact, Outcome, Recount, Scheme, Site},
    wire::{Script, Wire},
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

struct Parts {
    status: String,
    stock: String,
    /// The field of the stock's hash, named with the same tag as its key.
    field: String,
    orders: String,
    deduct: Script,
    rollback: Script,
    rollbacks: AtomicU64,
}

pub(super) struct Deduct {
    site: Site,
    parts: Arc<Parts>,
}

impl Deduct {
    pub(super) fn new(site: Site) -> Self {
        let parts = Parts {
            status: site.key("fixed_product_sold_status_1"),
            stock: site.key("{fixed:1}-residue_stock_1"),
            field: "{fixed:1}-residueStock".to_owned(),
            orders: site.key("orders"),
            deduct: Script::new(include_str!("lua/deduct.lua")),
            rollback: Script::new(include_str!("lua/deduct_rollback.lua")),
            rollbacks: AtomicU64::new(0),
        };
        Self {
            site,
            parts: Arc::new(parts),
        }
    }
}

#[async_trait]
impl Scheme for Deduct {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let mut wire = self.site.server.connect().await?;
        let mut put = redis::cmd("HSETNX");
        put.arg(&self.parts.stock)
            .arg(&self.parts.field)
            .arg(supply);
        wire.ask::<()>(&put).await?;
        let mut open = redis::cmd("SET");
        wire.ask::<()>(open.arg(&self.parts.status).arg(1).arg("PX").arg(SALE_MS))
            .await?;
        Ok(())
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let client = |wire| DeductClient {
            wire,
            parts: Arc::clone(&self.parts),
        };
        self.site.clients(connections, client).await
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let mut wire = self.site.server.connect().await?;
        let mut get = redis::cmd("HGET");
        let left = wire
            .ask(get.arg(&self.parts.stock).arg(&self.parts.field))
            .await?;
        let orders = wire.list(&self.parts.orders).await?;
        let rollbacks = self.parts.rollbacks.load(Ordering::Relaxed);
        Ok(Recount {
            left,
            holders: holders(&orders)?,
            notes: [("rollbacks", rollbacks)].into(),
            ..Recount::default()
        })
    }

    async fn clean(&self) -> anyhow::Result<()> {
        let parts = &self.parts;
        self.site
            .unlink(&[&parts.status, &parts.stock, &parts.orders])
            .await
    }
}

struct DeductClient {
    wire: Wire,
    parts: Arc<Parts>,
}

impl DeductClient {
    async fn publish(&mut self, user: &str) -> RedisResult<()> {
        let order = json!({ "userId": user, "productId": 1, "price": 1, "quantity": 1 });
        let mut push = redis::cmd("LPUSH");
        push.arg(&self.parts.orders).arg(order.to_string());
        self.wire.ask(&push).await
    }
}

#[async_trait]
impl Client for DeductClient {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        let parts = Arc::clone(&self.parts);
        let status: Option<u64> = self.wire.ask(redis::cmd("GET").arg(&parts.status)).await?;
        if status != Some(1) {
            return Ok(Outcome::Refused);
        }
        let keys = [&*parts.stock, &parts.field];
        let deducted: u64 = self
            .wire
            .evalsha_or_eval(&parts.deduct, &keys, &["1"])
            .await?;
        if deducted != 1 {
            return Ok(Outcome::SoldOut);
        }
        // A crash here loses the order, and its unit is deducted for good.
        if let Err(error) = self.publish(user).await {
            // Also when the publication went through and only its answer was lost: then the unit is sold again.
            let _: u64 = self
                .wire
                .evalsha_or_eval(&parts.rollback, &keys, &["1"])
                .await?;
            parts.rollbacks.fetch_add(1, Ordering::Relaxed);
            return Err(error.into());
        }
        Ok(Outcome::Granted { unit: None })
    }

    fn round_trips(&self) -> u64 {
        self.wire.calls()
    }
}
