//! Settings of the connections and the engine.

use std::{sync::Arc, time::Duration};

use qiang_core::{campaign::AckLevel, ports::Clock};

use crate::connection::identity::Identity;

/// Topology of the Redis servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server. It may have replicas, but no failover.
    Standalone,
    /// Sentinels. The URLs are those of Sentinels that know the primary by this name.
    Sentinel {
        /// The primary's name.
        master: String,
    },
    /// Redis Cluster. The URLs are those of some nodes, which name the others.
    Cluster,
}

/// Condition under which grants wait for replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// If the campaign asks for `replica`.
    Asked,
    /// Always. A campaign that asks for `memory` is answered with the level that was reached.
    Always,
}

/// Settings of the connections and the engine.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://` or `rediss://` (TLS) URLs: the server, the Sentinels, or some nodes of the Cluster.
    pub urls: Vec<String>,
    /// Topology of the servers.
    pub topology: Topology,
    /// The user name for URLs without one.
    pub username: Option<String>,
    /// The password for URLs without one.
    pub password: Option<String>,
    /// The database number; always 0 in a Cluster.
    pub database: i64,
    /// Prefix of every key.
    pub prefix: String,
    /// Number of partitions. Fixed when the first node starts on an empty Redis, and checked at each later start.
    pub partitions: u16,
    /// Smallest supply of a campaign that is spread over several partitions.
    pub shard_supply_min: u32,
    /// Maximum number of partitions of a spread campaign.
    pub shards_max: u16,
    /// Replicas that must have a grant before its level is `replica`; 0 if there are none.
    pub replicas: u32,
    /// Time limit of a wait for replicas.
    pub replica_timeout: Duration,
    /// Condition under which decisions wait for replicas.
    pub wait_for: WaitFor,
    /// URLs of replicas that serve reads of campaigns' counters.
    pub read_urls: Vec<String>,
    /// Time limit for an answer of Redis, after which the connection is dropped.
    pub call_timeout: Duration,
    /// Time for which a claim or command is retried over lost connections and failovers.
    pub claim_timeout: Duration,
    /// Time for which the log keeps settled entries. A ledger backup up to this age can be restored.
    pub retain: Duration,
    /// Total size in bytes of all partitions' logs above which settled entries are not kept.
    pub retain_bytes: u64,
    /// Time for which closed campaigns stay in Redis.
    pub closed_campaign_ttl: Duration,
    /// Time for which a new term waits for a node that was alive and is silent.
    pub term_grace: Duration,
    /// Time for which an order keeps its units after its hold, for late payment reports; at most the hold.
    pub payment_grace: Duration,
    /// Whether this process serves users. Holds pause while no process that serves users reaches the partition. A
    /// process that only settles or administers an installation does not count.
    pub serves: bool,
    /// Whether this node expires holds and ends windows when they are due. Tests that tick by command turn it off: a
    /// background tick at another moment gives another order of entries, and holds that end later.
    pub ticks: bool,
    /// Largest time by which Redis' clock may be earlier than the newest entry of the log when a process that serves
    /// users starts.
    pub clock_behind_max: Duration,
    /// Clock of campaigns, for tests; `None` for Redis' own clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Installation and engine that partitions must be marked with; `None` if that does not matter.
    pub identity: Option<Arc<Identity>>,
}

impl RedisOptions {
    /// Whether decisions of a campaign that asks for this level wait for replicas.
    pub fn waits(&self, asked: AckLevel) -> bool {
        let always = self.wait_for == WaitFor::Always;
        self.replicas > 0 && (always || asked == AckLevel::Replica)
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            urls: vec!["redis://127.0.0.1:6379".to_owned()],
            topology: Topology::Standalone,
            username: None,
            password: None,
            database: 0,
            prefix: "qiang".to_owned(),
            partitions: 8,
            shard_supply_min: 100_000,
            shards_max: 8,
            replicas: 0,
            replica_timeout: Duration::from_millis(500),
            wait_for: WaitFor::Asked,
            read_urls: Vec::new(),
            call_timeout: Duration::from_secs(2),
            claim_timeout: Duration::from_secs(10),
            retain: Duration::ZERO,
            retain_bytes: 1 << 28,
            closed_campaign_ttl: Duration::from_secs(24 * 3_600),
            term_grace: Duration::from_secs(2),
            payment_grace: Duration::ZERO,
            serves: true,
            ticks: true,
            clock_behind_max: Duration::MAX,
            clock: None,
            identity: None,
        }
    }
}
