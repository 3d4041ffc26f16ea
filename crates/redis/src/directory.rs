//! Which server a partition is on at the moment, and connections to it.
//!
//! One way for all topologies: a partition's connections go straight to the primary that has it. When one fails, the
//! place is looked up again, at the Sentinels or in the Cluster's slots, and the call is sent again there.

use std::time::Duration;

use parking_lot::Mutex;
use qiang_core::event::PartitionId;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    RedisError, Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};

use crate::{
    error::ConnectError,
    keys::KeySpace,
    options::{Options, Topology},
};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Host and port.
type Place = (String, u16);
/// First and last slot, and who has them.
type Range = (u16, u16, Place);

/// A read replica, and a connection to it once there is one.
struct Replica {
    info: ConnectionInfo,
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// Looks servers up.
pub(crate) struct Directory {
    topology: Topology,
    seeds: Vec<ConnectionInfo>,
    /// What connections to servers need beside the address; Sentinels may need other credentials: their URL's.
    server: ConnectionInfo,
    replicas: Vec<Replica>,
    call_timeout: Duration,
    /// The Cluster's slots, as far as they were looked up: last slot → address.
    slots: Mutex<Vec<Range>>,
    /// Sentinel's answer.
    primary: Mutex<Option<Place>>,
}

impl Directory {
    pub(crate) fn new(options: &Options) -> Result<Self, ConnectError> {
        let info = |url: &String| {
            let info = url.as_str().into_connection_info();
            let info = info.map_err(|error| {
                ConnectError::Options(format!("a Redis URL cannot be read: {error}"))
            })?;
            Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
        };
        let seeds: Vec<_> = options.urls.iter().map(info).collect::<Result<_, _>>()?;
        let first = seeds
            .first()
            .ok_or_else(|| ConnectError::Options("a Redis URL is needed".to_owned()))?;
        let login = |info: &ConnectionInfo| {
            let mut redis = info.redis_settings().clone();
            if let Some(username) = options
                .username
                .as_ref()
                .filter(|_| redis.username().is_none())
            {
                redis = redis.set_username(username);
            }
            if let Some(password) = options
                .password
                .as_ref()
                .filter(|_| redis.password().is_none())
            {
                redis = redis.set_password(password);
            }
            if options.database != 0 {
                redis = redis.set_db(options.database);
            }
            info.clone().set_redis_settings(redis)
        };
        let replicas = options.read_urls.iter().map(info);
        let replicas: Vec<_> = replicas.collect::<Result<_, ConnectError>>()?;
        Ok(Self {
            server: login(first),
            replicas: replicas
                .iter()
                .map(|info| Replica {
                    info: login(info),
                    connection: Mutex::new(None),
                })
                .collect(),
            topology: options.topology.clone(),
            seeds: match options.topology {
                Topology::Sentinel { .. } => seeds.clone(),
                _ => seeds.iter().map(login).collect(),
            },
            call_timeout: options.call_timeout,
            slots: Mutex::new(Vec::new()),
            primary: Mutex::new(None),
        })
    }

    /// A new connection to the primary that has the partition.
    pub(crate) async fn connect(
        &self,
        partition: PartitionId,
    ) -> Result<MultiplexedConnection, RedisError> {
        match self.topology {
            Topology::Standalone => {
                let mut failed = None;
                for seed in &self.seeds {
                    match self.open(seed.clone()).await {
                        Ok(connection) => return Ok(connection),
                        Err(error) => failed = Some(error),
                    }
                }
                Err(failed.unwrap_or_else(nowhere))
            }
            _ => {
                let place = self.place(partition).await?;
                self.open(self.at(place)).await
            }
        }
    }

    /// Asks a read replica, if there are any; `turn` spreads callers over them. None when it gave no answer.
    pub(crate) async fn ask_replica<T: redis::FromRedisValue>(
        &self,
        turn: usize,
        command: &redis::Cmd,
    ) -> Option<T> {
        let replica = self.replicas.get(turn.checked_rem(self.replicas.len())?)?;
        let known = replica.connection.lock().clone();
        let mut connection = match known {
            Some(connection) => connection,
            None => {
                let mut connection = self.open(replica.info.clone()).await.ok()?;
                // Nodes of a cluster serve reads of what they replicate only when told so; others refuse the word.
                if self.topology == Topology::Cluster {
                    let readonly: Result<(), _> =
                        redis::cmd("READONLY").query_async(&mut connection).await;
                    readonly.ok()?;
                }
                *replica.connection.lock() = Some(connection.clone());
                connection
            }
        };
        let answer = command.query_async(&mut connection).await;
        if answer.is_err() {
            *replica.connection.lock() = None;
        }
        answer.ok()
    }

    /// What is needed to subscribe: any server that hears what the partition's publishes.
    pub(crate) async fn client(&self, partition: PartitionId) -> Result<Client, RedisError> {
        match self.topology {
            Topology::Standalone => {
                // The first that answers, as for calls.
                let mut failed = nowhere();
                for seed in &self.seeds {
                    match self.open(seed.clone()).await {
                        Ok(_) => return Client::open(seed.clone()),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
            _ => Client::open(self.at(self.place(partition).await?)),
        }
    }

    /// Forgets what was looked up: a connection has failed, or a server says that it is not the one.
    pub(crate) fn forget(&self) {
        self.slots.lock().clear();
        *self.primary.lock() = None;
    }

    async fn place(&self, partition: PartitionId) -> Result<Place, RedisError> {
        if let Some(place) = self.known(partition) {
            return Ok(place);
        }
        let mut failed = None;
        for seed in &self.seeds {
            match self.ask(seed).await {
                Ok(()) => match self.known(partition) {
                    Some(place) => return Ok(place),
                    None => failed = Some(nowhere()),
                },
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(nowhere))
    }

    fn known(&self, partition: PartitionId) -> Option<Place> {
        match self.topology {
            Topology::Cluster => {
                let slot = KeySpace::cluster_slot(partition);
                let slots = self.slots.lock();
                let range = slots
                    .iter()
                    .find(|(from, to, _)| (*from..=*to).contains(&slot))?;
                Some(range.2.clone())
            }
            _ => self.primary.lock().clone(),
        }
    }

    async fn ask(&self, seed: &ConnectionInfo) -> Result<(), RedisError> {
        let mut connection = self.open(seed.clone()).await?;
        match &self.topology {
            Topology::Standalone => {}
            Topology::Sentinel { master } => {
                let mut command = redis::cmd("SENTINEL");
                command.arg("get-master-addr-by-name").arg(master);
                let place: Option<Place> = command.query_async(&mut connection).await?;
                *self.primary.lock() = place;
            }
            Topology::Cluster => {
                let mut command = redis::cmd("CLUSTER");
                let ranges: Value = command.arg("SLOTS").query_async(&mut connection).await?;
                *self.slots.lock() = ranges_of(&ranges, seed);
            }
        }
        Ok(())
    }

    fn at(&self, (host, port): Place) -> ConnectionInfo {
        let addr = match self.server.addr() {
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
        self.server.clone().set_addr(addr)
    }

    async fn open(&self, info: ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT_MAX.min(self.call_timeout)))
            .set_response_timeout(Some(self.call_timeout));
        let client = Client::open(info)?;
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }
}

fn nowhere() -> RedisError {
    RedisError::from((
        redis::ErrorKind::ClusterConnectionNotFound,
        "no server is known to have the partition",
    ))
}

/// The primaries in the answer to `CLUSTER SLOTS`. An empty host means the one that was asked.
fn ranges_of(answer: &Value, asked: &ConnectionInfo) -> Vec<Range> {
    let own_host = match asked.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::new(),
    };
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let range = |value: &Value| {
        let Value::Array(fields) = value else {
            return None;
        };
        let (from, to) = (number(fields.first()?)?, number(fields.get(1)?)?);
        let Value::Array(primary) = fields.get(2)? else {
            return None;
        };
        let host = match primary.first()? {
            Value::BulkString(host) if !host.is_empty() => {
                String::from_utf8_lossy(host).into_owned()
            }
            _ => own_host.clone(),
        };
        Some((from, to, (host, number(primary.get(1)?)?)))
    };
    match answer {
        Value::Array(ranges) => ranges.iter().filter_map(range).collect(),
        _ => Vec::new(),
    }
}
