//! A Redis engine with an SQLite ledger behind it, as a subject of the suite.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use qiang_core::ports::{Engine, EventLog, Ledger, SettlementStore as _};
use qiang_embedded::SqliteLedger;
use qiang_redis::{Options, RedisEngine};
use qiang_testkit::{
    ManualClock,
    conformance::{DownSubject, Subject},
};

/// Where Redis is, and how it is used.
pub(crate) trait Servers: Send + Sync + 'static {
    fn options() -> Options;
}

/// What stays when the subject goes down.
struct Ground {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    options: Options,
}

pub(crate) struct OnRedis<S> {
    ground: Ground,
    engine: RedisEngine,
    ledger: SqliteLedger,
    servers: PhantomData<S>,
}

impl<S: Servers> OnRedis<S> {
    async fn open(ground: Ground) -> Self {
        let file = ground.directory.path().join("ledger.db");
        let ledger = SqliteLedger::open(&file, ground.clock.clone());
        let ledger = ledger.unwrap_or_else(|error| panic!("{error}"));
        let settled = ledger.positions().await;
        let settled = settled.expect("the ledger tells its positions");
        let engine = RedisEngine::connect(ground.options.clone(), &settled).await;
        Self {
            ground,
            engine: engine.unwrap_or_else(|error| panic!("{error:?}")),
            ledger,
            servers: PhantomData,
        }
    }
}

impl<S: Servers> Subject for OnRedis<S> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        static SUBJECTS: AtomicU64 = AtomicU64::new(0);
        let options = Options {
            // Keys of its own: cases share servers.
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

    async fn restart(self) -> Self {
        self.engine.abort();
        self.ledger.close();
        Self::open(self.ground).await
    }

    async fn stop(self) {
        self.engine.close().await;
        self.ledger.close();
    }
}

impl<S: Servers> DownSubject for OnRedis<S> {
    async fn down(self, meanwhile: impl FnOnce() + Send) -> Self {
        self.engine.close().await;
        self.ledger.close();
        meanwhile();
        Self::open(self.ground).await
    }
}
