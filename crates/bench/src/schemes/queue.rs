//! `queue`: shares in a list, taken by a script whose text travels with every claim.
//!
//! Source: 利用redis + lua解决抢红包高并发的问题 (blog.csdn.net/hengyunabc/article/details/19433779), and the same script
//! again in an article on 抢红包设计 that begins 「思路:第一:生成红包队列hongBaoList」.
//!
//! As there: EVAL and not EVALSHA (their SCRIPT LOAD is never used), the user passed among the keys, one claim a call,
//! shares as JSON that the script decodes and encodes. Their test asks LLEN after each nil to learn when to stop; our
//! load knows its users and does not ask, which spares this scheme a round trip a loser. Nil means both "you have one"
//! and "none is left". A thread of theirs later carries the second list into a database; it is no part of their test.

use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    scheme::{About, Client, Drive, Exact, Outcome, Published, Recount, Scheme, Site},
    wire::{PAGE, Script, Wire},
};

pub(super) const ABOUT: About = About {
    name: "queue",
    source: "利用redis + lua解决抢红包高并发的问题",
    exact: Exact::SupplyAndUsers,
    on_redis: true,
    published: Some(Published {
        qps: 12_000,
        success: "100%",
    }),
};

/// The lists and the map of the articles, and their script.
struct Parts {
    waiting: String,
    consumed: String,
    users: String,
    take: Script,
}

pub(super) struct Queue {
    site: Site,
    parts: Arc<Parts>,
}

impl Queue {
    pub(super) fn new(site: Site) -> Self {
        let parts = Parts {
            waiting: site.key("hongBaoList"),
            consumed: site.key("hongBaoConsumedList"),
            users: site.key("hongBaoConsumedMap"),
            take: Script::new(include_str!("lua/queue_take.lua")),
        };
        Self {
            site,
            parts: Arc::new(parts),
        }
    }
}

#[async_trait]
impl Scheme for Queue {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let mut wire = self.site.server.connect().await?;
        let numbers: Vec<u32> = (0..supply).collect();
        for page in numbers.chunks(PAGE) {
            let mut push = redis::cmd("LPUSH");
            push.arg(&self.parts.waiting);
            for number in page {
                push.arg(json!({ "id": number, "money": number }).to_string());
            }
            wire.ask::<()>(&push).await?;
        }
        Ok(())
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let client = |wire| QueueClient {
            wire,
            parts: Arc::clone(&self.parts),
        };
        self.site.clients(connections, client).await
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let mut wire = self.site.server.connect().await?;
        let mut recount = Recount {
            left: wire
                .ask(redis::cmd("LLEN").arg(&self.parts.waiting))
                .await?,
            barred: Some(wire.ask(redis::cmd("HLEN").arg(&self.parts.users)).await?),
            ..Recount::default()
        };
        for share in wire.list(&self.parts.consumed).await? {
            let share: Value = serde_json::from_str(&share)?;
            let user = share["userId"]
                .as_str()
                .context("a consumed share without a user")?;
            recount.holders.push(user.to_owned());
            recount.units.push(number_of(&share)?);
        }
        Ok(recount)
    }

    async fn clean(&self) -> anyhow::Result<()> {
        let parts = &self.parts;
        self.site
            .unlink(&[&parts.waiting, &parts.consumed, &parts.users])
            .await
    }
}

fn number_of(share: &Value) -> anyhow::Result<u64> {
    share["id"].as_u64().context("a share without a number")
}

struct QueueClient {
    wire: Wire,
    parts: Arc<Parts>,
}

#[async_trait]
impl Client for QueueClient {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        let parts = &self.parts;
        let keys = [&*parts.waiting, &parts.consumed, &parts.users, user];
        let share: Option<String> = self.wire.eval(&parts.take, &keys, &[]).await?;
        let Some(share) = share else {
            return Ok(Outcome::Refused);
        };
        let unit = Some(number_of(&serde_json::from_str(&share)?)?);
        Ok(Outcome::Granted { unit })
    }

    fn round_trips(&self) -> u64 {
        self.wire.calls()
    }
}
