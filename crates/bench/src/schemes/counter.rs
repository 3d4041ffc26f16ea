//! `counter`: a hash of Total and Booked, and a list that carries the orders to whoever writes them into a database.
//!
//! Source: an article of 2021-11-07 on 云数据库Redis版缓存设计高并发的秒杀系统.
//!
//! As there: SCRIPT LOAD beforehand and EVALSHA by each claim, without a second try when Redis has lost the script;
//! then LPUSH of the order; a module of its own takes the orders by `BRPOP orderList 0`. What it would write into its
//! database, ours writes into memory. The article's layers in front (CDN, read replicas, a number of orders let
//! through) turn users away before this and are left out. No user is known here: who clicks twice can get two, so the
//! scheme must be exact in its supply and its orders alone.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    scheme::{About, Client, Drive, Exact, Outcome, Recount, Scheme, Site},
    wire::{Script, Wire},
};

/// How long the orders' consumer may need after the last claim.
const CONSUMER_MAX: Duration = Duration::from_secs(60);
/// How often it is looked at.
const CONSUMER_LOOK: Duration = Duration::from_millis(2);

pub(super) const ABOUT: About = About {
    name: "counter",
    source: "云数据库Redis版缓存设计高并发的秒杀系统",
    exact: Exact::Supply,
    on_redis: true,
    published: None,
};

struct Parts {
    goods: String,
    orders: String,
    book: Script,
}

pub(super) struct Counter {
    site: Site,
    parts: Arc<Parts>,
    /// Stands for the database.
    database: Arc<Mutex<Vec<String>>>,
    consumer: Mutex<Option<JoinHandle<anyhow::Result<()>>>>,
}

impl Counter {
    pub(super) fn new(site: Site) -> Self {
        let parts = Parts {
            goods: site.key("goodsId"),
            orders: site.key("orderList"),
            book: Script::new(include_str!("lua/counter_book.lua")),
        };
        Self {
            site,
            parts: Arc::new(parts),
            database: Arc::default(),
            consumer: Mutex::new(None),
        }
    }

    fn stop_consumer(&self) {
        if let Some(consumer) = self.consumer.lock().take() {
            consumer.abort();
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.stop_consumer();
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
impl Scheme for Counter {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let mut wire = self.site.server.connect().await?;
        let mut set = redis::cmd("HSET");
        set.arg(&self.parts.goods)
            .arg("Total")
            .arg(supply)
            .arg("Booked")
            .arg(0);
        wire.ask::<()>(&set).await?;
        self.parts.book.load(&mut wire).await?;
        Ok(())
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let wire = self.site.server.connect_blocking().await?;
        let orders = self.parts.orders.clone();
        let consumer = tokio::spawn(consume(wire, orders, Arc::clone(&self.database)));
        *self.consumer.lock() = Some(consumer);
        let client = |wire| CounterClient {
            wire,
            parts: Arc::clone(&self.parts),
        };
        self.site.clients(connections, client).await
    }

    async fn finish(&self, granted: u64) -> anyhow::Result<()> {
        let give_up = Instant::now() + CONSUMER_MAX;
        while (self.database.lock().len() as u64) < granted {
            let ended = self
                .consumer
                .lock()
                .as_ref()
                .is_none_or(JoinHandle::is_finished);
            ensure!(
                !ended,
                "the consumer of the orders ended before they were all there"
            );
            if Instant::now() > give_up {
                bail!("the consumer of the orders was not done after {CONSUMER_MAX:?}");
            }
            tokio::time::sleep(CONSUMER_LOOK).await;
        }
        Ok(())
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let mut wire = self.site.server.connect().await?;
        let mut get = redis::cmd("HMGET");
        get.arg(&self.parts.goods).arg("Total").arg("Booked");
        let (total, booked): (i64, i64) = wire.ask(&get).await?;
        // What nobody has taken from the list is as much an order as what is in the database.
        let mut orders = wire.list(&self.parts.orders).await?;
        orders.extend(self.database.lock().iter().cloned());
        Ok(Recount {
            left: total - booked,
            holders: holders(&orders)?,
            ..Recount::default()
        })
    }

    async fn clean(&self) -> anyhow::Result<()> {
        self.stop_consumer();
        self.site
            .unlink(&[&self.parts.goods, &self.parts.orders])
            .await
    }
}

/// Whose the orders are.
pub(super) fn holders(orders: &[String]) -> anyhow::Result<Vec<String>> {
    let holder = |order: &String| {
        let order: Value = serde_json::from_str(order)?;
        Ok(order["userId"]
            .as_str()
            .context("an order without a user")?
            .to_owned())
    };
    orders.iter().map(holder).collect()
}

struct CounterClient {
    wire: Wire,
    parts: Arc<Parts>,
}

#[async_trait]
impl Client for CounterClient {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        let parts = &self.parts;
        let taken: u64 = self
            .wire
            .evalsha(&parts.book, &[&parts.goods], &["1"])
            .await?;
        if taken == 0 {
            return Ok(Outcome::SoldOut);
        }
        // A crash here loses the order, and its unit is booked for good.
        let order = json!({ "goodsId": "goodsId", "userId": user, "count": taken }).to_string();
        let mut push = redis::cmd("LPUSH");
        self.wire
            .ask::<()>(push.arg(&parts.orders).arg(order))
            .await?;
        Ok(Outcome::Granted { unit: None })
    }

    fn round_trips(&self) -> u64 {
        self.wire.calls()
    }
}
