//! `unlocked`: reads the counter, then takes from it as if nothing could have happened in between.
//!
//! Source: the row 无锁方案 in the table of the article that publishes `lock`; it prints no code for it. Ours is what the
//! row describes: GET, and when something is left DECR and SADD, each for itself. It oversells, which is what it is
//! here to show, and a second click takes a second unit.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    scheme::{About, Client, Drive, Exact, Outcome, Published, Recount, Scheme, Site},
    wire::Wire,
};

pub(super) const ABOUT: About = About {
    name: "unlocked",
    source: "无锁方案, a row of the table in lock's article",
    exact: Exact::Nothing,
    on_redis: true,
    published: Some(Published {
        qps: 28_000,
        success: "73%, oversold",
    }),
};

struct Parts {
    total: String,
    grabbed: String,
}

pub(super) struct Unlocked {
    site: Site,
    parts: Arc<Parts>,
}

impl Unlocked {
    pub(super) fn new(site: Site) -> Self {
        let parts = Parts {
            total: site.key("red_packet:10001:total"),
            grabbed: site.key("red_packet:10001:grabbed"),
        };
        Self {
            site,
            parts: Arc::new(parts),
        }
    }
}

#[async_trait]
impl Scheme for Unlocked {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let mut wire = self.site.server.connect().await?;
        let mut set = redis::cmd("SET");
        Ok(wire.ask(set.arg(&self.parts.total).arg(supply)).await?)
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let client = |wire| UnlockedClient {
            wire,
            parts: Arc::clone(&self.parts),
        };
        self.site.clients(connections, client).await
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let mut wire = self.site.server.connect().await?;
        Ok(Recount {
            left: wire.ask(redis::cmd("GET").arg(&self.parts.total)).await?,
            holders: wire.set(&self.parts.grabbed).await?,
            ..Recount::default()
        })
    }

    async fn clean(&self) -> anyhow::Result<()> {
        self.site
            .unlink(&[&self.parts.total, &self.parts.grabbed])
            .await
    }
}

struct UnlockedClient {
    wire: Wire,
    parts: Arc<Parts>,
}

#[async_trait]
impl Client for UnlockedClient {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        let left: i64 = self
            .wire
            .ask(redis::cmd("GET").arg(&self.parts.total))
            .await?;
        if left <= 0 {
            return Ok(Outcome::SoldOut);
        }
        self.wire
            .ask::<()>(redis::cmd("DECR").arg(&self.parts.total))
            .await?;
        let mut add = redis::cmd("SADD");
        self.wire
            .ask::<()>(add.arg(&self.parts.grabbed).arg(user))
            .await?;
        Ok(Outcome::Granted { unit: None })
    }

    fn round_trips(&self) -> u64 {
        self.wire.calls()
    }
}
