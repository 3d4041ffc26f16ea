//! Address of the engine with which a ledger is compared.

use redis::{ConnectionInfo, IntoConnectionInfo as _};

/// Address of an engine on Redis.
#[derive(Clone)]
pub struct EnginePlace {
    /// URLs of the server, the Sentinels, or some nodes of the Cluster. The first one that answers is used.
    pub urls: Vec<String>,
    /// Kind of servers at the URLs.
    pub topology: ServerKind,
    /// User for URLs without one.
    pub username: Option<String>,
    /// Password for URLs without one.
    pub password: Option<String>,
    /// Database; 0 uses the database of the URL.
    pub database: i64,
    /// Prefix of the engine's keys.
    pub prefix: String,
    /// Number of partitions; `None` to read it from the engine.
    pub partitions: Option<u16>,
}

/// Kind of servers at the URLs of an [`EnginePlace`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerKind {
    /// One server.
    Standalone,
    /// Sentinels that watch a primary.
    Sentinel {
        /// Name of the primary at the Sentinels.
        master: String,
    },
    /// Nodes of a Redis Cluster.
    Cluster,
}

impl EnginePlace {
    /// Parses the URLs in order.
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

    /// Connection settings for its servers: the URL's ones, completed by the configured user, password and database.
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
