//! `counter`: a hash of Total and Booked, and a list that carries the orders to a consumer with a database.
//!
//! Source: an article of 2021-11-07 on 云数据库Redis版缓存设计高并发的秒杀系统.
//!
//! As in the article, the script is loaded in advance by SCRIPT LOAD, and each claim calls it by EVALSHA, without a
//! retry if Redis has lost the script. Then LPUSH adds the order, and a consumer takes the orders by `BRPOP orderList
//! 0`. The article's consumer writes them into a database, ours into memory. The article's front layers (CDN, read
//! replicas, a limit of admitted orders) turn users away before this, and are left out. The scheme knows no users, so a
//! user who clicks twice may get two units. So it must be exact only in its supply and its orders.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    scheme::{About, Exact, Outcome, Recipe, Recount, Site},
    wire::{Script, Sent, Server, Wire},
};

/// Time limit of the orders' consumer after the last claim.
const CONSUMER_MAX: Duration = Duration::from_secs(60);
/// Interval of checks of the consumer.
const CONSUMER_LOOK: Duration = Duration::from_millis(2);

pub(super) const ABOUT: About = About {
    name: "counter",
    source: "云数据库Redis版缓存设计高并发的秒杀系统",
    exact: Exact::Supply,
    on_redis: true,
    published: None,
};

pub(super) struct Counter {
    server: Server,
    goods: String,
    orders: String,
    book: Script,
    /// Stands for the database.
    database: Arc<Mutex<Vec<String>>>,
    /// The only task that takes orders.
    consumer: Mutex<JoinSet<anyhow::Result<()>>>,
}

impl Counter {
    pub(super) fn new(site: &Site) -> Self {
        Self {
            server: site.server.clone(),
            goods: site.key("goodsId"),
            orders: site.key("orderList"),
            book: Script::new(include_str!("lua/counter_book.lua"), Sent::Hash),
            database: Arc::default(),
            consumer: Mutex::default(),
        }
    }
}

async fn consume(
    mut wire: Wire,
    orders: String,
    database: Arc<Mutex<Vec<String>>>,
) -> anyhow::Result<()> {
    let mut pop = redis::cmd("BRPOP");
    pop.arg(orders).arg(0);
    loop {
        let (_, order): (String, String) = wire.ask(&pop).await?;
        database.lock().push(order);
    }
}

#[async_trait]
impl Recipe for Counter {
    fn keys(&self) -> Vec<&str> {
        vec![&self.goods, &self.orders]
    }

    async fn prepare(&self, wire: &mut Wire, supply: u32) -> anyhow::Result<()> {
        let mut set = redis::cmd("HSET");
        set.arg(&self.goods)
            .arg("Total")
            .arg(supply)
            .arg("Booked")
            .arg(0);
        wire.ask::<()>(&set).await?;
        self.book.load(wire).await?;
        let wire = self.server.connect_blocking().await?;
        let consumer = consume(wire, self.orders.clone(), Arc::clone(&self.database));
        self.consumer.lock().spawn(consumer);
        Ok(())
    }

    async fn claim(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome> {
        let taken: u64 = wire.run(&self.book, &[&self.goods], &["1"]).await?;
        if taken == 0 {
            return Ok(Outcome::SoldOut);
        }
        // A crash here loses the order, and its unit stays booked forever.
        let order = json!({ "goodsId": "goodsId", "userId": user, "count": taken }).to_string();
        wire.ask::<()>(redis::cmd("LPUSH").arg(&self.orders).arg(order))
            .await?;
        Ok(Outcome::Granted { unit: None })
    }

    async fn finish(&self, granted: u64) -> anyhow::Result<()> {
        let give_up = Instant::now() + CONSUMER_MAX;
        while (self.database.lock().len() as u64) < granted {
            ensure!(
                self.consumer.lock().try_join_next().is_none(),
                "the consumer of the orders ended before it had all of them"
            );
            ensure!(
                Instant::now() <= give_up,
                "the consumer of the orders did not finish within {CONSUMER_MAX:?}"
            );
            tokio::time::sleep(CONSUMER_LOOK).await;
        }
        Ok(())
    }

    async fn recount(&self, wire: &mut Wire) -> anyhow::Result<Recount> {
        let mut get = redis::cmd("HMGET");
        get.arg(&self.goods).arg("Total").arg("Booked");
        let (total, booked): (i64, i64) = wire.ask(&get).await?;
        // Orders that are still in the list count as well as those in the database.
        let mut orders = wire.list(&self.orders).await?;
        orders.extend(self.database.lock().iter().cloned());
        Ok(Recount {
            left: total - booked,
            holders: holders(&orders)?,
            ..Recount::default()
        })
    }
}

pub(super) fn holders(orders: &[String]) -> anyhow::Result<Vec<String>> {
    let holder = |order: &String| {
        let order: Value = serde_json::from_str(order)?;
        Ok(order["userId"]
            .as_str()
            .context("an order has no user")?
            .to_owned())
    };
    orders.iter().map(holder).collect()
}
