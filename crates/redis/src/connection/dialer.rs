//! Dialer: the only place that opens connections to primaries, replicas, Sentinels and Cluster nodes.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind,
    IntoConnectionInfo as _, RedisError,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};

use crate::connection::{error::ConnectError, options::RedisOptions};

/// Time limit for opening a connection, unless the limit of calls is shorter.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Host and port.
pub(crate) type Address = (String, u16);

/// Connection settings of a Sentinel. The URL has its login.
///
/// # Errors
/// If the URL cannot be parsed.
pub(crate) fn sentinel(url: &str) -> Result<ConnectionInfo, ConnectError> {
    let info = url
        .into_connection_info()
        .map_err(|error| ConnectError::Options(format!("invalid Redis URL: {error}")))?;
    Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
}

/// Connection settings of a data server. User and password of the options apply if the URL has none.
///
/// # Errors
/// If the URL cannot be parsed.
pub(crate) fn server(url: &str, options: &RedisOptions) -> Result<ConnectionInfo, ConnectError> {
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

/// Settings of `server` with another address: the same TLS settings and login.
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

/// Host of a server's address.
pub(crate) fn host_of(server: &ConnectionInfo) -> &str {
    match server.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}

/// Opens a connection for commands. `call_timeout` limits each command.
pub(crate) async fn dial(
    server: ConnectionInfo,
    call_timeout: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT_MAX.min(call_timeout)))
        .set_response_timeout(Some(call_timeout));
    let address = server.addr().clone();
    let dialled = Client::open(server)?
        .get_multiplexed_async_connection_with_config(&config)
        .await;
    match &dialled {
        Ok(_) => tracing::debug!(%address, "connected to Redis"),
        Err(error) => tracing::debug!(%address, %error, "cannot connect to Redis"),
    }
    dialled
}

/// Opens a connection for subscriptions.
pub(crate) async fn dial_pubsub(
    server: ConnectionInfo,
    call_timeout: Duration,
) -> Result<PubSub, RedisError> {
    let client = Client::open(server)?;
    let timeout = CONNECT_TIMEOUT_MAX.min(call_timeout);
    let dialled = tokio::time::timeout(timeout, client.get_async_pubsub()).await;
    dialled.unwrap_or_else(|_| {
        let text = "time limit exceeded while opening a connection for subscriptions";
        Err(RedisError::from((ErrorKind::Io, text)))
    })
}
