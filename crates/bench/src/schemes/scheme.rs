//! What a scheme is to the benchmark: it prepares a supply, hands it out over connections, and lets its own records
//! be counted again.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use qiang_core::{id::CampaignId, ports::Engine};
use serde::Serialize;

use super::wire::{Server, Wire};

/// What a scheme promises, and is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Exact {
    /// Nothing: it is there to show what goes wrong.
    Nothing,
    /// The supply: never a unit more, none left behind, and its records agree with what users were answers. It knows
    /// no users, so somebody who asks twice may get twice.
    Supply,
    /// The supply, and one unit a user.
    SupplyAndUsers,
}

/// What a scheme's article says of it, under its own conditions ([`PUBLISHED_CONDITIONS`]).
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Published {
    pub(super) qps: u32,
    pub(super) success: &'static str,
}

/// Under what the articles' figures were taken, as far as they say.
pub(super) const PUBLISHED_CONDITIONS: &str =
    "Redis on 4 cores and 8 GB, 10,000 concurrent users on 100 shares";

/// A scheme's name and where it comes from.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct About {
    pub(super) name: &'static str,
    /// The article that publishes it; docs/guide/schemes.md tells them apart.
    pub(super) source: &'static str,
    pub(super) exact: Exact,
    /// Whether its work is Redis's, and so what Redis says of its own work belongs to it.
    pub(super) on_redis: bool,
    pub(super) published: Option<Published>,
}

/// What a claim came to, as the scheme's caller learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The user has a unit; its number, if the scheme tells units apart.
    Granted {
        unit: Option<u64>,
    },
    /// The user had one before.
    Already,
    SoldOut,
    /// No, and the scheme does not say why.
    Refused,
}

/// One connection of a scheme: one claim at a time.
#[async_trait]
pub(super) trait Client: Send {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome>;

    /// Calls to the server that were made for claims and waited for, so far.
    fn round_trips(&self) -> u64;
}

/// How a scheme takes claims.
pub(super) enum Drive {
    /// As the articles' clients do: each connection serves one user at a time.
    Clients(Vec<Box<dyn Client>>),
    /// An engine that takes many claims at once and answers each by its ticket.
    Engine(Opened),
}

/// A red packet of an engine, open for claims.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) campaign: CampaignId,
}

/// The note that counts locks which had expired before their holder released them.
pub(super) const LOCK_TIMEOUTS: &str = "lock_timeouts";

/// What a scheme's own records say, counted again after the load.
#[derive(Debug, Default, Clone)]
pub(super) struct Recount {
    /// Units that are left; below zero when more were taken than there were.
    pub(super) left: i64,
    /// Who has a unit, once for each.
    pub(super) holders: Vec<String>,
    /// Which units, where they have numbers.
    pub(super) units: Vec<u64>,
    /// Users that the scheme would refuse from now on, where it keeps them apart from what they got.
    pub(super) barred: Option<u64>,
    /// What the scheme counts for itself.
    pub(super) notes: BTreeMap<&'static str, u64>,
}

/// One run of a scheme: prepared once, driven once, counted again, and cleaned away.
#[async_trait]
pub(super) trait Scheme: Send + Sync {
    /// Puts `supply` units in place.
    async fn prepare(&self, supply: u32) -> anyhow::Result<()>;

    /// Opens what claims are sent over.
    async fn drive(&self, connections: usize) -> anyhow::Result<Drive>;

    /// Waits until what goes on behind the answers is done; `granted` users were granted a unit.
    async fn finish(&self, _granted: u64) -> anyhow::Result<()> {
        Ok(())
    }

    async fn recount(&self) -> anyhow::Result<Recount>;

    /// Removes all that it put anywhere.
    async fn clean(&self) -> anyhow::Result<()>;

    /// For a scheme that is not driven by clients: the Redis commands that are its round trips, in small letters.
    fn commands(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Where a run of a scheme keeps its keys: one Redis, one prefix that nobody else has.
pub(super) struct Site {
    pub(super) server: Server,
    pub(super) prefix: String,
}

impl Site {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// A published scheme on Redis: what it keeps there, and what a connection does for each method of [`Scheme`] and
/// [`Client`].
#[async_trait]
pub(super) trait Recipe: Send + Sync + 'static {
    /// The keys that are removed at the end.
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
