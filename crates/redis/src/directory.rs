//! Which server a partition is on at the moment.
//!
//! A partition's connections go straight to the primary that has it, whatever the topology. When a connection fails,
//! the address is looked up again, at the Sentinels or in the Cluster's slots, and the call is sent again there.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use qiang_core::event::PartitionId;
use redis::{
    Cmd, ConnectionInfo, ErrorKind, FromRedisValue, RedisError, Value,
    aio::{MultiplexedConnection, PubSub},
};

use crate::{
    dialer::{Address, Dialer, at, host_of},
    error::ConnectError,
    keys::KeySpace,
    options::{Options, Topology},
};

/// First and last slot of a Cluster, and the primary that has them.
type SlotRange = (u16, u16, Address);

/// A read replica, and a connection to it once there is one.
struct Replica {
    server: ConnectionInfo,
    connection: Mutex<Option<MultiplexedConnection>>,
}

/// Looks servers up and connects to them.
pub(crate) struct Directory {
    dialer: Dialer,
    topology: Topology,
    /// The servers, the Sentinels, or some nodes of the Cluster.
    seeds: Vec<ConnectionInfo>,
    /// How a server that was looked up is dialled, but for its address.
    server: ConnectionInfo,
    replicas: Vec<Replica>,
    /// Counts reads from replicas, which take turns.
    replica_reads: AtomicUsize,
    /// The Cluster's slots, as far as they were looked up.
    slots: Mutex<Vec<SlotRange>>,
    /// The primary, as the Sentinels named it.
    primary: Mutex<Option<Address>>,
}

impl Directory {
    pub(crate) fn new(options: &Options) -> Result<Self, ConnectError> {
        let dialer = Dialer::new(options);
        let seed = |url: &String| match options.topology {
            Topology::Sentinel { .. } => dialer.sentinel(url),
            _ => dialer.server(url),
        };
        let first = options
            .urls
            .first()
            .ok_or_else(|| ConnectError::Options("a Redis URL is needed".to_owned()))?;
        let replica = |url: &String| {
            Ok(Replica {
                server: dialer.server(url)?,
                connection: Mutex::new(None),
            })
        };
        Ok(Self {
            topology: options.topology.clone(),
            server: dialer.server(first)?,
            seeds: options.urls.iter().map(seed).collect::<Result<_, _>>()?,
            replicas: options
                .read_urls
                .iter()
                .map(replica)
                .collect::<Result<_, ConnectError>>()?,
            replica_reads: AtomicUsize::new(0),
            slots: Mutex::default(),
            primary: Mutex::default(),
            dialer,
        })
    }

    /// A new connection to the primary that has the partition.
    pub(crate) async fn connect(
        &self,
        partition: PartitionId,
    ) -> Result<MultiplexedConnection, RedisError> {
        let servers = self.servers_of(partition).await?;
        first_success(servers, |server| self.dialer.dial(server)).await
    }

    /// A connection for subscriptions, to a server that passes on what the partition's scripts publish.
    pub(crate) async fn connect_pubsub(
        &self,
        partition: PartitionId,
    ) -> Result<PubSub, RedisError> {
        let servers = self.servers_of(partition).await?;
        first_success(servers, |server| self.dialer.dial_pubsub(server)).await
    }

    /// Sends a command to a read replica. None when there is none, or it gave no answer.
    pub(crate) async fn query_replica<T: FromRedisValue>(&self, command: &Cmd) -> Option<T> {
        let turn = self.replica_reads.fetch_add(1, Ordering::Relaxed);
        let replica = self.replicas.get(turn.checked_rem(self.replicas.len())?)?;
        let open = replica.connection.lock().clone();
        let mut connection = match open {
            Some(connection) => connection,
            None => {
                let mut connection = self.dialer.dial(replica.server.clone()).await.ok()?;
                // Only a Cluster's nodes need it to serve reads of what they replicate; others refuse the command.
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

    /// Forgets what was looked up, after a connection has failed or a server said that it does not have the partition.
    pub(crate) fn forget(&self) {
        self.slots.lock().clear();
        *self.primary.lock() = None;
    }

    /// The servers to try for a partition: of a single server all its URLs, else the primary that has it.
    async fn servers_of(&self, partition: PartitionId) -> Result<Vec<ConnectionInfo>, RedisError> {
        if self.topology == Topology::Standalone {
            return Ok(self.seeds.clone());
        }
        let address = match self.known(partition) {
            Some(address) => address,
            None => {
                let look_up = |seed| async {
                    self.look_up(seed).await?;
                    self.known(partition).ok_or_else(nowhere)
                };
                first_success(self.seeds.clone(), look_up).await?
            }
        };
        Ok(vec![at(&self.server, address)])
    }

    fn known(&self, partition: PartitionId) -> Option<Address> {
        if self.topology != Topology::Cluster {
            return self.primary.lock().clone();
        }
        let slot = KeySpace::cluster_slot(partition);
        let slots = self.slots.lock();
        let mut ranges = slots.iter();
        let (_, _, address) = ranges.find(|(from, to, _)| (*from..=*to).contains(&slot))?;
        Some(address.clone())
    }

    /// Asks a Sentinel or a node of the Cluster where primaries are.
    async fn look_up(&self, seed: ConnectionInfo) -> Result<(), RedisError> {
        let host = host_of(&seed).to_owned();
        let mut connection = self.dialer.dial(seed).await?;
        match &self.topology {
            Topology::Standalone => {}
            Topology::Sentinel { master } => {
                let mut command = redis::cmd("SENTINEL");
                command.arg("get-master-addr-by-name").arg(master);
                let address: Option<Address> = command.query_async(&mut connection).await?;
                *self.primary.lock() = address;
            }
            Topology::Cluster => {
                let mut command = redis::cmd("CLUSTER");
                let answer: Value = command.arg("SLOTS").query_async(&mut connection).await?;
                *self.slots.lock() = slot_ranges(&answer, &host);
            }
        }
        Ok(())
    }
}

/// Tries one server after the other.
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
        "no server is known to have the partition",
    ))
}

/// The primaries in the answer to `CLUSTER SLOTS`. An empty host stands for the server that was asked.
fn slot_ranges(answer: &Value, asked_host: &str) -> Vec<SlotRange> {
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
            _ => asked_host.to_owned(),
        };
        Some((from, to, (host, number(primary.get(1)?)?)))
    };
    match answer {
        Value::Array(ranges) => ranges.iter().filter_map(range).collect(),
        _ => Vec::new(),
    }
}
