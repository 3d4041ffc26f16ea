//! Opening connections: the one place that says how servers are dialled, primaries and replicas as well as Sentinels
//! and nodes of a Cluster.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    RedisError,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};

use crate::{error::ConnectError, options::Options};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Host and port.
pub(crate) type Address = (String, u16);

/// Opens connections to servers.
pub(crate) struct Dialer {
    username: Option<String>,
    password: Option<String>,
    database: i64,
    call_timeout: Duration,
}

impl Dialer {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            username: options.username.clone(),
            password: options.password.clone(),
            database: options.database,
            call_timeout: options.call_timeout,
        }
    }

    /// A Sentinel. What it takes to log in there is in its URL.
    ///
    /// # Errors
    /// When the URL cannot be read.
    pub(crate) fn sentinel(&self, url: &str) -> Result<ConnectionInfo, ConnectError> {
        let info = url.into_connection_info().map_err(|error| {
            ConnectError::Options(format!("a Redis URL cannot be read: {error}"))
        })?;
        Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
    }

    /// A server that has data. Where the URL names no user or no password, the options' are used.
    ///
    /// # Errors
    /// When the URL cannot be read.
    pub(crate) fn server(&self, url: &str) -> Result<ConnectionInfo, ConnectError> {
        let info = self.sentinel(url)?;
        let mut login = info.redis_settings().clone();
        if let (Some(username), None) = (&self.username, login.username()) {
            login = login.set_username(username);
        }
        if let (Some(password), None) = (&self.password, login.password()) {
            login = login.set_password(password);
        }
        if self.database != 0 {
            login = login.set_db(self.database);
        }
        Ok(info.set_redis_settings(login))
    }

    /// A connection for commands, with the usual timeouts.
    pub(crate) async fn dial(
        &self,
        server: ConnectionInfo,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout()))
            .set_response_timeout(Some(self.call_timeout));
        Client::open(server)?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// A connection for subscriptions.
    pub(crate) async fn dial_pubsub(&self, server: ConnectionInfo) -> Result<PubSub, RedisError> {
        let client = Client::open(server)?;
        tokio::time::timeout(self.connect_timeout(), client.get_async_pubsub())
            .await
            .map_err(|_| RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)))?
    }

    fn connect_timeout(&self) -> Duration {
        CONNECT_TIMEOUT_MAX.min(self.call_timeout)
    }
}

/// The server at another address that is dialled as this one is: with TLS or without, with the same login.
pub(crate) fn at(server: &ConnectionInfo, (host, port): Address) -> ConnectionInfo {
    let addr = match server.addr() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    server.clone().set_addr(addr)
}

/// The host that a server is dialled at.
pub(crate) fn host_of(server: &ConnectionInfo) -> &str {
    match server.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}
