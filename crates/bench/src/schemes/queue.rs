//! `queue`: shares in a list, taken by a script whose text is sent with every claim.
//!
//! Source: 利用redis + lua解决抢红包高并发的问题 (blog.csdn.net/hengyunabc/article/details/19433779), and the same script again in
//! an article on 抢红包设计 that begins 「思路:第一:生成红包队列hongBaoList」.
//!
//! As in the articles: EVAL instead of EVALSHA (their SCRIPT LOAD is never used), the user passed as a key, one claim
//! per call, shares as JSON that the script decodes and encodes. Their test calls LLEN after each nil to learn when to
//! stop. Our load knows its users and does not call it, which spares this scheme a round trip per loser. Nil means both
//! "you have a share" and "none is left". A thread of theirs later copies the second list to a database; it is no part
//! of their test.

use anyhow::Context as _;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    scheme::{About, Exact, Outcome, Published, Recipe, Recount, Site},
    wire::{PAGE, Script, Sent, Wire},
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

pub(super) struct Queue {
    waiting: String,
    consumed: String,
    users: String,
    take: Script,
}

impl Queue {
    pub(super) fn new(site: &Site) -> Self {
        Self {
            waiting: site.key("hongBaoList"),
            consumed: site.key("hongBaoConsumedList"),
            users: site.key("hongBaoConsumedMap"),
            take: Script::new(include_str!("lua/queue_take.lua"), Sent::Text),
        }
    }
}

#[async_trait]
impl Recipe for Queue {
    fn keys(&self) -> Vec<&str> {
        vec![&self.waiting, &self.consumed, &self.users]
    }

    async fn prepare(&self, wire: &mut Wire, supply: u32) -> anyhow::Result<()> {
        let numbers: Vec<u32> = (0..supply).collect();
        for page in numbers.chunks(PAGE) {
            let mut push = redis::cmd("LPUSH");
            push.arg(&self.waiting);
            for number in page {
                push.arg(json!({ "id": number, "money": number }).to_string());
            }
            wire.ask::<()>(&push).await?;
        }
        Ok(())
    }

    async fn claim(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome> {
        let keys = [&*self.waiting, &self.consumed, &self.users, user];
        let share: Option<String> = wire.run(&self.take, &keys, &[]).await?;
        let Some(share) = share else {
            return Ok(Outcome::Refused);
        };
        let unit = Some(number_of(&serde_json::from_str(&share)?)?);
        Ok(Outcome::Granted { unit })
    }

    async fn recount(&self, wire: &mut Wire) -> anyhow::Result<Recount> {
        let mut recount = Recount {
            left: wire.ask(redis::cmd("LLEN").arg(&self.waiting)).await?,
            barred: Some(wire.ask(redis::cmd("HLEN").arg(&self.users)).await?),
            ..Recount::default()
        };
        for share in wire.list(&self.consumed).await? {
            let share: Value = serde_json::from_str(&share)?;
            let user = share["userId"]
                .as_str()
                .context("a consumed share has no user")?;
            recount.holders.push(user.to_owned());
            recount.units.push(number_of(&share)?);
        }
        Ok(recount)
    }
}

fn number_of(share: &Value) -> anyhow::Result<u64> {
    share["id"].as_u64().context("a share has no number")
}
