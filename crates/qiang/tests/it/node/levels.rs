//! Every command, refund and queue entry at every acknowledgement level. It answers once its campaign's level is
//! reached. Its effect survives the loss of a store that the level covers.

mod changes;

use std::{sync::Arc, time::Duration};

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_core::{
    book::Command,
    campaign::{AckLevel, Tally},
    ports::EngineError,
    queue_entry::QueueLimits,
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Options, Standalone},
};
use tokio::{task::JoinHandle, time::Instant};

use self::changes::{ALL, Does, KEPT_BY_THE_LEDGER, Sale, UNITS, queued, refund};

/// Longer than a command waits for replicas, and longer than a command without any wait.
const ANSWERED_BY: Duration = Duration::from_millis(1_500);
const BACK_MAX: Duration = Duration::from_secs(60);
const STOCK: u32 = 10;
/// Start of sales that are live.
const STARTED: Timestamp = Timestamp::from_millis(1_577_836_800_000);
/// Time from now to the start of a scheduled sale.
const STARTS_IN_MS: i64 = 86_400_000;
/// Twenty years.
const WINDOW_MS: i64 = 631_152_000_000;
const LIMITS: QueueLimits = QueueLimits {
    entries_max: 100,
    partition_entries_max: 100,
    result_ttl_ms: 3_600_000,
};

/// A node, and what it stores in.
struct World {
    /// Level of the campaigns.
    ack: AckLevel,
    /// Level whose store is unreachable, and lost.
    store: AckLevel,
    config: NodeConfig,
    backend: Arc<Backend>,
    server: Option<Standalone>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(kind: EngineKind, (ack, store): (AckLevel, AckLevel), spread: bool) -> Self {
        let replicas = usize::from(store == AckLevel::Replica);
        let start = || Standalone::start(&Options::new().replicas(replicas));
        let server = (kind == EngineKind::Redis).then(|| tokio::task::block_in_place(start));
        let folder = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.engine.kind = kind;
        config.engine.data = folder.path().join("qiang.db");
        if let Some(server) = &server {
            config.redis.urls = server.url();
            config.redis.partitions = if spread { 3 } else { 1 };
            config.redis.shard_supply_min = if spread { 2 } else { 1_000_000 };
            config.redis.replicas = replicas as u32;
            config.settlement.in_process = false;
        }
        let backend = Arc::new(Backend::open(&config).await.unwrap());
        Self {
            ack,
            store,
            config,
            backend,
            server,
            _folder: folder,
        }
    }

    /// Settles the log in the background, if the engine is not its own ledger.
    fn settle(&self) -> Option<JoinHandle<()>> {
        self.server.as_ref()?;
        let backend = Arc::clone(&self.backend);
        Some(tokio::spawn(async move {
            let ports = &backend.ports;
            loop {
                for partition in ports.log.partitions() {
                    let after = ports.ledger.settled(partition).await.unwrap();
                    if let Ok(entries) = ports.log.read(partition, after, 1_000).await
                        && !entries.is_empty()
                    {
                        ports.ledger.settle(partition, &entries).await.unwrap();
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }))
    }

    async fn submit(&self, does: Does, sale: Sale) -> Result<(), EngineError> {
        let ports = &self.backend.ports;
        if let Some(command) = does.command(sale) {
            return ports.engine.submit(command).await.map(drop);
        }
        if does == Does::Refund {
            let refunded = ports.ledger.pay_out(&refund(sale)).await;
            return refunded
                .map(drop)
                .map_err(|error| EngineError::unavailable(error.to_string()));
        }
        let (entry, now) = (queued(sale.target), ports.clock.now());
        let entered = ports.waiting_room.enter(&entry, now, LIMITS).await?;
        assert!(entered.is_some(), "the queue is full");
        Ok(())
    }

    /// Counters of a sale on the primaries.
    async fn compare(&self, target: Target) -> Tally {
        let tally = self.backend.ports.engine.present_tally(target.id);
        tally.await.unwrap().unwrap()
    }

    /// Creates a sale on which the command can act. A sale that is not scheduled has one order.
    async fn sale(&self, n: u64, does: Does) -> Sale {
        let is_scheduled = does == Does::Start;
        let starts_at = match is_scheduled {
            true => self.backend.ports.clock.now().plus_millis(STARTS_IN_MS),
            false => STARTED,
        };
        let setup = sale(STOCK)
            .window(starts_at, WINDOW_MS)
            .hold_ms(3_600_000)
            .limit(UNITS)
            .admission(None)
            .ack(self.ack)
            .setup(n);
        self.backend.ports.ledger.create(&setup).await.unwrap();
        let target = Target::of(&setup);
        let engine = &self.backend.ports.engine;
        let opening = Command::Open(Box::new(setup));
        engine.submit(opening).await.unwrap();
        let claimed = engine.claim(target.units("ann", UNITS)).await.unwrap();
        let expected = if is_scheduled {
            "not_started"
        } else {
            "granted"
        };
        assert_eq!(claimed.outcome.name(), expected);
        let sale = Sale {
            target,
            number: claimed.outcome.grant().map_or(1, |grant| grant.number),
            compared: self.compare(target).await,
        };
        for before in does.all_before() {
            self.submit(before, sale).await.unwrap();
        }
        // A refund is paid once the ledger has the return.
        let until = Instant::now() + BACK_MAX;
        while does == Does::Refund
            && (self.backend.ports.ledger.owed(sale.order()).await)
                .unwrap()
                .is_empty()
        {
            assert!(Instant::now() < until, "the ledger lacks the return");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sale
    }

    /// Makes the store of the level unreachable. Returns false if that is impossible.
    fn withhold(&self) -> bool {
        match (&self.server, self.store) {
            (Some(server), AckLevel::Replica) => {
                let reply = server.replica(0).call(&["REPLICAOF", "127.0.0.1", "1"]);
                reply.unwrap();
                true
            }
            (Some(_), AckLevel::Ledger) => true,
            _ => false,
        }
    }

    fn restore(&self) {
        if let (Some(server), AckLevel::Replica) = (&self.server, self.store) {
            let port = server.addr().port().to_string();
            let reply = server.replica(0).call(&["REPLICAOF", "127.0.0.1", &port]);
            reply.unwrap();
            tokio::task::block_in_place(|| server.wait_for_replicas());
        }
    }

    /// Loses the node and the store that the level covers. Then starts a node on the rest.
    async fn lose(&mut self) {
        if let Some(server) = &self.server {
            match self.store {
                AckLevel::Replica => {
                    server.kill();
                    let replica = server.replica(0);
                    replica.call(&["REPLICAOF", "NO", "ONE"]).unwrap();
                    self.config.redis.urls = replica.url();
                }
                AckLevel::Ledger => tokio::task::block_in_place(|| server.start_again_empty()),
                AckLevel::Memory | AckLevel::Fsync => {}
            }
            self.config.settlement.in_process = true;
        }
        self.backend.close().await.unwrap();
        self.backend = Arc::new(Backend::open(&self.config).await.unwrap());
    }
}

/// # Panics
/// With the changes that were answered too early, not answered, or lost.
async fn check(kind: EngineKind, levels: (AckLevel, AckLevel), spread: bool, all: &[Does]) {
    let mut world = World::new(kind, levels, spread).await;
    let store = world.store;
    let mut wrong = Vec::new();
    let mut settling = world.settle();
    let mut sales = Vec::new();
    for (n, does) in (1..).zip(all) {
        sales.push((*does, world.sale(n, *does).await));
    }
    if store == AckLevel::Ledger
        && let Some(settling) = settling.take()
    {
        settling.abort();
        assert!(settling.await.unwrap_err().is_cancelled());
    }
    if world.withhold() {
        let early = sales.iter().map(async |(does, sale)| {
            let answer = world.submit(*does, *sale);
            let answer = tokio::time::timeout(ANSWERED_BY, answer).await;
            // The ledger alone has refunds, at every level of the campaign.
            (*does != Does::Refund && matches!(answer, Ok(Ok(())))).then_some(*does)
        });
        let early = futures_util::future::join_all(early).await;
        let early = early.into_iter().flatten();
        wrong.extend(early.map(|does| format!("{does:?} is answered before {store:?} is reached")));
        world.restore();
        if store == AckLevel::Ledger {
            settling = world.settle();
        }
    }
    for (does, sale) in &mut sales {
        // An engine may have carried out the first attempt.
        sale.compared = world.compare(sale.target).await;
        if let Err(error) = world.submit(*does, *sale).await {
            wrong.push(format!("{does:?} is not answered: {error}"));
        }
    }
    if let Some(settling) = settling {
        settling.abort();
        assert!(settling.await.is_err());
    }
    world.lose().await;
    let until = Instant::now() + BACK_MAX;
    for (does, sale) in sales {
        loop {
            match does.is_kept(&world.backend, sale).await {
                Ok(true) => break,
                answer if Instant::now() < until => {
                    // A partition that has lost entries must be repaired first.
                    drop(answer);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answer => {
                    wrong.push(format!("{does:?} is lost: {answer:?}"));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{kind:?}, {levels:?}: {wrong:#?}");
    world.backend.close().await.unwrap();
}

macro_rules! levels {
    ($($name:ident: $kind:ident, $ack:ident, $spread:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (kind, ack) = (EngineKind::$kind, AckLevel::$ack);
            // The ledger has no queues, so replicas are the highest level of a queue entry on Redis.
            let is_above_queues = kind == EngineKind::Redis && ack == AckLevel::Ledger;
            let all = if is_above_queues { &ALL[..ALL.len() - 1] } else { &ALL };
            check(kind, (ack, ack), $spread, all).await;
        }
    )*};
}

levels! {
    the_file_keeps_what_commands_answer: Embedded, Fsync, false;
    the_file_keeps_what_commands_of_the_level_ledger_answer: Embedded, Ledger, false;
    redis_keeps_what_commands_of_the_level_memory_answer: Redis, Memory, false;
    a_replica_keeps_what_commands_answer: Redis, Replica, false;
    a_replica_keeps_what_commands_of_a_spread_sale_answer: Redis, Replica, true;
    the_ledger_keeps_what_commands_answer: Redis, Ledger, false;
    the_ledger_keeps_what_commands_of_a_spread_sale_answer: Redis, Ledger, true;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_keeps_queue_entries_of_the_level_ledger() {
    let levels = (AckLevel::Ledger, AckLevel::Replica);
    check(EngineKind::Redis, levels, false, &[Does::Enter]).await;
}

/// Commands of a level without the ledger are answered while settlement is stopped, except these changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_keeps_changes_of_stock_and_terms_of_the_level_memory() {
    let levels = (AckLevel::Memory, AckLevel::Ledger);
    check(EngineKind::Redis, levels, false, &KEPT_BY_THE_LEDGER).await;
}
