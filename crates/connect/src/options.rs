//! The engine's settings.

use std::{sync::Arc, time::Duration};

use qiang_core::{campaign::AckLevel, ports::Clock};

use crate::identity::Identity;

/// Where Redis is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server, perhaps with replicas that nobody fails over to.
    Standalone,
    /// The URLs are those of Sentinels, which know the primary of this name.
    Sentinel {
        /// The primary's name.
        master: String,
    },
    /// The URLs are those of nodes of a Redis Cluster; more are found through them.
    Cluster,
}

/// When grants wait for replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// Where the campaign asks for `replica`.
    Asked,
    /// Always; a campaign that asks for `memory` is answered with the level that was reached.
    Always,
}

/// The engine's settings.
#[derive(Clone)]
pub struct Options {
    /// `redis://` or `rediss://` (TLS) URLs: the server, the Sentinels, or some nodes of the Cluster.
    pub urls: Vec<String>,
    /// Where Redis is.
    pub topology: Topology,
    /// The user, unless the URLs name one.
    pub username: Option<String>,
    /// The password, unless the URLs name one.
    pub password: Option<String>,
    /// The database number; always 0 in a Cluster.
    pub database: i64,
    /// What every key begins with.
    pub prefix: String,
    /// Partitions. Fixed when the first node starts on an empty Redis, and checked from then on.
    pub partitions: u16,
    /// A campaign with a supply of at least this much is spread over several partitions.
    pub spread_from: u32,
    /// Over how many, at most.
    pub spread_over: u16,
    /// Replicas that must have a grant before its level is `replica`; 0 where there are none.
    pub replicas: u32,
    /// How long to wait for them.
    pub replica_timeout: Duration,
    /// When to wait for them.
    pub wait_for: WaitFor,
    /// Reads of campaigns' numbers go to these replicas, by URL.
    pub read_urls: Vec<String>,
    /// How long Redis may take to answer one call before the connection is given up.
    pub call_timeout: Duration,
    /// For how long a claim or command is tried again over lost connections and failovers.
    pub try_for: Duration,
    /// How long the log keeps what is settled: so far back the ledger may be restored.
    pub retain: Duration,
    /// Bytes that the logs of all partitions may take together while they keep what is settled.
    pub retain_bytes: u64,
    /// How long campaigns stay that are closed.
    pub keep_closed: Duration,
    /// How long a new term waits for a node that was alive and says nothing.
    pub term_grace: Duration,
    /// How long an order keeps its units after its hold, for payments that are reported late; no longer than the hold.
    pub payment_grace: Duration,
    /// Whether users are served here. Holds stand still while nobody who serves them reaches their partition; a process
    /// that only settles, or looks after an installation, is no help to them.
    pub serves: bool,
    /// Time for campaigns; Redis' own unless one is given, which is for tests.
    pub clock: Option<Arc<dyn Clock>>,
    /// The installation and engine to which partitions have to belong; none where that does not matter.
    pub identity: Option<Arc<Identity>>,
}

impl Options {
    /// Whether a decision of a campaign that asks for this level waits for replicas.
    pub fn waits(&self, asked: AckLevel) -> bool {
        let always = self.wait_for == WaitFor::Always;
        self.replicas > 0 && (always || asked == AckLevel::Replica)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: vec!["redis://127.0.0.1:6379".to_owned()],
            topology: Topology::Standalone,
            username: None,
            password: None,
            database: 0,
            prefix: "qiang".to_owned(),
            partitions: 8,
            spread_from: 100_000,
            spread_over: 8,
            replicas: 0,
            replica_timeout: Duration::from_millis(500),
            wait_for: WaitFor::Asked,
            read_urls: Vec::new(),
            call_timeout: Duration::from_secs(2),
            try_for: Duration::from_secs(10),
            retain: Duration::ZERO,
            retain_bytes: 1 << 28,
            keep_closed: Duration::from_secs(24 * 3_600),
            term_grace: Duration::from_secs(2),
            payment_grace: Duration::ZERO,
            serves: true,
            clock: None,
            identity: None,
        }
    }
}
