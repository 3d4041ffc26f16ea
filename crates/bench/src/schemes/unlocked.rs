//! `unlocked`: reads the counter, then decrements it without a lock.
//!
//! Source: the row 无锁方案 in the table of the article that publishes `lock`; it prints no code for it. Ours does what the
//! row describes: GET, and if units are left DECR and SADD, each as a separate call. It oversells, which it is here to
//! show, and a second click takes a second unit.

use async_trait::async_trait;

use super::{
    scheme::{About, Exact, Outcome, Published, Recipe, Recount, Site},
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

pub(super) struct Unlocked {
    total: String,
    grabbed: String,
}

impl Unlocked {
    pub(super) fn new(site: &Site) -> Self {
        Self {
            total: site.key("red_packet:10001:total"),
            grabbed: site.key("red_packet:10001:grabbed"),
        }
    }
}

#[async_trait]
impl Recipe for Unlocked {
    fn keys(&self) -> Vec<&str> {
        vec![&self.total, &self.grabbed]
    }

    async fn prepare(&self, wire: &mut Wire, supply: u32) -> anyhow::Result<()> {
        Ok(wire
            .ask(redis::cmd("SET").arg(&self.total).arg(supply))
            .await?)
    }

    async fn claim(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome> {
        let left: i64 = wire.ask(redis::cmd("GET").arg(&self.total)).await?;
        if left <= 0 {
            return Ok(Outcome::SoldOut);
        }
        wire.ask::<()>(redis::cmd("DECR").arg(&self.total)).await?;
        wire.ask::<()>(redis::cmd("SADD").arg(&self.grabbed).arg(user))
            .await?;
        Ok(Outcome::Granted { unit: None })
    }

    async fn recount(&self, wire: &mut Wire) -> anyhow::Result<Recount> {
        Ok(Recount {
            left: wire.ask(redis::cmd("GET").arg(&self.total)).await?,
            holders: wire.set(&self.grabbed).await?,
            ..Recount::default()
        })
    }
}
