//! A Redis engine and its ledger as a subject of the suite.

use std::{
    future::Future,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use qiang_core::ports::{Engine, EventLog, Ledger, Transport};
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{ManualClock, conformance::Subject};
use qiang_worker::settlement::{self, Settlement};

use crate::node::ledgers::{InFile, LedgerDatabase, OpenLedger, prepare};

/// Options of the connection to Redis.
pub(crate) trait Place: Send + Sync + 'static {
    fn options() -> RedisOptions;

    /// Called before the engine connects.
    fn prepare(_options: &RedisOptions) {}
}

/// Way of entries to the ledger.
pub(crate) trait Way: Send + Sync + 'static {
    /// The transport of a worker with this name. `None` if the cases settle.
    fn transport(
        options: &RedisOptions,
        engine: &RedisEngine,
        ledger: Arc<dyn Ledger>,
        worker: &str,
    ) -> impl Future<Output = Option<Arc<dyn Transport>>> + Send;

    /// Removes keys and queues from servers that cases share.
    fn clear(_options: &RedisOptions) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// Settlement by the cases, which read the log.
pub(crate) struct ByHand;

impl Way for ByHand {
    async fn transport(
        _options: &RedisOptions,
        _engine: &RedisEngine,
        _ledger: Arc<dyn Ledger>,
        _worker: &str,
    ) -> Option<Arc<dyn Transport>> {
        None
    }
}

/// State that survives a restart of the subject.
struct Ground {
    directory: tempfile::TempDir,
    url: Option<String>,
    clock: Arc<ManualClock>,
    prefix: String,
    restarted: bool,
}

impl Ground {
    async fn book(&self) -> OpenLedger {
        OpenLedger::open(
            self.url.as_deref(),
            self.directory.path(),
            self.clock.clone(),
        )
        .await
    }
}

/// Starts settlement as in production.
async fn settle(
    transport: Arc<dyn Transport>,
    engine: &RedisEngine,
    book: &OpenLedger,
) -> Settlement {
    for partition in engine.partitions() {
        // The first receive opens the transport, so that all later entries go through it.
        let settled = book.ledger().settled(partition).await;
        let settled = settled.expect("the ledger has a position");
        let received = transport.receive(partition, settled, 0, Duration::ZERO);
        let received = received.await;
        received.unwrap_or_else(|error| panic!("{error}"));
    }
    let mut options = settlement::SettlementOptions::new(Box::new(|partition, settled, head| {
        panic!("{partition:?} ends at {head}, and {settled} is settled")
    }));
    options.transport = Some(transport);
    Settlement::start(Arc::new(engine.clone()), book.shared(), options)
}

pub(crate) struct OnRedis<P, L = InFile, W = ByHand> {
    ground: Ground,
    engine: RedisEngine,
    book: OpenLedger,
    settlement: Option<Settlement>,
    kind: PhantomData<(P, L, W)>,
}

impl<P: Place, L: LedgerDatabase, W: Way> OnRedis<P, L, W> {
    fn options(ground: &Ground) -> RedisOptions {
        RedisOptions {
            prefix: ground.prefix.clone(),
            clock: Some(ground.clock.clone()),
            ..P::options()
        }
    }

    async fn open(ground: Ground) -> Self {
        static WORKERS: AtomicU64 = AtomicU64::new(0);
        let book = ground.book().await;
        let options = Self::options(&ground);
        let settled = book.ledger().positions().await;
        let settled = settled.expect("the ledger has positions");
        let engine = RedisEngine::connect(options.clone(), &settled).await;
        let engine = engine.unwrap_or_else(|error| panic!("{error:?}"));
        let worker = format!("w{}", WORKERS.fetch_add(1, Ordering::Relaxed));
        let settlement = match W::transport(&options, &engine, book.shared(), &worker).await {
            Some(transport) => Some(settle(transport, &engine, &book).await),
            None => None,
        };
        Self {
            ground,
            engine,
            book,
            settlement,
            kind: PhantomData,
        }
    }
}

impl<P: Place, L: LedgerDatabase, W: Way> Subject for OnRedis<P, L, W> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        static SUBJECTS: AtomicU64 = AtomicU64::new(0);
        let ground = Ground {
            directory: tempfile::tempdir().expect("a directory for the ledger"),
            url: prepare::<L>().await,
            clock,
            // Each case has its own keys, because cases share servers.
            prefix: format!("case{}", SUBJECTS.fetch_add(1, Ordering::Relaxed)),
            restarted: false,
        };
        P::prepare(&Self::options(&ground));
        Self::open(ground).await
    }

    fn settles(&self) -> bool {
        self.settlement.is_some()
    }

    fn engine(&self) -> &dyn Engine {
        &self.engine
    }

    fn ledger(&self) -> &dyn Ledger {
        self.book.ledger()
    }

    fn log(&self) -> &dyn EventLog {
        &self.engine
    }

    async fn restart(self) -> Self {
        self.engine.abort();
        self.book.close();
        // Settlement ends without a clean stop.
        let Self { mut ground, .. } = self;
        ground.restarted = true;
        Self::open(ground).await
    }

    async fn stop(self) {
        self.engine.close().await;
        if let Some(settlement) = &self.settlement {
            settlement.stop().await;
            // A dying worker may pass on entries late. The next worker then reads them from the log.
            if !self.ground.restarted {
                for (position, status) in settlement.statuses() {
                    assert_eq!(status.refilled, 0, "{position:?}: {status:?}");
                }
            }
            W::clear(&Self::options(&self.ground)).await;
        }
        self.book.close();
    }
}
