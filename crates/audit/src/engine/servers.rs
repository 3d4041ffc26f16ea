//! Servers of the engine: one server, the primary that Sentinels know, or the nodes of a Cluster.

use anyhow::Context as _;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError,
    aio::MultiplexedConnection,
};

use super::ANSWER_MAX;
use crate::place::{EnginePlace, ServerKind};

/// Maximum redirections for one key. One is enough unless the Cluster is changing.
const REDIRECTIONS_MAX: usize = 5;

/// Host and port.
type Address = (String, u16);

pub(super) struct Servers {
    clustered: bool,
    /// Login and TLS settings of the servers; Sentinels may have others.
    server: ConnectionInfo,
    /// First node, followed by nodes to which the Cluster redirected.
    nodes: Vec<(Address, MultiplexedConnection)>,
}

impl Servers {
    /// Connects to the first server that answers, or to the primary that the first answering Sentinel knows.
    pub(super) async fn connect(engine: &EnginePlace) -> anyhow::Result<Self> {
        let mut failed = anyhow::anyhow!("there is no URL");
        for seed in engine.seeds() {
            match Self::through(engine, &seed?).await {
                Ok(servers) => return Ok(servers),
                Err(error) => failed = error,
            }
        }
        Err(failed.context("cannot connect to Redis"))
    }

    async fn through(engine: &EnginePlace, seed: &ConnectionInfo) -> anyhow::Result<Self> {
        let server = engine.login(seed);
        let (place, info) = if let ServerKind::Sentinel { master } = &engine.topology {
            let mut sentinel = open(seed.clone()).await?;
            let asked = redis::cmd("SENTINEL")
                .arg("get-master-addr-by-name")
                .arg(master)
                .query_async::<Option<Address>>(&mut sentinel)
                .await?;
            let place = asked.with_context(|| format!("the Sentinels know no primary {master}"))?;
            let info = at(&server, place.clone());
            (place, info)
        } else {
            (place_of(seed), server.clone())
        };
        Ok(Self {
            clustered: engine.topology == ServerKind::Cluster,
            server,
            nodes: vec![(place, open(info).await?)],
        })
    }

    /// Connection to the server that has a key.
    pub(super) async fn for_key(&mut self, key: &str) -> anyhow::Result<MultiplexedConnection> {
        let (mut place, mut connection) = self.nodes[0].clone();
        if !self.clustered {
            return Ok(connection);
        }
        for _ in 0..REDIRECTIONS_MAX {
            let asked: Result<redis::Value, RedisError> = redis::cmd("HGET")
                .arg(key)
                .arg("seq")
                .query_async(&mut connection)
                .await;
            let Err(error) = asked else {
                return Ok(connection);
            };
            let Some(next) = moved(&error, &place) else {
                return Err(error).context("cannot read Redis");
            };
            place = next;
            connection = self.node(&place).await.with_context(|| {
                format!("cannot connect to the node at {}:{}", place.0, place.1)
            })?;
        }
        anyhow::bail!("the Cluster's nodes redirect {key} in a circle")
    }

    async fn node(&mut self, place: &Address) -> Result<MultiplexedConnection, RedisError> {
        if let Some((_, known)) = self.nodes.iter().find(|(at, _)| at == place) {
            return Ok(known.clone());
        }
        let connection = open(at(&self.server, place.clone())).await?;
        self.nodes.push((place.clone(), connection.clone()));
        Ok(connection)
    }
}

/// Target of a redirection. An empty host means the host of the redirecting node.
fn moved(error: &RedisError, asked: &Address) -> Option<Address> {
    let (addr, _slot) = error.redirect_node()?;
    let (host, port) = addr.rsplit_once(':')?;
    let host = if host.is_empty() { &asked.0 } else { host };
    Some((host.to_owned(), port.parse().ok()?))
}

fn place_of(info: &ConnectionInfo) -> Address {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            (host.clone(), *port)
        }
        _ => (String::new(), 0),
    }
}

fn at(server: &ConnectionInfo, (host, port): Address) -> ConnectionInfo {
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

async fn open(info: ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_MAX))
        .set_response_timeout(Some(ANSWER_MAX));
    let client = Client::open(info)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}
