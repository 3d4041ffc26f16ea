//! Subject of the suite: a Redis engine with an SQLite ledger.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use qiang_core::ports::{Engine, EventLog, Ledger, RetireEngine as _, SettlementStore as _};
use qiang_embedded::SqliteLedger;
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    conformance::Subject,
    servers::redis::{Reply, Server},
};
use qiang_worker::settlement::settle_once;
use tokio::task::JoinHandle;

/// Servers of a subject, and the options of its engine.
pub(crate) trait Servers: Send + Sync + 'static {
    fn options() -> RedisOptions;

    /// The server to evict all ended campaigns from at once, without retention; `None` for normal eviction.
    fn leave() -> Option<&'static Server> {
        None
    }
}

/// Time between two evictions. A reloaded campaign has this time to be read.
const LEAVE_EVERY: Duration = Duration::from_millis(100);
const ENTRIES_MAX: usize = 1_000;

/// Settles everything and evicts all ended campaigns.
async fn leave(engine: RedisEngine, ledger: SqliteLedger, server: &'static Server, prefix: String) {
    loop {
        tokio::time::sleep(LEAVE_EVERY).await;
        for partition in engine.partitions() {
            // A failure is retried in the next round.
            drop(settle_once(&engine, &ledger, partition, ENTRIES_MAX).await);
            let closed = format!("{prefix}:{{p{:02}}}:closed", partition.0);
            tokio::task::block_in_place(|| {
                let found = server.call(&["ZRANGE", &closed, "0", "-1"]);
                let found = found.expect("the server answers");
                for id in found.array().iter().filter_map(Reply::text) {
                    let words = ["ZADD", &closed, "XX", "0", id];
                    server.call(&words).expect("the server answers");
                }
            });
            drop(engine.retire(partition, &ledger).await);
        }
    }
}

/// State that survives a restart of the subject.
struct Ground {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    options: RedisOptions,
}

pub(crate) struct OnRedis<S> {
    ground: Ground,
    engine: RedisEngine,
    ledger: SqliteLedger,
    leaving: Option<JoinHandle<()>>,
    servers: PhantomData<S>,
}

impl<S: Servers> OnRedis<S> {
    async fn open(ground: Ground) -> Self {
        let file = ground.directory.path().join("ledger.db");
        let ledger = SqliteLedger::open(&file, ground.clock.clone());
        let ledger = ledger.unwrap_or_else(|error| panic!("{error}"));
        let settled = ledger.positions().await;
        let settled = settled.expect("the ledger returns its positions");
        let engine = RedisEngine::connect(ground.options.clone(), &settled).await;
        let engine = engine.unwrap_or_else(|error| panic!("{error:?}"));
        let leaving = S::leave().map(|server| {
            engine.recall_from(Arc::new(ledger.clone()));
            let prefix = ground.options.prefix.clone();
            tokio::spawn(leave(engine.clone(), ledger.clone(), server, prefix))
        });
        Self {
            ground,
            engine,
            ledger,
            leaving,
            servers: PhantomData,
        }
    }

    async fn end_leaving(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.abort();
            drop(leaving.await);
        }
    }
}

impl<S: Servers> Subject for OnRedis<S> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        static SUBJECTS: AtomicU64 = AtomicU64::new(0);
        let options = RedisOptions {
            // Each subject has its own keys, because cases share servers.
            prefix: format!("case{}", SUBJECTS.fetch_add(1, Ordering::Relaxed)),
            clock: Some(clock.clone()),
            ..S::options()
        };
        Self::open(Ground {
            directory: tempfile::tempdir().expect("a directory for the ledger"),
            clock,
            options,
        })
        .await
    }

    fn engine(&self) -> &dyn Engine {
        &self.engine
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.ledger
    }

    fn log(&self) -> &dyn EventLog {
        &self.engine
    }

    fn settles(&self) -> bool {
        self.leaving.is_some()
    }

    async fn restart(mut self) -> Self {
        self.end_leaving().await;
        self.engine.abort();
        self.ledger.close();
        Self::open(self.ground).await
    }

    async fn down(mut self, while_down: impl FnOnce() + Send) -> Self {
        self.end_leaving().await;
        self.engine.close().await;
        self.ledger.close();
        while_down();
        Self::open(self.ground).await
    }

    async fn stop(mut self) {
        self.end_leaving().await;
        self.engine.close().await;
        self.ledger.close();
    }
}
