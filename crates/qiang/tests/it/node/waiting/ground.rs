//! Grounds of the cases: an engine, its ledger, and the queues of both.

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use qiang_core::ports::{Engine, Ledger, SettlementStore as _, WaitingRoom};
use qiang_embedded::{Embedded, SqliteLedger};
use qiang_redis::{RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    ManualClock,
    campaign::OPENS,
    servers::redis::{Cluster, Options as ServerOptions, Standalone},
};

pub(crate) trait Ground: Sized + Send + Sync {
    fn start() -> impl Future<Output = Self> + Send;

    /// Stops without a clean shutdown, and starts again.
    fn restart(self) -> impl Future<Output = Self> + Send;

    fn clock(&self) -> &Arc<ManualClock>;

    fn engine(&self) -> Arc<dyn Engine>;

    fn ledger(&self) -> Arc<dyn Ledger>;

    fn room(&self) -> Arc<dyn WaitingRoom>;

    /// Moves past the time for which the result of a user's queue entry is kept, at most `kept_ms`.
    fn forget(&self, _user: &str, kept_ms: u64) {
        self.clock().advance(kept_ms as i64);
    }

    /// Whether a dead process may still have the lease of a queue.
    const LEASED: bool;
}

pub(crate) struct InOneFile {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    embedded: Embedded,
}

impl Ground for InOneFile {
    const LEASED: bool = false;

    async fn start() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(OPENS));
        let embedded = Embedded::open(&folder.path().join("qiang.db"), clock.clone()).unwrap();
        Self {
            folder,
            clock,
            embedded,
        }
    }

    async fn restart(mut self) -> Self {
        self.embedded.abort();
        let file = self.folder.path().join("qiang.db");
        self.embedded = Embedded::open(&file, self.clock.clone()).unwrap();
        self
    }

    fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.embedded.clone())
    }

    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.embedded.clone())
    }

    fn room(&self) -> Arc<dyn WaitingRoom> {
        Arc::new(self.embedded.clone())
    }
}

/// The engine on one server, with four partitions.
pub(crate) struct OnRedis {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    options: RedisOptions,
    pub(crate) redis: RedisEngine,
    ledger: SqliteLedger,
}

impl OnRedis {
    pub(crate) async fn with(options: RedisOptions) -> Self {
        static GROUNDS: AtomicU64 = AtomicU64::new(0);
        let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(OPENS));
        let options = RedisOptions {
            prefix: format!("line{}", GROUNDS.fetch_add(1, Ordering::Relaxed)),
            clock: Some(clock.clone()),
            ..options
        };
        let (redis, ledger) = open(&folder, &clock, &options).await;
        Self {
            folder,
            clock,
            options,
            redis,
            ledger,
        }
    }

    /// Connects another node.
    pub(crate) async fn beside(&self) -> RedisEngine {
        let settled = self.ledger.positions().await.unwrap();
        RedisEngine::connect(self.options.clone(), &settled)
            .await
            .unwrap()
    }
}

async fn open(
    folder: &tempfile::TempDir,
    clock: &Arc<ManualClock>,
    options: &RedisOptions,
) -> (RedisEngine, SqliteLedger) {
    let ledger = SqliteLedger::open(&folder.path().join("ledger.db"), clock.clone()).unwrap();
    let settled = ledger.positions().await.unwrap();
    let redis = RedisEngine::connect(options.clone(), &settled)
        .await
        .unwrap();
    (redis, ledger)
}

/// The server of all grounds without their own server.
fn shared() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

impl Ground for OnRedis {
    const LEASED: bool = true;

    async fn start() -> Self {
        Self::with(RedisOptions {
            urls: vec![shared().url()],
            partitions: 4,
            ..RedisOptions::default()
        })
        .await
    }

    async fn restart(mut self) -> Self {
        self.redis.abort();
        self.ledger.close();
        (self.redis, self.ledger) = open(&self.folder, &self.clock, &self.options).await;
        self
    }

    fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.redis.clone())
    }

    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.ledger.clone())
    }

    fn room(&self) -> Arc<dyn WaitingRoom> {
        Arc::new(self.redis.clone())
    }

    /// Uses the clock of Redis.
    fn forget(&self, user: &str, kept_ms: u64) {
        let server = shared().primary();
        let pattern = format!("{}:*:place:{user}", self.options.prefix);
        let keys = server.call(&["KEYS", &pattern]).unwrap();
        let [key] = keys.array() else {
            panic!("{keys:?}");
        };
        let key = key.text().unwrap();
        let left_ms = server.call(&["PTTL", key]).unwrap().integer().unwrap();
        assert!((1..=kept_ms as i64).contains(&left_ms), "{left_ms}");
        server.call(&["PEXPIRE", key, "0"]).unwrap();
    }
}

/// Three primaries with a replica each. Grants and queue entries wait for the replicas, and campaigns are spread over
/// partitions.
pub(crate) struct OnCluster(OnRedis);

impl Ground for OnCluster {
    const LEASED: bool = true;

    async fn start() -> Self {
        static SERVERS: OnceLock<Cluster> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| Cluster::start(&ServerOptions::new()));
        let options = RedisOptions {
            urls: servers.urls(),
            topology: Topology::Cluster,
            partitions: 4,
            replicas: 1,
            wait_for: qiang_redis::WaitFor::Always,
            ..RedisOptions::default()
        };
        Self(OnRedis::with(options).await)
    }

    async fn restart(self) -> Self {
        Self(self.0.restart().await)
    }

    fn clock(&self) -> &Arc<ManualClock> {
        self.0.clock()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.0.engine()
    }

    fn ledger(&self) -> Arc<dyn Ledger> {
        self.0.ledger()
    }

    fn room(&self) -> Arc<dyn WaitingRoom> {
        self.0.room()
    }
}
