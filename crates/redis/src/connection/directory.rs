//! Directory: finds the server that has a partition at the moment.
//!
//! Connections of a partition go straight to its primary, in every topology. If a connection fails, the directory asks
//! the Sentinels or the Cluster for the address again, and the call is sent there again. A replaced primary may
//! continue to answer. So the directory also asks the Sentinels regularly, and connections older than the last change
//! are dropped.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use qiang_core::event::PartitionId;
use redis::{
    Cmd, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, Value,
    aio::{MultiplexedConnection, PubSub},
};

use crate::connection::{
    dialer::{self, Address},
    error::ConnectError,
    info::ServerInfo,
    keys::KeySpace,
    options::{RedisOptions, Topology},
};

/// First and last slot of a Cluster's range, and the primary of the range.
type SlotRange = (u16, u16, Address);

/// Read replica, with a connection once one is open.
struct Replica {
    server: ConnectionInfo,
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// Finds servers and connects to them.
pub(crate) struct Directory {
    call_timeout: Duration,
    topology: Topology,
    /// Addresses of the options: the servers, the Sentinels, or some nodes of the Cluster.
    seeds: Vec<ConnectionInfo>,
    /// Connection settings for discovered servers; only the address is replaced.
    server: ConnectionInfo,
    replicas: Vec<Replica>,
    /// Number of reads from replicas; selects the next replica in turn.
    replica_reads: AtomicUsize,
    keys: KeySpace,
    /// Cached slots of the Cluster.
    slots: Mutex<Vec<SlotRange>>,
    /// Cached primary, as most Sentinels named it.
    primary: Mutex<Option<Address>>,
    /// Last primary that most Sentinels named, and when. [`forget`](Self::forget) does not clear it.
    followed: Mutex<Option<(Address, Instant)>>,
    /// Number of changes of the primary.
    generation: AtomicU64,
    /// Index of the standalone URL that is tried first.
    first: AtomicUsize,
}

impl Directory {
    /// Directory of the servers that the options name. Opens no connection.
    ///
    /// # Errors
    /// If a URL cannot be parsed, or there is none.
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, ConnectError> {
        let seed = |url: &String| match options.topology {
            Topology::Sentinel { .. } => dialer::sentinel(url),
            _ => dialer::server(url, options),
        };
        let first = options
            .urls
            .first()
            .ok_or_else(|| ConnectError::Options("no Redis URL is configured".to_owned()))?;
        let replica = |url: &String| {
            Ok(Replica {
                server: dialer::server(url, options)?,
                connection: Mutex::new(None),
            })
        };
        Ok(Self {
            topology: options.topology.clone(),
            server: dialer::server(first, options)?,
            seeds: options.urls.iter().map(seed).collect::<Result<_, _>>()?,
            replicas: options
                .read_urls
                .iter()
                .map(replica)
                .collect::<Result<_, ConnectError>>()?,
            replica_reads: AtomicUsize::new(0),
            keys: KeySpace::new(options),
            slots: Mutex::default(),
            primary: Mutex::default(),
            followed: Mutex::default(),
            generation: AtomicU64::new(0),
            first: AtomicUsize::new(0),
            call_timeout: options.call_timeout,
        })
    }

    /// Opens a connection to the primary of a partition.
    ///
    /// # Errors
    /// Also if the server is a replica, or may evict keys.
    pub(crate) async fn connect(
        &self,
        partition: PartitionId,
    ) -> Result<MultiplexedConnection, RedisError> {
        let (connection, info) = self.connect_any(partition).await?;
        match info.eviction() {
            None => Ok(connection),
            Some(policy) => Err(evicts(info.field("tcp_port"), policy)),
        }
    }

    /// `INFO` reply of a partition's primary; `None` if it does not answer.
    pub(crate) async fn info(&self, partition: PartitionId) -> Option<ServerInfo> {
        let warn = |error: &RedisError| {
            tracing::warn!(
                partition = partition.0,
                %error,
                "cannot check the settings of Redis"
            );
        };
        let connected = self.connect_any(partition).await.inspect_err(warn);
        connected.ok().map(|(_, info)| info)
    }

    /// Opens a connection to the primary of a partition, even if it may evict keys.
    async fn connect_any(
        &self,
        partition: PartitionId,
    ) -> Result<(MultiplexedConnection, ServerInfo), RedisError> {
        let servers = self.servers_of(partition).await?;
        first_success(servers, |server| self.dial_primary(server)).await
    }

    /// Opens a connection to a Cluster node at `host:port`, the target of a redirection.
    pub(crate) async fn connect_at(
        &self,
        address: &str,
    ) -> Result<MultiplexedConnection, RedisError> {
        let parts = address.rsplit_once(':');
        let address = parts.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
        self.dial(dialer::at(&self.server, address.ok_or_else(nowhere)?))
            .await
    }

    /// Generation of connections. It grows when the primary changes; older connections lead to the wrong server.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Asks the Sentinels for the primary, even if no call has failed.
    pub(crate) async fn follow(&self) {
        if let Topology::Sentinel { master } = &self.topology
            && let Ok(primary) = self.ask_sentinels(master).await
        {
            self.note_primary(primary);
        }
    }

    /// Handles a reply that only a former primary gives: looks for another server.
    pub(crate) fn suspect(&self) {
        self.forget();
        // Several partitions may report this at the same moment.
        self.first
            .store(rand::random::<u16>().into(), Ordering::Relaxed);
    }

    /// Opens a connection for subscriptions, to a server that delivers what the partition's scripts publish.
    ///
    /// # Errors
    /// If no server accepts a connection.
    pub(crate) async fn connect_pubsub(
        &self,
        partition: PartitionId,
    ) -> Result<PubSub, RedisError> {
        let servers = self.servers_of(partition).await?;
        let dial = |server| dialer::dial_pubsub(server, self.call_timeout);
        first_success(servers, dial).await
    }

    /// Sends a command to a read replica. `None` if there is no replica, or it gave no answer.
    pub(crate) async fn query_replica<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let turn = self.replica_reads.fetch_add(1, Ordering::Relaxed);
        let replica = self.replicas.get(turn.checked_rem(self.replicas.len())?)?;
        let open = replica.connection.lock().clone();
        let mut connection = match open {
            Some(connection) => connection,
            None => {
                let mut connection = self.dial(replica.server.clone()).await.ok()?;
                // Only Cluster nodes need `READONLY` to serve reads of replicated keys; other servers refuse the
                // command.
                if self.topology == Topology::Cluster {
                    let readonly = redis::cmd("READONLY");
                    let () = readonly.query_async(&mut connection).await.ok()?;
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

    /// Clears cached addresses. Called after a connection failed, or a server said that it lacks the partition.
    pub(crate) fn forget(&self) {
        self.slots.lock().clear();
        *self.primary.lock() = None;
    }

    async fn dial_primary(
        &self,
        server: ConnectionInfo,
    ) -> Result<(MultiplexedConnection, ServerInfo), RedisError> {
        let mut connection = self.dial(server).await?;
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let info = ServerInfo::new(info);
        match info.is_primary() {
            true => Ok((connection, info)),
            false => Err(RedisError::from((
                ErrorKind::ClusterConnectionNotFound,
                "the server is a replica",
            ))),
        }
    }

    async fn dial(&self, server: ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
        dialer::dial(server, self.call_timeout).await
    }

    /// Servers to try for a partition: all URLs for a standalone server, otherwise the partition's primary.
    async fn servers_of(&self, partition: PartitionId) -> Result<Vec<ConnectionInfo>, RedisError> {
        if self.topology == Topology::Standalone {
            let mut servers = self.seeds.clone();
            let count = servers.len();
            servers.rotate_left(self.first.load(Ordering::Relaxed) % count);
            return Ok(servers);
        }
        let address = match self.known(partition) {
            Some(address) => address,
            None => match self.look_up().await {
                Ok(()) => self.known(partition).ok_or_else(nowhere)?,
                // Too few Sentinels answer to correct the last known primary.
                Err(error) => self.last_known().ok_or(error)?,
            },
        };
        Ok(vec![dialer::at(&self.server, address)])
    }

    fn known(&self, partition: PartitionId) -> Option<Address> {
        if self.topology != Topology::Cluster {
            return self.primary.lock().clone();
        }
        let slot = self.keys.cluster_slot(partition);
        let slots = self.slots.lock();
        let mut ranges = slots.iter();
        let (_, _, address) = ranges.find(|(from, to, _)| (*from..=*to).contains(&slot))?;
        Some(address.clone())
    }

    /// Asks the Sentinels or the Cluster for the primaries.
    async fn look_up(&self) -> Result<(), RedisError> {
        match &self.topology {
            Topology::Standalone => {}
            Topology::Sentinel { master } => {
                let primary = self.ask_sentinels(master).await?;
                self.note_primary(primary);
            }
            Topology::Cluster => {
                let ask = |seed| self.ask_cluster(seed);
                *self.slots.lock() = first_success(self.seeds.clone(), ask).await?;
            }
        }
        Ok(())
    }

    /// Last primary that most Sentinels named, of any age.
    fn last_known(&self) -> Option<Address> {
        let followed = self.followed.lock();
        followed.as_ref().map(|(primary, _)| primary.clone())
    }

    /// Whether most Sentinels have named the primary within this time. Always true for topologies without Sentinels.
    pub(crate) fn is_sure(&self, within: Duration) -> bool {
        let followed = self.followed.lock();
        let is_recent = |(_, named): &(Address, Instant)| named.elapsed() < within;
        !matches!(self.topology, Topology::Sentinel { .. })
            || followed.as_ref().is_some_and(is_recent)
    }

    fn note_primary(&self, primary: Address) {
        let now = (primary.clone(), Instant::now());
        let before = self.followed.lock().replace(now);
        if before.is_some_and(|(before, _)| before != primary) {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        *self.primary.lock() = Some(primary);
    }

    /// The primary that more than half of all configured Sentinels name. A Sentinel that does not answer counts in the
    /// total. So a Sentinel that was cut off together with a former primary is never believed on its own. Returns as
    /// soon as the majority is known.
    async fn ask_sentinels(&self, master: &str) -> Result<Address, RedisError> {
        let asked = self
            .seeds
            .iter()
            .map(|seed| self.ask_sentinel(seed, master));
        let mut answers: FuturesUnordered<_> = asked.collect();
        let (mut votes, mut failed) = (Vec::new(), nowhere());
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(primary) => votes.push(primary),
                Err(error) => failed = error,
            }
            if let Some(primary) = majority(&votes, self.seeds.len()) {
                return Ok(primary.clone());
            }
        }
        Err(match votes.is_empty() {
            true => failed,
            false => disunited(),
        })
    }

    async fn ask_sentinel(
        &self,
        sentinel: &ConnectionInfo,
        master: &str,
    ) -> Result<Address, RedisError> {
        let mut connection = self.dial(sentinel.clone()).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("get-master-addr-by-name").arg(master);
        let address: Option<Address> = command.query_async(&mut connection).await?;
        address.ok_or_else(nowhere)
    }

    /// All slot ranges and their primaries, as one node of the Cluster knows them.
    async fn ask_cluster(&self, seed: ConnectionInfo) -> Result<Vec<SlotRange>, RedisError> {
        let host = dialer::host_of(&seed).to_owned();
        let mut connection = self.dial(seed).await?;
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let ranges: Vec<Vec<Value>> = command.query_async(&mut connection).await?;
        let ranges = ranges.into_iter();
        Ok(ranges
            .filter_map(|range| slot_range(range, &host))
            .collect())
    }
}

/// The address that more than half of `voters` name.
fn majority(votes: &[Address], voters: usize) -> Option<&Address> {
    let count = |vote: &Address| votes.iter().filter(|other| *other == vote).count();
    votes.iter().find(|vote| 2 * count(vote) > voters)
}

/// Tries the servers in order. Returns the first success, or the last error.
async fn first_success<T, F: Future<Output = Result<T, RedisError>>>(
    servers: Vec<ConnectionInfo>,
    attempt: impl Fn(ConnectionInfo) -> F,
) -> Result<T, RedisError> {
    let mut failed = nowhere();
    for server in servers {
        match attempt(server).await {
            Ok(success) => return Ok(success),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn nowhere() -> RedisError {
    RedisError::from((
        ErrorKind::ClusterConnectionNotFound,
        "no server with the partition is known",
    ))
}

fn disunited() -> RedisError {
    RedisError::from((
        ErrorKind::ClusterConnectionNotFound,
        "the Sentinels do not agree: no primary is named by more than half of them",
    ))
}

fn evicts(port: &str, policy: &str) -> RedisError {
    RedisError::from((
        ErrorKind::ClusterConnectionNotFound,
        "the primary may evict grants",
        format!("set `maxmemory-policy noeviction` on the Redis on port {port}, not `{policy}`"),
    ))
}

/// Slot range and primary of one entry of the reply to `CLUSTER SLOTS`. A missing or empty host means the server that
/// was asked.
fn slot_range(mut fields: Vec<Value>, asked_host: &str) -> Option<SlotRange> {
    // Later fields are replicas, and details of each server.
    fields.truncate(3);
    let (from, to, mut primary): (u16, u16, Vec<Value>) =
        redis::from_redis_value(Value::Array(fields)).ok()?;
    primary.truncate(2);
    let (host, port): (Option<String>, u16) =
        redis::from_redis_value(Value::Array(primary)).ok()?;
    let host = host.filter(|host| !host.is_empty());
    let host = host.unwrap_or_else(|| asked_host.to_owned());
    Some((from, to, (host, port)))
}

#[cfg(test)]
mod tests;
