//! A node with its own Redis and a ledger. Its partitions are repaired automatically.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Claim, Command, Reply},
    outcome::Outcome,
    ports::{Engine as _, EngineError, EventLog as _, RepairEngine},
    time::Timestamp,
};
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, Target},
    servers::redis::{Options as ServerOptions, Standalone},
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
    settlement::settle_once,
};

use crate::node::ledgers::{LedgerDatabase, OpenLedger, prepare};

/// Maximum wait. No step takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN_AFTER: Duration = Duration::from_millis(20);
const ENTRIES_MAX: usize = 4_096;

pub(crate) struct World {
    pub(crate) servers: Standalone,
    pub(crate) node: RedisEngine,
    pub(crate) ledger: OpenLedger,
    repair: Host,
    options: RedisOptions,
    campaigns: u64,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new<L: LedgerDatabase>() -> Self {
        let servers = blocking(|| Standalone::start(&ServerOptions::new()));
        let options = RedisOptions {
            urls: vec![servers.url()],
            partitions: 1,
            call_timeout: Duration::from_millis(500),
            ..RedisOptions::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let url = blocking(|| tokio::runtime::Handle::current().block_on(prepare::<L>()));
        let clock = ManualClock::new(OPENS);
        let ledger = OpenLedger::open(url.as_deref(), folder.path(), clock).await;
        let (node, repair) = start(&options, &ledger).await;
        Self {
            servers,
            node,
            ledger,
            repair,
            options,
            campaigns: 0,
            _folder: folder,
        }
    }

    /// Opens a campaign with a window of 20 years from 2020, so that it is open at any time of Redis' clock.
    pub(crate) async fn open(&mut self, builder: Builder) -> Target {
        self.campaigns += 1;
        let builder = builder.window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000);
        let setup = builder.setup(self.campaigns);
        self.ledger.ledger().create(&setup).await.unwrap();
        let opened = self.submit(Command::Open(Box::new(setup.clone()))).await;
        assert_eq!(opened, Reply::Opened);
        Target::of(&setup)
    }

    pub(crate) async fn submit(&self, command: Command) -> Reply {
        let reply = self.insist(async || self.node.submit(command.clone()).await);
        reply.await.unwrap()
    }

    pub(crate) async fn claim(&self, claim: Claim) -> Result<Outcome, EngineError> {
        let claimed = self.insist(async || self.node.claim(claim.clone()).await);
        claimed.await.map(|claimed| claimed.outcome)
    }

    /// Retries until the partition has decided.
    async fn insist<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match ask().await {
                Err(error) if !matches!(error, EngineError::Refused(_)) => {
                    assert!(Instant::now() < until, "no answer: {error}");
                }
                answer => return answer,
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Settles all entries.
    pub(crate) async fn settle(&self) {
        let until = Instant::now() + PATIENCE;
        for partition in self.node.partitions() {
            loop {
                let ledger = self.ledger.ledger();
                match settle_once(&self.node, ledger, partition, ENTRIES_MAX).await {
                    Ok(step) if step.settled == step.head => break,
                    step => assert!(Instant::now() < until, "entries are not settled: {step:?}"),
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    /// The node dies and Redis starts empty. Another node replaces the first one.
    pub(crate) async fn lose_everything_but_the_ledger(&mut self) {
        self.repair.abort();
        self.node.abort();
        blocking(|| self.servers.start_again_empty());
        (self.node, self.repair) = start(&self.options, &self.ledger).await;
    }
}

async fn start(options: &RedisOptions, ledger: &OpenLedger) -> (RedisEngine, Host) {
    let settled = ledger.ledger().positions().await.unwrap();
    let node = RedisEngine::connect(options.clone(), &settled).await;
    let node = node.unwrap_or_else(|error| panic!("{error:?}"));
    let host = Host::new("monitor");
    let engine: Arc<dyn RepairEngine> = Arc::new(node.clone());
    repair::start_all(&host, &engine, &ledger.shared(), RepairMode::Automatic);
    (node, host)
}

/// Starts servers and programs without blocking the tasks of a test.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}
