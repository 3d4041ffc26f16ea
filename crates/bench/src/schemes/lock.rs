//! `lock`: a counter and a set, with a lock for each user around them.
//!
//! Source: an article whose parts are named 具体实现方案, 关键技术点, 压测数据参考 and 特殊场景处理, with keys such as
//! `red_packet:10001:total`.
//!
//! As there: a look at the counter (DECRBY 0), `SET NX PX 3000` of a random value, a second look, SISMEMBER, a
//! script of SADD and DECR, and a script that releases the lock only if it is still one's own: six round trips a
//! grant, although the article promises one. Scripts go by their hash, by their text where Redis does not know
//! it, as Spring does it. The release also runs when the lock was not got. Locks that had expired before their
//! release are counted, which the article asks for.
//!
//! The code that is printed first, `lock_printed` here, oversells: its second look lets 0 pass, the script takes
//! a share without looking, and its reply is thrown away. The article's last part adds a guard to the script,
//! with a reply of -2. `lock` is that version, and it reads the reply: without that the guard would keep the
//! stock and still tell the user of a share.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;

use super::{
    scheme::{About, Client, Drive, Exact, Outcome, Published, Recount, Scheme, Site},
    wire::{Script, Wire},
};

/// How long a lock is held at most.
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

/// Which of the article's two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Printed,
    Guarded,
}

struct Parts {
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

pub(super) struct Lock {
    site: Site,
    parts: Arc<Parts>,
}

impl Lock {
    pub(super) fn new(site: Site, version: Version) -> Self {
        let grab = match version {
            Version::Printed => include_str!("lua/lock_grab.lua"),
            Version::Guarded => include_str!("lua/lock_grab_guarded.lua"),
        };
        let parts = Parts {
            version,
            total: site.key("red_packet:10001:total"),
            grabbed: site.key("red_packet:10001:grabbed"),
            lock: site.key("lock:red_packet:10001"),
            grab: Script::new(grab),
            release: Script::new(include_str!("lua/lock_release.lua")),
            timeouts: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            guarded: AtomicU64::new(0),
        };
        Self {
            site,
            parts: Arc::new(parts),
        }
    }
}

#[async_trait]
impl Scheme for Lock {
    fn about(&self) -> &'static About {
        match self.parts.version {
            Version::Printed => &ABOUT_PRINTED,
            Version::Guarded => &ABOUT,
        }
    }

    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let mut wire = self.site.server.connect().await?;
        let mut set = redis::cmd("SET");
        Ok(wire.ask(set.arg(&self.parts.total).arg(supply)).await?)
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let client = |wire| LockClient {
            wire,
            parts: Arc::clone(&self.parts),
        };
        self.site.clients(connections, client).await
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let mut wire = self.site.server.connect().await?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(Recount {
            left: wire.ask(redis::cmd("GET").arg(&self.parts.total)).await?,
            holders: wire.set(&self.parts.grabbed).await?,
            notes: [
                ("lock_timeouts", count(&self.parts.timeouts)),
                ("lock_busy", count(&self.parts.busy)),
                ("guard_refusals", count(&self.parts.guarded)),
            ]
            .into(),
            ..Recount::default()
        })
    }

    async fn clean(&self) -> anyhow::Result<()> {
        // Locks were released, or expire within LOCK_MS.
        self.site
            .unlink(&[&self.parts.total, &self.parts.grabbed])
            .await
    }
}

struct LockClient {
    wire: Wire,
    parts: Arc<Parts>,
}

impl LockClient {
    async fn remaining(&mut self) -> anyhow::Result<i64> {
        let mut look = redis::cmd("DECRBY");
        Ok(self.wire.ask(look.arg(&self.parts.total).arg(0)).await?)
    }

    /// What happens between taking the lock and releasing it.
    async fn under_lock(&mut self, user: &str) -> anyhow::Result<Outcome> {
        if self.remaining().await? < 0 {
            return Ok(Outcome::SoldOut);
        }
        let parts = Arc::clone(&self.parts);
        let mut member = redis::cmd("SISMEMBER");
        if self.wire.ask(member.arg(&parts.grabbed).arg(user)).await? {
            return Ok(Outcome::Already);
        }
        let keys = [&*parts.grabbed, &parts.total];
        let reply: i64 = self
            .wire
            .evalsha_or_eval(&parts.grab, &keys, &[user])
            .await?;
        Ok(match (parts.version, reply) {
            (Version::Guarded, -1) => Outcome::Already,
            (Version::Guarded, -2) => {
                parts.guarded.fetch_add(1, Ordering::Relaxed);
                Outcome::SoldOut
            }
            _ => Outcome::Granted { unit: None },
        })
    }
}

#[async_trait]
impl Client for LockClient {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        if self.remaining().await? <= 0 {
            return Ok(Outcome::SoldOut);
        }
        let parts = Arc::clone(&self.parts);
        let lock = format!("{}:{user}", parts.lock);
        let value = format!("{:032x}", rand::random::<u128>());
        let mut take = redis::cmd("SET");
        take.arg(&lock).arg(&value).arg("NX").arg("PX").arg(LOCK_MS);
        let locked: bool = self.wire.ask::<Option<String>>(&take).await?.is_some();
        let outcome = if locked {
            self.under_lock(user).await
        } else {
            parts.busy.fetch_add(1, Ordering::Relaxed);
            Ok(Outcome::Refused)
        };
        let released: i64 = self
            .wire
            .evalsha_or_eval(&parts.release, &[&lock], &[&value])
            .await?;
        if locked && released == 0 {
            parts.timeouts.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn round_trips(&self) -> u64 {
        self.wire.calls()
    }
}
