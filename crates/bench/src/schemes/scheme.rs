//! Interface of a scheme: it prepares a supply, takes claims over connections, and recounts its own records.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use qiang_core::{id::CampaignId, ports::Engine};
use serde::Serialize;

use super::wire::{Server, Wire};

/// Promise of a scheme, which the benchmark checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Exact {
    /// Nothing: the scheme shows a fault.
    Nothing,
    /// The supply: never oversold, all units sold, and records that agree with the users' answers. The scheme knows no
    /// users, so a user who clicks twice may get two units.
    Supply,
    /// The supply, and one unit per user.
    SupplyAndUsers,
}

/// Published result of a scheme's article, under [`PUBLISHED_CONDITIONS`].
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Published {
    pub(super) qps: u32,
    pub(super) success: &'static str,
}

/// Conditions of the articles' results, as far as they are stated.
pub(super) const PUBLISHED_CONDITIONS: &str =
    "Redis on 4 cores and 8 GB, 10,000 concurrent users on 100 shares";

/// Name and source of a scheme.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct About {
    pub(super) name: &'static str,
    /// The article that publishes it; docs/guide/schemes.md describes them.
    pub(super) source: &'static str,
    pub(super) exact: Exact,
    /// Whether Redis does the work, so that Redis's own statistics belong to the scheme.
    pub(super) on_redis: bool,
    pub(super) published: Option<Published>,
}

/// Outcome of a claim, as the scheme's caller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The user has a unit; its number, if the scheme numbers units.
    Granted {
        unit: Option<u64>,
    },
    /// The user had a unit before.
    Already,
    SoldOut,
    /// Refused without a reason.
    Refused,
}

/// Connection of a scheme, with one claim at a time.
#[async_trait]
pub(super) trait Client: Send {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome>;

    /// Number of calls to the server for claims so far.
    fn round_trips(&self) -> u64;
}

/// Way in which a scheme takes claims.
pub(super) enum Drive {
    /// As the articles' clients: each connection serves one user at a time.
    Clients(Vec<Box<dyn Client>>),
    /// An engine that takes many concurrent claims.
    Engine(Opened),
}

/// Open red packet of an engine.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) campaign: CampaignId,
}

/// Name of the note that counts locks that expired before their release.
pub(super) const LOCK_TIMEOUTS: &str = "lock_timeouts";

/// Recount of a scheme's own records after the load.
#[derive(Debug, Default, Clone)]
pub(super) struct Recount {
    /// Remaining units; below zero if the scheme oversold.
    pub(super) left: i64,
    /// Users with a unit, once per unit.
    pub(super) holders: Vec<String>,
    /// Numbers of the granted units, if units have numbers.
    pub(super) units: Vec<u64>,
    /// Number of users that the scheme would refuse, if it records them separately from their units.
    pub(super) barred: Option<u64>,
    /// Further counters of the scheme.
    pub(super) notes: BTreeMap<&'static str, u64>,
}

/// One run of a scheme: prepare, drive, recount, clean.
#[async_trait]
pub(super) trait Scheme: Send + Sync {
    /// Creates a stock of `supply` units.
    async fn prepare(&self, supply: u32) -> anyhow::Result<()>;

    /// Opens the connections for claims.
    async fn drive(&self, connections: usize) -> anyhow::Result<Drive>;

    /// Waits for asynchronous work after the answers. `granted` is the number of granted units.
    async fn finish(&self, _granted: u64) -> anyhow::Result<()> {
        Ok(())
    }

    async fn recount(&self) -> anyhow::Result<Recount>;

    /// Removes all data of the scheme.
    async fn clean(&self) -> anyhow::Result<()>;

    /// Redis commands that count as round trips, in lower case, for a scheme without clients.
    fn commands(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Redis and unique key prefix of a run.
pub(super) struct Site {
    pub(super) server: Server,
    pub(super) prefix: String,
}

impl Site {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Published scheme on Redis: its keys, and what a connection does for each method of [`Scheme`] and [`Client`].
#[async_trait]
pub(super) trait Recipe: Send + Sync + 'static {
    /// Keys to remove at the end.
    fn keys(&self) -> Vec<&str>;

    async fn prepare(&self, wire: &mut Wire, supply: u32) -> anyhow::Result<()>;

    async fn claim(&self, wire: &mut Wire, user: &str) -> anyhow::Result<Outcome>;

    async fn finish(&self, _granted: u64) -> anyhow::Result<()> {
        Ok(())
    }

    async fn recount(&self, wire: &mut Wire) -> anyhow::Result<Recount>;
}

struct OnRedis<R> {
    server: Server,
    recipe: Arc<R>,
}

pub(super) fn on_redis<R: Recipe>(site: Site, recipe: impl FnOnce(&Site) -> R) -> Box<dyn Scheme> {
    Box::new(OnRedis {
        recipe: Arc::new(recipe(&site)),
        server: site.server,
    })
}

#[async_trait]
impl<R: Recipe> Scheme for OnRedis<R> {
    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let mut wire = self.server.connect().await?;
        self.recipe.prepare(&mut wire, supply).await
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let mut clients = Vec::with_capacity(connections);
        for _ in 0..connections {
            clients.push(Box::new(RedisClient {
                wire: self.server.connect().await?,
                recipe: Arc::clone(&self.recipe),
            }) as Box<dyn Client>);
        }
        Ok(Drive::Clients(clients))
    }

    async fn finish(&self, granted: u64) -> anyhow::Result<()> {
        self.recipe.finish(granted).await
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        self.recipe.recount(&mut self.server.connect().await?).await
    }

    async fn clean(&self) -> anyhow::Result<()> {
        let mut wire = self.server.connect().await?;
        Ok(wire
            .ask(redis::cmd("UNLINK").arg(self.recipe.keys()))
            .await?)
    }
}

struct RedisClient<R> {
    wire: Wire,
    recipe: Arc<R>,
}

#[async_trait]
impl<R: Recipe> Client for RedisClient<R> {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        self.recipe.claim(&mut self.wire, user).await
    }

    fn round_trips(&self) -> u64 {
        self.wire.calls()
    }
}
