//! Every command, refund and queue entry at every acknowledgement level. It answers once its campaign's level is
//! reached. Its effect survives the loss of a store that the level covers.

use std::{sync::Arc, time::Duration};

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_core::{
    book::{CampaignAction, Claim, Command},
    campaign::{AckLevel, Phase, SaleSettingsChange},
    id::{IdempotencyKey, PaymentRef},
    money::Money,
    order::{OrderState, ReturnPart},
    payment::ReceivedMoney,
    ports::{EngineError, Payout, RefundBalance},
    queue_entry::QueueLimits,
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, currency, sale},
    servers::redis::{Options, Standalone},
};
use tokio::{task::JoinHandle, time::Instant};

/// Longer than a command waits for replicas, and longer than a command without any wait.
const ANSWERED_BY: Duration = Duration::from_millis(1_500);
const BACK_MAX: Duration = Duration::from_secs(60);
const STOCK: u32 = 10;
const NEW_STOCK: u64 = 7;
const NEW_PRICE: i64 = 777;
const EXTENSION_MS: i64 = 600_000;
/// Price of the order.
const PRICE: i64 = 100 * UNITS as i64;
/// Units of the order.
const UNITS: u32 = 3;
const LIMITS: QueueLimits = QueueLimits {
    entries_max: 100,
    partition_entries_max: 100,
    result_ttl_ms: 3_600_000,
};

/// A change of a sale with one order, or of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Pay,
    Cancel,
    ExtendHold,
    Return,
    ReturnPart,
    Pause,
    Resume,
    Close,
    Stock,
    Terms,
    Refund,
    Enter,
}

const ALL: [Does; 12] = [
    Does::Pay,
    Does::Cancel,
    Does::ExtendHold,
    Does::Return,
    Does::ReturnPart,
    Does::Pause,
    Does::Resume,
    Does::Close,
    Does::Stock,
    Does::Terms,
    Does::Refund,
    Does::Enter,
];

impl Does {
    /// The change that must come first.
    fn before(self) -> Option<Self> {
        match self {
            Self::Return | Self::ReturnPart => Some(Self::Pay),
            Self::Resume => Some(Self::Pause),
            Self::Refund => Some(Self::Return),
            _ => None,
        }
    }

    /// All changes that must come first, in order.
    fn all_before(self) -> Vec<Self> {
        let mut all: Vec<_> = std::iter::successors(self.before(), |does| does.before()).collect();
        all.reverse();
        all
    }

    /// The command; `None` for a refund and a queue entry.
    fn command(self, Sale { target, number }: Sale) -> Option<Command> {
        let (campaign, order) = (target.id, target.order(number));
        let act = |action| Command::Act { campaign, action };
        Some(match self {
            Self::Pay => Command::Pay {
                order,
                payment: PaymentRef::new(&format!("paid-{campaign}")).unwrap(),
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            },
            Self::Cancel => Command::Cancel { order, part: None },
            Self::ExtendHold => Command::ExtendHold {
                order,
                extension_ms: EXTENSION_MS,
            },
            Self::Return => Command::Return { order, part: None },
            Self::ReturnPart => Command::Return {
                order,
                part: Some(ReturnPart {
                    quantity: 1,
                    key: IdempotencyKey::new("part").unwrap(),
                }),
            },
            Self::Pause => act(CampaignAction::Pause),
            Self::Resume => act(CampaignAction::Resume),
            Self::Close => act(CampaignAction::Close),
            Self::Stock => Command::SetStock {
                campaign,
                stock: NEW_STOCK,
            },
            Self::Terms => Command::SetTerms {
                campaign,
                change: SaleSettingsChange {
                    unit_price_minor: Some(NEW_PRICE),
                    ..SaleSettingsChange::default()
                },
            },
            Self::Refund | Self::Enter => return None,
        })
    }

    /// Whether an engine has the change.
    async fn is_kept(
        self,
        backend: &Backend,
        Sale { target, number }: Sale,
    ) -> Result<bool, EngineError> {
        let engine = &backend.ports.engine;
        if self == Self::Enter {
            let entry = queued(target);
            let room = &backend.ports.waiting_room;
            let standing = room.standing(entry.campaign, &entry.user).await?;
            return Ok(standing.is_some());
        }
        if self == Self::Refund {
            let ledger = &backend.ports.ledger;
            let owed = ledger.owed(target.order(number)).await;
            let owed = owed.map_err(|error| EngineError::unavailable(error.to_string()))?;
            let is_paid =
                |it: &RefundBalance| it.refunded_minor == PRICE && it.outstanding().minor == 0;
            // A late retry finds the refund, and pays nothing again.
            let again = ledger.pay_out(&refund(Sale { target, number })).await;
            let is_replayed = again.is_ok_and(|again| !again.fresh && again.amount.minor == PRICE);
            return Ok(is_replayed && owed.iter().any(is_paid));
        }
        let order = engine.order(target.order(number)).await?;
        let order = order.and_then(|view| view.grant.order);
        let state = order.map(|order| order.state);
        let Some(tally) = engine.tally(target.id).await? else {
            return Ok(false);
        };
        Ok(match self {
            Self::Pay => state == Some(OrderState::Paid),
            Self::Cancel => state == Some(OrderState::Cancelled),
            Self::ExtendHold => order.is_some_and(|order| order.extension_ms == EXTENSION_MS),
            Self::Return => state == Some(OrderState::Returned),
            Self::ReturnPart => order.is_some_and(|order| order.returned_quantity == 1),
            Self::Pause => tally.phase == Phase::Paused,
            Self::Resume => tally.phase == Phase::Live && state == Some(OrderState::Held),
            Self::Close => tally.phase == Phase::Closed,
            Self::Stock => tally.supply == NEW_STOCK,
            Self::Terms => tally
                .terms
                .is_some_and(|terms| terms.unit_price_minor == NEW_PRICE),
            Self::Refund | Self::Enter => unreachable!("it is not a command"),
        })
    }
}

/// Refund of the whole price of a returned order. A retry has the same reference.
fn refund(Sale { target, number }: Sale) -> Payout {
    Payout::Refund {
        order: target.order(number),
        reference: PaymentRef::new(&format!("refunded-{}", target.id)).unwrap(),
        amount: Money::new(PRICE, currency()),
    }
}

/// Claim of a user who waits in the queue.
fn queued(target: Target) -> Claim {
    target.keyed("bob", 1, "waits")
}

/// A sale and the number of its order. A shard of a spread sale gives the number.
#[derive(Clone, Copy)]
struct Sale {
    target: Target,
    number: u32,
}

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

    /// Creates a sale with one order, on which the command can act.
    async fn sale(&self, n: u64, does: Does) -> Sale {
        let setup = sale(STOCK)
            .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
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
        assert_eq!(claimed.outcome.name(), "granted");
        let number = claimed.outcome.grant().unwrap().number;
        let sale = Sale { target, number };
        for before in does.all_before() {
            self.submit(before, sale).await.unwrap();
        }
        // A refund is paid once the ledger has the return.
        let until = Instant::now() + BACK_MAX;
        while does == Does::Refund
            && (self.backend.ports.ledger.owed(target.order(number)).await)
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
    for (does, sale) in &sales {
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
    the_ledger_keeps_what_commands_answer: Redis, Ledger, false;
    the_ledger_keeps_what_commands_of_a_spread_sale_answer: Redis, Ledger, true;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_keeps_queue_entries_of_the_level_ledger() {
    let levels = (AckLevel::Ledger, AckLevel::Replica);
    check(EngineKind::Redis, levels, false, &[Does::Enter]).await;
}
