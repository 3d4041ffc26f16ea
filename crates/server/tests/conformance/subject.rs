//! A Redis engine with a ledger behind it, as a subject of the suite.

use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use qiang_core::ports::{Engine, EventLog, Ledger};
use qiang_embedded::SqliteLedger;
use qiang_ledger::LedgerOptions;
use qiang_redis::{Options, RedisEngine};
use qiang_testkit::{ManualClock, conformance::Subject};

/// Where Redis is, and how it is used.
pub(crate) trait Place: Send + Sync + 'static {
    fn options() -> Options;
}

/// Where the ledger is.
pub(crate) trait Shelf: Send + Sync + 'static {
    /// The URL of a new and empty database; none for a file.
    fn database() -> Option<String>;
}

/// In a file.
pub(crate) struct File;

impl Shelf for File {
    fn database() -> Option<String> {
        None
    }
}

/// An open ledger.
enum Book {
    File(SqliteLedger),
    Database(Arc<dyn Ledger>),
}

impl Book {
    fn ledger(&self) -> &dyn Ledger {
        match self {
            Self::File(file) => file,
            Self::Database(ledger) => &**ledger,
        }
    }

    fn close(&self) {
        if let Self::File(file) = self {
            file.close();
        }
    }
}

/// What stays when the subject goes down.
struct Ground {
    directory: tempfile::TempDir,
    url: Option<String>,
    clock: Arc<ManualClock>,
    prefix: String,
}

impl Ground {
    async fn book(&self) -> Book {
        let Some(url) = &self.url else {
            let path = self.directory.path().join("ledger.db");
            let ledger = SqliteLedger::open(&path, self.clock.clone());
            return Book::File(ledger.unwrap_or_else(|error| panic!("{error}")));
        };
        let options = LedgerOptions {
            connections_max: 3,
            ..LedgerOptions::default()
        };
        let ledger = qiang_ledger::open(url, self.clock.clone(), options).await;
        Book::Database(ledger.unwrap_or_else(|error| panic!("{error:?}")))
    }
}

pub(crate) struct OnRedis<P, L = File> {
    ground: Ground,
    engine: RedisEngine,
    book: Book,
    kind: PhantomData<(P, L)>,
}

impl<P: Place, L: Shelf> OnRedis<P, L> {
    async fn open(ground: Ground) -> Self {
        let book = ground.book().await;
        let options = Options {
            prefix: ground.prefix.clone(),
            clock: Some(ground.clock.clone()),
            ..P::options()
        };
        let settled = book.ledger().positions().await;
        let settled = settled.expect("the ledger tells its positions");
        let engine = RedisEngine::connect(options, &settled).await;
        let engine = engine.unwrap_or_else(|error| panic!("{error:?}"));
        Self {
            ground,
            engine,
            book,
            kind: PhantomData,
        }
    }
}

impl<P: Place, L: Shelf> Subject for OnRedis<P, L> {
    async fn start(clock: Arc<ManualClock>) -> Self {
        static SUBJECTS: AtomicU64 = AtomicU64::new(0);
        let url = L::database();
        if let Some(url) = &url {
            let migrated = qiang_ledger::migrate(url).await;
            migrated.unwrap_or_else(|error| panic!("{error:?}"));
        }
        let ground = Ground {
            directory: tempfile::tempdir().expect("a directory for the ledger"),
            url,
            clock,
            // Keys of its own: cases share servers.
            prefix: format!("case{}", SUBJECTS.fetch_add(1, Ordering::Relaxed)),
        };
        Self::open(ground).await
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
        let Self { ground, .. } = self;
        Self::open(ground).await
    }

    async fn stop(self) {
        self.engine.close().await;
        self.book.close();
    }
}
