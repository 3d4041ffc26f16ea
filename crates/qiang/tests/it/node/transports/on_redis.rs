//! The transports on Redis, as subjects of the suite.

use std::{
    marker::PhantomData,
    ops::Deref,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{Engine, EventLog, Ledger},
};
use qiang_redis::{LogTransportKind, RedisEngine, RedisOptions, RedisTransport, TransportOptions};
use qiang_testkit::{
    ManualClock,
    conformance::transport::{TransportSubject, Worker},
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::node::ledgers::{InFile, LedgerDatabase, OpenLedger, prepare};
use crate::node::transports::{copies::LedgerPlace, worker::Consumers};

/// Partitions of the engine.
const PARTITIONS: u16 = 2;
/// Time that the log keeps settled entries in cases that need them: longer than any case.
const RETAIN: Duration = Duration::from_secs(3_600);
/// A lease in tests: long enough for a busy machine, short enough to wait for.
const LEASE: Duration = Duration::from_secs(2);

/// A server that cases share, or one that belongs to a case.
enum Server {
    Shared(&'static Standalone),
    Own(Box<Standalone>),
}

impl Deref for Server {
    type Target = Standalone;

    fn deref(&self) -> &Standalone {
        match self {
            Self::Shared(server) => server,
            Self::Own(server) => server,
        }
    }
}

/// A server that keeps acknowledged data when it is killed.
fn start_server() -> Standalone {
    Standalone::start(&ServerOptions::new().fsync_always())
}

/// An engine on Redis and a ledger.
pub(crate) struct Ends {
    pub(crate) engine: RedisEngine,
    pub(crate) book: OpenLedger,
    pub(crate) options: RedisOptions,
    server: Server,
    place: LedgerPlace,
    clock: Arc<ManualClock>,
}

impl Ends {
    pub(crate) async fn start<L: LedgerDatabase>(clock: Arc<ManualClock>, own: bool) -> Self {
        static SHARED: OnceLock<Standalone> = OnceLock::new();
        static CASES: AtomicU64 = AtomicU64::new(0);
        let server = if own {
            Server::Own(Box::new(start_server()))
        } else {
            Server::Shared(SHARED.get_or_init(start_server))
        };
        let directory = tempfile::tempdir().expect("a directory for the ledger");
        let url = prepare::<L>().await;
        let book = OpenLedger::open(url.as_deref(), directory.path(), clock.clone()).await;
        let options = RedisOptions {
            urls: vec![server.url()],
            prefix: format!("case{}", CASES.fetch_add(1, Ordering::Relaxed)),
            partitions: PARTITIONS,
            shard_supply_min: 2,
            shards_max: PARTITIONS,
            retain: if own { RETAIN } else { Duration::ZERO },
            clock: Some(clock.clone()),
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(options.clone(), &[]).await;
        Self {
            engine: engine.unwrap_or_else(|error| panic!("{error:?}")),
            book,
            options,
            server,
            place: LedgerPlace {
                url,
                folder: directory,
            },
            clock,
        }
    }

    pub(crate) fn dump_ledger(&self, name: &str) {
        self.place.dump(name);
    }

    pub(crate) async fn restore_ledger(&mut self, name: &str) {
        let clock = Arc::clone(&self.clock);
        self.place.restore(&mut self.book, name, clock).await;
    }

    /// Trims the logs up to the ledger's positions.
    pub(crate) async fn forget_settled(&self) {
        for partition in self.engine.partitions() {
            let settled = self.book.ledger().settled(partition).await;
            let settled = settled.expect("the ledger has a position");
            let (log, first) = (self.key(partition, "log"), format!("{}-0", settled + 1));
            self.call(&["XTRIM", &log, "MINID", &first]);
        }
    }

    pub(crate) fn worker(&self, transport_options: TransportOptions) -> Arc<dyn Worker> {
        let transport = RedisTransport::new(self.options.clone(), transport_options);
        let transport = transport.unwrap_or_else(|error| panic!("{error:?}"));
        Arc::new(Consumers::new(transport, self.engine.clone()))
    }

    pub(crate) fn key(&self, partition: PartitionId, rest: &str) -> String {
        format!("{}:{{p{:02}}}:{rest}", self.options.prefix, partition.0)
    }

    pub(crate) fn call(&self, words: &[&str]) {
        let reply = self.server.primary().call(words);
        reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        let reply = self.server.primary().call(words);
        let reply = reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        reply.integer().expect("a number")
    }

    pub(crate) fn kill(&self) {
        self.server.kill();
    }

    pub(crate) fn start_again(&self) {
        self.server.start_again();
    }

    pub(crate) async fn stop(self) {
        self.engine.close().await;
        self.book.close();
    }
}

/// A transport on Redis: `LIST` or the stream.
pub(crate) struct OnRedis<const LIST: bool, L>(Ends, PhantomData<L>);

pub(crate) type Stream<L = InFile> = OnRedis<false, L>;
pub(crate) type List<L = InFile> = OnRedis<true, L>;

impl<const LIST: bool, L> OnRedis<LIST, L> {
    pub(crate) fn ends(&self) -> &Ends {
        &self.0
    }

    /// Number of records that were delivered and not acknowledged.
    pub(crate) fn pending(&self, partition: PartitionId) -> i64 {
        const COUNT: &str = "return redis.call('XPENDING', KEYS[1], 'settlement')[1]";
        let log = self.0.key(partition, "log");
        self.0.number(&["EVAL", COUNT, "1", &log])
    }

    pub(crate) fn worker_on(ends: &Ends, name: &str) -> Arc<dyn Worker> {
        let transport_kind = if LIST {
            LogTransportKind::List
        } else {
            LogTransportKind::Stream
        };
        let transport_options = TransportOptions {
            lease: LEASE,
            ..TransportOptions::new(transport_kind, name)
        };
        ends.worker(transport_options)
    }
}

impl<const LIST: bool, L: LedgerDatabase> TransportSubject for OnRedis<LIST, L> {
    const TAKEOVER_MAX: Duration = LEASE;

    async fn start(clock: Arc<ManualClock>, own: bool) -> Self {
        Self(Ends::start::<L>(clock, own).await, PhantomData)
    }

    fn engine(&self) -> &dyn Engine {
        &self.0.engine
    }

    fn ledger(&self) -> &dyn Ledger {
        self.0.book.ledger()
    }

    fn log(&self) -> &dyn EventLog {
        &self.0.engine
    }

    async fn worker(&self, name: &str) -> Arc<dyn Worker> {
        Self::worker_on(&self.0, name)
    }

    async fn kill_servers(&self) {
        self.0.kill();
    }

    async fn start_servers(&self) {
        self.0.start_again();
    }

    async fn lose_transport(&self) {
        for partition in self.0.engine.partitions() {
            let key = |rest| self.0.key(partition, rest);
            if LIST {
                self.0.call(&["DEL", &key("queue"), &key("doing")]);
                self.0.call(&["HDEL", &key("partition"), "list"]);
            } else {
                let log = key("log");
                self.0.call(&["XGROUP", "DESTROY", &log, "settlement"]);
            }
        }
    }

    async fn dump_ledger(&mut self, name: &str) {
        self.0.dump_ledger(name);
    }

    async fn restore_ledger(&mut self, name: &str) {
        self.0.restore_ledger(name).await;
    }

    async fn forget_settled(&self) {
        self.0.forget_settled().await;
    }

    async fn bring_stale(&self, campaign: CampaignId) -> bool {
        for partition in self.0.engine.partitions() {
            let head = self.0.engine.head(partition).await;
            let next = head.expect("the log has a head") + 1;
            // Repairs a partition without a state, which writes the first state.
            for epoch in ["-", "0123456789abcdef"] {
                if LIST {
                    let item = format!("{next} {campaign} 0 e {epoch}\npaused");
                    self.0
                        .call(&["RPUSH", &self.0.key(partition, "queue"), &item]);
                }
            }
        }
        LIST
    }

    async fn spoil(&self) -> bool {
        for partition in self.0.engine.partitions() {
            if LIST {
                self.0
                    .call(&["RPUSH", &self.0.key(partition, "queue"), "rubbish"]);
            }
        }
        LIST
    }

    async fn stop(self) {
        self.0.stop().await;
    }
}
