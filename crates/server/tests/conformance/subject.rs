//! A Redis engine with an SQLite ledger, as a subject of the suite.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use qiang_core::ports::{Engine, EventLog, Ledger};
use qiang_embedded::SqliteLedger;
use qiang_redis::{Options, RedisEngine};
use qiang_testkit::{ManualClock, conformance::Subject};

/// Where Redis is, and how it is used.
pub(crate) trait Place: Send + Sync + 'static {
    fn options() -> Options;
}

pub(crate) struct OnRedis<P> {
    directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    prefix: String,
    engine: RedisEngine,
    ledger: SqliteLedger,
    place: PhantomData<P>,
}

impl<P: Place> OnRedis<P> {
    async fn open(directory: tempfile::TempDir, clock: Arc<ManualClock>, prefix: String) -> Self {
        let path = directory.path().join("ledger.db");
        let ledger = SqliteLedger::open(&path, clock.clone());
        let ledger = ledger.unwrap_or_else(|error| panic!("{error}"));
        let options = Options {
            prefix: prefix.clone(),
            clock: Some(clock.clone()),
            ..P::options()
        };
        let settled = ledger
            .positions()
            .await
            .expect("the ledger tells its positions");
        let engine = RedisEngine::connect(options, &settled).await;
        let engine = engine.unwrap_or_else(|error| panic!("{error:?}"));
        Self {
            directory,
            clock,
            prefix,
            engine,
            ledger,
            place: PhantomData,
        }
    }
}

impl<P: Place> Subject for OnRedis<P> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        static SUBJECTS: AtomicU64 = AtomicU64::new(0);
        let directory = tempfile::tempdir().expect("a directory for the ledger");
        // Keys of its own: cases share servers.
        let prefix = format!("case{}", SUBJECTS.fetch_add(1, Ordering::Relaxed));
        Self::open(directory, clock, prefix).await
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
        let Self {
            directory,
            clock,
            prefix,
            engine,
            ledger,
            place: _,
        } = self;
        engine.abort();
        ledger.close();
        drop((engine, ledger));
        Self::open(directory, clock, prefix).await
    }

    async fn stop(self) {
        self.engine.close().await;
        self.ledger.close();
    }
}
