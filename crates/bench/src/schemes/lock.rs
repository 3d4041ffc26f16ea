//! `lock`: a counter and a set, with a lock per user around them.
//!
//! Source: an article whose parts are named 具体实现方案, 关键技术点, 压测数据参考 and 特殊场景处理, with keys such as
//! `red_packet:10001:total`.
//!
//! As in the article: a read of the counter (DECRBY 0), `SET NX PX 3000` of a random value, a second read, SISMEMBER, a
//! script of SADD and DECR, and a script that releases the lock only if its value is unchanged. That is six round trips
//! per grant, although the article promises one. Scripts are called by their hash, or by their text if Redis does not
//! know them, as Spring does. The release also runs if the lock was not acquired. Locks that expired before their
//! release are counted, as the article demands.
//!
//! The article's first code, `lock_printed` here, oversells. Its second read allows 0, the script takes a share without
//! a check, and its reply is ignored. The last part of the article adds a guard to the script, with a reply of -2.
//! `lock` is that version, and it reads the reply. Otherwise the guard would protect the stock, but the user would get
//! a success.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use super::{
    scheme::{About, Exact, LOCK_TIMEOUTS, Outcome, Published, Recipe, Recount, Site},
    wire::{Script, Sent, Wire},
};

/// Maximum lifetime of a lock, in milliseconds.
const LOCK_MS: u64 = 3_000;

const SOURCE: &str = "具体实现方案 (red_packet:10001:total)";

pub(super) const ABOUT: About = About {
    name: "lock",
    source: SOURCE,
    exact: Exact::SupplyAndUsers,
    on_redis: true,
    published: Some(Published {
        qps: 8_500,
        success: "100%",
    }),
};

pub(super) const ABOUT_PRINTED: About = About {
    name: "lock_printed",
    source: SOURCE,
    exact: Exact::Nothing,
    on_redis: true,
    published: None,
};

/// Version of the article's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Printed,
    Guarded,
}

pub(super) struct Lock {
    version: Version,
    total: String,
    grabbed: String,
    lock: String,
    grab: Script,
    release: Script,
    timeouts: AtomicU64,
    busy: AtomicU64,
    guarded: AtomicU64,
}

impl Lock {
    pub(super) fn new(site: &Site, version: Version) -> Self {
        let grab = match version {
            Version::Printed => include_str!("lua/lock_grab.lua"),
            Version::Guarded => include_str!("lua/lock_grab_guarded.lua"),
        };
        Self {
            version,
            total: site.key("red_packet:10001:total"),
            grabbed: site.key("red_packet:10001:grabbed"),
            lock: site.key("lock:red_packet:10001"),
            grab: Script::new(grab, Sent::HashFirst),
            release: Script::new(include_str!("lua/lock_release.lua"), Sent::HashFirst),
            timeouts: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            guarded: AtomicU64::new(0),
        }
    }

    async fn remaining(&self, wire: &mut Wire) -> anyhow::Result<i64> {
        Ok(wire
            .ask(redis::cmd("DECRBY").arg(&self.total).arg(0))
            .await?)
    }

    /// Steps between acquiring and releasing the lock.
    async fn under_lock(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome> {
        if self.remaining(wire).await? < 0 {
            return Ok(Outcome::SoldOut);
        }
        let mut member = redis::cmd("SISMEMBER");
        if wire.ask(member.arg(&self.grabbed).arg(user)).await? {
            return Ok(Outcome::Already);
        }
        let keys = [&*self.grabbed, &self.total];
        let reply: i64 = wire.run(&self.grab, &keys, &[user]).await?;
        Ok(match (self.version, reply) {
            (Version::Guarded, -1) => Outcome::Already,
            (Version::Guarded, -2) => {
                self.guarded.fetch_add(1, Ordering::Relaxed);
                Outcome::SoldOut
            }
            _ => Outcome::Granted { unit: None },
        })
    }
}

#[async_trait]
impl Recipe for Lock {
    /// Without the locks: they were released, or expire within [`LOCK_MS`].
    fn keys(&self) -> Vec<&str> {
        vec![&self.total, &self.grabbed]
    }

    async fn prepare(&self, wire: &mut Wire, supply: u32) -> anyhow::Result<()> {
        Ok(wire
            .ask(redis::cmd("SET").arg(&self.total).arg(supply))
            .await?)
    }

    async fn claim(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome> {
        if self.remaining(wire).await? <= 0 {
            return Ok(Outcome::SoldOut);
        }
        let lock = format!("{}:{user}", self.lock);
        let value = format!("{:032x}", rand::random::<u128>());
        let mut take = redis::cmd("SET");
        take.arg(&lock).arg(&value).arg("NX").arg("PX").arg(LOCK_MS);
        let locked: bool = wire.ask::<Option<String>>(&take).await?.is_some();
        let outcome = if locked {
            self.under_lock(wire, user).await
        } else {
            self.busy.fetch_add(1, Ordering::Relaxed);
            Ok(Outcome::Refused)
        };
        let released: i64 = wire.run(&self.release, &[&lock], &[&value]).await?;
        if locked && released == 0 {
            self.timeouts.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    async fn recount(&self, wire: &mut Wire) -> anyhow::Result<Recount> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Recount {
            left: wire.ask(redis::cmd("GET").arg(&self.total)).await?,
            holders: wire.set(&self.grabbed).await?,
            notes: [
                (LOCK_TIMEOUTS, count(&self.timeouts)),
                ("lock_busy", count(&self.busy)),
                ("guard_refusals", count(&self.guarded)),
            ]
            .into(),
            ..Recount::default()
        })
    }
}
