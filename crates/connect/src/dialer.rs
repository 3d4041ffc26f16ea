//! How servers are dialled: the one place that opens connections, to primaries and replicas, Sentinels and nodes of a
//! Cluster.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo as _, RedisError,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};

use crate::{error::ConnectError, options::Options};

/// How long a connection may take to be made, unless calls may take less.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Host and port.
pub(crate) type Address = (String, u16);

/// A Sentinel. What it takes to log in there is in its URL.
///
/// # Errors
/// When the URL cannot be read.
pub(crate) fn sentinel(url: &str) -> Result<ConnectionInfo, ConnectError> {
    let info = url
        .into_connection_info()
        .map_err(|error| ConnectError::Options(format!("a Redis URL cannot be read: {error}")))?;
    Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

/// A server that has data. Where the URL names no user or no password, the options' are used.
///
/// # Errors
/// When the URL cannot be read.
pub(crate) fn server(url: &str, options: &Options) -> Result<ConnectionInfo, ConnectError> {
    let info = sentinel(url)?;
    let mut login = info.redis_settings().clone();
    if let (Some(username), None) = (&options.username, login.username()) {
        login = login.set_username(username);
    }
    if let (Some(password), None) = (&options.password, login.password()) {
        login = login.set_password(password);
    }
    if options.database != 0 {
        login = login.set_db(options.database);
    }
    Ok(info.set_redis_settings(login))
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

/// A connection for commands, each of which may take as long as this.
pub(crate) async fn dial(
    server: ConnectionInfo,
    call_timeout: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT_MAX.min(call_timeout)))
        .set_response_timeout(Some(call_timeout));
    Client::open(server)?
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// A connection for subscriptions.
pub(crate) async fn dial_pubsub(
    server: ConnectionInfo,
    call_timeout: Duration,
) -> Result<PubSub, RedisError> {
    let client = Client::open(server)?;
    let timeout = CONNECT_TIMEOUT_MAX.min(call_timeout);
    let dialled = tokio::time::timeout(timeout, client.get_async_pubsub()).await;
    dialled.unwrap_or_else(|_| {
        let text = "a connection for subscriptions took too long";
        Err(RedisError::from((ErrorKind::Io, text)))
    })
}
