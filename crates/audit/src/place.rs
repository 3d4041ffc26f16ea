//! Where the engine is that a ledger is held against.

use redis::{ConnectionInfo, IntoConnectionInfo as _};

/// An engine on Redis.
#[derive(Clone)]
pub struct EnginePlace {
    /// The server, the Sentinels, or some nodes of the Cluster; the first that answers is used.
    pub urls: Vec<String>,
    /// What is at those URLs.
    pub topology: Topology,
    /// The user to log in as, where a URL names none.
    pub username: Option<String>,
    /// The password, where a URL has none.
    pub password: Option<String>,
    /// The database; 0 leaves it to the URL.
    pub database: i64,
    /// What the engine's keys begin with.
    pub prefix: String,
    /// How many partitions it has; none to ask it.
    pub partitions: Option<u16>,
}

/// What is at the URLs of an [`EnginePlace`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone,
    /// Sentinels that watch a primary.
    Sentinel {
        /// The name that they know it by.
        master: String,
    },
    /// Nodes of a Redis Cluster.
    Cluster,
}

impl EnginePlace {
    /// The URLs, read one after the other.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = anyhow::Result<ConnectionInfo>> {
        let read = |url: &String| {
            url.as_str().into_connection_info().map_err(|_| {
                anyhow::anyhow!(
                    "the engine's URL cannot be read: it is redis://USER:PASSWORD@HOST:PORT/DATABASE"
                )
            })
        };
        self.urls.iter().map(read)
    }

    /// How to log in at its servers: what a URL does not say of user, password and database is added.
    pub(crate) fn login(&self, seed: &ConnectionInfo) -> ConnectionInfo {
        let mut settings = seed.redis_settings().clone();
        if let Some(username) = &self.username
            && settings.username().is_none()
        {
            settings = settings.set_username(username.as_str());
        }
        if let Some(password) = &self.password
            && settings.password().is_none()
        {
            settings = settings.set_password(password.as_str());
        }
        if self.database != 0 {
            settings = settings.set_db(self.database);
        }
        seed.clone().set_redis_settings(settings)
    }
}
