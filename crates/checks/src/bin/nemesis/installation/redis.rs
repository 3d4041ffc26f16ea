//! Redis servers under test, in every topology, and their current primaries.

use std::{
    collections::BTreeMap,
    slice,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qiang_testkit::{
    proxy::FaultProxy,
    servers::redis::{
        Cluster, Options, Reply, SentinelSet, Server, Standalone, View, key_of_partition,
        slot_of_partition,
    },
};

use super::{blocking, wait_until};
use crate::plan::{PARTITIONS, PREFIX, Topology};

/// Time after which Sentinels consider a silent primary down. The third one is slower, so that not all three are
/// candidates at the same moment.
const DOWN_AFTER_MS: [u32; 3] = [1_500, 1_500, 2_500];
const FAILOVER_MS: u32 = 3_000;
const QUORUM: usize = 2;
/// Maximum time until servers are connected, and until they are whole again after a fault.
const WHOLE_MAX: Duration = Duration::from_secs(60);

/// The servers.
#[derive(Debug)]
pub(crate) enum RedisSite {
    /// One server, which programs reach through its proxy.
    Standalone {
        server: Box<Standalone>,
        announced: Vec<FaultProxy>,
    },
    /// A primary and two replicas, watched by Sentinels. Sentinels and replicas reach server `i` only through
    /// `watch[i]`.
    Sentinel {
        set: SentinelSet,
        watch: Vec<FaultProxy>,
    },
    /// Six nodes. Programs and replicas reach node `i` only through `announced[i]`; the bus is direct.
    Cluster {
        cluster: Cluster,
        announced: Vec<FaultProxy>,
    },
}

impl RedisSite {
    /// Starts the servers and routes all connections through proxies.
    pub(crate) async fn start(topology: Topology) -> Result<Self> {
        let options = Options::new().fsync_everysec();
        let site = match topology {
            Topology::Standalone => {
                let server = Box::new(blocking(|| Standalone::start(&options))?);
                let announced = proxies(slice::from_ref(server.primary())).await;
                Self::Standalone { server, announced }
            }
            Topology::Sentinel => {
                let set = blocking(|| SentinelSet::start(&options))?;
                let watch = proxies(set.servers()).await;
                Self::Sentinel { set, watch }
            }
            Topology::Cluster => {
                let cluster = blocking(|| Cluster::start(&options))?;
                let announced = proxies(cluster.nodes()).await;
                Self::Cluster { cluster, announced }
            }
        };
        match &site {
            Self::Standalone { .. } => {}
            Self::Sentinel { set, watch } => watch_by_proxies(set, watch).await?,
            Self::Cluster { cluster, announced } => announce(cluster.nodes(), announced).await?,
        }
        site.wait_until_whole().await?;
        Ok(site)
    }

    pub(crate) fn servers(&self) -> &[Server] {
        match self {
            Self::Standalone { server, .. } => slice::from_ref(server.primary()),
            Self::Sentinel { set, .. } => set.servers(),
            Self::Cluster { cluster, .. } => cluster.nodes(),
        }
    }

    /// The Sentinels; empty in other topologies.
    pub(crate) fn sentinels(&self) -> &[Server] {
        match self {
            Self::Sentinel { set, .. } => set.sentinels(),
            Self::Standalone { .. } | Self::Cluster { .. } => &[],
        }
    }

    /// Proxies to the servers for all clients, except the programs of a Sentinel topology.
    pub(crate) fn proxies(&self) -> &[FaultProxy] {
        match self {
            Self::Sentinel { watch, .. } => watch,
            Self::Standalone { announced, .. } | Self::Cluster { announced, .. } => announced,
        }
    }

    /// The current primary of a partition; `None` while there is none, or while Sentinels disagree.
    pub(crate) fn primary(&self, partition: usize) -> Option<usize> {
        match self {
            Self::Standalone { .. } => Some(0),
            Self::Sentinel { set, watch } => {
                let named = set.agreed_addr()?;
                watch.iter().position(|proxy| proxy.addr() == named)
            }
            Self::Cluster { cluster, .. } => {
                let slot = slot_of(partition);
                let claims = cluster.nodes().iter().enumerate();
                let claims = claims.filter_map(|(index, node)| {
                    let me = View::of_itself(node)?;
                    (me.primary && me.serves(slot)).then_some((me.epoch, index))
                });
                claims.max().map(|(_, index)| index)
            }
        }
    }

    /// A key of a partition.
    pub(crate) fn key(&self, partition: usize, rest: &str) -> String {
        match self {
            Self::Cluster { .. } => {
                key_of_partition(PREFIX, partition as u16, PARTITIONS as u16, rest)
            }
            Self::Standalone { .. } | Self::Sentinel { .. } => {
                format!("{PREFIX}:{{p{partition:02}}}:{rest}")
            }
        }
    }

    /// Indexes of a primary's replicas.
    pub(crate) fn replicas(&self, primary: usize) -> Vec<usize> {
        let all = 0..self.servers().len();
        match self {
            Self::Standalone { .. } | Self::Sentinel { .. } => {
                all.filter(|index| *index != primary).collect()
            }
            Self::Cluster { cluster, .. } => {
                let Some(id) = View::of_itself(cluster.node(primary)).map(|me| me.id) else {
                    return Vec::new();
                };
                let follows = |index: &usize| {
                    View::of_itself(cluster.node(*index)).is_some_and(|me| me.primary_id == id)
                };
                all.filter(follows).collect()
            }
        }
    }

    /// Waits for a primary of a partition and returns it.
    pub(crate) async fn wait_for_primary(&self, partition: usize) -> Result<usize> {
        let mut found = None;
        wait_until("a primary", WHOLE_MAX, || {
            found = blocking(|| self.primary(partition)).ok().flatten();
            found.is_some()
        })
        .await?;
        found.context("the primary is missing after the wait")
    }

    /// Waits until every server serves, every replica is in sync, and a failover is possible.
    pub(crate) async fn wait_until_whole(&self) -> Result<()> {
        wait_until("Redis to be whole", WHOLE_MAX, || {
            blocking(|| self.is_whole()).unwrap_or(false)
        })
        .await
    }

    fn is_whole(&self) -> bool {
        match self {
            Self::Standalone { .. } => true,
            Self::Sentinel { set, .. } => {
                let Some(primary) = self.primary(0) else {
                    return false;
                };
                let follow = self.replicas(primary);
                let server = &set.servers()[primary];
                server.info("replication", "role").as_deref() == Some("master")
                    && follow.iter().all(|i| set.servers()[*i].is_synced_replica())
                    && server.is_acknowledged_by(follow.len())
                    && set.is_watched()
            }
            Self::Cluster { cluster, .. } => {
                let nodes = cluster.nodes();
                let ok = |node: &Server| {
                    let info = node.call(&["CLUSTER", "INFO"]).ok();
                    let info = info.as_ref().and_then(Reply::text).unwrap_or_default();
                    let in_step = match View::of_itself(node) {
                        None => false,
                        Some(me) if me.primary => node.is_acknowledged_by(1),
                        Some(_) => node.is_synced_replica(),
                    };
                    info.contains("cluster_state:ok")
                        && info.contains("cluster_slots_ok:16384")
                        && in_step
                };
                nodes.iter().all(ok)
            }
        }
    }
}

async fn proxies(servers: &[Server]) -> Vec<FaultProxy> {
    let mut proxies = Vec::new();
    for server in servers {
        proxies.push(FaultProxy::start(server.addr()).await);
    }
    proxies
}

/// Makes replicas and Sentinels know every server by its proxy.
async fn watch_by_proxies(set: &SentinelSet, watch: &[FaultProxy]) -> Result<()> {
    let port = |index: usize| watch[index].addr().port().to_string();
    for (index, server) in set.servers().iter().enumerate() {
        server.call(&["CONFIG", "SET", "replica-announce-port", &port(index)])?;
        if index > 0 {
            server.call(&["REPLICAOF", "127.0.0.1", &port(0)])?;
        }
        server.call(&["CONFIG", "REWRITE"])?;
    }
    let known = |name: &str, index: usize| {
        let line = set.servers()[0].info("replication", name);
        line.is_some_and(|line| line.contains(&format!("port={}", port(index))))
    };
    wait_until("replicas by their proxies", WHOLE_MAX, || {
        (known("slave0", 1) && known("slave1", 2)) || (known("slave0", 2) && known("slave1", 1))
    })
    .await?;
    let name = set.master_name();
    for (sentinel, down_after_ms) in set.sentinels().iter().zip(DOWN_AFTER_MS) {
        let quorum = QUORUM.to_string();
        sentinel.call(&["SENTINEL", "REMOVE", name])?;
        sentinel.call(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port(0), &quorum])?;
        for (option, value) in [
            ("down-after-milliseconds", down_after_ms),
            ("failover-timeout", FAILOVER_MS),
        ] {
            sentinel.call(&["SENTINEL", "SET", name, option, &value.to_string()])?;
        }
    }
    Ok(())
}

/// Makes all nodes of the Cluster know each other by their proxies.
async fn announce(nodes: &[Server], announced: &[FaultProxy]) -> Result<()> {
    for (node, proxy) in nodes.iter().zip(announced) {
        let port = proxy.addr().port().to_string();
        node.call(&["CONFIG", "SET", "cluster-announce-port", &port])?;
        node.call(&["CONFIG", "REWRITE"])?;
    }
    wait_until("all nodes by their proxies", WHOLE_MAX, || {
        let knows_all = |node: &Server| {
            let reply = node.call(&["CLUSTER", "NODES"]).ok();
            let text = reply.as_ref().and_then(Reply::text).unwrap_or_default();
            let mut ports = announced.iter().map(|proxy| proxy.addr().port());
            ports.all(|port| text.contains(&format!(":{port}@")))
        };
        nodes.iter().all(knows_all)
    })
    .await
}

/// The slot of a partition's keys.
pub(crate) fn slot_of(partition: usize) -> u16 {
    slot_of_partition(partition as u16, PARTITIONS as u16)
}

/// A field of `INFO` as a number.
pub(crate) fn info_number(server: &Server, section: &str, field: &str) -> Result<u64> {
    let text = server.info(section, field);
    let Some(number) = text.as_deref().and_then(|text| text.trim().parse().ok()) else {
        bail!("{} does not report {field}: {text:?}", server.addr());
    };
    Ok(number)
}

/// Waits until a primary other than `old` serves a partition.
pub(crate) async fn wait_for_failover(
    site: &RedisSite,
    partition: usize,
    old: usize,
) -> Result<Duration> {
    let since = Instant::now();
    wait_until("a failover", WHOLE_MAX, || {
        let new = blocking(|| site.primary(partition)).ok().flatten();
        new.is_some_and(|new| {
            let role = site.servers()[new].info("replication", "role");
            new != old && role.as_deref() == Some("master")
        })
    })
    .await?;
    Ok(since.elapsed())
}

/// Maps each server's port, as Sentinels name it, to the port of a program's proxy.
pub(crate) fn ports(site: &RedisSite, links: &[FaultProxy]) -> BTreeMap<u16, u16> {
    let named = site.proxies().iter().map(|proxy| proxy.addr().port());
    named
        .zip(links.iter().map(|proxy| proxy.addr().port()))
        .collect()
}
